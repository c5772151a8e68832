"""Pages of questions: what waits, one of them, several together; and what their forms send."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from starlette.responses import Response

from chaoscore.adapters.web.forms import Form
from chaoscore.adapters.web.visit import Visit
from chaoscore.app.center import Given, Outcome, QuestionView
from chaoscore.domain.errors import ChaosError, NotFound

PER_PAGE = 25
TOGETHER_MAX = 20
_STATUS = {"PIN_REFUSED": 403, "VERSION_CONFLICT": 409, "DECISION_NOT_ANSWERABLE": 409, "NOT_FOUND": 404}


async def inbox(visit: Visit) -> Response:
    page = await visit.center.inbox.page(visit.query("after") or None, PER_PAGE)
    return visit.page("inbox.html", page=page, first=not visit.query("after"), together_max=TOGETHER_MAX)


async def one(visit: Visit) -> Response:
    question = await visit.center.question(visit.path("source"), visit.path("id"))
    answered = visit.query("answered") == "1"
    return visit.page("decision.html", q=question, problem=None, given=None, answered=answered)


async def answer(visit: Visit) -> Response:
    source, name, form = visit.path("source"), visit.path("id"), visit.form
    given = replace(_given(visit, source, name, form, ""), pin=form.get("pin") or None)
    outcome = await visit.center.answering.answer(given)
    visit.center.changes.tell()
    if outcome.ok:
        return visit.to(f"/decisions/{source}/{name}", answered="1")
    question = await visit.center.question(source, name)
    stale = question.is_open and given.digest.removeprefix("sha256:") != question.digest.removeprefix("sha256:")
    return visit.page(
        "decision.html",
        _STATUS.get(outcome.code, 422),
        q=question,
        problem=outcome.message,
        # What was chosen was chosen for another question when the question has changed.
        given=None if stale else given,
        answered=False,
    )


async def together(visit: Visit) -> Response:
    """Several questions in full, each with its own yes or no."""
    asked = list(dict.fromkeys(visit.request.query_params.getlist("d")))
    questions, missing = await _questions(visit, asked[:TOGETHER_MAX])
    if len(asked) > TOGETHER_MAX:
        missing.append(f"{len(asked) - TOGETHER_MAX} more were ticked; at most {TOGETHER_MAX} are answered together")
    return visit.page("together.html", questions=questions, missing=missing, outcomes=None, live=False)


async def answer_together(visit: Visit) -> Response:
    form, pin = visit.form, visit.form.get("pin") or None
    wanted = list(dict.fromkeys(form.all("d")))[:TOGETHER_MAX]
    chosen: list[Given] = []
    for number, key in enumerate(wanted):
        source, _, name = key.partition("/")
        if form.get(f"option:{number}"):
            chosen.append(_given(visit, source, name, form, f":{number}"))
    outcomes: Sequence[Outcome] = await visit.center.answering.answer_all(chosen, pin)
    visit.center.changes.tell()
    done = {f"{outcome.source}/{outcome.id}" for outcome in outcomes if outcome.ok}
    questions, missing = await _questions(visit, [key for key in wanted if key not in done])
    status = 200 if outcomes and all(outcome.ok for outcome in outcomes) else 422
    return visit.page("together.html", status, questions=questions, missing=missing, outcomes=outcomes, live=False)


async def nowhere(visit: Visit) -> Response:
    raise NotFound("there is no such page")


async def _questions(visit: Visit, wanted: Sequence[str]) -> tuple[list[QuestionView], list[str]]:
    """Those that can be answered here, and why the others cannot."""

    async def look(key: str) -> QuestionView | str:
        source, _, name = key.partition("/")
        try:
            question = await visit.center.question(source, name)
        except ChaosError as error:
            return error.message
        if not question.simple:
            return f"{question.title}: it takes more than one choice; answer it on its own page"
        return question if question.closed is None else f"{question.title}: {question.closed}"

    found = await asyncio.gather(*(look(key) for key in wanted))
    return [q for q in found if isinstance(q, QuestionView)], [text for text in found if isinstance(text, str)]


def _given(visit: Visit, source: str, name: str, form: Form, at: str) -> Given:
    text, rationale = form.get(f"text{at}"), form.get(f"rationale{at}").strip()
    return Given(
        source=source,
        id=name,
        options=tuple(dict.fromkeys(form.all(f"option{at}"))),
        text=text if text.strip() else None,
        rationale=rationale or None,
        digest=form.get(f"digest{at}"),
        approver=visit.approver,
    )

"""One question in full, from whatever source, as a page needs it: everything a person must see before answering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chaoscore.app.center.folders import seconds
from chaoscore.app.center.inbox import RUNS
from chaoscore.app.copyable import roots_of
from chaoscore.domain.approval import AskedAction, Difference, RunDecision
from chaoscore.domain.interaction.decision import Decision, Option
from chaoscore.domain.interaction.fields import WrongShape
from chaoscore.domain.interaction.names import is_kernel_run
from chaoscore.domain.interaction.response import Response
from chaoscore.domain.json import Json, JsonObject, is_array, is_object


@dataclass(frozen=True, slots=True)
class OptionView:
    id: str
    label: str
    description: str
    consequence: str
    risk: str
    recommended: bool


@dataclass(frozen=True, slots=True)
class SourceView:
    """Where one argument's value came from. ``untrusted``: somebody outside may have written it."""

    argument: str
    origin: str
    untrusted: bool


@dataclass(frozen=True, slots=True)
class AskedView:
    """One action that an option approves, exactly as it would run."""

    option: str
    where: str
    capability: str
    risk: str
    description: str
    effects: str
    why: str
    rule: str
    reasons: tuple[str, ...]
    attempt: int
    arguments: Json
    scope: JsonObject
    sources: tuple[SourceView, ...]
    changed: tuple[Difference, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class ResponseView:
    """What was answered, by whom and where. ``at`` is seconds since the epoch."""

    options: tuple[str, ...]
    text: str | None
    rationale: str | None
    by: str
    door: str
    at: float | None


@dataclass(frozen=True, slots=True)
class QuestionView:
    """``closed`` says why it cannot be answered on this page, ``None`` when it can. ``several``: more than one option
    may be chosen; ``written``: the answer is a text. Times are seconds since the epoch."""

    source: str
    id: str
    title: str
    context: str
    state: str
    kind: str
    options: tuple[OptionView, ...]
    digest: str
    created_at: float | None
    expires_at: float | None
    asked_by: str
    run: str
    change: str
    several: bool
    written: bool
    requires_rationale: bool
    blocking: bool
    recommendation: str
    needs_pin: bool
    pin_is_set: bool
    closed: str | None
    actions: tuple[AskedView, ...] = ()
    response: ResponseView | None = None
    warnings: tuple[str, ...] = field(default=())
    roots: tuple[str, ...] = ()
    """The folders that a run is confined to with what it asks."""

    @property
    def is_open(self) -> bool:
        return self.closed is None

    @property
    def opening(self) -> str:
        """How the question begins: the goal, who wrote the plan, until when."""
        return self.context.partition("\n\n")[0]

    @property
    def of_run(self) -> bool:
        return self.source == RUNS

    @property
    def untrusted(self) -> bool:
        return any(source.untrusted for action in self.actions for source in action.sources)

    @property
    def simple(self) -> bool:
        return not self.several and not self.written


def of_run(decision: RunDecision, now: float, needs_pin: bool, pin_is_set: bool, problem: str | None) -> QuestionView:
    """``needs_pin`` at this door; ``problem``: an answer lies in its folder and does not count."""
    question = decision.question
    response = decision.response
    closed = None
    if decision.state == "answered" and response is not None:
        closed = f"answered by {response.approver} ({response.door}); the first answer stands"
    elif decision.has_expired(now):
        closed = "nobody answered in time: what it asked about is denied"
    elif decision.state != "waiting":
        closed = f"it is {decision.state}: nothing waits for an answer any more"
    elif decision.mode == "human" and "web" not in decision.doors:
        listed = ", ".join(decision.doors) or "none"
        closed = f"the policy's approvalDoors are {listed}: an answer on this page would not count"
    state = "expired" if decision.has_expired(now) else decision.state
    return QuestionView(
        source=RUNS,
        id=decision.id,
        title=question.title,
        context=question.context,
        state=state,
        kind="approval of actions" if decision.kind == "approval" else "unknown outcome",
        options=_options(question.options, question.recommended_option_id),
        digest=decision.question_digest,
        created_at=decision.created_at,
        expires_at=decision.expires_at,
        asked_by="chaos-core",
        run=decision.run,
        change="",
        several=question.interaction_type == "multi-choice-decision",
        written=question.interaction_type == "freeform-input",
        requires_rationale=question.requires_rationale,
        blocking=True,
        recommendation=question.recommendation or "",
        needs_pin=needs_pin,
        pin_is_set=pin_is_set,
        closed=closed,
        actions=tuple(asked_view(action) for action in decision.actions),
        response=None
        if response is None
        else ResponseView(response.options, None, response.rationale, response.approver, response.door, response.at),
        warnings=() if problem is None else (f"an answer in its interactions folder does not count: {problem}",),
        roots=roots_of(decision),
    )


def of_agent(folder: str, document: JsonObject, response: JsonObject | None) -> QuestionView:
    """Raises ``fields.WrongShape`` for a document that is no decision."""
    decision = Decision.from_json(document)
    given = _response(response)
    closed = None
    if is_kernel_run(decision.command_run_id):
        closed = "it mirrors a question of a run; answer it there"
    elif decision.state in ("answered", "consumed"):
        closed = f"answered by {given.by} ({given.door})" if given is not None else f"it is {decision.state}"
    elif decision.state != "waiting":
        closed = f"it is {decision.state}: nothing waits for an answer any more"
    return QuestionView(
        source=folder,
        id=decision.decision_id,
        title=decision.title,
        context=decision.context,
        state=decision.state,
        kind=decision.interaction_type.replace("-", " "),
        options=_options(decision.options, decision.recommended_option_id),
        digest=decision.digest(),
        created_at=seconds(decision.created_at),
        expires_at=seconds(decision.expires_at),
        asked_by=decision.created_by or decision.source_command,
        run=decision.command_run_id,
        change=decision.change_id or "",
        several=decision.interaction_type == "multi-choice-decision",
        written=decision.interaction_type == "freeform-input",
        requires_rationale=decision.requires_rationale,
        blocking=not decision.independent,
        recommendation=decision.recommendation or "",
        needs_pin=False,
        pin_is_set=False,
        closed=closed,
        response=given,
    )


def asked_view(action: AskedAction) -> AskedView:
    shown = action.shown
    reasons, sources, verdict = shown.get("reasons"), shown.get("sources"), shown.get("verdict")
    scope = verdict.get("scope") if is_object(verdict) else None
    attempt = shown.get("attempt")
    return AskedView(
        option=action.option,
        where=f"step {action.step}" if action.item is None else f"step {action.step}, item {action.item}",
        capability=_text(shown.get("capability")),
        risk=_text(shown.get("risk")),
        description=_text(shown.get("description")),
        effects=_text(shown.get("effects")),
        why=_text(shown.get("why")),
        rule=_text(shown.get("rule")),
        reasons=tuple(str(reason) for reason in reasons) if is_array(reasons) else (),
        attempt=attempt if isinstance(attempt, int) else 1,
        arguments=shown.get("arguments"),
        scope=scope if is_object(scope) else {},
        sources=tuple(
            SourceView(_text(s.get("argument")) or "/", _text(s.get("from")), s.get("untrusted") is not False)
            for s in (sources if is_array(sources) else ())
            if is_object(s)
        ),
        changed=action.changed,
        digest=action.digest,
    )


def _options(options: Sequence[Option], recommended: str | None) -> tuple[OptionView, ...]:
    return tuple(
        OptionView(
            option.id,
            option.label,
            option.description or "",
            option.consequence or "",
            option.risk or "",
            option.recommended or option.id == recommended,
        )
        for option in options
    )


def _response(document: JsonObject | None) -> ResponseView | None:
    if document is None:
        return None
    try:
        response = Response.from_json(document)
    except WrongShape:
        return None
    chosen = tuple(
        dict.fromkeys(
            (*((response.selected_option_id,) if response.selected_option_id else ()), *response.selected_option_ids)
        )
    )
    return ResponseView(
        chosen,
        response.freeform_value,
        response.rationale,
        response.selected_by,
        response.source,
        seconds(response.selected_at),
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""

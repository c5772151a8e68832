"""Text from outside is text: no field of any page becomes markup, hides anything or shows a secret."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from chaoscore.adapters.web.drawing import Drawing
from chaoscore.domain.json import JsonObject
from chaoscore.domain.redaction import Redactor
from tests.app.harness import run, step
from tests.web.harness import ASK, Web, hidden, web

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}</textarea></pre>"
TRICKS = "safe\u202egnp.exe\u202c\u200b\x1b[2Jend"
ALLOWED_SCRIPT = re.compile(r"/center/static/center\.js\?v=[0-9a-f]{12}")

BARE_ATTRIBUTE = re.compile(r'<[a-z][^>"]*(?:"[^"]*"[^>"]*)*=\{\{')


class Markup(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "script" and not ALLOWED_SCRIPT.fullmatch(given.get("src") or ""):
            self.faults.append(f"script {given}")
        if tag == "img" and not (given.get("src") or "").startswith("/center/static/"):
            self.faults.append(f"img {given}")
        if tag in ("iframe", "object", "embed", "base", "style", "b"):
            self.faults.append(tag)
        for name, value in given.items():
            if name.startswith("on") or name == "style" or (value or "").strip().lower().startswith("javascript:"):
                self.faults.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def examined(page: str, *expected: str) -> str:
    """The text a person reads, once the page was found to hold no markup but ours."""
    parser = Markup()
    parser.feed(page)
    parser.close()
    assert parser.faults == []
    text = "".join(parser.text)
    for words in expected:
        assert words in text, f"{words!r} is not shown"
    return text


async def hostile(w: Web) -> dict[str, str]:
    """Everything that somebody outside can name or write, written with bad intent; the pages that show it."""
    plan = await w.bench.call(
        "chaoscore_plan",
        objective=f"objective {EVIL}",
        steps=[
            step("s1", "test.give", {"value": {"key " + EVIL: "value " + EVIL}}),
            step("s2", ASK, {"text": "argument " + EVIL}, why="why " + EVIL),
        ],
    )
    assert plan["ok"], plan
    await w.bench.execute(plan["data"]["plan_id"])
    (waiting,), _ = await w.bench.kernel.services.approvals.waiting(None)
    options: list[JsonObject] = [
        {
            "id": "a",
            "label": "label " + EVIL,
            "description": "description " + EVIL,
            "consequence": "consequence " + EVIL,
            "risk": "risk " + EVIL,
        },
        {"id": "b", "label": "Beta"},
    ]
    agent = await w.ask(
        command="chaos:evil " + EVIL,
        title="title " + EVIL,
        context="context " + EVIL,
        recommendation="recommendation " + EVIL,
        created_by="author " + EVIL,
        options=options,
        interaction_type="single-choice-decision",
    )
    remembered = await w.bench.call(
        "chaoscore_remember", key="key " + EVIL, value={"name " + EVIL: "remembered " + EVIL}, tags=["tag" + EVIL[:40]]
    )
    assert remembered["ok"], remembered
    return {"run": waiting.run, "decision": waiting.id, "agent": agent}


def test_no_field_of_any_page_becomes_markup(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            names = await hostile(w)
            asked = f"/center/decisions/runs/{names['decision']}"
            agent = w.question(names["agent"])
            pages = {
                "/center/": ["title " + EVIL],
                asked: ["argument " + EVIL, "why " + EVIL, "objective"],
                agent: [
                    f"{field} {EVIL}"
                    for field in ("title", "context", "recommendation", "author", "label", "description", "risk")
                ],
                f"/center/together?d=runs/{names['decision']}&d={w.folder}/{names['agent']}": ["argument " + EVIL],
                "/center/runs": ["objective " + EVIL],
                f"/center/runs/{names['run']}": ["objective " + EVIL, "value " + EVIL.replace('"', '\\"')],
                "/center/audit": [EVIL[:20]],
                "/center/memory": ["key " + EVIL, "remembered"],
                "/center/memory/one?key=key+" + "".join(f"%{ord(c):02x}" for c in EVIL): ["remembered"],
                f"/center/history?folder={w.folder}": ["chaos:evil " + EVIL],
            }
            for path, expected in pages.items():
                answer = await w.get(path)
                assert answer.status_code == 200, path
                examined(answer.text, *expected)

    run(work())


@pytest.mark.parametrize("where", ["rationale", "freeform"])
def test_what_a_person_writes_becomes_no_markup_either(tmp_path: Path, where: str) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            if where == "freeform":
                path = w.question(await w.ask(interaction_type="freeform-input", options=None))
                sent = {"text": "said " + EVIL, "rationale": "reason " + EVIL}
            else:
                path = f"/center/decisions/runs/{await w.waiting_run()}"
                sent = {"option": "deny", "rationale": "reason " + EVIL}
            digest = hidden((await w.get(path)).text, "digest")
            wrong = await w.post(path, {**sent, "option": "no such <option>", "text": "", "digest": digest})
            assert wrong.status_code == 422
            examined(wrong.text, "reason " + EVIL)
            assert (await w.post(path, {**sent, "digest": digest})).status_code == 303
            examined((await w.get(path)).text, "reason " + EVIL, *(["said " + EVIL] if where == "freeform" else []))
            if where == "rationale":
                examined((await w.get("/center/history")).text, "reason " + EVIL)

    run(work())


def test_what_is_asked_for_in_an_address_becomes_no_markup(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            for path, name in (
                ("/center/policy", "capability"),
                ("/center/policy", "url"),
                ("/center/audit", "run"),
                ("/center/audit", "kind"),
                ("/center/audit", "before"),
                ("/center/memory", "q"),
                ("/center/memory/one", "key"),
                ("/center/together", "d"),
                ("/center/history", "folder"),
                ("/center/", "after"),
                ("/center/runs", "after"),
                ("/center/enter", "token"),
            ):
                params = {name: EVIL} | ({"capability": "http.request"} if name == "url" else {})
                answer = await w.get(path, params=params)
                examined(answer.text)
                assert answer.status_code < 500, path
            for path in (f"/center/runs/{EVIL}", f"/center/decisions/runs/{EVIL}", f"/center/{EVIL}"):
                answer = await w.get(path)
                examined(answer.text)
                assert answer.status_code == 404

    run(work())


def test_characters_that_do_not_show_are_made_visible(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            await w.waiting_run(TRICKS)
            agent = await w.ask(title="title " + TRICKS, context="context " + TRICKS, command="chaos:x")
            (waiting,), _ = await w.bench.kernel.services.approvals.waiting(None)
            for path in ("/center/", f"/center/decisions/runs/{waiting.id}", w.question(agent)):
                text = (await w.get(path)).text
                for char in ("\u202e", "\u202c", "\u200b", "\x1b"):
                    assert char not in text, path
                assert "\\u202egnp.exe\\u202c\\u200b\\u001b[2Jend" in text, path

    run(work())


def test_secrets_are_shown_on_no_page(tmp_path: Path) -> None:
    secret = "sk-" + "a1B2" * 10

    async def work() -> None:
        async with web(tmp_path) as w:
            decision = await w.waiting_run("a key: " + secret)
            agent = await w.ask(context="a key: " + secret, command="chaos:x")
            await w.bench.call("chaoscore_remember", key="the key", value=secret)
            paths = ["/center/", f"/center/decisions/runs/{decision}", w.question(agent), "/center/memory"]
            for path in (*paths, "/center/memory/one?key=the+key", "/center/audit", "/center/runs"):
                text = (await w.get(path)).text
                assert secret not in text, path
                assert secret[:12] not in text, path

    run(work())


def test_a_known_secret_of_no_known_shape_is_taken_out_too() -> None:
    drawing = Drawing(Redactor(["correct horse battery"]), lambda: 0.0, {"icon.svg": "i", "center.css": "c"}, "/center")
    page = drawing.page("door.html", {"problem": "it said: correct horse battery", "following": ""})
    assert "correct horse" not in page and "[redacted]" in page


def test_no_template_turns_escaping_off() -> None:
    import chaoscore.adapters.web.drawing as drawing

    folder = Path(drawing.__file__).parent / "templates"
    for template in folder.glob("*.html"):
        text = template.read_text("utf-8")
        assert "|safe" not in text.replace(" ", "") and "autoescape" not in text, template.name
        assert re.search(r"<[a-z][^>\"]*(?:\"[^\"]*\"[^>\"]*)*=\{\{", text) is None, (
            f"an attribute without quotes in {template.name}"
        )

"""Hostile text and hostile pages against the Decision Center, in a real Chromium: nothing of it runs, loads, asks or
answers anything. Approvals are the caller's word here, so a person's answer takes no PIN."""

from __future__ import annotations

import html
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from chaoscore.domain.interaction.names import decision_path
from chaoscore.domain.json import JsonObject
from tests.app.harness import step
from tests.web.browsing import PATIENCE_MS, WRITE, Desk, Watch, chromium, desk, new_context, sign_in, write

expect.set_options(timeout=PATIENCE_MS)

MARKUP = (
    "</textarea></pre></title></option></script><script>alert('script')</script><img src=x onerror=alert('img')>"
    "<svg onload=alert('svg')><a href=\"javascript:alert('link')\">link</a><iframe src=//evil.example/></iframe>"
    "<link rel=stylesheet href=//evil.example/a.css><meta http-equiv=refresh content='0;url=//evil.example/'>"
    "<base href=//evil.example/><form action=//evil.example/><input autofocus onfocus=alert('focus')>"
    "\" autofocus onfocus=\"alert('quote')\" x=\"' onmouseover='alert(1)' {{7*7}} ${7*7} <%= 7*7 %> &lt;b&gt; <!--"
)
TRICKS = "safe\u202egnp.exe\u202c\u2066\u200b\x1b[2J\x07end"
EVIL = MARKUP + TRICKS
LINK = "javascript:alert('address')"
MEGABYTE = 1_000_000
SHOWN_TRICKS = "safe\\u202egnp.exe\\u202c\\u2066\\u200b\\u001b[2J\\u0007end"

STRANGE = """() => [...document.querySelectorAll(
  'script:not([src^="/center/static/"]), img:not([src^="/center/static/"]), link:not([href^="/center/static/"]), '
  + 'iframe, object, embed, base, style, meta[http-equiv], [onerror], [onload], [onfocus], [onmouseover], [autofocus], '
  + 'svg:not(.when), [style], form:not([action^="/center"]):not([method]), a[href^="javascript:" i]'
)].map((e) => e.outerHTML.slice(0, 200))"""
# Whatever waits for a person to do something gets it.
PROVOKE = """() => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  for (const e of document.querySelectorAll("*")) {
    for (const name of ["mouseover", "mouseenter", "focus", "toggle", "error", "load"]) {
      e.dispatchEvent(new Event(name));
    }
    if (e.matches("a, input, textarea, button, summary, pre, [tabindex]")) e.focus();
  }
}"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with chromium() as browser, desk(tmp_path_factory.mktemp("desk"), browser) as made:
        yield made


@pytest.fixture
def k(shared: Desk) -> Iterator[Desk]:
    yield shared
    shared.watch.require_peace()


def examined(page: Page, *expected: str) -> str:
    """The text of a page, once nothing but our own markup was found in it and everything in it was touched."""
    page.evaluate(PROVOKE)
    assert page.evaluate(STRANGE) == [], page.url
    text = str(page.evaluate("() => document.body.textContent"))
    for char in ("\u202e", "\u202c", "\u2066", "\u200b", "\x1b", "\x07"):
        assert char not in text, (page.url, hex(ord(char)))
    for words in expected:
        assert words in text, f"{words[:80]!r} is not shown at {page.url}"
    return text


def visited(k: Desk, path: str, *expected: str, status: int = 200) -> str:
    answer = k.page.goto(f"{k.served.origin}/center{path}")
    assert answer is not None and answer.status == status, (path, answer)
    return examined(k.page, *expected)


def test_a_callers_approval_needs_no_pin_and_the_run_goes_on(k: Desk) -> None:
    decision, path = k.agent.waiting_run("plain")
    page = k.go(k.decision(decision))
    assert page.get_by_label("Approver's PIN").count() == 0
    page.get_by_label("Approve: run it once").check()
    page.get_by_role("button", name="Record this answer").click()
    page.get_by_role("link", name="look at it").click()
    expect(page.locator("#run")).to_contain_text("completed")
    assert path.read_text("utf-8") == "plain"


def test_the_watch_sees_what_it_is_there_for(shared: Desk) -> None:
    watch = Watch({shared.served.origin})
    context = new_context(shared.browser, watch)
    page = context.new_page()
    shared.go("/", page)
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "alert(1)";
        document.body.append(script);
        setTimeout(() => { alert("hello"); location.href = "http://evil.example/"; }, 0);
        setTimeout(() => { throw new Error("a fault"); }, 0);
    }""")
    while not (watch.violations and watch.strangers and watch.dialogs and watch.errors):
        page.wait_for_timeout(20)
    assert watch.strangers == ["http://evil.example/"] and watch.dialogs == ["hello"]
    context.close()


def test_what_a_plan_says_is_text_on_every_page(k: Desk) -> None:
    refused = k.agent.call(
        "chaoscore_plan", objective="x", steps=[write(k.served.directory / "work" / "x", step_id="<script>")]
    )
    assert not refused["ok"], "a step's name cannot hold markup"
    work = k.served.directory / "work"
    label = k.agent.run(
        step("query", "json.query", {"query": "@", "data": {"name " + EVIL: "value " + EVIL}}),
        write(work / "a.md", "argument " + EVIL, why="why " + EVIL),
        objective="objective " + EVIL,
    )
    decision = k.agent.decision(label)
    failed = k.agent.run(step("read", "fs.read_text", {"path": str(work / MARKUP.replace("/", "|")[:150])}))
    visited(k, f"/runs/{failed}", "<img src=x onerror=alert('img')>", "failed")
    visited(k, "/", "why " + MARKUP[:100])
    at = k.decision(decision)
    text = visited(k, at, *(f"{name} {MARKUP}" for name in ("argument", "why")), "objective", SHOWN_TRICKS)
    assert "{{7*7}} ${7*7} <%= 7*7 %> &lt;b&gt;" in text
    visited(k, f"/together?d=runs/{decision}", "argument " + MARKUP)
    visited(k, "/runs", "objective " + MARKUP)
    visited(k, f"/runs/{label}", "objective " + MARKUP, "value " + json.dumps(MARKUP)[1:-1][:60])
    visited(k, f"/audit?run={label}", "run-opened")


def test_what_an_agent_asks_is_text_on_every_page(k: Desk) -> None:
    options: list[JsonObject] = [
        {"id": "a", **{f: f"{f} {EVIL}" for f in ("label", "description", "consequence", "risk")}},
        {"id": "b", "label": LINK},
    ]
    name = k.agent.ask(
        command="chaos:evil " + EVIL,
        title="title " + EVIL,
        context="context " + EVIL,
        recommendation="recommendation " + EVIL,
        created_by="author " + EVIL,
        options=options,
        interaction_type="single-choice-decision",
    )
    at = f"/decisions/{k.agent.folder}/{name}"
    fields = ("title", "context", "recommendation", "label", "description", "consequence", "risk")
    visited(k, "/", "title " + MARKUP)
    visited(k, at, *(f"{field} {MARKUP}" for field in fields), "author " + MARKUP[:100], SHOWN_TRICKS, LINK)
    k.page.get_by_label(LINK).check()
    k.page.get_by_label("Reason").fill("reason " + MARKUP)
    k.page.get_by_role("button", name="Record this answer").click()
    expect(k.page.locator("#decision-state")).to_contain_text("Your answer is recorded")
    examined(k.page, "reason " + MARKUP)
    visited(k, f"/history?folder={k.agent.folder}", "chaos:evil " + MARKUP)
    visited(k, "/resume", "chaos:evil " + MARKUP)


def test_a_file_that_somebody_wrote_by_hand_is_text_or_is_refused(k: Desk) -> None:
    name = k.agent.ask(title="by hand")
    path = k.agent.runtime.settings.root / decision_path(name)
    document = json.loads(path.read_text("utf-8"))
    for change in (
        {"title": "forged " + EVIL, "context": EVIL, "createdBy": EVIL, "changeId": EVIL, "recommendation": EVIL},
        {"interactionType": EVIL},
        {"options": [{"id": EVIL, "label": EVIL}, {"id": LINK, "label": LINK}]},
        {"options": EVIL},
        {"createdAt": EVIL, "expiresAt": EVIL},
        {"decisionId": EVIL},
        {"commandRunId": EVIL, "sourceCommand": EVIL},
    ):
        path.write_text(json.dumps({**document, **change}), "utf-8")
        for at in (f"/decisions/{k.agent.folder}/{name}", "/", f"/together?d={k.agent.folder}/{name}", "/resume"):
            answer = k.page.goto(f"{k.served.origin}/center{at}")
            assert answer is not None and answer.status in (200, 404), (change, at)
            examined(k.page)
    path.write_text(json.dumps(document), "utf-8")


def test_what_is_remembered_is_text_on_every_page(k: Desk) -> None:
    key = "key " + MARKUP[:190]
    tags = ["<script>alert(1)</script>", "<img src=x onerror=alert(2)>", LINK]
    value: JsonObject = {"name " + EVIL: "remembered " + EVIL}
    told = k.agent.call("chaoscore_remember", key=key, value=value, tags=tags)
    if not told["ok"]:  # tags may be words only; the rest must still be tried
        assert "tag" in json.dumps(told), told
        told = k.agent.call("chaoscore_remember", key=key, value=value)
    assert told["ok"], told
    visited(k, "/memory", key)
    visited(k, f"/memory/one?key={quote(key)}", key, "remembered")
    visited(k, f"/memory?q={quote('remembered ' + MARKUP[:300])}")
    visited(k, "/audit?kind=memory-written")


def test_what_people_write_is_text_on_every_page(k: Desk) -> None:
    named = k.other(name="<img src=x onerror=alert('name')> ada")
    examined(named, "<img src=x onerror=alert('name')> ada")
    decision, _ = k.agent.waiting_run()
    k.go(k.decision(decision), named)
    named.get_by_label("Deny").check()
    named.get_by_label("Reason").fill("reason " + EVIL)
    named.get_by_role("button", name="Record this answer").click()
    expect(named.locator("#decision-state")).to_contain_text("Your answer is recorded")
    examined(named, "reason " + MARKUP, "<img src=x onerror=alert('name')> ada", SHOWN_TRICKS)
    visited(k, "/history", "reason " + MARKUP)
    visited(k, "/audit?kind=decision-answered", "<img src=x onerror=alert('name')> ada")
    written = k.agent.ask(title="say it", interaction_type="freeform-input", options=None, requires_rationale=True)
    page = k.go(f"/decisions/{k.agent.folder}/{written}")
    page.get_by_label("Your text").fill("said " + MARKUP)
    page.get_by_label("Reason").evaluate("(field) => { field.required = false; }")
    page.get_by_role("button", name="Record this answer").click()
    expect(page.get_by_role("alert")).to_contain_text("requires a reason")
    assert page.get_by_label("Your text").input_value() == "said " + MARKUP
    examined(page)
    page.get_by_label("Reason").fill("because")
    page.get_by_role("button", name="Record this answer").click()
    expect(page.locator("#decision-state")).to_contain_text("Your answer is recorded")
    examined(page, "said " + MARKUP)
    named.context.close()


def test_what_a_policy_says_is_text(k: Desk) -> None:
    try:
        k.policy(requireConfirmationFor=[WRITE, "no.<img src=x onerror=alert(1)>.*", MARKUP[:150] + "*"])
        visited(k, "/policy", "<img src=x onerror=alert(1)>")
        (k.served.directory / "policy.json").write_text(json.dumps({EVIL: EVIL}), "utf-8")
        visited(k, "/policy", "The file cannot be used now.", "onerror")
        (k.served.directory / "policy.json").write_text("{" + MARKUP, "utf-8")
        visited(k, "/policy", "The file cannot be used now.")
    finally:
        k.policy(requireConfirmationFor=[WRITE])


def test_what_an_address_asks_for_is_text(k: Desk) -> None:
    evil = quote(MARKUP[:700] + TRICKS)
    for path in (
        *("/policy?capability=", "/policy?capability=http.request&url=", "/audit?run=", "/audit?kind=", "/memory?q="),
        *("/memory/one?key=", "/together?d=", "/history?folder=", "/?after=", "/runs?after=", "/audit?before="),
        *("/history?after=", "/memory?after=", "/runs/", "/decisions/runs/", "/decisions/", "/"),
    ):
        answer = k.page.goto(f"{k.served.origin}/center{path}{evil}")
        assert answer is not None and answer.status in (200, 400, 404), (path, answer and answer.status)
        examined(k.page)
    for path in (f"/?following={quote(LINK)}", f"/policy?capability={quote(LINK)}&url={quote(LINK)}"):
        visited(k, path)
    for path in ("/memory?q=", "/audit?run=", "/policy?capability="):
        answer = k.page.goto(f"{k.served.origin}/center{path}{'x' * 3_000}")
        assert answer is not None and answer.status == 400
        examined(k.page)


def test_text_that_arrives_while_a_page_is_open_is_text_too(k: Desk) -> None:
    page = k.go("/")
    page.evaluate("() => { document.documentElement.dataset.marked = 'yes'; }")
    k.agent.ask(title="later " + EVIL, context="context " + EVIL)
    expect(page.locator("#inbox")).to_contain_text("later " + MARKUP[:60])
    assert page.locator("html[data-marked=yes]").count() == 1
    examined(page, "later " + MARKUP)


def test_a_megabyte_of_text_stops_no_page(k: Desk) -> None:
    huge = (MARKUP + "\n") * (MEGABYTE // (len(MARKUP) + 200))
    label = k.agent.run(write(k.served.directory / "work" / "huge.md", huge), objective="huge")
    decision = k.agent.decision(label)
    line = k.agent.run(write(k.served.directory / "work" / "line.md", "x" * 900_000), objective="one long line")
    asked = k.agent.ask(title="huge question", context=huge[:200_000])
    k.agent.call("chaoscore_remember", key="huge", value=huge[:200_000])
    k.page.set_viewport_size({"width": 360, "height": 740})
    for path in (
        *(k.decision(decision), k.decision(k.agent.decision(line)), "/", f"/runs/{label}", f"/audit?run={label}"),
        *(f"/decisions/{k.agent.folder}/{asked}", f"/together?d=runs/{decision}", "/memory/one?key=huge"),
    ):
        answer = k.page.goto(f"{k.served.origin}/center{path}")
        assert answer is not None and answer.status == 200, path
        examined(k.page)
        overflow = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert k.page.evaluate(overflow) <= 0, path
    k.page.set_viewport_size({"width": 1280, "height": 720})
    page = k.go(k.decision(decision))
    page.get_by_label("Deny").check()
    page.get_by_label("Reason").fill("x" * MEGABYTE)
    page.get_by_role("button", name="Record this answer").click()
    expect(page.get_by_role("main")).to_contain_text("the form has more than")
    assert k.agent.decision(label) == decision, "it waits as before"


# -- coming in -----------------------------------------------------------------------------------------------


def test_the_link_leaves_no_token_in_the_history_or_the_referrer_and_works_once(k: Desk) -> None:
    k.served.stop()
    k.served.start()
    k.page.goto(f"{k.served.origin}/center/")
    sign_in(k.served, k.page)
    context = new_context(k.browser, k.watch)
    page = context.new_page()
    page.goto("about:blank")
    asked: list[Any] = []
    page.on("request", lambda request: asked.append(request))
    page.goto(k.served.link)
    page.wait_for_url(f"{k.served.origin}/center/")
    seen = context.new_cdp_session(page).send("Page.getNavigationHistory")
    assert [entry["url"] for entry in seen["entries"]] == ["about:blank", f"{k.served.origin}/center/"]
    assert page.evaluate("() => document.referrer") == ""
    token = k.served.link.partition("token=")[2]
    assert [r for r in asked if token in r.headers.get("referer", "")] == []
    assert [r.url for r in asked if token in r.url] == [k.served.link]
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/center")
    assert page.evaluate("() => document.cookie") == ""
    assert token not in json.dumps(context.storage_state())
    second = new_context(k.browser, k.watch)
    again = second.new_page().goto(k.served.link)
    assert again is not None and again.status == 403
    second.close()
    context.close()


def test_without_a_session_there_is_no_page(k: Desk) -> None:
    decision, _ = k.agent.waiting_run("a secret of the run")
    context = new_context(k.browser, k.watch)
    page = context.new_page()
    for path in (
        *("/", "/together", "/resume", "/runs", "/history", "/audit", "/policy", "/memory", "/memory/one?key=x"),
        *(k.decision(decision), "/nothing", "/live"),
    ):
        answer = page.goto(f"{k.served.origin}/center{path}")
        assert answer is not None and answer.status == 401, path
        assert "secret of the run" not in page.content() and context.cookies() == []
    for path in (k.decision(decision), "/together", "/audit/verify", "/sign-out", "/runs/x/cancel"):
        sent = context.request.post(
            f"{k.served.origin}/center{path}", form={"option": "approve"}, headers={"origin": k.served.origin}
        )
        assert sent.status == 401, path
    context.close()


def test_signing_out_ends_the_session_in_every_window(k: Desk) -> None:
    first = k.other()
    second = first.context.new_page()
    k.go("/runs", second)
    kept = first.context.cookies()
    first.get_by_role("button", name="Sign out").click()
    expect(first.get_by_role("main")).to_contain_text("you are signed out")
    first.context.add_cookies(kept)  # type: ignore[arg-type]
    second.reload()
    expect(second.get_by_label("Token")).to_be_visible()
    first.context.close()


def test_a_form_token_of_another_session_is_refused(k: Desk) -> None:
    decision, _ = k.agent.waiting_run()
    other = k.other()
    foreign = k.go("/", other).locator("input[name=csrf]").first.get_attribute("value")
    page = k.go(k.decision(decision))
    page.locator("form.answer input[name=csrf]").evaluate("(field, value) => { field.value = value; }", foreign)
    page.get_by_label("Approve: run it once").check()
    page.get_by_role("button", name="Record this answer").click()
    expect(page.get_by_role("main")).to_contain_text("not of your session")
    visited(k, k.decision(decision), "waiting")
    assert k.page.locator("#answer-section").count() == 1
    other.context.close()


def test_another_name_in_the_host_is_refused(k: Desk) -> None:
    for name in ("evil.example", f"evil.example:{k.served.port}", "127.0.0.1.evil.example", ""):
        connection = http.client.HTTPConnection("127.0.0.1", k.served.port, timeout=10)
        connection.putrequest("GET", "/center/", skip_host=True)
        connection.putheader("Host", name)
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status in (400, 403, 421), (name, answer.status)
        assert b"Token" not in answer.read()
        connection.close()


# -- other sites ---------------------------------------------------------------------------------------------


@contextmanager
def attacker() -> Iterator[tuple[int, dict[str, str]]]:
    """A web server of somebody else on this machine: its port, and its pages by path."""
    pages: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], pages
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def victim(k: Desk, port: int) -> tuple[BrowserContext, Page]:
    """Somebody who is signed in and opens the attacker's pages in the same browser."""
    watch = Watch({k.served.origin, f"http://127.0.0.1:{port}", f"http://localhost:{port}"})
    context = new_context(k.browser, watch)
    page = context.new_page()
    sign_in(k.served, page)
    return context, page


# The first is another site; of the second the browser says that it is the same site, so cookies are sent.
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_no_other_site_can_frame_read_or_post(k: Desk, host: str) -> None:
    decision, path = k.agent.waiting_run("never")
    at = f"{k.served.origin}/center{k.decision(decision)}"
    k.go(k.decision(decision))
    digest = k.page.locator("form.answer input[name=digest]").get_attribute("value") or ""
    with attacker() as (port, pages):
        context, page = victim(k, port)
        pages["/frame"] = f'<h1>attacker</h1><iframe src="{at}"></iframe>'
        answer = f'<input name=option value=approve><input name=digest value="{html.escape(digest)}"><input name=csrf>'
        pages["/post"] = f'<form method=post action="{at}">{answer}<button>win</button></form>'
        pages["/read"] = "<h1>attacker</h1>"
        home = f"http://{host}:{port}"

        page.goto(f"{home}/frame")
        inner = page.frames[1]
        assert "never" not in inner.content() and not inner.url.startswith(k.served.origin)

        page.goto(f"{home}/post")
        page.get_by_role("button").click()
        page.wait_for_url(at)
        expect(page.get_by_role("main")).to_contain_text("own pages only")

        page.goto(f"{home}/read")
        tried = page.evaluate(
            """async (at) => {
                const tell = (wait) => wait.then((a) => a.type, (fault) => fault.name);
                const source = await new Promise((done) => {
                  const events = new EventSource(new URL("/center/live", at), { withCredentials: true });
                  events.onerror = () => { events.close(); done("refused"); };
                  events.onmessage = events.onopen = () => { events.close(); done("open"); };
                });
                return [await tell(fetch(at, { credentials: "include" })), source,
                  await tell(fetch(at, { credentials: "include", mode: "no-cors" })),
                  await tell(fetch(at, { method: "POST", credentials: "include", headers: { "X-Live": "1" } }))];
            }""",
            at,
        )
        assert [tried[0], tried[1], tried[3]] == ["TypeError", "refused", "TypeError"]
        # Of one site the browser hands over an answer that nobody can look into; to another site not even that.
        assert tried[2] in ("TypeError", "opaque")
        context.close()
    visited(k, k.decision(decision), "waiting")
    assert k.page.locator("#answer-section").count() == 1 and not path.exists()

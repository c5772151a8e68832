"""Who comes in: the one-time link, the token, sessions, origins; and what every response tells the browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chaoscore.adapters.web.access import IDLE_SECONDS, LINK_SECONDS, SESSION_SECONDS, WRONG_MAX, Access, TooManyTries
from chaoscore.adapters.web.forms import BODY_BYTES_MAX
from chaoscore.bootstrap_interaction import random_hex
from chaoscore.testing.fakes import FakeClock
from tests.app.harness import run
from tests.web.harness import web

PAGES = ("/", "/resume", "/runs", "/history", "/audit", "/policy", "/memory", "/live", "/nowhere")


def test_nobody_sees_a_page_without_coming_in(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path, enter=False) as w:
            decision = await w.waiting_run("very private text")
            for path in (*PAGES, f"/decisions/runs/{decision}"):
                answer = await w.browser.get(f"{w.address}/center{path}", follow_redirects=False)
                assert answer.status_code == 401, path
                assert "private" not in answer.text and decision not in answer.text.replace(path, "")

    run(work())


def test_the_link_works_once_and_previews_do_not_use_it_up(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path, enter=False) as w:
            link = w.center.entry("127.0.0.1", int(w.address.rpartition(":")[2])).link
            assert (await w.browser.head(link)).status_code == 425
            assert (await w.browser.get(link, headers={"sec-purpose": "prefetch;prerender"})).status_code == 425
            first = await w.browser.get(link)
            assert first.status_code == 200 and "no-referrer" in first.headers["referrer-policy"]
            cookie = first.headers["set-cookie"].lower()
            for word in ("httponly", "samesite=strict", "path=/center"):
                assert word in cookie
            assert (await w.get("/center/")).status_code == 200
            w.browser.cookies.clear()
            assert (await w.browser.get(link)).status_code == 403

    run(work())


def test_the_token_lets_in_again_and_again_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path, enter=False) as w:
            token, own = w.center.site.access.token, {"origin": w.address}
            for given, status in (("wrong", 403), (token, 303), (token, 303)):
                answer = await w.browser.post(f"{w.address}/center/sign-in", data={"token": given}, headers=own)
                assert answer.status_code == status
            assert (await w.get("/center/")).status_code == 200

    run(work())


def test_signing_in_leads_to_the_page_that_was_asked_for_and_to_no_other_site(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path, enter=False) as w:
            token, own = w.center.site.access.token, {"origin": w.address}
            asked = await w.browser.get(f"{w.address}/center/audit?run=r-1")
            assert 'value="/center/audit?run=r-1"' in asked.text
            wanted = {
                "/center/audit?run=r-1": "/center/audit?run=r-1",
                "https://evil.example/": "/center/",
                "//evil.example/center/": "/center/",
                "/center//evil.example": "/center/",
                "/center/\r\nx: y": "/center/",
                "/elsewhere": "/center/",
            }
            for following, led in wanted.items():
                fields = {"token": token, "following": following}
                answer = await w.browser.post(f"{w.address}/center/sign-in", data=fields, headers=own)
                assert answer.headers["location"] == led, following

    run(work())


def test_wrong_tokens_are_answered_with_a_pause_for_that_peer_only() -> None:
    clock = FakeClock()
    access = Access(clock, random_hex)
    for _ in range(WRONG_MAX):
        assert access.sign_in("wrong", None, "10.0.0.1") is None
    with pytest.raises(TooManyTries):
        access.sign_in(access.token, None, "10.0.0.1")
    assert access.sign_in(access.token, None, "10.0.0.2") is not None
    clock.advance(61)
    assert access.sign_in(access.token, None, "10.0.0.1") is not None


def test_a_session_ends_when_nobody_uses_it_and_in_any_case_after_a_while() -> None:
    clock = FakeClock()
    access = Access(clock, random_hex)
    idle = access.sign_in(access.token, "Ada", "")
    clock.advance(IDLE_SECONDS - 1)
    assert access.session(idle, touch=False) is not None, "a page that asks by itself keeps nobody signed in"
    clock.advance(1)
    assert access.session(idle) is None
    busy = access.sign_in(access.token, None, "")
    for _ in range(int(SESSION_SECONDS / 3600)):
        assert access.session(busy) is not None
        clock.advance(3600)
    assert access.session(busy) is None


def test_an_old_link_does_not_let_in() -> None:
    clock = FakeClock()
    access = Access(clock, random_hex)
    clock.advance(LINK_SECONDS)
    assert access.enter(access.link, "") is None


def test_signing_out_ends_the_session(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            cookies = dict(w.browser.cookies)
            assert (await w.post("/center/sign-out", {})).status_code == 200
            w.browser.cookies.update(cookies)
            assert (await w.get("/center/")).status_code == 401

    run(work())


def test_a_form_from_another_page_or_without_the_sessions_token_changes_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            decision = await w.waiting_run()
            path = f"/center/decisions/runs/{decision}"
            digest = (await w.bench.kernel.services.approvals.find(decision)).question_digest
            fields = {"option": "approve", "digest": digest}
            port = w.address.rpartition(":")[2]
            for origin in ("", "null", "https://evil.example", f"http://localhost:{port}", "http://127.0.0.1:1"):
                refused = await w.post(path, fields, origin=origin)
                assert refused.status_code == 403, origin
            assert (await w.post(path, fields, sec_fetch_site="same-site")).status_code == 403
            assert (await w.post(path, {**fields, "csrf": "0" * 32})).status_code == 403
            assert (await w.post(path, {**fields, "csrf": ""})).status_code == 403
            assert (await w.post(path, fields, host="evil.example")).status_code == 421
            assert (await w.bench.kernel.services.approvals.find(decision)).state == "waiting"
            assert (await w.post(path, fields)).status_code == 303

    run(work())


def test_a_form_is_bounded_before_it_is_read(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            path = f"/center/decisions/runs/{await w.waiting_run()}"
            assert (await w.post(path, {"rationale": "x" * BODY_BYTES_MAX})).status_code == 413

            async def endless() -> AsyncIterator[bytes]:
                for _ in range(BODY_BYTES_MAX // 1000 + 10):
                    yield b"x" * 1000

            headers = {"origin": w.address, "content-type": "application/x-www-form-urlencoded"}
            streamed = await w.browser.post(f"{w.address}{path}", content=endless(), headers=headers)
            assert streamed.status_code == 413
            other = await w.browser.post(f"{w.address}{path}", json={}, headers={"origin": w.address})
            assert other.status_code == 415
            many = {f"f{n}": "x" for n in range(1_000)}
            assert (await w.post(path, many)).status_code == 400

    run(work())


def test_every_response_forbids_scripts_of_others_frames_and_caches(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            for path in ("/center/", "/center/nowhere", "/center/sign-in", "/center/enter?token=x"):
                headers = (await w.get(path)).headers
                policy = headers["content-security-policy"]
                assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
                assert headers["cache-control"] == "no-store"
                assert headers["x-content-type-options"] == "nosniff"
                assert headers["referrer-policy"] in ("same-origin", "no-referrer")

    run(work())


def test_no_page_holds_script_or_style_of_its_own_or_names_another_site(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            decision = await w.waiting_run()
            paths = [f"/center{path}" for path in PAGES if path != "/live"]
            for path in (*paths, f"/center/decisions/runs/{decision}", f"/center/together?d=runs/{decision}"):
                text = (await w.get(path)).text
                assert " style=" not in text and "<style" not in text and " on" + "click" not in text
                assert text.count("<script") == text.count('<script src="/center/static/') == 1, path
                assert 'href="http' not in text and 'src="http' not in text and "url(" not in text

    run(work())

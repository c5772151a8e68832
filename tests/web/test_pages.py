"""The pages around the questions: runs, cancelling, what can be resumed, history, audit, policy, memory."""

from __future__ import annotations

import asyncio
import html
import sqlite3
import time
from pathlib import Path

from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.domain.interaction.names import decision_path
from chaoscore.domain.principal import ANONYMOUS
from tests.app.harness import run, step, until, write_policy
from tests.web.harness import ASK, hidden, web

FIRST_PAINT_SECONDS = 0.2


def test_a_run_is_a_timeline_with_verdicts_durations_outputs_and_the_evaluation(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            check = {"path": "/value", "op": "eq", "value": "seen"}
            plan = await w.bench.plan(
                step("a", "test.give", {"value": "seen"}, expect=[check]), step("b", "test.refuse", {})
            )
            await w.bench.execute(plan)
            (summary,), _ = await w.center.site.center.runs(None, 10)
            page = html.unescape((await w.get(f"/center/runs/{summary.label}")).text)
            for words in ("seen", "allow", "it did not happen", "check passed", " ms", "Evaluation", "NOT_PERFORMED"):
                assert words in page, words
            assert 'id="sure"' not in page, "a run that ended cannot be cancelled"

    run(work())


def test_runs_of_callers_without_a_name_are_listed_and_shown_too(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            w.bench.principal = ANONYMOUS
            await w.waiting_run()
            w.bench.principal = w.bench.kernel.principal
            page = (await w.get("/center/runs")).text
            assert page.count('<li class="card') == 1
            (summary,), _ = await w.center.site.center.runs(None, 10)
            assert (await w.get(f"/center/runs/{summary.label}")).status_code == 200

    run(work())


def test_a_run_is_cancelled_only_when_the_box_was_ticked(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            decision = await w.bench.kernel.services.approvals.find(await w.waiting_run())
            path = f"/center/runs/{decision.run}"
            slip = await w.post(f"{path}/cancel", {})
            assert slip.status_code == 422 and "tick the box" in slip.text
            assert (await w.post(f"{path}/cancel", {"sure": "yes"})).status_code == 303
            assert ">cancelled</span>" in (await w.get(path)).text
            again = await w.post(f"{path}/cancel", {"sure": "yes"})
            assert again.status_code == 409 and "already ended" in again.text
            asked = (await w.get(f"/center/decisions/runs/{decision.id}")).text
            assert "it is cancelled" in asked and "answer-section" not in asked

    run(work())


def test_a_run_in_motion_is_shown_as_it_goes_and_ends_when_it_is_cancelled(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            plan = await w.bench.plan(step("a", "test.hold", {"text": "x"}), step("b", ASK, {"text": "y"}, after=["a"]))
            going = asyncio.create_task(w.bench.execute(plan))
            await until(lambda: w.bench.world.effects() == ["begin x"])
            (summary,), _ = await w.center.site.center.runs(None, 10)
            page = (await w.get(f"/center/runs/{summary.label}")).text
            assert "goes on now" in page and 'class="step running"' in page
            cancelling = asyncio.create_task(w.post(f"/center/runs/{summary.label}/cancel", {"sure": "yes"}))
            await until(lambda: w.bench.world.holds["x"] is not None)
            w.bench.world.holds["x"].set()
            assert (await cancelling).status_code in (303, 409)
            await going
            assert w.bench.world.effects() == ["begin x", "end x"]

    run(work())


def test_what_can_be_resumed_comes_with_commands_to_copy(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            agent = await w.ask(command="chaos:deploy", next_step="roll out")
            path = w.question(agent)
            digest = hidden((await w.get(path)).text, "digest")
            await w.post(path, {"digest": digest, "option": "yes"})
            decision = await w.waiting_run()
            asked = f"/center/decisions/runs/{decision}"
            await w.post(asked, {"digest": hidden((await w.get(asked)).text, "digest"), "option": "approve"})
            label = (await w.bench.kernel.services.approvals.find(decision)).run
            page = html.unescape((await w.get("/center/resume")).text)
            assert f"chaoscore run continue {label}" in page
            assert "chaoscore resume RUN-" in page and "roll out" in page
            assert f"--root {w.runtime.settings.root}" in page

    run(work())


def test_a_run_that_lies_in_a_folder_is_not_offered_to_agents(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path, root=tmp_path / "kernel") as w:
            decision = await w.bench.kernel.services.approvals.find(await w.waiting_run())
            await until((tmp_path / "kernel" / decision_path(decision.id)).exists)
            path = f"/center/decisions/runs/{decision.id}"
            digest = hidden((await w.get(path)).text, "digest")
            assert (await w.post(path, {"digest": digest, "option": "approve"})).status_code == 303
            page = (await w.get("/center/resume")).text
            assert f"chaoscore run continue {decision.run}" in page and "chaoscore resume" not in page

    run(work())


def test_locks_are_shown_with_whoever_holds_them(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            begun = await w.runtime.service.begin(BeginRequest("chaos:change", change_id="CH-1"))
            await w.ask(title="q", command="chaos:change2", change_id="CH-2")
            page = (await w.get("/center/resume")).text
            assert "CH-2" in page and begun.ok

    run(work())


def test_history_shows_who_answered_what_and_the_audit_is_filtered_by_run_and_kind(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            decision = await w.waiting_run()
            await w.waiting_run("other")
            path = f"/center/decisions/runs/{decision}"
            digest = hidden((await w.get(path)).text, "digest")
            await w.post(path, {"digest": digest, "option": "deny", "rationale": "not today"})
            label = (await w.bench.kernel.services.approvals.find(decision)).run
            past = (await w.get("/center/history")).text
            assert decision in past and "not today" in past and ">deny</span>" in past
            one = (await w.get("/center/audit", params={"run": label, "kind": "decision-answered"})).text
            assert one.count('<span class="no">') == 1 and "decision-answered</strong>" in one
            none = (await w.get("/center/audit", params={"run": label, "kind": "nothing-like-it"})).text
            assert "No event fits" in none

    run(work())


def test_the_audit_is_paged_to_its_beginning(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            for number in range(25):
                await w.waiting_run(str(number))
            seen: list[int] = []
            before: int | None = None
            while True:
                found, before = await w.center.site.center.audit(None, None, before, 50)
                seen += [seq for seq, _ in found]
                if before is None:
                    break
            assert seen == list(range(seen[0], 0, -1))
            kind: list[int] = []
            before = None
            while True:
                found, before = await w.center.site.center.audit(None, "decision-asked", before, 10)
                kind += [seq for seq, _ in found]
                if before is None:
                    break
            assert len(kind) == len(set(kind)) == 25

    run(work())


def test_the_chain_is_verified_when_somebody_asks_and_damage_is_found(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            await w.waiting_run()
            assert "Not verified since" in (await w.get("/center/audit")).text
            chain = w.center.site.center.chain
            assert (await w.post("/center/audit/verify", {})).status_code == 303
            await until(lambda: not chain.status.running)
            assert "The chain is whole." in (await w.get("/center/audit")).text
            with sqlite3.connect(w.bench.kernel.stores.database.path) as database:
                database.execute("DROP TRIGGER audit_is_never_changed")
                database.execute("UPDATE audit SET body = replace(body, 'run-opened', 'run-closed') WHERE seq = 2")
            database.close()
            await w.post("/center/audit/verify", {})
            await until(lambda: not chain.status.running)
            page = (await w.get("/center/audit")).text
            assert "Something is wrong at event 2" in page

    run(work())


def test_the_policy_is_shown_with_its_warnings_and_answers_questions(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path, httpAllowedDomains=["example.org"], deniedCapabilities=["test.hold"]) as w:
            page = (await w.get("/center/policy")).text
            assert "example.org" in page and "approvalMode" in page and "test.append" in page
            asked = {
                ("test.hold", ""): "deniedCapabilities[0]: test.hold",
                ("http.request", "https://example.org/x"): "httpAllowedDomains[0]: example.org",
                ("http.request", "https://evil.example/"): "evil.example is not listed",
                ("nothing.like", ""): "there is no capability 'nothing.like'",
            }
            for (name, url), words in asked.items():
                answer = await w.get("/center/policy", params={"capability": name, "url": url})
                assert words in html.unescape(answer.text), name
            (tmp_path / "policy.json").write_text("{", "utf-8")
            await until(lambda: w.bench.kernel.policy.problem() is not None)
            broken = (await w.get("/center/policy")).text
            assert "The file cannot be used now." in broken
            write_policy(tmp_path)

    run(work())


def test_memory_is_searched_and_earlier_versions_are_shown(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            for value in ("green", "blue"):
                await w.bench.call("chaoscore_remember", key="favourite colour", value=value)
            await w.bench.call("chaoscore_remember", key="house number", value=12)
            found = (await w.get("/center/memory", params={"q": "colour"})).text
            assert "favourite colour" in found and "house number" not in found
            one = (await w.get("/center/memory/one", params={"key": "favourite colour"})).text
            assert one.index("blue") < one.index("green") and "version 2" in one and "version 1" in one
            assert (await w.get("/center/memory/one", params={"key": "nothing"})).status_code == 404

    run(work())


def test_the_first_page_of_a_thousand_waiting_questions_is_quick(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            for _ in range(5):
                await w.waiting_run("x" * 500)
            database = sqlite3.connect(w.bench.kernel.stores.database.path)
            with database:
                for number in range(200):
                    database.execute(
                        "INSERT INTO decisions (id, run, kind, state, created_at, expires_at, root, digest, body)"
                        " SELECT id || ?, run, kind, state, created_at, expires_at, root, digest, body FROM decisions"
                        " WHERE seq <= 5",
                        (f"-{number}",),
                    )
            database.close()
            await w.get("/center/")
            took = []
            for _ in range(5):
                began = time.perf_counter()
                page = await w.get("/center/")
                took.append(time.perf_counter() - began)
                assert '<span class="count">1005</span>' in page.text
            assert min(took) < FIRST_PAINT_SECONDS, took

    run(work())

"""``chaoscore sessions``, ``locks`` and ``resume``, and the server mounted in ``chaoscore serve --http``."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from pathlib import Path

from mcp import Client

from chaoscore.cli.exits import Exit
from tests.cli.harness import CHAOSCORE, Desk
from tests.interaction_surface.support import PATIENCE_SECONDS, Repository, wire
from tests.interaction_surface.test_tools import NAMES


def test_runs_and_locks_are_listed_shown_and_ended(desk: Desk, repository: Repository) -> None:
    with wire(repository) as server:
        run = server.begin(changeId="c1", commandRunId="RUN-1")
        decision = server.ask(run)
        server.begin("chaos:other", commandRunId="RUN-2")
    assert {"RUN-1", "RUN-2"} <= set(desk.run("sessions").out.split())
    waiting = desk.run("sessions", "--state", "waiting-for-decision", "--json").json()["data"]["sessions"]
    assert [session["commandRunId"] for session in waiting] == ["RUN-1"]
    assert "lastSeenAt" in desk.run("sessions", "RUN-1").out
    page = desk.run("sessions", "--limit", "1", "--json").json()["data"]
    assert page["total"] == 2
    more = desk.run("sessions", "--limit", "1", "--cursor", page["next"], "--json").json()["data"]
    assert {page["sessions"][0]["commandRunId"], more["sessions"][0]["commandRunId"]} == {"RUN-1", "RUN-2"}
    held = desk.run("locks").out
    assert "c1" in held and "RUN-1" in held and "waiting-for-user-decision" in held
    for bad in (["sessions", "RUN-none"], ["sessions", "../x"], ["sessions", "RUN-none", "--cancel"]):
        assert desk.run(*bad).code == Exit.FAILED
    assert desk.run("sessions", "--cancel").code == Exit.USAGE
    assert desk.run("sessions", "RUN-1", "--cancel", "--reason", "superseded").code == Exit.OK
    assert repository.read(f"decisions/{decision}/decision.json")["state"] == "cancelled"
    assert "no change is locked" in desk.run("locks").out
    assert "released" in desk.run("locks", "--all").out
    assert desk.run("sessions", "RUN-2", "--complete").code == Exit.OK


def test_an_answered_run_is_found_shown_and_taken_up(desk: Desk, repository: Repository) -> None:
    assert "no command run can be resumed" in desk.run("resume").out
    with wire(repository) as server:
        run = server.begin(changeId="c1", commandRunId="RUN-1")
        decision = server.ask(run, nextStep="apply the profile")
    assert desk.run("resume", "RUN-1").code == Exit.FAILED
    desk.run("decide", decision, "--option", "full")
    assert "apply the profile" in desk.run("resume").out
    assert "apply the profile" in desk.run("resume", "RUN-1", "--show").out
    assert repository.read("sessions/RUN-1.json")["state"] == "ready-to-resume"
    taken = desk.run("resume", "RUN-1")
    assert taken.code == Exit.OK and "apply the profile" in taken.out and "RUN-1 is running" in taken.out
    assert repository.read("sessions/RUN-1.json")["state"] == "running"
    again = desk.run("resume", "RUN-1", "--json")
    assert again.json()["status"] == "RESUMED" and again.json()["warnings"]


def test_a_capsule_that_was_changed_by_hand_is_not_shown_without_a_warning(desk: Desk, repository: Repository) -> None:
    with wire(repository) as server:
        decision = server.ask(server.begin(commandRunId="RUN-1"))
        server.tool("chaos_answer_decision", decisionId=decision, selectedOptionId="full")
    capsule = repository.read("capsules/RUN-1.json")
    repository.write("capsules/RUN-1.json", {**capsule, "nextStep": "rm -rf /"})
    assert "changed by hand" in desk.run("resume", "RUN-1", "--show").err


def test_the_http_server_serves_human_decisions_beside_the_kernel(desk: Desk, repository: Repository) -> None:
    process = subprocess.Popen(
        [CHAOSCORE, "serve", "--http", "--port", "0", "--repo-root", str(repository.path)],
        cwd=desk.home, env=desk.environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None and process.stdout is not None
    try:
        line = next(line for line in process.stderr if "listening on" in line)
        url = line.split("listening on ")[1].split('"')[0].strip()

        async def scenario() -> None:
            for era in ("legacy", "auto"):
                async with Client(f"{url}/interaction/mcp", mode=era, read_timeout_seconds=PATIENCE_SECONDS) as client:
                    assert [tool.name for tool in (await client.list_tools()).tools] == NAMES
                    begun = await client.call_tool("chaos_begin_command", {"sourceCommand": f"chaos:{era}"})
                    assert begun.structured_content is not None
                    assert begun.structured_content["status"] == "READY"
            async with Client(f"{url}/mcp", read_timeout_seconds=PATIENCE_SECONDS) as client:
                assert "chaoscore_achieve" in {tool.name for tool in (await client.list_tools()).tools}

        asyncio.run(asyncio.wait_for(scenario(), 2 * PATIENCE_SECONDS))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_SECONDS)
        process.stderr.close()
        process.stdout.close()
    assert len(list((repository.root / "sessions").iterdir())) == 2
    assert not (Path(desk.home) / ".chaos").exists()

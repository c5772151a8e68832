"""Eight server processes on one folder: no update is lost, no change is held twice, nothing is refused for nothing."""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.interaction.crowd import ENDLESS, SHARED, Client, Hold, Ledger
from tests.interaction.steps import faults
from tests.interaction_surface.support import Repository, wire

PROCESSES = 8
BUSY_SHARE_MAX = 0.01
RANK = {"waiting": 0, "answered": 1, "consumed": 2}


def crowd(place: Path, calls: int, seed: int) -> Ledger:
    """What ``calls`` calls of all clients together were told, when every server has ended well."""
    path = os.environ.get("PYTHONPATH")
    repository, ledger = Repository(place, {"PYTHONPATH": path} if path else {}), Ledger()
    with ExitStack() as stack:
        with ThreadPoolExecutor(PROCESSES) as starting:
            opened = [starting.submit(stack.enter_context, wire(repository)) for _ in range(PROCESSES)]
        servers = [each.result() for each in opened]
        begun = servers[0].tool("chaos_begin_command", sourceCommand="chaos:shared", commandRunId=SHARED)
        assert begun["status"] == "READY"
        servers[0].ask(SHARED, "Nobody answers this, so that others can be asked")
        clients = [Client(f"{number}", server, ledger, seed) for number, server in enumerate(servers)]

        def work(client: Client) -> None:
            try:
                for _ in range(calls // PROCESSES):
                    client.turn()
            except BaseException as error:
                ledger.faults.append(f"a client ended: {error!r}")
                raise

        threads = [threading.Thread(target=work, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [server.finish() for server in servers] == [(0, "")] * PROCESSES
    return ledger


def held_twice(holds: Iterable[Hold]) -> list[str]:
    """Changes that two runs surely held at the same moment."""
    sure = [hold for hold in holds if hold.since != ENDLESS]
    return [
        f"{one.change}: {one.run} and {other.run}"
        for one, other in combinations(sure, 2)
        if one.change == other.change and one.since < other.until and other.since < one.until
    ]


def refused_for_nothing(ledger: Ledger) -> list[str]:
    """Refusals while nobody else can have held the change, or given the other answer."""
    out = []
    for lost in ledger.lost_changes:
        others = [hold for hold in ledger.holds if hold.change == lost.about and hold.run != lost.name]
        if not any(hold.asked < lost.ended and lost.begun < hold.ended for hold in others):
            out.append(f"{lost.name} on {lost.about}: {lost.status}")
    for name, option in ledger.lost_races:
        if ledger.answers.get(name, option) == option and name not in ledger.consumed:
            out.append(f"{option} for {name}")
    return out


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def lost(root: Path, ledger: Ledger) -> list[str]:
    """What was acknowledged and does not stand in the folder."""
    out = [f"{run} was {state}" for run, state in ledger.runs.items() if session(root, run)["state"] != state]
    for name, run in ledger.questions.items():
        state = load(root / f"decisions/{name}/decision.json")["state"]
        told = "consumed" if name in ledger.consumed else "answered" if name in ledger.answers else "waiting"
        if state != told and ledger.runs.get(run) != "cancelled":
            out.append(f"{name} was {told} and is {state}")
    for name, option in ledger.answers.items():
        if load(root / f"decisions/{name}/response.json")["selectedOptionId"] != option:
            out.append(f"the answer to {name} was {option}")
    shared = session(root, SHARED)
    for key, names in {
        "active": {name for name in ledger.questions if name not in ledger.answers},
        "answered": ledger.answers.keys() - ledger.consumed,
        "consumed": ledger.consumed,
    }.items():
        of_shared = {name for name in names if ledger.questions[name] == SHARED}
        missing = of_shared - set(shared[f"{key}DecisionIds"])
        if missing:
            out.append(f"{SHARED} does not have {missing} among its {key} decisions")
    return out


def session(root: Path, run: str) -> dict[str, Any]:
    return load(root / f"sessions/{run}.json")


def events(root: Path, kind: str) -> Counter[str]:
    found = [json.loads(line) for line in (root / "audit.jsonl").read_text("utf-8").splitlines()]
    key = "decisionId" if kind.startswith("decision") else "commandRunId"
    return Counter(event[key] for event in found if event["eventType"] == kind)


def check(place: Path, calls: int, seed: int) -> None:
    ledger = crowd(place, calls, seed)
    root = place / "repo/.chaos/interactions"
    assert ledger.calls == calls and ledger.busy <= BUSY_SHARE_MAX * calls
    assert ledger.faults == []
    assert held_twice(ledger.holds) == []
    assert refused_for_nothing(ledger) == []
    assert lost(root, ledger) == []
    assert faults(root) == []

    active = Counter(lock["changeId"] for lock in load(root / "locks.json")["locks"] if lock["state"] == "active")
    assert set(active.values()) <= {1}
    holding = {hold.change for hold in ledger.holds if hold.since != ENDLESS and hold.ended == ENDLESS}
    assert active.keys() == holding

    asked, answered = events(root, "decision-created"), events(root, "decision-answered")
    assert set(asked.values()) == {1} and asked.keys() >= ledger.questions.keys()
    assert set(answered.values()) <= {1} and answered.keys() == ledger.answers.keys()
    assert events(root, "decision-consumed").keys() == ledger.consumed
    for kind, state in (("command-completed", "completed"), ("command-cancelled", "cancelled")):
        assert events(root, kind) == Counter(run for run, told in ledger.runs.items() if told == state)

    assert not (root / ".runtime.lock").exists() and not list(root.rglob(".*.tmp"))
    found = f"{len(ledger.questions)} questions, {len(ledger.answers)} answers"
    races = f"{len(ledger.lost_races)} answers and {len(ledger.lost_changes)} changes"
    print(f"\nseed {seed}: {calls} calls of {PROCESSES} processes, {ledger.busy} busy; {found}; {races} lost to others")


def test_eight_processes_lose_no_update_hold_no_change_twice_and_refuse_nothing_for_nothing(tmp_path: Path) -> None:
    check(tmp_path, 160, seed=1)


@pytest.mark.campaign
def test_two_thousand_mixed_calls_of_eight_processes(tmp_path: Path) -> None:
    check(tmp_path, 2_000, seed=random.SystemRandom().randrange(2**32))

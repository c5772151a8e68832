"""``chaoscore audit verify`` shows that every effect is accounted for, and names the first that is not."""

from __future__ import annotations

import json
import sqlite3

import pytest

from tests.cli.harness import INDEX_PLAN, Desk
from tests.contracts.forging import taken_out


def place_of(desk: Desk, kind: str) -> int:
    """The newest event of this kind."""
    with sqlite3.connect(desk.data / "chaoscore.db") as database:
        rows = database.execute("SELECT seq, body FROM audit ORDER BY seq").fetchall()
    database.close()
    return max(int(seq) for seq, body in rows if json.loads(body)["kind"] == kind)


def the_main_job(desk: Desk) -> None:
    desk.documents()
    done = desk.run("achieve", "--plan", str(INDEX_PLAN), "--root", ".", "--yes")
    assert done.code == 0, done.err


def test_the_effects_of_a_run_are_accounted_for(desk: Desk) -> None:
    the_main_job(desk)
    done = desk.run("audit", "verify")
    assert done.code == 0 and "the audit is whole" in done.out
    assert "everything is accounted for: 1 run, 7 effects, 1 of them approved" in done.out
    answer = desk.run("audit", "verify", "--json").json()
    assert answer["ok"] is True
    assert answer["mediation"] == {"ok": True, "runs": 1, "effects": 7, "approvals": 1, "fault": None}


def test_an_audit_without_a_run_accounts_for_nothing_and_holds(desk: Desk) -> None:
    assert desk.run("memory", "set", "k", "v").code == 0
    done = desk.run("audit", "verify")
    assert done.code == 0 and "everything is accounted for: 0 runs, 0 effects" in done.out


@pytest.mark.parametrize(
    ("kind", "missed_by", "says"),
    [
        ("grant-given", "intent-recorded", "was not given in this run before it"),
        ("verdict-given", "intent-recorded", "the policy was not asked again after grant"),
        ("intent-recorded", "action-succeeded", "no intent began this attempt"),
    ],
)
def test_the_first_event_that_lacks_what_it_rests_on_is_named(kind: str, missed_by: str, says: str, desk: Desk) -> None:
    the_main_job(desk)
    place = place_of(desk, kind)
    taken_out(desk.data, place)
    done = desk.run("audit", "verify")
    assert done.code == 1 and "the audit is whole" in done.out, "the chain was made anew with its key"
    assert f"({missed_by}, run r-" in done.err and "step save" in done.err and says in done.err
    answer = desk.run("audit", "verify", "--json").json()
    assert (answer["ok"], answer["fault"], answer["mediation"]["ok"]) == (False, None, False)
    fault = answer["mediation"]["fault"]
    assert (fault["kind"], fault["step"], fault["item"]) == (missed_by, "save", None)
    assert f"event {fault['event']} (" in done.err


def test_a_goal_does_not_end_well_where_the_audit_does_not_account_for_every_effect(desk: Desk) -> None:
    the_main_job(desk)
    taken_out(desk.data, place_of(desk, "grant-given"))
    done = desk.run("achieve", "--plan", str(INDEX_PLAN), "--root", ".", "--yes", "--json")
    answer = done.json()
    assert done.code == 1 and answer["audit"]["verified"] is False
    assert "(intent-recorded, run r-" in str(answer["audit"]["fault"])
    told = desk.run("achieve", "--plan", str(INDEX_PLAN), "--root", ".", "--yes")
    assert told.code == 1 and "NOT ACCOUNTED FOR: event" in told.out


def test_a_broken_chain_says_that_only_what_came_before_is_accounted_for(desk: Desk) -> None:
    the_main_job(desk)
    with sqlite3.connect(desk.data / "chaoscore.db") as database:
        database.execute("DROP TRIGGER audit_is_never_changed")
        database.execute("UPDATE audit SET mac = 'x' WHERE seq = (SELECT max(seq) FROM audit)")
    database.close()
    done = desk.run("audit", "verify")
    assert done.code == 1 and "the audit is not whole" in done.err
    assert "everything before that is accounted for: 1 run, 7 effects" in done.out

"""The auditor: from what was acknowledged it predicts what must stand in the folder, and says what does not.

It reads files and tables of its own and shares no code with what writes or heals them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Document = dict[str, Any]  # as json.loads gives it

# Which states may follow, by however many steps; written again from the shared contract.
_NEXT = {
    "session": {
        "created": "running waiting-for-decision ready-to-resume resumed completed cancelled expired failed",
        "running": "waiting-for-decision ready-to-resume resumed completed cancelled expired failed",
        "waiting-for-decision": "ready-to-resume resumed running completed cancelled expired failed",
        "ready-to-resume": "resumed running waiting-for-decision completed cancelled expired failed",
        "resumed": "running waiting-for-decision ready-to-resume completed cancelled expired failed",
    },
    "decision": {
        "created": "waiting answered consumed cancelled expired superseded",
        "waiting": "answered consumed cancelled expired superseded",
        "answered": "consumed superseded",
    },
    "lock": {"active": "released expired"},
}
OVER = ("completed", "cancelled", "expired", "failed")
_AFTER_ANSWER = ("answered", "consumed", "superseded")


class Wrong(AssertionError):
    """Something that must be true is not."""


class View:
    """The folder as it stands. Raises ``Wrong`` for a document that is not whole."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sessions = {path.stem: _load(path) for path in sorted(root.glob("sessions/*.json"))}
        self.decisions = {path.parent.name: _load(path) for path in sorted(root.glob("decisions/*/decision.json"))}
        self.responses = {path.parent.name: _load(path) for path in sorted(root.glob("decisions/*/response.json"))}
        self.capsules = {path.stem: _load(path) for path in sorted(root.glob("capsules/*.json"))}
        table = _load(root / "locks.json") if (root / "locks.json").exists() else {"locks": []}
        self.locks: list[Document] = table["locks"]

    def says(self, token: str) -> bool:
        """Whether any primary document carries the token."""
        documents = [*self.sessions.values(), *self.decisions.values(), *self.responses.values()]
        return any(token in json.dumps(document) for document in documents)

    def waiting(self) -> list[Document]:
        return [decision for decision in self.decisions.values() if decision["state"] == "waiting"]


class Auditor:
    """``overwritten`` names decisions whose unadopted response another program wrote over, as the original does."""

    def __init__(self, root: Path, overwritten: set[str]) -> None:
        self.root = root
        self._overwritten = overwritten
        self._half: set[str] = set()
        self._begun: set[str] = set()
        self._asked: set[str] = set()
        self._ended: dict[str, str] = {}
        self._answers: dict[str, str] = {}
        self._consumed: set[str] = set()
        self._states: dict[tuple[str, str], str] = {}
        self._given: dict[str, Document] = {}

    # ----------------------------------------------------------------------- what was acknowledged

    def begun(self, run: str) -> None:
        if run in self._ended or self._states.get(("session", run)) in OVER:
            raise Wrong(f"{run} is over and was begun again")
        self._begun.add(run)

    def asked(self, decision: str) -> None:
        self._asked.add(decision)

    def answered(self, decision: str, option: str, half: bool) -> None:
        """``half``: it came with the warning that something behind the response could not be written."""
        if half and decision not in self._answers:
            self._half.add(decision)
        before = self._answers.setdefault(decision, option)
        if before != option:
            raise Wrong(f"{decision} was answered with {before!r} and then with {option!r}")

    def consumed(self, decision: str) -> None:
        if not (self.root / f"decisions/{decision}/response.json").exists():
            raise Wrong(f"{decision} was consumed without an answer")
        self._consumed.add(decision)

    def ended(self, run: str, state: str) -> None:
        if self._ended.setdefault(run, state) != state:
            raise Wrong(f"{run} ended as {self._ended[run]} and then as {state}")

    # ------------------------------------------------------------------------- what must hold always

    def always(self) -> View:
        """After every step, whatever died or failed in it."""
        view = View(self.root)
        faults = [*self._kept(view), *self._moved_on(view), *self._frozen(view)]
        if faults:
            raise Wrong("; ".join(faults))
        return view

    def _kept(self, view: View) -> Iterable[str]:
        for run in self._begun - view.sessions.keys():
            yield f"session {run} is gone"
        for name in self._asked - view.decisions.keys():
            yield f"decision {name} is gone"
        for run, state in self._ended.items():
            if view.sessions[run]["state"] != state:
                yield f"{run} was {state} and is {view.sessions[run]['state']}"
        for name in self._half & self._overwritten:
            self._answers.pop(name, None)
        for name, option in self._answers.items():
            response, state = view.responses.get(name), view.decisions[name]["state"]
            if response is None or response["selectedOptionId"] != option:
                yield f"the answer {option!r} to {name} was acknowledged and is {response}"
            if state not in _AFTER_ANSWER and not (name in self._half and state == "waiting"):
                yield f"{name} was answered and is {state}"
        for name in self._consumed:
            if view.decisions[name]["state"] != "consumed":
                yield f"{name} was consumed and is {view.decisions[name]['state']}"

    def _moved_on(self, view: View) -> Iterable[str]:
        """Nobody may go back, nor on from an end."""
        found: list[tuple[str, str, str]] = []
        found += [("session", run, session["state"]) for run, session in view.sessions.items()]
        found += [("decision", name, decision["state"]) for name, decision in view.decisions.items()]
        for kind, name, state in found:
            before: str = self._states.get((kind, name), state)
            if state != before and state not in _NEXT[kind].get(before, "").split():
                yield f"{kind} {name} went from {before} to {state}"
            self._states[kind, name] = state

    def _frozen(self, view: View) -> Iterable[str]:
        """An answer stands as it was when it first counted."""
        for name, decision in view.decisions.items():
            if decision["state"] not in ("answered", "consumed"):
                continue
            response = view.responses.get(name)
            if response is None:
                yield f"{name} is {decision['state']} without a response"
            elif self._given.setdefault(name, response) != response:
                yield f"the answer to {name} changed from {self._given[name]} to {response}"

    # ---------------------------------------------------------------- what must hold after healing

    def healed(self, foreign_changes: set[str]) -> None:
        """After a call that healed on a sound disk. On ``foreign_changes`` others have made locks of their own."""
        view = self.always()
        faults = [
            *self._waiting(view), *self._locked(view, foreign_changes), *self._settled(view), *self._followed(view),
            *self._pointer(view),
        ]  # fmt: skip
        if faults:
            raise Wrong("; ".join(faults))

    def _waiting(self, view: View) -> Iterable[str]:
        for decision in view.waiting():
            name: str = decision["decisionId"]
            owner = view.sessions.get(str(decision["commandRunId"]))
            response = view.responses.get(name)
            options = [option["id"] for option in decision["options"]]
            late = response is not None and decision["expiresAt"] is not None
            if response is not None and response["selectedOptionId"] in options and not late:
                yield f"{name} waits beside a good answer"
            if owner is None:
                continue
            if owner["state"] in OVER:
                yield f"{name} waits although {owner['commandRunId']} is {owner['state']}"
            elif owner["state"] != "waiting-for-decision" or name not in owner["activeDecisionIds"]:
                yield f"{name} waits but {owner['commandRunId']} is {owner['state']}: {owner['activeDecisionIds']}"
            named = [lock for lock in view.locks if name in lock["blockingDecisionIds"]]
            let_go = any(lock["state"] != "active" for lock in named)
            if decision["changeId"] and not let_go and not named:
                yield f"{name} waits without a lock on {decision['changeId']}"

    def _locked(self, view: View, foreign_changes: set[str]) -> Iterable[str]:
        held: dict[str, str] = {}
        for lock in view.locks:
            if lock["state"] != "active":
                continue
            owner = view.sessions.get(lock["lockedByCommandRunId"])
            if owner is not None and owner["state"] in OVER:
                yield f"{lock['lockId']} is held by {owner['commandRunId']}, which is {owner['state']}"
            other = held.setdefault(lock["changeId"], lock["lockId"])
            if other != lock["lockId"] and lock["changeId"] not in foreign_changes:
                yield f"{lock['changeId']} is locked twice: {other} and {lock['lockId']}"

    def _settled(self, view: View) -> Iterable[str]:
        for run, session in view.sessions.items():
            mine = [decision for decision in view.decisions.values() if decision["commandRunId"] == run]
            if session["state"] in OVER or not mine:
                continue
            lists = {"active": "waiting", "answered": "answered", "consumed": "consumed"}
            for key, state in lists.items():
                want = {decision["decisionId"] for decision in mine if decision["state"] == state}
                if want != set(session[f"{key}DecisionIds"]):
                    yield f"{run} says {key} {session[f'{key}DecisionIds']}, its decisions say {want}"
            if session["state"] == "waiting-for-decision" and not session["activeDecisionIds"]:
                yield f"{run} waits for nothing"

    def _followed(self, view: View) -> Iterable[str]:
        """On disk while the run goes on; of one that is over, ``shown`` tells."""
        for run, capsule in view.capsules.items():
            session = view.sessions[run]
            if session["state"] in OVER:
                continue
            state = session["state"] if session["state"] not in ("created", "running") else "waiting-for-decision"
            if capsule["state"] != state:
                yield f"the capsule of {run} is {capsule['state']}, its session {session['state']}"
            for key in ("answeredDecisionIds", "consumedDecisionIds"):
                if capsule[key] != session[key]:
                    yield f"the capsule of {run} has {key} {capsule[key]}, its session {session[key]}"

    def _pointer(self, view: View) -> Iterable[str]:
        """What a stop hook reads from disk."""
        path = self.root / "active.json"
        waiting = sorted(decision["decisionId"] for decision in view.waiting())
        ready = sorted(run for run, session in view.sessions.items() if session["state"] == "ready-to-resume")
        if not path.exists():
            if waiting or ready:
                yield f"active.json is missing while {waiting} wait and {ready} are ready"
            return
        pointer = _load(path)
        if sorted(pointer["pendingDecisionIds"]) != waiting:
            yield f"active.json says pending {pointer['pendingDecisionIds']}, but {waiting} wait"
        if sorted(pointer["readyToResumeCommandRunIds"]) != ready:
            yield f"active.json says ready {pointer['readyToResumeCommandRunIds']}, but {ready} are"

    def shown(self, run: str, capsule: Document) -> None:
        """What a capsule says when it is asked for, by whomever its run was ended."""
        state = View(self.root).sessions[run]["state"]
        if state in OVER and capsule["state"] != state:
            raise Wrong(f"the capsule of {run} is shown as {capsule['state']}, but its run is {state}")

    def at_the_end(self) -> None:
        """After everybody was let go on: nothing waits, nothing is held, everything is over."""
        view = self.always()
        left = [run for run, session in view.sessions.items() if session["state"] not in OVER]
        held = [lock["lockId"] for lock in view.locks if lock["state"] == "active"]
        waiting = [decision["decisionId"] for decision in view.waiting()]
        if left or held or waiting:
            raise Wrong(f"no progress: unfinished {left}, held {held}, waiting {waiting}")


def _load(path: Path) -> Document:
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise Wrong(f"{path.name} in {path.parent.name} is not whole: {error}") from None
    if not isinstance(document, dict):
        raise Wrong(f"{path.name} in {path.parent.name} is no object")
    return document

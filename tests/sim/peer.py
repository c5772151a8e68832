"""Another program on the folder, written from the shared format alone: it does what the original server, its panel and
a human with an editor do, one file after the other, and may die after any of them.

It takes ``.runtime.lock`` when that is free, steals it as the original's faults do, and leaves it behind when it dies.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from chaoscore.domain.interaction.names import instant_text
from chaoscore.domain.json import Json
from tests.sim.world import VirtualClock

NOBODY = 4_194_304  # one more than any process id
Document = dict[str, Json]
Writes = Iterator[None]


class Peer:
    """``say`` gets a line for each thing done."""

    def __init__(self, root: Path, clock: VirtualClock, dice: random.Random, say: Callable[[str], None]) -> None:
        self.root = root
        self._clock = clock
        self._dice = dice
        self._say = say
        self._count = 0
        self._stale_table: Document | None = None
        self.locked_changes: set[str] = set()
        self.overwritten: set[str] = set()
        self._touched: list[tuple[str | None, str | None]] = []

    # ------------------------------------------------------------------------------- how it works

    def act(self, steal: bool = False) -> None:
        """One operation under the lock, or none when somebody holds it; now and then it dies in the middle."""
        lock = self.root / ".runtime.lock"
        if not self.root.is_dir():
            return
        if steal:
            lock.unlink(missing_ok=True)
        try:
            fd = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            if not self._left_by_the_dead(lock):
                return
            lock.unlink()
            fd = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.write(fd, json.dumps({"pid": NOBODY, "at": int(self._clock.now() * 1000)}).encode())
        os.close(fd)
        lives = self._dice.randint(1, 4) if self._dice.random() < 0.25 else 99
        for _ in self._operation():
            lives -= 1
            if lives == 0:
                self._say("peer died")
                return
        self._log()
        lock.unlink(missing_ok=True)

    def read_table(self) -> None:
        """The first half of a lost update of ``locks.json``."""
        self._stale_table = self._read("locks.json")

    def write_table(self) -> None:
        """The second half: what stood there before, with one entry more."""
        if not self.root.is_dir():
            return
        table = self._stale_table or {"schemaVersion": 1, "locks": [], "updatedAt": self._now()}
        self._stale_table = None
        self.locked_changes |= {str(lock["changeId"]) for lock in _items(table, "locks") if lock["state"] == "active"}
        self._add_lock(table, f"theirs-{self._next()}", "RUN-elsewhere", [])
        self._write("locks.json", table)
        self._say("peer wrote a table of locks that it had read before")

    def let_go(self) -> None:
        """The human releases every lock of a run that does not exist here."""
        table = self._read("locks.json")
        for lock in _items(table, "locks") if table is not None else ():
            if lock["state"] == "active" and not (self.root / f"sessions/{lock['lockedByCommandRunId']}.json").exists():
                lock.update(state="released", releasedAt=self._now())
        if table is not None:
            self._write("locks.json", table)

    def _left_by_the_dead(self, lock: Path) -> bool:
        try:
            return bool(json.loads(lock.read_bytes())["pid"] == NOBODY)
        except (OSError, ValueError, KeyError):
            return True

    def _operation(self) -> Writes:
        return self._dice.choice((self._answer, self._answer, self._ask, self._cancel, self._hold, self._leave))()

    # --------------------------------------------------------------------------------- operations

    def _answer(self) -> Writes:
        """As the panel does: response, decision, then session."""
        waiting = self._all("decisions/*/decision.json", "waiting")
        if not waiting:
            return
        decision = self._dice.choice(waiting)
        name, run = decision["decisionId"], str(decision["commandRunId"])
        options = _items(decision, "options")
        self._respond(decision, str(self._dice.choice(options)["id"]))
        self._say(f"peer answered {name}")
        yield
        self._write(f"decisions/{name}/decision.json", {**decision, "state": "answered"})
        yield
        session = self._read(f"sessions/{run}.json")
        if session is None:
            return
        active = [other for other in _names(session, "activeDecisionIds") if other != name]
        session["activeDecisionIds"] = [*active]
        session["answeredDecisionIds"] = [*_names(session, "answeredDecisionIds"), name]
        if not active and session["state"] == "waiting-for-decision":
            session["state"] = "ready-to-resume"
        self._write(f"sessions/{run}.json", session)
        yield

    def _leave(self) -> Writes:
        """A response by hand, sometimes one that does not fit its question."""
        waiting = self._all("decisions/*/decision.json", "waiting")
        if not waiting:
            return
        decision = self._dice.choice(waiting)
        name, option = decision["decisionId"], str(self._dice.choice(_items(decision, "options"))["id"])
        option = self._dice.choice((option, option, "no-such-option"))
        self._respond(decision, option)
        self._say(f"peer left a response beside {name}: {option}")
        yield

    def _ask(self) -> Writes:
        number = self._next()
        run, name, change = f"RUN-theirs-{number}", f"DEC-theirs-{number}", f"c{self._dice.randrange(4)}"
        table = self._read("locks.json") or {"schemaVersion": 1, "locks": [], "updatedAt": self._now()}
        if any(lock["changeId"] == change and lock["state"] == "active" for lock in _items(table, "locks")):
            return
        session: Document = {
            "schemaVersion": 1, "commandRunId": run, "sourceCommand": "chaos:theirs", "changeId": change,
            "adapter": "unknown", "state": "running", "requestedMode": None, "activeDecisionIds": [],
            "answeredDecisionIds": [], "consumedDecisionIds": [], "lastCompletedStep": None, "nextStep": None,
            "lockIds": [], "resumeCapsulePath": None, "createdAt": self._now(), "lastSeenAt": self._now(),
            "expiresAt": None, "metadata": {},
        }  # fmt: skip
        self._write(f"sessions/{run}.json", session)
        self._say(f"peer began {run} on {change}")
        yield
        self._write(f"decisions/{name}/decision.json", self._question(name, run, change))
        yield
        self.locked_changes.add(change)
        self._add_lock(table, change, run, [name])
        self._write("locks.json", table)
        yield
        session.update(state="waiting-for-decision", activeDecisionIds=[name])
        self._write(f"sessions/{run}.json", session)
        yield

    def _cancel(self) -> Writes:
        waiting = self._all("sessions/*.json", "waiting-for-decision")
        if not waiting:
            return
        session = self._dice.choice(waiting)
        run = session["commandRunId"]
        for decision in self._all("decisions/*/decision.json", "waiting"):
            if decision["commandRunId"] == run:
                self._write(f"decisions/{decision['decisionId']}/decision.json", {**decision, "state": "cancelled"})
                yield
        table = self._read("locks.json")
        for lock in _items(table, "locks") if table is not None else ():
            if lock["lockedByCommandRunId"] == run and lock["state"] == "active":
                lock.update(state="released", releasedAt=self._now())
        if table is not None:
            self._write("locks.json", table)
            yield
        self._write(f"sessions/{run}.json", {**session, "state": "cancelled"})
        self._say(f"peer cancelled {run}")
        yield

    def _hold(self) -> Writes:
        """A lock made or released by hand."""
        table = self._read("locks.json") or {"schemaVersion": 1, "locks": [], "updatedAt": self._now()}
        active = [lock for lock in _items(table, "locks") if lock["state"] == "active"]
        if active and self._dice.random() < 0.6:
            lock = self._dice.choice(active)
            lock.update(state="released", releasedAt=self._now())
            self._say(f"a human released {lock['lockId']}")
        else:
            change = f"c{self._dice.randrange(4)}"
            self.locked_changes.add(change)
            self._add_lock(table, change, "RUN-elsewhere", [])
            self._say(f"a human holds {change}")
        self._write("locks.json", table)
        yield

    # -------------------------------------------------------------------------------- documents

    def _question(self, name: str, run: str, change: str) -> Document:
        option: Document = {"description": None, "consequence": None, "risk": None, "recommended": False}
        return {
            "schemaVersion": 1, "decisionId": name, "commandRunId": run, "changeId": change,
            "sourceCommand": "chaos:theirs", "interactionType": "single-choice-decision", "state": "waiting",
            "title": f"Theirs {name}", "context": "Because.", "recommendation": None, "recommendedOptionId": None,
            "options": [{"id": "a", "label": "A", **option}, {"id": "b", "label": "B", **option}],
            "requiresRationale": False, "independent": False, "blocks": [], "unlocksOn": {}, "createdAt": self._now(),
            "expiresAt": None, "createdBy": "theirs", "metadata": {},
        }  # fmt: skip

    def _respond(self, decision: Document, option: str) -> None:
        """The original writes over a response that stands beside a waiting decision."""
        name = str(decision["decisionId"])
        if (self.root / f"decisions/{name}/response.json").exists():
            self.overwritten.add(name)
        self._write(f"decisions/{name}/response.json", self._response(decision, option))

    def _response(self, decision: Document, option: str) -> Document:
        return {
            "schemaVersion": 1, "decisionId": decision["decisionId"], "commandRunId": decision["commandRunId"],
            "selectedOptionId": option, "selectedOptionIds": [], "freeformValue": None,
            "rationale": f"said {self._next()}", "selectedBy": "panel", "selectedAt": self._now(),
            "source": "vscode-decision-center", "validatesAgainstDecisionHash": None, "metadata": {},
        }  # fmt: skip

    def _add_lock(self, table: Document, change: str, run: str, blocking: list[Json]) -> None:
        lock: Document = {
            "schemaVersion": 1, "lockId": f"LOCK-theirs-{self._next()}", "changeId": change,
            "lockedByCommandRunId": run, "lockedByCommand": "chaos:theirs",
            "reason": "waiting-for-user-decision" if blocking else "manual-hold", "state": "active",
            "blockingDecisionIds": blocking, "compatibleCommands": [], "createdAt": self._now(), "expiresAt": None,
            "releasedAt": None, "metadata": {},
        }  # fmt: skip
        table["locks"] = [*_items(table, "locks"), lock]

    def _all(self, pattern: str, state: str) -> list[Document]:
        found = [json.loads(path.read_bytes()) for path in sorted(self.root.glob(pattern))]
        return [document for document in found if document["state"] == state]

    def _log(self) -> None:
        """One audit line naming everything that this operation wrote, as every state change of the original has."""
        with (self.root / "audit.jsonl").open("a", encoding="utf-8") as log:
            for run, decision in self._touched:
                event: Document = {
                    "schemaVersion": 1, "eventId": f"EVT-theirs-{self._next()}", "eventType": "runtime-warning",
                    "commandRunId": run, "decisionId": decision, "changeId": None, "timestamp": self._now(),
                    "actor": None, "source": "chaos-command", "message": "Theirs.", "data": {},
                }  # fmt: skip
                log.write(json.dumps(event) + "\n")
        self._touched.clear()

    def _read(self, relative: str) -> Document | None:
        path = self.root / relative
        if not path.exists():
            return None
        document: Document = json.loads(path.read_bytes())
        return document

    def _write(self, relative: str, document: Document) -> None:
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / f".{path.name}.{NOBODY}.{self._next()}.tmp"
        temporary.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
        temporary.rename(path)
        kind, _, rest = relative.partition("/")
        if kind == "sessions":
            self._touched.append((rest.removesuffix(".json"), None))
        elif kind == "decisions":
            self._touched.append((None, rest.partition("/")[0]))

    def _now(self) -> str:
        return instant_text(int(self._clock.now() * 1000))

    def _next(self) -> int:
        self._count += 1
        return self._count


def _items(document: Document, key: str) -> list[Document]:
    found = document[key]
    assert isinstance(found, list)
    return [item for item in found if isinstance(item, dict)]


def _names(document: Document, key: str) -> list[str]:
    found = document[key]
    assert isinstance(found, list)
    return [str(item) for item in found]

"""The folder read once: small facts about every document, and what is wrong with its form.

Facts are all that later probes look at, so a folder of a hundred thousand documents is gone through without keeping
them. Ids are looked up by hash; nothing is compared with everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from chaoscore.app.interaction_doctor.evidence import Document, Evidence, Kind
from chaoscore.app.interaction_doctor.report import Finding, Todo
from chaoscore.domain.interaction import fields
from chaoscore.domain.interaction.decision import Decision
from chaoscore.domain.interaction.digest import verify_content
from chaoscore.domain.interaction.lock import Lock
from chaoscore.domain.interaction.names import LOCKS_PATH
from chaoscore.domain.interaction.response import Response, adoption_fault, hash_fault
from chaoscore.domain.interaction.session import Session
from chaoscore.domain.json import Json, JsonObject, is_array, is_object

T = TypeVar("T")
CATEGORY = "artifact-validation"


@dataclass(frozen=True, slots=True)
class SessionFacts:
    run: str
    path: str
    state: str
    change: str | None
    is_terminal: bool
    expires_at: str | None


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    """``answer_fault`` is why the response beside it does not fit, ``None`` when it does or there is none."""

    name: str
    path: str
    state: str
    run: str
    change: str | None
    title: str
    created_at: str
    expires_at: str | None
    has_response: bool
    answer_fault: str | None
    hash_fault: str | None


@dataclass(frozen=True, slots=True)
class CapsuleFacts:
    run: str
    path: str
    change: str | None
    next_step: str | None
    seal: str
    answered: tuple[str, ...]
    consumed: tuple[str, ...]
    artifacts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunnerFacts:
    name: str
    path: str
    state: str
    run: str | None
    lease_expires_at: str | None


@dataclass(slots=True)
class Survey:
    """Everything by id, in enumeration order. ``faults`` are findings about single files."""

    sessions: dict[str, SessionFacts] = field(default_factory=dict)
    decisions: dict[str, DecisionFacts] = field(default_factory=dict)
    capsules: dict[str, CapsuleFacts] = field(default_factory=dict)
    runners: dict[str, RunnerFacts] = field(default_factory=dict)
    locks: list[Lock] = field(default_factory=list)
    by_run: dict[str, list[DecisionFacts]] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)
    locks_readable: bool = True
    checked: int = 0
    malformed: int = 0
    faults: list[Finding] = field(default_factory=list)

    def knows_session(self, run: str) -> bool:
        """Whether something by that name is there, understood or not."""
        return run in self.sessions or f"session {run}" in self.unreadable

    def knows_decision(self, name: str) -> bool:
        return name in self.decisions or f"decision {name}" in self.unreadable


def survey(evidence: Evidence, now_ms: int, validate: bool) -> Survey:
    out = Survey()
    reader = _Reader(evidence, out, validate)
    for document in evidence.documents("session"):
        session = reader.read("session", document, Session.from_json)
        if session is not None:
            out.sessions[document.name] = SessionFacts(
                document.name,
                document.path,
                session.state,
                session.change_id,
                session.is_terminal,
                session.expires_at,
            )
    responses = {
        document.name: reader.read("response", document, Response.from_json)
        for document in evidence.documents("response")
    }
    for document in evidence.documents("decision"):
        facts = reader.read("decision", document, partial(_decision, document, responses, now_ms))
        if facts is not None:
            out.decisions[facts.name] = facts
            out.by_run.setdefault(facts.run, []).append(facts)
    for document in evidence.documents("capsule"):
        capsule = reader.read("capsule", document, partial(_capsule, document))
        if capsule is not None:
            out.capsules[document.name] = capsule
    _locks(evidence, out, reader)
    for document in evidence.documents("runner"):
        lease = document.value
        if document.problem is not None or not is_object(lease):
            out.malformed += 1
            out.unreadable.add(f"runner {document.path}")
            continue
        out.runners[document.name] = RunnerFacts(
            document.name,
            document.path,
            _text(lease, "state") or "unknown",
            _text(lease, "commandRunId"),
            _text(lease, "leaseExpiresAt"),
        )
    return out


class _Reader:
    def __init__(self, evidence: Evidence, out: Survey, validate: bool) -> None:
        self._evidence = evidence
        self._out = out
        self._validate = validate

    def read(self, kind: Kind, document: Document, parse: Callable[[Json], T]) -> T | None:
        """What the document says, or ``None`` with a finding."""
        out = self._out
        out.checked += 1
        if document.problem is not None:
            self.malformed(kind, document, document.problem)
            return None
        if self._validate:
            found = self._evidence.violations("resume-capsule" if kind == "capsule" else kind, document.value)
            if found:
                lines = tuple(f"{violation.path or '(root)'}: {violation.message}" for violation in found[:10])
                out.faults.append(self._finding("INVALID", document, "does not follow its schema", lines))
        try:
            return parse(document.value)
        except fields.WrongShape as error:
            self.malformed(kind, document, str(error))
        except RecursionError:
            self.malformed(kind, document, "it is nested too deeply")
        return None

    def malformed(self, kind: str, document: Document, why: str) -> None:
        self._out.malformed += 1
        self._out.unreadable.add(f"{kind} {document.name}")
        self._out.faults.append(self._finding("MALFORMED", document, "cannot be understood", (why,)))

    def _finding(self, what: str, document: Document, title: str, why: tuple[str, ...]) -> Finding:
        shown = self._evidence.shown(document.path)
        return Finding(
            f"IR-ARTIFACT-{what}-{_basename(document.path)}",
            "ERROR",
            CATEGORY,
            f"{_basename(document.path)} {title}",
            f"{shown} {title}: {why[0]}",
            (shown, *why),
            (shown,),
            ("repair the file by hand or restore it from version control; nothing overwrites it",),
            Todo(
                f"Repair {shown}",
                shown,
                (document.name,),
                "artifact",
                "HIGH",
                f"repair or remove {shown}",
                (f"{shown} is read without complaint",),
            ),
        )


def _decision(document: Document, responses: Mapping[str, Response | None], now_ms: int, value: Json) -> DecisionFacts:
    decision = Decision.from_json(value)
    response = responses.get(document.name)
    answer_fault = mismatch = None
    if response is not None and decision.state == "waiting":
        answer_fault = adoption_fault(decision, response, now_ms)
    elif response is not None and decision.state in ("answered", "consumed"):
        mismatch = hash_fault(decision, response.decision_hash)
        if response.decision_id != document.name:
            mismatch = "it names another decision"
        elif response.command_run_id != decision.command_run_id:
            mismatch = "it names another command run"
    return DecisionFacts(
        document.name,
        document.path,
        decision.state,
        decision.command_run_id,
        decision.change_id,
        decision.title[:200],
        decision.created_at,
        decision.expires_at,
        document.name in responses,
        answer_fault,
        mismatch,
    )


def _capsule(document: Document, value: Json) -> CapsuleFacts:
    capsule = fields.required_object(value, "a capsule")
    return CapsuleFacts(
        document.name,
        document.path,
        _text(capsule, "changeId"),
        _text(capsule, "nextStep"),
        verify_content(capsule),
        _texts(capsule, "answeredDecisionIds"),
        _texts(capsule, "consumedDecisionIds"),
        _texts(capsule, "requiredArtifacts"),
    )


def _locks(evidence: Evidence, out: Survey, reader: _Reader) -> None:
    document = evidence.document(LOCKS_PATH)
    if document is None:
        return
    if document.problem is not None:
        out.locks_readable = False
        reader.malformed("locks", document, document.problem)
        return
    raw = document.value.get("locks") if is_object(document.value) else None
    shown = evidence.shown(LOCKS_PATH)
    if not is_array(raw):
        out.locks_readable = False
        out.faults.append(
            Finding(
                "IR-ARTIFACT-LOCKS-SHAPE",
                "WARN",
                CATEGORY,
                "locks.json has no list of locks",
                f"{shown}: 'locks' is not a list, so nobody can tell which changes are held",
                (shown,),
                (shown,),
                ("repair the file by hand or restore it from version control",),
            )
        )
        return
    for position, item in enumerate(raw):
        try:
            lock = Lock.from_json(item)
        except fields.WrongShape as error:
            out.malformed += 1
            out.locks_readable = False
            out.faults.append(
                Finding(
                    f"IR-ARTIFACT-LOCK-INVALID-{position}",
                    "ERROR",
                    CATEGORY,
                    "a lock cannot be understood",
                    f"{shown}, lock {position}: {error}",
                    (shown,),
                    (shown,),
                    ("repair that element; until then the whole table is left as it is",),
                )
            )
            continue
        out.locks.append(lock)
        for violation in evidence.violations("lock", item)[:1]:
            out.faults.append(
                Finding(
                    f"IR-ARTIFACT-LOCK-INVALID-{lock.lock_id[:80]}",
                    "ERROR",
                    CATEGORY,
                    "a lock does not follow its schema",
                    f"{shown}, lock {lock.lock_id!r}: {violation.path or '(root)'}: {violation.message}",
                    (shown,),
                    (shown,),
                    ("repair that element: every peer refuses to write the table while it stands there",),
                )
            )


def _text(document: JsonObject, key: str) -> str | None:
    value = document.get(key)
    return value if isinstance(value, str) and value else None


def _texts(document: JsonObject, key: str) -> tuple[str, ...]:
    value = document.get(key)
    return tuple(item for item in value if isinstance(item, str)) if is_array(value) else ()


def _basename(path: str) -> str:
    """Of a decision's files with the decision, because they are all called alike."""
    parts = path.split("/")
    return "/".join(parts[1:]) if parts[0] == "decisions" else parts[-1]

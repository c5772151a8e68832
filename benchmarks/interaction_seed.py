"""Finished sessions in the shared format, written fast: what a folder looks like after years of work.

``seed`` writes real files, each the way a peer leaves it: a completed session with its consumed decision and answer,
its capsule, a released lock, the audit lines, and the derived files in step. Nothing is synced: it is test data.
"""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from chaoscore.adapters.files.interaction.fileops import FileOps
from chaoscore.adapters.files.interaction.schemas import seed as seed_schemas

FIRST = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_AT, _CHANGE, _RUN, _DECISION, _LOCK, _EVENT, _SEAL = (
    "@at@",
    "@change@",
    "@run@",
    "@decision@",
    "@lock@",
    "@event@",
    "@seal@",
)
CONTEXT = "Pick the execution profile for this change. " * 4
_NOT_SAID = {"consequence": None, "risk": None}
OPTIONS: list[dict[str, Any]] = [
    {"id": "a", "label": "Full strict", "description": "Every gate.", **_NOT_SAID, "recommended": False},
    {"id": "b", "label": "Compact", "description": "Only the risky gates.", **_NOT_SAID, "recommended": True},
]  # fmt: skip


def seed(root: Path, sessions: int) -> None:
    """``root`` must not exist yet."""
    for name in ("sessions", "decisions", "capsules"):
        (root / name).mkdir(parents=True)
    seed_schemas(root / "schema", FileOps())
    form, base = _Form(), str(root)
    index_sessions, index_decisions = [], []
    with (root / "audit.jsonl").open("w") as audit, (root / "locks.json").open("w") as locks:
        locks.write('{\n  "schemaVersion": 1,\n  "locks": [')
        for number in range(sessions):
            fill = _Fill(number)
            folder = f"{base}/decisions/{fill.decision}"
            _write(f"{base}/sessions/{fill.run}.json", fill(form.session))
            os.mkdir(folder)
            _write(f"{folder}/decision.json", fill(form.question))
            _write(f"{folder}/response.json", fill(form.answer))
            _write(f"{folder}/audit.jsonl", fill(form.decision_audit))
            sealed = hashlib.sha256(fill(form.sealed).encode()).hexdigest()
            _write(f"{base}/capsules/{fill.run}.json", fill(form.capsule).replace(_SEAL, sealed))
            audit.write(fill(form.audit))
            locks.write(f"{',' if number else ''}\n    {fill(form.lock)}")
            index_sessions.append(fill(form.session_entry))
            index_decisions.append(fill(form.decision_entry))
        locks.write(f'\n  ],\n  "updatedAt": "{_instant(sessions)}"\n}}\n')
    with (root / "index.json").open("w") as file:
        listed = [f'  "{key}": [\n    ' + ",\n    ".join(entries) + "\n  ]"
                  for key, entries in (("sessions", index_sessions), ("decisions", index_decisions))]  # fmt: skip
        tail = f'  "locksPath": "locks.json",\n  "updatedAt": "{_instant(sessions)}"'
        file.write("{\n" + ",\n".join(['  "schemaVersion": 1', *listed, tail]) + "\n}\n")
    active = {
        "schemaVersion": 1, "state": "ready", "activeDecisionId": None, "activeCommandRunId": None,
        "activeChangeId": None, "pendingDecisionIds": [], "readyToResumeCommandRunIds": [],
        "updatedAt": _instant(sessions), "metadata": {},
    }  # fmt: skip
    (root / "active.json").write_text(_pretty(active) + "\n")


def _pretty(value: Any, indent: str = "") -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"\n{indent}")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(fd, text.encode())
    os.close(fd)


def _instant(number: int) -> str:
    return (FIRST + timedelta(seconds=number)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Fill:
    """The names and times of one session, put into texts that have marks in their place."""

    def __init__(self, number: int) -> None:
        digits = hashlib.sha256(str(number).encode()).hexdigest()[:16]
        at, change = _instant(number), f"bench-change-{number:06d}"
        self.run = f"RUN-{at[:10]}-chaos-run-{change}-{digits}"
        self.decision = f"DEC-{at[:10]}-{change}-choose-profile-{digits}"
        lock = f"LOCK-{at[:10]}-{change}-{digits}"
        self._pairs = (
            (_AT, at),
            (_CHANGE, change),
            (_RUN, self.run),
            (_DECISION, self.decision),
            (_LOCK, lock),
            (_EVENT, digits),
        )

    def __call__(self, text: str) -> str:
        for mark, value in self._pairs:
            text = text.replace(mark, value)
        return text


class _Form:
    """The texts, spelled once."""

    def __init__(self) -> None:
        capsule = _capsule()
        text = json.dumps(capsule, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        lines = _audit_lines()
        self.session, self.question, self.answer = (
            _pretty(value) + "\n" for value in (_session(), _question(), _answer())
        )
        self.sealed, self.capsule = text, _pretty({**capsule, "metadata": {"contentHash": _SEAL}}) + "\n"
        self.lock = _pretty(_lock(), "    ")
        self.audit, self.decision_audit = "".join(lines), "".join(lines[2:6])
        entry = {"state": "completed", "changeId": _CHANGE, "sourceCommand": "chaos:run"}
        self.session_entry = _pretty({"commandRunId": _RUN, "path": f"sessions/{_RUN}.json", **entry}, "    ")
        self.decision_entry = _pretty(
            {
                "decisionId": _DECISION, "path": f"decisions/{_DECISION}/decision.json", "state": "consumed",
                "commandRunId": _RUN, "changeId": _CHANGE,
            },
            "    ",
        )  # fmt: skip


def _session() -> dict[str, Any]:
    return {
        "schemaVersion": 1, "commandRunId": _RUN, "sourceCommand": "chaos:run", "changeId": _CHANGE,
        "adapter": "claude", "state": "completed", "requestedMode": "standard", "activeDecisionIds": [],
        "answeredDecisionIds": [], "consumedDecisionIds": [_DECISION], "lastCompletedStep": None,
        "nextStep": None, "lockIds": [_LOCK], "resumeCapsulePath": f"capsules/{_RUN}.json",
        "createdAt": _AT, "lastSeenAt": _AT, "expiresAt": None, "metadata": {},
    }  # fmt: skip


def _question() -> dict[str, Any]:
    return {
        "schemaVersion": 1, "decisionId": _DECISION, "commandRunId": _RUN, "changeId": _CHANGE,
        "sourceCommand": "chaos:run", "interactionType": "single-choice-decision", "state": "consumed",
        "title": "Choose profile", "context": CONTEXT, "recommendation": None, "recommendedOptionId": "b",
        "options": OPTIONS, "requiresRationale": False, "independent": False, "blocks": [], "unlocksOn": {},
        "createdAt": _AT, "expiresAt": None, "createdBy": "chaos:run",
        "metadata": {"resumeHints": {"nextStep": None, "lastCompletedStep": None}},
    }  # fmt: skip


def _answer() -> dict[str, Any]:
    return {
        "schemaVersion": 1, "decisionId": _DECISION, "commandRunId": _RUN, "selectedOptionId": "b",
        "selectedOptionIds": [], "freeformValue": None, "rationale": "fine", "selectedBy": "bench",
        "selectedAt": _AT, "source": "mcp-tool", "validatesAgainstDecisionHash": None, "metadata": {},
    }  # fmt: skip


def _capsule() -> dict[str, Any]:
    return {
        "schemaVersion": 1, "commandRunId": _RUN, "sourceCommand": "chaos:run", "changeId": _CHANGE,
        "state": "completed", "lastCompletedStep": None, "nextStep": "resume-command", "answeredDecisionIds": [],
        "consumedDecisionIds": [_DECISION], "requiredArtifacts": [],
        "contextCapsule": {
            "intent": f"Resume chaos:run for {_CHANGE}.", "approvedScope": [], "selectedPath": None,
            "constraints": [], "assumptions": [], "openRisks": [], "confidenceCaps": [], "forbiddenActions": [],
        },
        "confidence": "MEDIUM", "knowledgeType": "INFERENCE", "createdAt": _AT, "updatedAt": _AT,
        "metadata": {},
    }  # fmt: skip


def _lock() -> dict[str, Any]:
    return {
        "schemaVersion": 1, "lockId": _LOCK, "changeId": _CHANGE, "lockedByCommandRunId": _RUN,
        "lockedByCommand": "chaos:run", "reason": "ready-to-resume", "state": "released",
        "blockingDecisionIds": [_DECISION],
        "compatibleCommands": ["chaos:doctor", "chaos:help", "chaos:resume"], "createdAt": _AT,
        "expiresAt": None, "releasedAt": _AT, "metadata": {},
    }  # fmt: skip


def _audit_lines() -> list[str]:
    """The third to the sixth name the decision."""
    events: list[tuple[str, bool, dict[str, Any]]] = [
        ("session-created", False, {"adapter": "claude", "requestedMode": "standard"}),
        ("command-started", False, {}),
        ("lock-acquired", True, {"lockId": _LOCK}),
        ("decision-created", True, {"optionIds": ["a", "b"]}),
        ("decision-answered", True, {"selectedOptionId": "b", "selectedOptionIds": []}),
        ("decision-consumed", True, {}),
        ("capsule-created", False, {"path": f"capsules/{_RUN}.json"}),
        ("lock-released", False, {"lockId": _LOCK}),
        ("command-completed", False, {"releasedLockIds": [_LOCK]}),
    ]
    return [_audit_line(number, *event) for number, event in enumerate(events)]


def _audit_line(number: int, kind: str, decided: bool, data: dict[str, Any]) -> str:
    line = {
        "schemaVersion": 1, "eventId": f"EVT-2026-01-02-{_EVENT}{number:02x}", "eventType": kind,
        "commandRunId": _RUN, "decisionId": _DECISION if decided else None, "changeId": _CHANGE,
        "timestamp": _AT, "actor": "bench" if kind == "decision-answered" else None, "source": "chaos-command",
        "message": f"{kind.replace('-', ' ').capitalize()}.", "data": data,
    }  # fmt: skip
    return json.dumps(line, separators=(",", ":")) + "\n"

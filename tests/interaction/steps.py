"""Operations to break: how each is prepared, done, and told to have happened."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from chaoscore.adapters.files.interaction import schemas
from chaoscore.app.envelope import Envelope
from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.app.interactions.deciding import AnswerRequest, DecisionRequest
from chaoscore.app.interactions.progress import EndRequest
from chaoscore.app.interactions.service import InteractionService
from chaoscore.domain.interaction.capsule import CapsuleOverrides
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.json import Json, JsonObject

OPTIONS: list[JsonObject] = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]


def text(value: Json) -> str:
    assert isinstance(value, str), value
    return value


async def begin(service: InteractionService, run: str = "RUN-1", change: str | None = "c1") -> Envelope:
    return await service.begin(BeginRequest("chaos:run", change, command_run_id=run))


async def ask(
    service: InteractionService, run: str = "RUN-1", title: str = "Pick", supersedes: str | None = None
) -> Envelope:
    return await service.create_decision(DecisionRequest(run, title, "Because.", OPTIONS, supersedes=supersedes))


async def answer(service: InteractionService, decision: str, option: str = "a") -> Envelope:
    return await service.answer(AnswerRequest(decision, Choice(option), "alice", "mcp-tool"))


async def prepared(service: InteractionService, *steps: str) -> str:
    """Do the named steps on RUN-1; the id of its decision, or the empty string."""
    decision = ""
    for step in steps:
        if step == "begin":
            done = await begin(service)
        elif step == "ask":
            done = await ask(service)
            decision = text(done.data["decisionId"])
        elif step == "answer":
            done = await answer(service, decision)
        elif step == "resume":
            done = await service.resume("RUN-1")
        else:
            done = await service.mark_consumed(decision)
        assert done.ok, done
    return decision


@dataclass(frozen=True, slots=True)
class Operation:
    """``before`` are steps of ``prepared``; ``happened`` reads the folder."""

    name: str
    before: tuple[str, ...]
    do: Callable[[InteractionService, str], Awaitable[Envelope]]
    happened: Callable[[Path, str], bool]


def document(root: Path, relative: str) -> JsonObject | None:
    path = root / relative
    return json.loads(path.read_bytes()) if path.exists() else None


def state(root: Path, relative: str) -> Json:
    found = document(root, relative)
    return found["state"] if found is not None else None


def session_state(root: Path) -> Json:
    return state(root, "sessions/RUN-1.json")


def asked(root: Path, title: str) -> bool:
    found = [json.loads(path.read_bytes()) for path in root.glob("decisions/*/decision.json")]
    return any(decision["title"] == title for decision in found)


OPERATIONS = (
    Operation("begin", (), lambda s, _: begin(s), lambda root, _: session_state(root) == "running"),
    Operation("create", ("begin",), lambda s, _: ask(s), lambda root, _: asked(root, "Pick")),
    Operation(
        "supersede",
        ("begin", "ask"),
        lambda s, d: ask(s, title="Better", supersedes=d),
        lambda root, _: asked(root, "Better"),
    ),
    Operation(
        "answer",
        ("begin", "ask"),
        lambda s, d: answer(s, d),
        lambda root, d: (root / f"decisions/{d}/response.json").exists(),
    ),
    Operation(
        "resume",
        ("begin", "ask", "answer"),
        lambda s, _: s.resume("RUN-1"),
        lambda root, _: session_state(root) == "running",
    ),
    Operation(
        "consume",
        ("begin", "ask", "answer", "resume"),
        lambda s, d: s.mark_consumed(d),
        lambda root, d: state(root, f"decisions/{d}/decision.json") == "consumed",
    ),
    Operation(
        "complete",
        ("begin", "ask", "answer", "resume", "consume"),
        lambda s, _: s.complete(EndRequest("RUN-1", "done")),
        lambda root, _: session_state(root) == "completed",
    ),
    Operation(
        "cancel",
        ("begin", "ask"),
        lambda s, _: s.cancel(EndRequest("RUN-1")),
        lambda root, _: session_state(root) == "cancelled",
    ),
    Operation(
        "capsule",
        ("begin",),
        lambda s, _: s.write_capsule("RUN-1", CapsuleOverrides(intent="go on")),
        lambda root, _: (root / "capsules/RUN-1.json").exists(),
    ),
)

_KINDS = {"sessions": "session", "capsules": "resume-capsule"}


def faults(root: Path) -> list[str]:
    """What must never be: the auditor, which knows the folder's law and shares no code with what heals it."""
    out = []
    sessions = {path.stem: document(root, f"sessions/{path.name}") for path in root.glob("sessions/*.json")}
    locks = (document(root, "locks.json") or {"locks": []})["locks"]
    assert isinstance(locks, list)
    for path in [*root.glob("sessions/*.json"), *root.glob("capsules/*.json")]:
        out += _invalid(_KINDS[path.parent.name], path)
    for path in root.glob("decisions/*/decision.json"):
        out += _invalid("decision", path)
        decision = json.loads(path.read_bytes())
        owner = sessions.get(decision["commandRunId"])
        answered = (path.parent / "response.json").exists()
        if decision["state"] == "answered" and not answered:
            out.append(f"{path.parent.name} is answered without a response")
        if decision["state"] == "waiting" and answered:
            out.append(f"{path.parent.name} waits although it was answered")
        if owner is None or decision["state"] != "waiting":
            continue
        if owner["state"] != "waiting-for-decision" or decision["decisionId"] not in owner["activeDecisionIds"]:  # type: ignore[operator]
            out.append(f"{path.parent.name} waits but its session is {owner['state']}")
        holding = [lock for lock in locks if decision["decisionId"] in lock["blockingDecisionIds"]]
        if decision["changeId"] and not any(lock["state"] == "active" for lock in holding):
            out.append(f"{path.parent.name} waits without a lock")
    for path in root.glob("decisions/*/response.json"):
        out += _invalid("response", path)
    for lock in locks:
        out += [str(violation) for violation in schemas.builtin("lock").violations(lock)]
        owner = sessions.get(lock["lockedByCommandRunId"])
        if lock["state"] == "active" and owner is not None and owner["state"] in ("completed", "cancelled", "expired"):
            out.append(f"lock {lock['lockId']} is held by a run that is over")
    for run, session in sessions.items():
        if session is not None and session["state"] == "waiting-for-decision":
            named = session["activeDecisionIds"]
            if not named:
                out.append(f"session {run} waits for nothing")
    return out


def _invalid(kind: str, path: Path) -> list[str]:
    try:
        value = json.loads(path.read_bytes())
    except ValueError:
        return [f"{path.name} is not JSON"]
    return [f"{path.parent.name}/{path.name}: {v.path} {v.message}" for v in schemas.builtin(kind).violations(value)]

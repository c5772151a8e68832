"""``begin``: may this command run on this change now, and if not, what is in the way."""

from __future__ import annotations

from dataclasses import dataclass, replace

from chaoscore.app.envelope import Envelope
from chaoscore.app.interaction_ports import InteractionUnit
from chaoscore.app.interactions.deciding import refuse_kernel
from chaoscore.app.interactions.heal import readable_session
from chaoscore.app.interactions.results import stop, success
from chaoscore.domain.interaction.errors import KernelSession, SessionTerminal
from chaoscore.domain.interaction.event import Event
from chaoscore.domain.interaction.lock import Lock
from chaoscore.domain.interaction.names import command_token, instant_text, reads_as_kernel_run, run_id
from chaoscore.domain.interaction.session import Session
from chaoscore.domain.json import Json, JsonObject


@dataclass(frozen=True, slots=True)
class BeginRequest:
    """``command_run_id`` ``None`` means a new one. ``ttl_seconds`` bounds how long the session may wait for a human."""

    source_command: str
    change_id: str | None = None
    adapter: str = "unknown"
    requested_mode: str | None = None
    command_run_id: str | None = None
    metadata: JsonObject | None = None
    ttl_seconds: int | None = None


def begin(unit: InteractionUnit, request: BeginRequest) -> Envelope:
    refuse_kernel(request.command_run_id)
    if reads_as_kernel_run(request.command_run_id):
        raise KernelSession(
            f"command run {str(request.command_run_id)[:80]!r} reads like a run of chaos-core: choose another "
            f"commandRunId, or leave it out"
        )
    own = unit.session(request.command_run_id) if request.command_run_id is not None else None
    if own is not None:
        return _reenter(unit, own)
    for lock in unit.locks().on_change(request.change_id) if request.change_id else ():
        if lock.run != request.command_run_id and not lock.admits(request.source_command):
            return _blocked(unit, lock, request)
    if not (request.change_id and unit.locks().on_change(request.change_id)):
        wanted = (request.change_id, command_token(request.source_command))
        for session in unit.unfinished_sessions():
            if session.state == "ready-to-resume" and (session.change_id, session.command) == wanted:
                return _resumable(session)
    return _start(unit, request)


def _data(
    run: str | None,
    change: str | None,
    decision: str | None = None,
    conflicting: str | None = None,
    capsule: str | None = None,
    ui_action: str | None = None,
) -> dict[str, Json]:
    return {
        "commandRunId": run,
        "changeId": change,
        "activeDecisionId": decision,
        "conflictingCommandRunId": conflicting,
        "resumeCapsulePath": capsule,
        "uiAction": ui_action,
    }


def _reenter(unit: InteractionUnit, session: Session) -> Envelope:
    if session.is_terminal:
        raise SessionTerminal(
            f"command run {session.command_run_id!r} is {session.state}; finished history is never begun over: leave "
            f"commandRunId out or choose a new one"
        )
    unit.put_session(replace(session, last_seen_at=unit.now))
    if session.state == "ready-to-resume":
        return _resumable(session)
    if session.state == "waiting-for-decision":
        decision = next(iter(session.active_decision_ids), None)
        return stop(
            "BLOCKED_BY_PENDING_DECISION",
            f"command run {session.command_run_id} waits for a human decision",
            _data(session.command_run_id, session.change_id, decision, ui_action="focus-existing-decision"),
        )
    return success(
        "READY",
        f"command run {session.command_run_id} goes on",
        _data(session.command_run_id, session.change_id),
        next_action="Go on with the command.",
    )


def _resumable(session: Session) -> Envelope:
    return success(
        "RESUME_AVAILABLE",
        f"command run {session.command_run_id} was answered and can be resumed",
        _data(session.command_run_id, session.change_id, capsule=session.resume_capsule_path),
        next_action="Read the resume capsule with chaos_get_resume_capsule, then call chaos_resume_command.",
    )


def _blocked(unit: InteractionUnit, lock: Lock, request: BeginRequest) -> Envelope:
    owner = readable_session(unit, lock.run)
    same = command_token(request.source_command) == command_token(lock.command)
    if same and owner is not None and owner.state == "ready-to-resume":
        return _resumable(owner)
    if same and (owner is None or owner.state == "waiting-for-decision"):
        decision = next(iter(lock.blocking_decision_ids), None)
        if owner is not None and owner.active_decision_ids:
            decision = owner.active_decision_ids[0]
        return stop(
            "BLOCKED_BY_PENDING_DECISION",
            f"command run {lock.run} already waits for a human decision about {lock.change_id!r}",
            _data(lock.run, request.change_id, decision, lock.run, ui_action="focus-existing-decision"),
        )
    state = owner.state if owner is not None else "missing"
    mine = f" If it is yours, begin again with commandRunId {lock.run}." if same else ""
    return stop(
        "CONFLICTING_COMMAND_ACTIVE",
        f"{lock.command!r} (command run {lock.run}, {state}) holds the change {lock.change_id!r}",
        _data(
            None,
            request.change_id,
            conflicting=lock.run,
            ui_action="inspect-or-cancel-conflicting-session",
        ),
        next_action=f"Stop now. Ask the human whether to wait for {lock.run} or to cancel it.{mine}",
    )


def _start(unit: InteractionUnit, request: BeginRequest) -> Envelope:
    run = request.command_run_id or run_id(unit.now[:10], request.source_command, request.change_id, unit.hex(16))
    expires = instant_text(unit.now_ms + request.ttl_seconds * 1000) if request.ttl_seconds is not None else None
    session = Session(
        command_run_id=run,
        source_command=request.source_command,
        change_id=request.change_id,
        adapter=request.adapter,
        state="created",
        created_at=unit.now,
        last_seen_at=unit.now,
        requested_mode=request.requested_mode,
        expires_at=expires,
        metadata=request.metadata or {},
    ).becoming("running", unit.now)
    unit.put_session(session, new=True)
    about: JsonObject = {"adapter": request.adapter, "requestedMode": request.requested_mode}
    unit.record(Event("session-created", f"Session {run} created.", run=run, change=session.change_id, data=about))
    started = f"{request.source_command[:200]} started."
    unit.record(Event("command-started", started, run=run, change=session.change_id))
    return success(
        "READY",
        f"command run {run} may proceed",
        _data(run, request.change_id),
        next_action=f"Go on with the command. Use commandRunId {run} in every further call.",
    )

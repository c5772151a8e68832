"""Probes of what the documents say about each other: decisions, sessions, locks, capsules, runners."""

from __future__ import annotations

from collections.abc import Iterator, Set

from chaoscore.app.interaction_doctor.context import Context
from chaoscore.app.interaction_doctor.report import Finding, Todo
from chaoscore.app.interaction_doctor.survey import DecisionFacts
from chaoscore.domain.interaction.lock import Lock, stale_reason
from chaoscore.domain.interaction.names import LOCKS_PATH, has_passed, instant_ms, response_path

RUNNER_ENDED = frozenset({"completed", "cancelled", "failed", "abandoned", "ready-for-manual-resume"})


def decisions(context: Context) -> Iterator[Finding]:
    found, evidence = context.survey, context.evidence
    waiting = [facts for facts in found.decisions.values() if facts.state == "waiting"]
    context.summary.pending_decisions = len(waiting)
    sound = True
    if waiting:
        sound = False
        yield Finding(
            "IR-DECISION-PENDING",
            "WARN",
            "decision",
            "decisions wait for a human",
            f"{len(waiting)} decisions wait: {', '.join(facts.name for facts in waiting[:10])}",
            tuple(evidence.shown(facts.path) for facts in waiting[:10]),
            actions=(context.options.copyable("decide"),),
        )
    per_run: dict[str, int] = {}
    locked = {name for lock in found.locks for name in lock.blocking_decision_ids}
    for facts in waiting:
        per_run[facts.run] = per_run.get(facts.run, 0) + 1
        yield from _waiting(context, facts, locked)
    for run, count in per_run.items():
        if count > 1:
            yield _warn(
                f"IR-DECISION-MULTIPLE-{run}", "decision", "a run waits for several decisions",
                f"{run} waits for {count} decisions; all of them must be answered",
                context.options.copyable("decide"),
            )  # fmt: skip
    for facts in found.decisions.values():
        for finding in _decision(context, facts):
            sound = False
            yield finding
    if sound:
        yield _ok("DECISION", "decision", f"{len(found.decisions)} decisions are in order")


def _waiting(context: Context, facts: DecisionFacts, locked: Set[str]) -> Iterator[Finding]:
    shown = context.evidence.shown(facts.path)
    hours = context.hours_since(facts.created_at)
    answering = context.options.copyable("decide", facts.name)
    if hours >= context.options.stale_decision_hours:
        yield Finding(
            f"IR-DECISION-STALE-{facts.name}", "WARN", "decision", "a decision has waited for long",
            f"{facts.name} has waited for {hours:.0f} hours", (shown,), (shown,), (answering,),
            Todo(
                f"Answer {facts.title!r}", shown, (facts.name, facts.run), "decision", "HIGH",
                "answer it or cancel its run", ("the decision does not wait any more",),
                answering,
            ),
        )  # fmt: skip
    if has_passed(facts.expires_at, context.now_ms):
        yield _warn(
            f"IR-DECISION-EXPIRED-{facts.name}", "decision", "a decision has expired",
            f"{facts.name} waits although {facts.expires_at} has passed; the next call that writes ends it",
            "ask again if it still matters", shown,
        )  # fmt: skip
    if facts.answer_fault is not None:
        yield _warn(
            f"IR-RESPONSE-REFUSED-{facts.name}", "decision", "an answer does not fit its question",
            f"{context.evidence.shown(response_path(facts.name))} cannot be adopted: {facts.answer_fault}",
            "correct that file, or answer again", shown,
        )  # fmt: skip
    elif facts.has_response and f"response {facts.name}" not in context.survey.unreadable:
        yield Finding(
            f"IR-RESPONSE-UNADOPTED-{facts.name}", "INFO", "decision", "an answer was not taken up yet",
            f"{facts.name} still says waiting, and a fitting answer lies beside it; the next call takes it up",
            (context.evidence.shown(response_path(facts.name)),),
        )  # fmt: skip
    if facts.change and context.survey.locks_readable and facts.name not in locked:
        yield _warn(
            f"IR-LOCK-MISSING-{facts.name}", "lock", "a waiting decision locks nothing",
            f"{facts.name} waits about {facts.change!r}, and no lock names it; the next call that writes makes one",
            "chaos_get_active_decision heals it", context.evidence.shown(LOCKS_PATH),
        )  # fmt: skip


def _decision(context: Context, facts: DecisionFacts) -> Iterator[Finding]:
    found, shown = context.survey, context.evidence.shown(facts.path)
    if not found.knows_session(facts.run):
        yield _warn(
            f"IR-DECISION-ORPHAN-{facts.name}", "decision", "a decision has no session",
            f"{facts.name} belongs to {facts.run}, which is not there", "restore the session's file", shown,
        )  # fmt: skip
    owner = found.sessions.get(facts.run)
    if facts.state == "answered" and owner is not None and owner.state == "completed":
        yield _warn(
            f"IR-DECISION-UNCONSUMED-{facts.name}", "decision", "an answer was never acted upon",
            f"{facts.name} was answered, and {facts.run} is completed without having consumed it",
            "see whether the answer was followed", shown,
        )  # fmt: skip
    if facts.state == "consumed" and not facts.has_response:
        yield _warn(
            f"IR-DECISION-CONSUMED-NORESP-{facts.name}", "decision", "a consumed decision has no answer",
            f"{facts.name} is consumed, and its response.json is gone", "restore it from version control", shown,
        )  # fmt: skip
    if facts.state == "answered" and not facts.has_response:
        yield _warn(
            f"IR-DECISION-ANSWERED-NORESP-{facts.name}", "decision", "an answered decision has no answer",
            f"{facts.name} is answered, and its response.json is gone", "restore it, or ask again", shown,
        )  # fmt: skip
    if facts.hash_fault is not None:
        yield _warn(
            f"IR-RESPONSE-HASH-{facts.name}", "decision", "an answer belongs to another question",
            f"{context.evidence.shown(response_path(facts.name))}: {facts.hash_fault}; question or answer was changed "
            f"afterwards",
            "compare both with version control", shown,
        )  # fmt: skip


def sessions(context: Context) -> Iterator[Finding]:
    found, evidence = context.survey, context.evidence
    ready = [facts for facts in found.sessions.values() if facts.state == "ready-to-resume"]
    context.summary.ready_sessions = len(ready)
    sound = True
    if ready:
        yield Finding(
            "IR-SESSION-READY", "INFO", "session", "command runs can be resumed",
            f"{len(ready)} command runs can be resumed: {', '.join(facts.run for facts in ready[:10])}",
            tuple(evidence.shown(facts.path) for facts in ready[:10]),
            actions=tuple(f"chaos:resume --run {facts.run}" for facts in ready[:10]),
        )  # fmt: skip
    locked = {lock.run for lock in found.locks if lock.is_active}
    for facts in found.sessions.values():
        shown = evidence.shown(facts.path)
        mine = found.by_run.get(facts.run, ())
        if facts.state == "waiting-for-decision" and not any(decision.state == "waiting" for decision in mine):
            sound = False
            yield _warn(
                f"IR-SESSION-WAITING-NODEC-{facts.run}", "session", "a run waits for nothing",
                f"{facts.run} waits, and no decision of it does; the next call that writes lets it go on",
                "chaos_get_active_decision heals it", shown,
            )  # fmt: skip
        if facts.state == "ready-to-resume" and facts.run not in found.capsules:
            sound = False
            yield Finding(
                f"IR-SESSION-READY-NOCAPSULE-{facts.run}", "WARN", "session", "a run has no capsule to resume from",
                f"{facts.run} can be resumed, and capsules/{facts.run}.json is not there", (shown,), (shown,),
                ("chaos_create_resume_capsule",),
                Todo(
                    f"Write the capsule of {facts.run}", shown, (facts.run,), "session", "MEDIUM",
                    "write down what the next agent needs", ("the capsule is there",),
                ),
            )  # fmt: skip
        if facts.is_terminal and facts.run in locked:
            sound = False
            yield _warn(
                f"IR-SESSION-TERMINAL-LOCK-{facts.run}", "session", "a finished run holds a lock",
                f"{facts.run} is {facts.state} and still holds a change; the next call that writes releases it",
                "chaos_get_active_decision heals it", shown,
            )  # fmt: skip
        if not facts.is_terminal and has_passed(facts.expires_at, context.now_ms) and facts.state != "running":
            sound = False
            yield _warn(
                f"IR-SESSION-EXPIRED-{facts.run}", "session", "a session has expired",
                f"{facts.run} is {facts.state} although {facts.expires_at} has passed; the next call that writes ends "
                f"it",
                "begin again if it still matters", shown,
            )  # fmt: skip
    if sound:
        yield _ok("SESSION", "session", f"{len(found.sessions)} sessions are in order")


def locks(context: Context) -> Iterator[Finding]:
    found, shown = context.survey, context.evidence.shown(LOCKS_PATH)

    def state_of(run: str) -> str | None:
        facts = found.sessions.get(run)
        return facts.state if facts is not None else "unknown" if found.knows_session(run) else None

    sound = found.locks_readable
    owners: dict[str, dict[str, Lock]] = {}
    for lock in found.locks:
        if not lock.is_active:
            continue
        owners.setdefault(lock.change_id, {})[lock.run] = lock
        reason = stale_reason(lock, state_of, found.knows_decision)
        hours = context.hours_since(lock.created_at)
        if reason is None and hours >= context.options.stale_lock_hours:
            reason = f"it has been held for {hours:.0f} hours"
        if reason is None:
            continue
        sound = False
        context.summary.stale_locks += 1
        yield Finding(
            f"IR-LOCK-STALE-{lock.lock_id}", "WARN", "lock", "a lock may hold nothing any more",
            f"{lock.lock_id} on {lock.change_id!r}, held by {lock.run}: {reason}", (shown,), (shown,),
            (context.options.copyable("sessions", lock.run, "--cancel"),),
            Todo(
                f"Look at the lock on {lock.change_id}", shown, (lock.lock_id, lock.run), "lock", "MEDIUM",
                "complete or cancel the run that holds it", ("the lock is released or its run goes on",),
                context.options.copyable("sessions", lock.run),
            ),
        )  # fmt: skip
    for change, holders in owners.items():
        if len(holders) > 1:
            sound = False
            yield _warn(
                f"IR-LOCK-DOUBLE-{change[:80]}", "lock", "a change is held twice",
                f"{change!r} is held by {', '.join(holders)}; two programs worked on it at once",
                "let the human say which run goes on, and cancel the other", shown,
            )  # fmt: skip
    if sound:
        yield _ok("LOCK", "lock", f"{len(found.locks)} locks are in order")


def capsules(context: Context) -> Iterator[Finding]:
    found = context.survey
    sound = True
    for facts in found.capsules.values():
        for finding in _capsule(context, facts.run):
            sound = sound and finding.severity == "INFO"
            yield finding
    if sound:
        yield _ok("CAPSULE", "capsule", f"{len(found.capsules)} capsules are in order, their seals hold")


def _capsule(context: Context, run: str) -> Iterator[Finding]:
    found, evidence = context.survey, context.evidence
    facts = found.capsules[run]
    shown = evidence.shown(facts.path)
    owner = found.sessions.get(run)
    if facts.seal == "tampered":
        yield Finding(
            f"IR-CAPSULE-TAMPERED-{run}", "ERROR", "capsule", "a capsule was changed after it was sealed",
            f"{shown}: its contentHash does not fit what it says", (shown,), (shown,),
            ("compare it with version control before anybody resumes from it",),
        )  # fmt: skip
    elif facts.seal == "missing":
        yield Finding(
            f"IR-CAPSULE-UNSEALED-{run}", "INFO", "capsule", "a capsule has no seal",
            f"{shown} has no contentHash; nobody can tell whether it was changed", (shown,),
        )  # fmt: skip
    if not found.knows_session(run):
        yield _warn(
            f"IR-CAPSULE-ORPHAN-{run}", "capsule", "a capsule has no session",
            f"{shown} belongs to {run}, which is not there", "restore the session's file", shown,
        )  # fmt: skip
    elif owner is not None and owner.change != facts.change:
        yield _warn(
            f"IR-CAPSULE-CHANGE-MISMATCH-{run}", "capsule", "a capsule names another change",
            f"{shown} is about {facts.change!r}, its session about {owner.change!r}", "write it anew", shown,
        )  # fmt: skip
    if facts.next_step is None:
        yield _warn(
            f"IR-CAPSULE-NONEXTSTEP-{run}", "capsule", "a capsule does not say what comes next",
            f"{shown} has no nextStep", "chaos_create_resume_capsule", shown,
        )  # fmt: skip
    for name in (*facts.answered, *facts.consumed):
        decision = found.decisions.get(name)
        if not found.knows_decision(name):
            yield _warn(
                f"IR-CAPSULE-DEC-MISSING-{run}-{name}", "capsule", "a capsule names a decision that is not there",
                f"{shown} names {name}", "restore the decision's folder", shown,
            )  # fmt: skip
        elif decision is not None and decision.state != ("answered" if name in facts.answered else "consumed"):
            yield Finding(
                f"IR-CAPSULE-DEC-STATE-{run}-{name}", "INFO", "capsule", "a decision has moved on",
                f"{shown} was written before {name} became {decision.state}", (shown,),
            )  # fmt: skip
    for path in facts.artifacts:
        if evidence.repository_entry(path) in ("absent", "leads-out"):
            yield _warn(
                f"IR-CAPSULE-ARTIFACT-MISSING-{run}", "capsule", "a required file is not there",
                f"{shown} requires {path!r}, which the repository does not have", "restore it before resuming", shown,
            )  # fmt: skip


def runners(context: Context) -> Iterator[Finding]:
    found, evidence = context.survey, context.evidence
    if evidence.entry("runners") != "folder":
        yield Finding("IR-RUNNER-NONE", "INFO", "runner", "no runner was used", "there is no runners/ folder")
        return
    sound = True
    for mark in sorted(found.unreadable):
        if mark.startswith("runner "):
            sound = False
            path = mark.removeprefix("runner ")
            yield Finding(
                f"IR-RUNNER-MALFORMED-{path.rpartition('/')[2]}", "ERROR", "runner", "a lease cannot be understood",
                f"{evidence.shown(path)} cannot be understood", (evidence.shown(path),), (evidence.shown(path),),
                ("remove it when no runner of that name runs",),
            )  # fmt: skip
    for facts in found.runners.values():
        shown = evidence.shown(facts.path)
        ends = instant_ms(facts.lease_expires_at)
        if (
            facts.state not in RUNNER_ENDED
            and ends is not None
            and (context.now_ms > ends + context.options.lease_grace_ms)
        ):
            sound = False
            context.summary.expired_leases += 1
            yield Finding(
                f"IR-RUNNER-EXPIRED-{facts.name}", "WARN", "runner", "a runner went silent",
                f"{facts.name} is {facts.state}, and its lease ended {facts.lease_expires_at}", (shown,), (shown,),
                ("see whether its process is there; resume its run by hand",),
                Todo(
                    f"Look after the runner {facts.name}", shown, (facts.name,), "runner", "MEDIUM",
                    "resume its run or end it", ("the run has gone on or has ended",),
                ),
            )  # fmt: skip
        elif facts.state not in RUNNER_ENDED:
            yield Finding(
                f"IR-RUNNER-LIVE-{facts.name}", "INFO", "runner", "a runner is at work",
                f"{facts.name} is {facts.state}", (shown,),
            )  # fmt: skip
        if facts.run is not None and not found.knows_session(facts.run):
            sound = False
            yield _warn(
                f"IR-RUNNER-NOSESSION-{facts.name}", "runner", "a runner's session is not there",
                f"{facts.name} runs {facts.run}, which is not there", "end that runner", shown,
            )  # fmt: skip
    if sound:
        yield _ok("RUNNER", "runner", f"{len(found.runners)} leases are in order")


def _warn(name: str, category: str, title: str, message: str, action: str, shown: str | None = None) -> Finding:
    where = (shown,) if shown is not None else ()
    return Finding(name, "WARN", category, title, message, where, where, (action,))


def _ok(name: str, category: str, message: str) -> Finding:
    return Finding(f"IR-{name}-OK", "OK", category, message, message)

"""``InteractionService``: the decision runtime's operations, one typed method each, each answering an ``Envelope``.

Doors (MCP tools, CLI, web) stand above, the store behind ``interaction_ports`` below. A method never raises for what a
caller can meet: errors are envelopes with ``ok`` false, a stable code and what to do. Statuses and ``data`` keys are
those of the shared contract; what is ours is added, never renamed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from chaoscore.app.envelope import Envelope
from chaoscore.app.interaction_ports import InteractionStore, InteractionUnit, SessionFilter
from chaoscore.app.interactions import begin as beginning
from chaoscore.app.interactions import checks, deciding, progress, queries, resources
from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.app.interactions.deciding import AnswerRequest, DecisionRequest
from chaoscore.app.interactions.heal import heal
from chaoscore.app.interactions.progress import EndRequest
from chaoscore.app.interactions.results import failed
from chaoscore.domain.errors import ChaosError, InvalidInput, StorageError
from chaoscore.domain.interaction.capsule import CapsuleOverrides
from chaoscore.domain.interaction.errors import BridgeOff, RuntimeBusy
from chaoscore.domain.interaction.limits import InteractionLimits
from chaoscore.domain.json import JsonObject

log = logging.getLogger(__name__)
T = TypeVar("T")
BRIDGE_NOTICE = (
    "chaos_answer_decision is a bridge for people without a Decision Center: the model must not choose for the human"
)


class InteractionService:
    """``answer_bridge`` false switches ``chaos_answer_decision`` off; other doors are not concerned."""

    def __init__(
        self, store: InteractionStore, limits: InteractionLimits | None = None, answer_bridge: bool = True
    ) -> None:
        self._store = store
        self.limits = limits or InteractionLimits()
        self.answer_bridge = answer_bridge

    # ------------------------------------------------------------------------------------- changing

    async def begin(self, request: BeginRequest) -> Envelope:
        """READY, RESUME_AVAILABLE, BLOCKED_BY_PENDING_DECISION, CONFLICTING_COMMAND_ACTIVE."""

        def check() -> None:
            checks.not_blank("sourceCommand", request.source_command)
            checks.within("sourceCommand", request.source_command, self.limits.command_bytes_max)
            checks.metadata_within(request.metadata, self.limits)
            if request.command_run_id is not None:
                checks.run_name(request.command_run_id)
            if request.ttl_seconds is not None and not 1 <= request.ttl_seconds <= self.limits.ttl_seconds_max:
                raise InvalidInput(
                    f"ttlSeconds: {request.ttl_seconds!r} is not between 1 and {self.limits.ttl_seconds_max}",
                    key="ttlSeconds",
                )

        return await self._change(check, lambda unit: beginning.begin(unit, request))

    async def create_decision(self, request: DecisionRequest) -> Envelope:
        """WAITING_FOR_USER_DECISION, PENDING_DECISION_EXISTS, ANSWERED_DECISION_EXISTS. Never blocks."""

        def check() -> None:
            checks.known_name("commandRunId", request.command_run_id)
            limits = self.limits
            checks.within("title", request.title, limits.title_bytes_max)
            checks.within("context", request.context, limits.context_bytes_max)
            for key, value in (
                ("sourceCommand", request.source_command),
                ("createdBy", request.created_by),
            ):
                checks.within(key, value, limits.command_bytes_max)
            for key, value in (
                ("recommendation", request.recommendation),
                ("nextStep", request.next_step),
                ("lastCompletedStep", request.last_completed_step),
            ):
                checks.within(key, value, limits.text_bytes_max)
            checks.options_within(request.options, limits)
            checks.metadata_within(request.metadata, limits)

        return await self._change(check, lambda unit: deciding.create_decision(unit, request))

    async def answer(self, request: AnswerRequest) -> Envelope:
        """ANSWERED. ``request.source`` is the door: ``mcp-tool`` is the bridge and may be switched off."""
        bridged = request.source == "mcp-tool"

        def check() -> None:
            if bridged and not self.answer_bridge:
                raise BridgeOff(
                    "chaos_answer_decision is switched off here; a human answers through the Decision Center or with "
                    "chaoscore decide"
                )
            checks.known_name("decisionId", request.decision_id)
            for key, value in (("freeformValue", request.choice.freeform), ("rationale", request.choice.rationale)):
                checks.within(key, value, self.limits.answer_bytes_max)
            checks.texts_within("selectedOptionIds", request.choice.option_ids, self.limits)
            checks.metadata_within(request.metadata, self.limits)

        notices = [BRIDGE_NOTICE] if bridged else []
        return await self._change(check, lambda unit: deciding.answer(unit, request, notices))

    async def mark_consumed(
        self, decision_id: str, command_run_id: str | None = None, metadata: JsonObject | None = None
    ) -> Envelope:
        """CONSUMED."""

        def check() -> None:
            checks.known_name("decisionId", decision_id)
            checks.metadata_within(metadata, self.limits)

        return await self._change(
            check, lambda unit: progress.mark_consumed(unit, decision_id, command_run_id, metadata)
        )

    async def write_capsule(self, command_run_id: str, overrides: CapsuleOverrides) -> Envelope:
        """CAPSULE_CREATED."""

        def check() -> None:
            checks.known_name("commandRunId", command_run_id)
            for key, value in (
                ("nextStep", overrides.next_step),
                ("lastCompletedStep", overrides.last_completed_step),
                ("intent", overrides.intent),
                ("selectedPath", overrides.selected_path),
            ):
                checks.within(key, value, self.limits.text_bytes_max)
            for key, values in (
                ("approvedScope", overrides.approved_scope),
                ("constraints", overrides.constraints),
                ("requiredArtifacts", overrides.required_artifacts),
                ("openRisks", overrides.open_risks),
            ):
                checks.texts_within(key, values, self.limits)
            checks.metadata_within(overrides.metadata, self.limits)

        return await self._change(check, lambda unit: progress.write_capsule(unit, command_run_id, overrides))

    async def resume(self, command_run_id: str) -> Envelope:
        """RESUMED."""
        return await self._change(
            lambda: checks.known_name("commandRunId", command_run_id),
            lambda unit: progress.resume(unit, command_run_id),
        )

    async def complete(self, request: EndRequest) -> Envelope:
        """COMPLETED."""
        return await self._change(lambda: self._check_end(request), lambda unit: progress.complete(unit, request))

    async def cancel(self, request: EndRequest) -> Envelope:
        """CANCELLED."""
        return await self._change(lambda: self._check_end(request), lambda unit: progress.cancel(unit, request))

    # -------------------------------------------------------------------------------------- looking

    async def active_decision(self, change_id: str | None = None, command_run_id: str | None = None) -> Envelope:
        """NO_ACTIVE_DECISION, ACTIVE_DECISION, MULTIPLE_ACTIVE_DECISIONS. Writes only when something must heal."""
        return await self._look(None, lambda unit: queries.active_decision(unit, change_id, command_run_id), True)

    async def decision_response(self, decision_id: str) -> Envelope:
        """NO_RESPONSE_YET, ANSWERED, CONSUMED, CANCELLED, EXPIRED, SUPERSEDED. Adopts an answer left in the folder."""
        return await self._look(
            lambda: checks.known_name("decisionId", decision_id),
            lambda unit: queries.decision_response(unit, decision_id),
            True,
        )

    async def resume_capsule(
        self, command_run_id: str | None = None, change_id: str | None = None, latest: bool = False
    ) -> Envelope:
        """FOUND, NOT_FOUND, MULTIPLE_FOUND."""
        return await self._look(None, lambda unit: queries.resume_capsule(unit, command_run_id, change_id, latest))

    async def resume_candidates(
        self,
        change_id: str | None = None,
        command_run_id: str | None = None,
        source_command: str | None = None,
        latest: bool = False,
    ) -> Envelope:
        """FOUND, NOT_FOUND, MULTIPLE_FOUND. Writes only when something must heal."""
        return await self._look(
            None,
            lambda unit: queries.resume_candidates(unit, change_id, command_run_id, source_command, latest),
            True,
        )

    async def list_locks(
        self,
        change_id: str | None = None,
        include_stale: bool = True,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Envelope:
        """LOCKS, NO_LOCKS."""
        size = limit if limit is not None else self.limits.page_max
        return await self._look(
            lambda: self._check_page(limit),
            lambda unit: queries.list_locks(unit, change_id, include_stale, size, cursor),
        )

    async def list_sessions(
        self, wanted: SessionFilter | None = None, limit: int | None = None, cursor: str | None = None
    ) -> Envelope:
        """SESSIONS, NO_SESSIONS."""
        size = limit if limit is not None else self.limits.sessions_page_default
        return await self._look(
            lambda: self._check_page(limit),
            lambda unit: queries.list_sessions(unit, wanted or SessionFilter(), size, cursor),
        )

    async def read_resource(self, uri: str) -> JsonObject | None:
        """The body of a resource, ``None`` for a URI that is not ours (a protocol error for the door).

        A miss is ``{status: NOT_FOUND, message}``, a failure ``{status: ERROR, message}``; both are bodies. The lists
        take ``?cursor=…&limit=…``.
        """
        target = resources.parse(uri)
        if target is None:
            return None
        try:
            return await self._store.read(lambda unit: resources.body(unit, target, self.limits))
        except ChaosError as error:
            log.error("resource %s failed: %s", uri[:200], error.message)
            return {"status": "ERROR", "message": error.message}

    async def change_token(self) -> str:
        """Differs whenever anybody changed the store, in whatever process: what subscriptions poll."""
        return await self._store.change_token()

    async def health(self) -> tuple[str, ...]:
        return await self._store.health()

    async def close(self) -> None:
        await self._store.close()

    # --------------------------------------------------------------------------------------- inside

    async def _change(self, check: Callable[[], None], work: Callable[[InteractionUnit], Envelope]) -> Envelope:
        async def run() -> Envelope:
            check()
            return await self._changed(work)

        return await _answered(run)

    async def _changed(self, work: Callable[[InteractionUnit], Envelope]) -> Envelope:
        envelope, warnings = await self._store.change(lambda unit: (work(unit), unit.warnings), before=heal)
        return _warned(envelope, warnings)

    async def _look(
        self,
        check: Callable[[], None] | None,
        work: Callable[[InteractionUnit], Envelope],
        heals: bool = False,
    ) -> Envelope:
        """Show the healed truth. ``heals`` also writes it, when there is something to write and it can be."""

        def view(unit: InteractionUnit) -> tuple[Envelope, bool]:
            heal(unit)
            dirty = unit.is_dirty
            return _warned(work(unit), unit.warnings), dirty

        async def run() -> Envelope:
            if check is not None:
                check()
            seen, dirty = await self._store.read(view)
            if not (heals and dirty):
                return seen
            try:
                return await self._changed(work)
            except (StorageError, RuntimeBusy) as error:
                return _warned(seen, [f"shown but not written: {error.message}"])

        return await _answered(run)

    def _check_end(self, request: EndRequest) -> None:
        checks.known_name("commandRunId", request.command_run_id)
        checks.within("reason", request.reason, self.limits.text_bytes_max)
        checks.metadata_within(request.metadata, self.limits)

    def _check_page(self, limit: int | None) -> None:
        if limit is not None and not 1 <= limit <= self.limits.page_max:
            raise InvalidInput(f"limit: {limit!r} is not between 1 and {self.limits.page_max}", key="limit")


async def _answered(run: Callable[[], Awaitable[Envelope]]) -> Envelope:
    try:
        return await run()
    except ChaosError as error:
        return failed(error)
    except Exception:
        log.exception("an interaction operation failed unexpectedly")
        return failed(ChaosError("it failed unexpectedly; the server's log tells why", code="INTERNAL_ERROR"))


def _warned(envelope: Envelope, warnings: Sequence[str]) -> Envelope:
    """Warnings of the unit include those of the write itself, which come after the work."""
    unique = tuple(dict.fromkeys(warnings))
    return replace(envelope, warnings=(*envelope.warnings, *unique)) if unique else envelope

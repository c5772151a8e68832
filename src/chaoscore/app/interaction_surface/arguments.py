"""JSON arguments, already checked against their schema, as the requests of the service. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

from chaoscore.app.envelope import Envelope
from chaoscore.app.interaction_ports import SessionFilter
from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.app.interactions.deciding import AnswerRequest, DecisionRequest
from chaoscore.app.interactions.progress import EndRequest
from chaoscore.app.interactions.service import InteractionService
from chaoscore.domain.interaction.capsule import CapsuleOverrides
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.json import Json, JsonObject, is_array, is_object


class Arguments:
    """The values by their types."""

    def __init__(self, values: JsonObject) -> None:
        self.values = values

    def text(self, key: str) -> str:
        return cast("str", self.values[key])

    def maybe(self, key: str) -> str | None:
        return cast("str | None", self.values.get(key))

    def flag(self, key: str, default: bool = False) -> bool:
        return cast("bool", self.values.get(key, default))

    def number(self, key: str) -> int | None:
        value = self.values.get(key)
        return int(value) if isinstance(value, int | float) else None

    def free(self, key: str) -> JsonObject | None:
        value = self.values.get(key)
        return value if is_object(value) else None

    def texts(self, key: str) -> tuple[str, ...] | None:
        """One string stands for a list of one."""
        value = self.values.get(key)
        if value is None:
            return None
        return (value,) if isinstance(value, str) else tuple(cast("Sequence[str]", value))


Operation = Callable[[InteractionService, Arguments], Awaitable[Envelope]]


def _begin(service: InteractionService, given: Arguments) -> Awaitable[Envelope]:
    adapter, mode = given.maybe("adapter"), given.maybe("requestedMode")
    return service.begin(
        BeginRequest(
            source_command=given.text("sourceCommand"),
            change_id=given.maybe("changeId"),
            adapter=adapter if adapter in ("claude", "copilot") else "unknown",
            requested_mode=mode if mode != "unknown" else None,
            command_run_id=given.maybe("commandRunId"),
            metadata=given.free("metadata"),
            ttl_seconds=given.number("ttlSeconds"),
        )
    )


def _create(service: InteractionService, given: Arguments) -> Awaitable[Envelope]:
    options = given.values.get("options")
    return service.create_decision(
        DecisionRequest(
            command_run_id=given.text("commandRunId"),
            title=given.text("title"),
            context=given.text("context"),
            options=cast("Sequence[JsonObject]", options) if is_array(options) else None,
            interaction_type=given.maybe("interactionType") or "single-choice-decision",
            source_command=given.maybe("sourceCommand"),
            change_id=given.maybe("changeId"),
            recommendation=given.maybe("recommendation"),
            recommended_option_id=given.maybe("recommendedOptionId"),
            requires_rationale=given.flag("requiresRationale"),
            independent=given.flag("independent"),
            expires_at=given.maybe("expiresAt"),
            created_by=given.maybe("createdBy"),
            next_step=given.maybe("nextStep"),
            last_completed_step=given.maybe("lastCompletedStep"),
            supersedes=given.maybe("supersedes"),
            metadata=given.free("metadata"),
        )
    )


def _answer(service: InteractionService, given: Arguments) -> Awaitable[Envelope]:
    claims: dict[str, Json] = {key: given.values[key] for key in ("selectedBy", "source") if key in given.values}
    return service.answer(
        AnswerRequest(
            decision_id=given.text("decisionId"),
            choice=Choice(
                given.maybe("selectedOptionId"),
                given.texts("selectedOptionIds") or (),
                given.maybe("freeformValue"),
                given.maybe("rationale"),
            ),
            selected_by=given.text("selectedBy") if "selectedBy" in given.values else "manual",
            source="mcp-tool",
            decision_hash=given.maybe("decisionHash"),
            claimed=claims or None,
        )
    )


def _capsule(service: InteractionService, given: Arguments) -> Awaitable[Envelope]:
    return service.write_capsule(
        given.text("commandRunId"),
        CapsuleOverrides(
            last_completed_step=given.maybe("lastCompletedStep"),
            next_step=given.maybe("nextStep"),
            intent=given.maybe("intent"),
            approved_scope=given.texts("approvedScope"),
            constraints=given.texts("constraints"),
            required_artifacts=given.texts("requiredArtifacts"),
            selected_path=given.maybe("selectedPath"),
            open_risks=given.texts("openRisks"),
            metadata=given.free("metadata"),
        ),
    )


def _end(given: Arguments) -> EndRequest:
    return EndRequest(
        given.text("commandRunId"), given.maybe("reason"), given.maybe("completionMode"), given.free("metadata")
    )


def _sessions(service: InteractionService, given: Arguments) -> Awaitable[Envelope]:
    wanted = SessionFilter(
        given.maybe("changeId"), given.maybe("state"), given.maybe("sourceCommand"), given.flag("readyToResumeOnly")
    )
    return service.list_sessions(wanted, given.number("limit"), given.maybe("cursor"))


OPERATIONS: Mapping[str, Operation] = {
    "chaos_begin_command": _begin,
    "chaos_create_decision": _create,
    "chaos_get_active_decision": lambda s, a: s.active_decision(a.maybe("changeId"), a.maybe("commandRunId")),
    "chaos_get_decision_response": lambda s, a: s.decision_response(a.text("decisionId")),
    "chaos_answer_decision": _answer,
    "chaos_mark_decision_consumed": lambda s, a: s.mark_consumed(
        a.text("decisionId"), a.maybe("commandRunId"), a.free("metadata")
    ),
    "chaos_create_resume_capsule": _capsule,
    "chaos_get_resume_capsule": lambda s, a: s.resume_capsule(
        a.maybe("commandRunId"), a.maybe("changeId"), a.flag("latest")
    ),
    "chaos_find_resume_candidates": lambda s, a: s.resume_candidates(
        a.maybe("changeId"), a.maybe("commandRunId"), a.maybe("sourceCommand"), a.flag("latest")
    ),
    "chaos_resume_command": lambda s, a: s.resume(a.text("commandRunId")),
    "chaos_complete_command": lambda s, a: s.complete(_end(a)),
    "chaos_cancel_command": lambda s, a: s.cancel(_end(a)),
    "chaos_list_locks": lambda s, a: s.list_locks(
        a.maybe("changeId"), a.flag("includeStale", True), a.number("limit"), a.maybe("cursor")
    ),
    "chaos_list_sessions": _sessions,
}

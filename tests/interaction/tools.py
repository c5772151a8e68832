"""The 14 tools for the driver of recorded cases: names, input schemas, and JSON arguments made into requests.

The product has its own surface; this one keeps the recorded cases about the service. Argument errors name the key.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

from chaoscore.app.envelope import Envelope, envelope_schema
from chaoscore.app.interaction_ports import SessionFilter
from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.app.interactions.deciding import AnswerRequest, DecisionRequest
from chaoscore.app.interactions.progress import EndRequest
from chaoscore.app.interactions.results import failed
from chaoscore.app.interactions.service import InteractionService
from chaoscore.app.tools import CallContext, ToolSet, ToolSpec
from chaoscore.domain.capability import Annotations
from chaoscore.domain.errors import ChaosError, InvalidInput
from chaoscore.domain.interaction.capsule import CapsuleOverrides
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.json import Json, JsonObject, is_array, is_object

log = logging.getLogger(__name__)
_READS = Annotations(read_only=True, idempotent=True, destructive=False, open_world=False)
_HEALS = Annotations(read_only=False, idempotent=True, destructive=False, open_world=False)
_WRITES = Annotations(read_only=False, idempotent=False, destructive=False, open_world=False)
_ENDS = Annotations(read_only=False, idempotent=True, destructive=True, open_world=False)


def _text(words: str, *allowed: str) -> JsonObject:
    return {"type": "string", "description": words, **({"enum": list(allowed)} if allowed else {})}


def _flag(words: str) -> JsonObject:
    return {"type": "boolean", "description": words}


def _number(words: str) -> JsonObject:
    return {"type": "integer", "description": words}


def _free(words: str) -> JsonObject:
    return {"type": "object", "additionalProperties": {}, "description": words}


def _texts(words: str) -> JsonObject:
    return {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "description": f"{words}; one string stands for a list of one",
    }


def _input(required: Sequence[str], **properties: JsonObject) -> JsonObject:
    needed: dict[str, Json] = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


_RUN = _text("the command run, as chaos_begin_command named it")
_CHANGE = _text("the change the command works on")
_COMMAND = _text("the command with its arguments, e.g. chaos:run; compared by its first word")
_METADATA = _free("anything the caller wants kept with it; at most 256 KiB of JSON")
_LIMIT = _number("how many to show at most, 1 to 500")
_CURSOR = _text("'next' of the page before")
_OPTION: JsonObject = {
    "type": "object",
    "properties": {
        "id": _text("letters, digits and . _ : -, at most 120 characters"),
        "label": _text("what the human reads first"),
        "description": _text("what choosing it means"),
        "consequence": _text("what follows from it"),
        "risk": _text("what may go wrong"),
        "recommended": _flag("whether the asker recommends it"),
    },
    "required": ["id", "label"],
    "additionalProperties": False,
}

_INPUTS: Mapping[str, JsonObject] = {
    "chaos_begin_command": _input(
        ["sourceCommand"],
        sourceCommand=_COMMAND,
        changeId=_CHANGE,
        adapter=_text("the client", "claude", "copilot", "manual", "unknown"),
        requestedMode=_text("how much assurance is wanted", "light", "standard", "strict", "unknown"),
        commandRunId=_text("re-enter this run, or name the new one"),
        metadata=_METADATA,
        ttlSeconds=_number("after this many seconds a session that waits, and the lock of one that runs, expire"),
    ),
    "chaos_create_decision": _input(
        ["commandRunId", "title", "context"],
        commandRunId=_RUN,
        sourceCommand=_text("default: the session's"),
        changeId=_text("default: the session's"),
        title=_text("the question in one line"),
        context=_text("everything a human needs to decide; at most 1 MiB"),
        interactionType=_text(
            "default single-choice-decision",
            "single-choice-decision",
            "multi-choice-decision",
            "confirmation",
            "freeform-input",
        ),
        options={"type": "array", "items": _OPTION, "description": "may be left out for freeform-input only"},
        recommendedOptionId=_text("one of the option ids"),
        requiresRationale=_flag("whether the human must give a reason"),
        independent=_flag("whether other work may go on meanwhile"),
        expiresAt=_text("instant like 2030-01-31T12:00:00Z after which no answer is taken"),
        metadata=_METADATA,
        recommendation=_text("what the asker recommends and why"),
        nextStep=_text("what the run does after the answer"),
        lastCompletedStep=_text("what the run did last"),
        createdBy=_text("who asks; default: the command"),
        supersedes=_text("a decision of the same run that this one replaces"),
    ),
    "chaos_get_active_decision": _input([], changeId=_CHANGE, commandRunId=_RUN),
    "chaos_get_decision_response": _input(["decisionId"], decisionId=_text("the decision")),
    "chaos_answer_decision": _input(
        ["decisionId"],
        decisionId=_text("the decision"),
        selectedOptionId=_text("the chosen option"),
        selectedBy=_text("the human who chose; default manual"),
        rationale=_text("the human's reason"),
        source=_text("where the human said so; kept as a claim, the door decides what is recorded"),
        selectedOptionIds={
            "type": "array",
            "items": {"type": "string"},
            "description": "several options of a multi-choice decision",
        },
        freeformValue=_text("the human's written answer"),
        decisionHash=_text("decisionHash of the question as it was shown; refused when the question differs"),
    ),
    "chaos_mark_decision_consumed": _input(
        ["decisionId"], decisionId=_text("the decision"), commandRunId=_RUN, metadata=_METADATA
    ),
    "chaos_create_resume_capsule": _input(
        ["commandRunId"],
        commandRunId=_RUN,
        lastCompletedStep=_text("what was done last"),
        nextStep=_text("what comes next"),
        intent=_text("what the run is for"),
        approvedScope=_texts("what the human approved"),
        constraints=_texts("what must hold"),
        requiredArtifacts=_texts("repository-relative paths that must be there to go on"),
        selectedPath=_text("which way was chosen"),
        openRisks=_texts("what may go wrong"),
        metadata=_METADATA,
    ),
    "chaos_get_resume_capsule": _input(
        [], commandRunId=_RUN, changeId=_CHANGE, latest=_flag("take the newest when several fit")
    ),
    "chaos_find_resume_candidates": _input(
        [], changeId=_CHANGE, commandRunId=_RUN, sourceCommand=_COMMAND, latest=_flag("the newest only")
    ),
    "chaos_resume_command": _input(["commandRunId"], commandRunId=_RUN),
    "chaos_complete_command": _input(
        ["commandRunId"],
        commandRunId=_RUN,
        completionMode=_text("how it ended", "normal-resumed-execution", "administrative-terminalization", "manual"),
        reason=_text("why"),
        metadata=_METADATA,
    ),
    "chaos_cancel_command": _input(["commandRunId"], commandRunId=_RUN, reason=_text("why"), metadata=_METADATA),
    "chaos_list_locks": _input([], changeId=_CHANGE, includeStale=_flag("default true"), limit=_LIMIT, cursor=_CURSOR),
    "chaos_list_sessions": _input(
        [],
        changeId=_CHANGE,
        state=_text("only sessions in this state"),
        sourceCommand=_COMMAND,
        readyToResumeOnly=_flag("default false"),
        limit=_LIMIT,
        cursor=_CURSOR,
    ),
}

_WORDS: Mapping[str, tuple[str, str, Annotations]] = {
    "chaos_begin_command": (
        "Begin a command",
        "Call first. Says whether the command may run on the change now, or what it must wait for.",
        _WRITES,
    ),
    "chaos_create_decision": (
        "Ask a human",
        "Put a question to a human, durably. Never blocks: afterwards stop until the human has answered.",
        _WRITES,
    ),
    "chaos_get_active_decision": ("What waits", "The whole question(s) that wait for a human now.", _HEALS),
    "chaos_get_decision_response": ("Read an answer", "What the human answered, or that no answer is there.", _HEALS),
    "chaos_answer_decision": (
        "Record a human's answer",
        "Bridge for a human who answered in the chat. The model must never choose for the human.",
        _HEALS,
    ),
    "chaos_mark_decision_consumed": ("Consume an answer", "Say that the answer was acted upon.", _HEALS),
    "chaos_create_resume_capsule": ("Write a capsule", "Write down what the next agent needs to go on.", _HEALS),
    "chaos_get_resume_capsule": ("Read a capsule", "What is needed to go on with a run.", _READS),
    "chaos_find_resume_candidates": ("What can be resumed", "Sessions whose human has answered.", _HEALS),
    "chaos_resume_command": ("Resume a run", "Go on with a run whose decision was answered.", _HEALS),
    "chaos_complete_command": ("Complete a run", "The run is done; its locks are released.", _ENDS),
    "chaos_cancel_command": ("Cancel a run", "End the run, its waiting decisions and its locks.", _ENDS),
    "chaos_list_locks": ("List locks", "Change locks and which of them are stale.", _READS),
    "chaos_list_sessions": ("List sessions", "Session summaries, newest page first.", _READS),
}


class _Arguments:
    """Checked JSON arguments, read with their types."""

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
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, str):
            return (value,)
        return tuple(cast("Sequence[str]", value))


Operation = Callable[[InteractionService, _Arguments], Awaitable[Envelope]]


def _begin(service: InteractionService, given: _Arguments) -> Awaitable[Envelope]:
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


def _create(service: InteractionService, given: _Arguments) -> Awaitable[Envelope]:
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


def _answer(service: InteractionService, given: _Arguments) -> Awaitable[Envelope]:
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


def _capsule(service: InteractionService, given: _Arguments) -> Awaitable[Envelope]:
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


def _end(given: _Arguments) -> EndRequest:
    return EndRequest(
        given.text("commandRunId"), given.maybe("reason"), given.maybe("completionMode"), given.free("metadata")
    )


_OPERATIONS: Mapping[str, Operation] = {
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
    "chaos_list_sessions": lambda s, a: s.list_sessions(
        SessionFilter(a.maybe("changeId"), a.maybe("state"), a.maybe("sourceCommand"), a.flag("readyToResumeOnly")),
        a.number("limit"),
        a.maybe("cursor"),
    ),
}


class InteractionToolSet(ToolSet):
    """The tools of one service. ``call`` answers failures with ``mustStop`` and what to do."""

    def __init__(self, service: InteractionService) -> None:
        super().__init__([_spec(service, name) for name in _OPERATIONS])

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> Envelope:
        from chaoscore.domain.schema import require_valid

        spec = self.get(name)
        if spec is None:
            known = ", ".join(_OPERATIONS)
            return failed(InvalidInput(f"unknown tool {name[:80]!r}; there are {known}", key="name"))
        try:
            require_valid(arguments, spec.input_schema)
            return await spec.handler(arguments, context)
        except ChaosError as error:
            return failed(error)
        except Exception:
            log.exception("tool %s failed unexpectedly", name)
            return failed(ChaosError(f"{name} failed unexpectedly; the server's log tells why", code="INTERNAL_ERROR"))


def _spec(service: InteractionService, name: str) -> ToolSpec:
    operation = _OPERATIONS[name]

    async def handler(arguments: JsonObject, _: CallContext) -> Envelope:
        return await operation(service, _Arguments(arguments))

    title, description, annotations = _WORDS[name]
    return ToolSpec(name, title, description, _INPUTS[name], envelope_schema({"type": "object"}), annotations, handler)

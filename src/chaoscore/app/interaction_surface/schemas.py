"""Input and output schemas of the 14 tools, as data.

Keys, types and enums of the inputs are those of the shared contract; what is ours is added, never renamed. A text's
``maxLength`` is its bound in UTF-8 bytes, which ``bounds`` checks; as characters it is then never the tighter one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaoscore.app.envelope import envelope_schema
from chaoscore.domain.interaction import states
from chaoscore.domain.interaction.limits import InteractionLimits
from chaoscore.domain.json import Json, JsonObject

Schema = dict[str, Json]


def text(words: str, *allowed: str, longest: int | None = None) -> Schema:
    out: Schema = {"type": "string", "description": words}
    if allowed:
        out["enum"] = list(allowed)
    if longest is not None:
        out["maxLength"] = longest
    return out


def flag(words: str) -> Schema:
    return {"type": "boolean", "description": words}


def number(words: str, low: int, high: int) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high, "description": words}


def texts(words: str, items_max: int) -> Schema:
    return {"type": "array", "items": {"type": "string"}, "maxItems": items_max, "description": words}


def text_or_texts(words: str, longest: int, items_max: int) -> Schema:
    item: Schema = {"type": "string", "maxLength": longest}
    return {
        "anyOf": [item, {"type": "array", "items": item, "maxItems": items_max}],
        "description": f"{words}; one string stands for a list of one",
    }


def closed(required: Sequence[str], **properties: JsonObject) -> Schema:
    """An object that knows all its keys."""
    needed: Schema = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def inputs(limits: InteractionLimits) -> Mapping[str, Schema]:
    """Every tool's input schema, in the order in which tools are listed."""
    long, listed = limits.text_bytes_max, limits.list_items_max
    run = text("the command run, as chaos_begin_command named it")
    change = text("the change the command works on")
    decision = text("the decision's id")
    command = text(
        "the command with its arguments, e.g. chaos:run; compared by its first word", longest=limits.command_bytes_max
    )
    reason = text("why", longest=long)
    metadata: Schema = {
        "type": "object",
        "additionalProperties": {},
        "description": f"anything to be kept with it; at most {limits.metadata_bytes_max} bytes of JSON, and "
        "chaosCore is reserved",
    }
    limit = number("how many to show at most", 1, limits.page_max)
    cursor = text("'next' of the page before", longest=400)
    return {
        "chaos_begin_command": closed(
            ["sourceCommand"],
            sourceCommand=command,
            changeId=change,
            adapter=text("the client", "claude", "copilot", "manual", "unknown"),
            requestedMode=text("how much assurance is wanted", "light", "standard", "strict", "unknown"),
            commandRunId=text("re-enter this run, or name the new one; at most 160 characters"),
            metadata=metadata,
            ttlSeconds=number(
                "after this many seconds a session that waits, and the lock of one that runs, expire",
                1,
                limits.ttl_seconds_max,
            ),
        ),
        "chaos_create_decision": _create(limits, run, metadata),
        "chaos_get_active_decision": closed([], changeId=change, commandRunId=run),
        "chaos_get_decision_response": closed(["decisionId"], decisionId=decision),
        "chaos_answer_decision": closed(
            ["decisionId"],
            decisionId=decision,
            selectedOptionId=text("the chosen option"),
            selectedBy=text("the human who chose; default manual"),
            rationale=text("the human's reason", longest=limits.answer_bytes_max),
            source=text("where the human said so; kept as a claim, the door decides what is recorded"),
            selectedOptionIds=texts("several options of a multi-choice decision", listed),
            freeformValue=text("the human's written answer", longest=limits.answer_bytes_max),
            decisionHash=text("decisionHash of the question as it was shown; refused when the question differs"),
        ),
        "chaos_mark_decision_consumed": closed(
            ["decisionId"], decisionId=decision, commandRunId=run, metadata=metadata
        ),
        "chaos_create_resume_capsule": closed(
            ["commandRunId"],
            commandRunId=run,
            lastCompletedStep=text("what was done last", longest=long),
            nextStep=text("what comes next", longest=long),
            intent=text("what the run is for", longest=long),
            approvedScope=text_or_texts("what the human approved", long, listed),
            constraints=text_or_texts("what must hold", long, listed),
            requiredArtifacts=text_or_texts("repository-relative paths that must be there to go on", long, listed),
            selectedPath=text("which way was chosen", longest=long),
            openRisks=text_or_texts("what may go wrong", long, listed),
            metadata=metadata,
        ),
        "chaos_get_resume_capsule": closed(
            [], commandRunId=run, changeId=change, latest=flag("take the newest when several fit")
        ),
        "chaos_find_resume_candidates": closed(
            [], changeId=change, commandRunId=run, sourceCommand=command, latest=flag("the newest only")
        ),
        "chaos_resume_command": closed(["commandRunId"], commandRunId=run),
        "chaos_complete_command": closed(
            ["commandRunId"],
            commandRunId=run,
            completionMode=text("how it ended", *_COMPLETION_MODES),
            reason=reason,
            metadata=metadata,
        ),
        "chaos_cancel_command": closed(["commandRunId"], commandRunId=run, reason=reason, metadata=metadata),
        "chaos_list_locks": closed([], changeId=change, includeStale=flag("default true"), limit=limit, cursor=cursor),
        "chaos_list_sessions": closed(
            [],
            changeId=change,
            state=text(f"only sessions in this state: {', '.join(states.SESSION)}"),
            sourceCommand=command,
            readyToResumeOnly=flag("default false"),
            limit=limit,
            cursor=cursor,
        ),
    }


_COMPLETION_MODES = ("normal-resumed-execution", "administrative-terminalization", "manual")
_TYPES = ("single-choice-decision", "multi-choice-decision", "confirmation", "freeform-input")


def _create(limits: InteractionLimits, run: Schema, metadata: Schema) -> Schema:
    long = limits.text_bytes_max
    option = closed(
        ["id", "label"],
        id=text("letters, digits and . _ : -, at most 120 characters"),
        label=text("what the human reads first", longest=limits.option_label_bytes_max),
        description=text("what choosing it means", longest=limits.option_text_bytes_max),
        consequence=text("what follows from it", longest=limits.option_text_bytes_max),
        risk=text("what may go wrong", longest=limits.option_text_bytes_max),
        recommended=flag("whether the asker recommends it"),
    )
    return closed(
        ["commandRunId", "title", "context"],
        commandRunId=run,
        sourceCommand=text("default: the session's", longest=limits.command_bytes_max),
        changeId=text("default: the session's"),
        title=text("the question in one line", longest=limits.title_bytes_max),
        context=text("everything a human needs to decide", longest=limits.context_bytes_max),
        interactionType=text("default single-choice-decision", *_TYPES),
        options={
            "type": "array",
            "items": option,
            "maxItems": limits.options_max,
            "description": "may be left out for freeform-input only",
        },
        recommendedOptionId=text("one of the option ids"),
        requiresRationale=flag("whether the human must give a reason"),
        independent=flag("whether other work may go on meanwhile"),
        expiresAt=text("instant like 2030-01-31T12:00:00Z after which no answer is taken"),
        metadata=metadata,
        recommendation=text("what the asker recommends and why", longest=long),
        nextStep=text("what the run does after the answer", longest=long),
        lastCompletedStep=text("what the run did last", longest=long),
        createdBy=text("who asks; default: the command", longest=limits.command_bytes_max),
        supersedes=text("a decision of the same run that this one replaces"),
    )


# ------------------------------------------------------------------------------------------------------ outputs

_TEXT: JsonObject = {"type": "string"}
_MAYBE: JsonObject = {"type": ["string", "null"]}
_IDS: JsonObject = {"type": "array", "items": {"type": "string"}}
_OBJECT: JsonObject = {"type": "object"}
_OBJECTS: JsonObject = {"type": "array", "items": {"type": "object"}}


def _data(**properties: JsonObject) -> Schema:
    """``data`` of one tool. A failure carries none of the keys, so none is required."""
    return envelope_schema({"type": "object", "properties": properties})


_DECISION_DATA: Mapping[str, JsonObject] = {
    "decisionId": _TEXT,
    "commandRunId": _TEXT,
    "changeId": _MAYBE,
    "decisionPath": _TEXT,
    "resumeInstruction": _TEXT,
    "uiHint": _TEXT,
}
_PAGE: Mapping[str, JsonObject] = {"total": {"type": "integer"}, "next": _MAYBE}

OUTPUTS: Mapping[str, JsonObject] = {
    "chaos_begin_command": _data(
        commandRunId=_MAYBE,
        changeId=_MAYBE,
        activeDecisionId=_MAYBE,
        conflictingCommandRunId=_MAYBE,
        resumeCapsulePath=_MAYBE,
        uiAction=_MAYBE,
    ),
    "chaos_create_decision": _data(**_DECISION_DATA),
    "chaos_get_active_decision": _data(decision=_OBJECT, decisions=_OBJECTS),
    "chaos_get_decision_response": _data(
        decisionId=_TEXT,
        commandRunId=_TEXT,
        changeId=_MAYBE,
        selectedOptionId=_MAYBE,
        selectedOptionIds=_IDS,
        freeformValue=_MAYBE,
        rationale=_MAYBE,
        selectedBy=_MAYBE,
        selectedAt=_MAYBE,
        source=_MAYBE,
        responsePath=_MAYBE,
        resumeCapsulePath=_MAYBE,
    ),
    "chaos_answer_decision": _data(
        decisionId=_TEXT,
        selectedOptionId=_MAYBE,
        responsePath=_TEXT,
        sessionState=_TEXT,
        resumeCapsulePath=_MAYBE,
    ),
    "chaos_mark_decision_consumed": _data(decisionId=_TEXT, commandRunId=_TEXT, previousState=_TEXT, nextState=_TEXT),
    "chaos_create_resume_capsule": _data(commandRunId=_TEXT, capsulePath=_TEXT, capsule=_OBJECT),
    "chaos_get_resume_capsule": _data(capsulePath=_TEXT, capsule=_OBJECT, capsules=_OBJECTS),
    "chaos_find_resume_candidates": _data(candidates=_OBJECTS),
    "chaos_resume_command": _data(commandRunId=_TEXT, sessionState=_TEXT),
    "chaos_complete_command": _data(commandRunId=_TEXT, completionMode=_TEXT, reason=_MAYBE, releasedLocks=_IDS),
    "chaos_cancel_command": _data(commandRunId=_TEXT, reason=_MAYBE, releasedLocks=_IDS, cancelledDecisionIds=_IDS),
    "chaos_list_locks": _data(locks=_OBJECTS, staleLocks=_OBJECTS, suggestedActions=_IDS, **_PAGE),
    "chaos_list_sessions": _data(
        sessions=_OBJECTS,
        readyToResume=_OBJECTS,
        pending=_OBJECTS,
        latest={"type": ["object", "null"]},
        **_PAGE,
    ),
}

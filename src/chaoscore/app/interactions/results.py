"""Envelopes of the decision runtime: every ``mustStop`` says in words that the caller must stop, failures too."""

from __future__ import annotations

from collections.abc import Sequence

from chaoscore.app.envelope import Envelope
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction.errors import SchemaViolation
from chaoscore.domain.json import Json, JsonObject

STOP_FOR_HUMAN = "Stop now. Do not continue this command until a human has answered the decision."

_AFTER_FAILURE = {
    "VALIDATION_ERROR": "Stop. Nothing was changed. Correct the named argument, then call again.",
    "SCHEMA_VALIDATION_ERROR": "Stop. Nothing was changed. Correct the named value, then call again.",
    "TOO_LARGE": "Stop. Nothing was changed. Shorten the named value, then call again.",
    "NOT_FOUND": "Stop. Check the id with chaos_list_sessions or chaos_get_active_decision before going on.",
    "RUNTIME_BUSY": "Stop. Nothing was changed. Wait for the named holder to finish, then call again.",
    "CHANGE_LOCKED": "Stop. Another run holds this change. Ask the human whether to wait for it or to cancel it.",
    "SESSION_TERMINAL": "Stop. This run is over. Begin a new command without commandRunId.",
    "DECISION_NOT_ANSWERABLE": "Stop. Read the decision with chaos_get_decision_response and act on what stands there.",
    "SESSION_NOT_RESUMABLE": "Stop. Look at the session with chaos_list_sessions; it may still wait for a human.",
    "INVALID_STATE_TRANSITION": "Stop. Look at the state with chaos_list_sessions before trying anything else.",
    "MALFORMED_STATE": "Stop. Ask the human to repair or remove the named file; nothing was overwritten.",
    "KERNEL_SESSION": "Stop. Nothing was changed. A person answers, and chaoscore_execute goes on with the run.",
    "ANSWER_BRIDGE_OFF": "Stop. Wait until a human has answered through the Decision Center or the command line.",
    "NO_SPACE": "Stop. Nothing was changed. Ask the human to free disk space, then call again.",
    "READ_ONLY": "Stop. Nothing was changed. Ask the human to make the interactions folder writable.",
    "PERMISSION": "Stop. Nothing was changed. Ask the human to correct the permissions of the named file.",
}
_AFTER_ANY_FAILURE = "Stop. Tell the human what failed before trying anything else."


def success(
    status: str,
    message: str,
    data: JsonObject,
    *,
    next_action: str | None = None,
    warnings: Sequence[str] = (),
) -> Envelope:
    return Envelope(status, message, data, warnings=tuple(warnings), next_action=next_action)


def stop(
    status: str, message: str, data: JsonObject, *, next_action: str = STOP_FOR_HUMAN, warnings: Sequence[str] = ()
) -> Envelope:
    """A good outcome after which the caller must stop."""
    return Envelope(status, message, data, must_stop=True, warnings=tuple(warnings), next_action=next_action)


def failed(error: ChaosError, warnings: Sequence[str] = ()) -> Envelope:
    """``details`` lists violations ``{path, message}``, as in the shared contract."""
    details: list[Json] = []
    if isinstance(error, SchemaViolation):
        details = [violation.to_json() for violation in error.violations]
    return Envelope(
        ok=False,
        status=error.code,
        message=error.message,
        must_stop=True,
        warnings=tuple(warnings),
        next_action=_AFTER_FAILURE.get(error.code, _AFTER_ANY_FAILURE),
        error_code=error.code,
        error_details=details,
    )

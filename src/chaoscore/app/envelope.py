"""The envelope of every tool result, on every transport (spec §1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from chaoscore.domain.errors import ChaosError
from chaoscore.domain.json import Json, JsonObject, is_array, is_object
from chaoscore.domain.redaction import Redactor


@dataclass(frozen=True, slots=True)
class Envelope:
    """``must_stop`` tells the calling model to stop until something outside it has happened.

    Blocking outcomes are ``ok`` with ``must_stop``; only failures carry ``error_code``.
    """

    status: str
    message: str
    data: JsonObject = field(default_factory=dict)
    ok: bool = True
    must_stop: bool = False
    warnings: tuple[str, ...] = ()
    next_action: str | None = None
    error_code: str | None = None
    error_details: JsonObject | Sequence[Json] = field(default_factory=dict)

    def redacted(self, redactor: Redactor) -> Envelope:
        """The same without secrets in anything that a caller reads."""
        if redactor.is_clean(self.to_json()):
            return self
        data, details = redactor.json(self.data), redactor.json(self.error_details)
        assert is_object(data) and (is_object(details) or is_array(details))
        return replace(
            self,
            message=redactor.text(self.message),
            data=data,
            warnings=tuple(redactor.text(warning) for warning in self.warnings),
            next_action=None if self.next_action is None else redactor.text(self.next_action),
            error_details=details,
        )

    def to_json(self) -> dict[str, Json]:
        out: dict[str, Json] = {
            "ok": self.ok,
            "status": self.status,
            "mustStop": self.must_stop,
            "message": self.message,
            "data": self.data,
            "warnings": list(self.warnings),
        }
        if self.next_action is not None:
            out["nextAction"] = self.next_action
        if self.error_code is not None:
            out["error"] = {"code": self.error_code, "details": self.error_details}
        return out


def failure(error: ChaosError, next_action: str | None = None) -> Envelope:
    """The envelope of an error of our own tree."""
    return Envelope(
        ok=False,
        status=error.code,
        message=error.message,
        next_action=next_action,
        error_code=error.code,
        error_details=error.details,
    )


def envelope_schema(data: JsonObject) -> dict[str, Json]:
    """The output schema of a tool whose ``data`` follows the given schema."""
    return {
        "type": "object",
        "required": ["ok", "status", "mustStop", "message", "data", "warnings"],
        "properties": {
            "ok": {"type": "boolean", "description": "false only when the call failed"},
            "status": {"type": "string", "description": "stable upper-case code of the outcome"},
            "mustStop": {
                "type": "boolean",
                "description": "true: stop now; a person or another process must act first",
            },
            "message": {"type": "string"},
            "data": data,
            "warnings": {"type": "array", "items": {"type": "string"}},
            "nextAction": {"type": "string", "description": "what to do next, in words"},
            "error": {
                "type": "object",
                "required": ["code", "details"],
                "properties": {"code": {"type": "string"}, "details": {"type": ["object", "array"]}},
            },
        },
    }

"""The one error tree. Every edge (MCP, HTTP, CLI) maps it to its wire through one table.

ChaosError
├── InvalidInput            the caller can mend the call                 VALIDATION_ERROR
│   └── PlanInvalid         a plan with faults, all of them listed       PLAN_INVALID
├── NotFound                missing, or somebody else's                  NOT_FOUND
├── Conflict                somebody else changed it meanwhile           VERSION_CONFLICT
├── Busy                    another live process works on it             RUN_BUSY
├── PinRefused              the approver's PIN is wrong or not set       PIN_REFUSED
├── IllegalTransition       an event the table does not list             ILLEGAL_TRANSITION
├── ConfigurationInvalid    the operator can mend a file or a setting    CONFIG_INVALID
│   └── PolicyInvalid       policy.json is not fully understood          POLICY_INVALID
├── LimitExceeded           a documented bound                           LIMIT_EXCEEDED
├── StorageError            the store could not                          IO_ERROR, NO_SPACE, READ_ONLY,
│                                                                        PERMISSION, STORE_BUSY, STORE_CORRUPT
├── LeaseLost               this process no longer owns the run          LEASE_LOST
├── CapabilityError         a handler's effect happened or may have      CAPABILITY_FAILED
│   └── NotPerformed        the effect certainly did not happen          NOT_PERFORMED
└── ProviderError           a model could not answer                     PROVIDER_ERROR
    ├── NotConfigured                                                    NOT_CONFIGURED
    ├── ProviderAuthFailed                                               PROVIDER_AUTH
    ├── ProviderRateLimited                                              PROVIDER_RATE_LIMITED
    ├── ProviderUnavailable                                              PROVIDER_UNAVAILABLE
    ├── ProviderTimedOut                                                 PROVIDER_TIMEOUT
    ├── ProviderRefused                                                  PROVIDER_REFUSED
    ├── ProviderTruncated                                                PROVIDER_TRUNCATED
    └── ProviderOutputInvalid                                            PROVIDER_OUTPUT_INVALID

Messages are lower case, without a full stop, with the offending value by ``!r`` and what to do about it.
They never carry a secret, a stack trace or the content of a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaoscore.domain.json import Json


class ChaosError(Exception):
    """Base of every error that reaches a caller. ``code`` is stable; ``details`` is JSON."""

    code = "ERROR"

    def __init__(self, message: str, /, *, code: str | None = None, **details: Json) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Json] = details
        if code is not None:
            self.code = code


class InvalidInput(ChaosError):
    """An argument is wrong. ``details['key']`` names it (JSON Pointer or plain name)."""

    code = "VALIDATION_ERROR"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a plan: where (JSON Pointer into the plan), what, and what to write instead."""

    pointer: str
    message: str
    suggestion: str | None = None

    def to_json(self) -> dict[str, Json]:
        out: dict[str, Json] = {"pointer": self.pointer, "message": self.message}
        if self.suggestion is not None:
            out["suggestion"] = self.suggestion
        return out


class PlanInvalid(InvalidInput):
    """A plan with faults; all of them at once in ``faults``."""

    code = "PLAN_INVALID"

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        count = len(self.faults)
        super().__init__(
            f"the plan has {count} fault{'s' if count != 1 else ''}; mend every one and send the steps again",
            faults=[fault.to_json() for fault in self.faults],
        )


class NotFound(ChaosError):
    """Missing and foreign answer alike, so that an id cannot be probed."""

    code = "NOT_FOUND"


class Conflict(ChaosError):
    code = "VERSION_CONFLICT"


class Busy(ChaosError):
    code = "RUN_BUSY"


class PinRefused(ChaosError):
    """A person must prove with the approver's PIN that it is they who answer. Nothing was answered."""

    code = "PIN_REFUSED"


class IllegalTransition(ChaosError):
    """An event that the table does not list for the state. Nothing was changed."""

    code = "ILLEGAL_TRANSITION"


class ConfigurationInvalid(ChaosError):
    code = "CONFIG_INVALID"


class PolicyInvalid(ConfigurationInvalid):
    """A policy that is not fully understood; names file, key and fix."""

    code = "POLICY_INVALID"


class LimitExceeded(ChaosError):
    code = "LIMIT_EXCEEDED"


class StorageError(ChaosError):
    """The store could not do it; nothing of the operation took effect. ``code`` says why."""

    code = "IO_ERROR"


class LeaseLost(ChaosError):
    """Another process owns the run now; whatever was being written was not written."""

    code = "LEASE_LOST"


class CapabilityError(ChaosError):
    """A handler failed. The effect may have happened: a non-idempotent action becomes outcome-unknown."""

    code = "CAPABILITY_FAILED"


class NotPerformed(CapabilityError):
    """The effect certainly did not happen: the action is failed, never outcome-unknown."""

    code = "NOT_PERFORMED"


class ProviderError(ChaosError):
    code = "PROVIDER_ERROR"


class NotConfigured(ProviderError):
    code = "NOT_CONFIGURED"


class ProviderAuthFailed(ProviderError):
    code = "PROVIDER_AUTH"


class ProviderRateLimited(ProviderError):
    code = "PROVIDER_RATE_LIMITED"


class ProviderUnavailable(ProviderError):
    code = "PROVIDER_UNAVAILABLE"


class ProviderTimedOut(ProviderError):
    code = "PROVIDER_TIMEOUT"


class ProviderRefused(ProviderError):
    code = "PROVIDER_REFUSED"


class ProviderTruncated(ProviderError):
    code = "PROVIDER_TRUNCATED"


class ProviderOutputInvalid(ProviderError):
    code = "PROVIDER_OUTPUT_INVALID"

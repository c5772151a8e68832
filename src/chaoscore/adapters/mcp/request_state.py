"""The sealed ``requestState``: what is known of a call whose user is being asked, kept by the client (2026-07-28).

The box is the SDK's (AES-256-GCM under a ring of keys). The claims are ours, because each question brings its own
expiry, the principal is ours, and a refusal has to say what to do in the envelope. A state opens for the same server,
tool, arguments and principal alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState

from chaoscore.adapters.mcp.state_keys import StateKeys
from chaoscore.app.ports import Clock
from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import Json, JsonObject, canonical_text, digest

log = logging.getLogger(__name__)

VERSION = 1

_AGAIN = "call the tool again without requestState"


@dataclass(frozen=True, slots=True)
class BoundTo:
    """The one call that a state is for."""

    server: str
    tool: str
    arguments: JsonObject
    principal: str

    @property
    def digest(self) -> str:
        """Raises ``ValueError`` for arguments that are nested too deeply."""
        return digest([self.server, self.tool, self.principal, self.arguments])


@dataclass(frozen=True, slots=True)
class Given:
    """What a client sent for a question: the digest of the form it was shown, and its answer as it came."""

    form: str
    answer: Json


@dataclass(frozen=True, slots=True)
class RequestState:
    """``asked`` are the questions of the last round (key to the form's digest), ``given`` the answers of all rounds."""

    asked: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Given] = field(default_factory=dict)


class StateSeal:
    """``keys`` live in the data directory, so that a restarted server and its neighbours open what this one sealed."""

    def __init__(self, keys: StateKeys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock

    def now(self) -> float:
        """Seconds since the epoch, as expiry is counted."""
        return self._clock.now()

    def keys(self) -> tuple[bytes, ...]:
        """Blocking. Raises ``StorageError``."""
        return self._keys.load()

    def close(self, keys: tuple[bytes, ...], bound: BoundTo, state: RequestState, expires_at: float) -> str:
        claims: dict[str, Json] = {
            "v": VERSION,
            "for": bound.digest,
            "exp": expires_at,
            "asked": dict(state.asked),
            "given": {key: [item.form, item.answer] for key, item in state.given.items()},
        }
        return AESGCMRequestStateCodec(keys).seal(canonical_text(claims).encode("ascii"))

    def open(self, keys: tuple[bytes, ...], bound: BoundTo, token: str) -> RequestState:
        """Raises ``InvalidInput`` for a state that this server did not make for this very call, or that has expired."""
        try:
            claims: Any = json.loads(AESGCMRequestStateCodec(keys).unseal(token))
        except InvalidRequestState as error:
            log.warning("a requestState was refused: %s", error)
            raise _foreign() from None
        if claims.get("v") != VERSION or claims["for"] != bound.digest:
            log.warning("a requestState was refused: it was made for another call")
            raise _foreign()
        if not self._clock.now() < claims["exp"]:
            raise InvalidInput(
                f"requestState: the question has expired; {_AGAIN}", key="requestState", reason="expired"
            )
        given = {key: Given(form, answer) for key, (form, answer) in claims["given"].items()}
        return RequestState(claims["asked"], given)


def _foreign() -> InvalidInput:
    return InvalidInput(
        f"requestState: it was not made for this call, or was changed on its way; {_AGAIN}",
        key="requestState",
        reason="not-for-this-call",
    )

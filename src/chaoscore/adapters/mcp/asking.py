"""Putting a request to the client in the middle of its own call, in the way of either protocol era.

2025: the server sends the request while the call is open and withdraws it when time is up. 2026: the call ends with
what is asked and a sealed state, and the client calls again with the responses. Above are ``elicitation`` (forms for
the user) and ``sampling`` (text of the client's model), which say what is asked and what a response means.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    REQUEST_TIMEOUT,
    CreateMessageRequest,
    ElicitRequest,
    InputRequest,
    InputRequiredResult,
    RequestId,
    Result,
)
from pydantic import ValidationError

from chaoscore.adapters.mcp.request_state import BoundTo, Given, RequestState, StateSeal
from chaoscore.app.envelope import Envelope
from chaoscore.domain.errors import StorageError

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT", bound=Result)

WRITE_SECONDS = 5.0
"""What a client may take to read a request; its time to answer begins after that."""

STATE_SECONDS = 3_600.0
"""How long a response counts when the asker does not say."""

REQUESTS_MAX = 64
"""Requests of one call, all rounds together."""


class OpenQuestions:
    """What the clients of one server are being asked right now."""

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()
        self._over = False

    @contextmanager
    def one(self) -> Iterator[None]:
        """Around a question that may be withdrawn; what it waits for is then cancelled."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            if self._over:
                scope.cancel()
            try:
                yield
            finally:
                self._scopes.discard(scope)

    def withdraw_all(self) -> None:
        """No answer can arrive any more: every ``ask`` returns without one, now and from now on."""
        self._over = True
        for scope in list(self._scopes):
            scope.cancel()


class NoResponse(Exception):
    """The client gave none. ``why`` is a clause of ours about it; ``expected`` when the client did nothing wrong."""

    def __init__(self, why: str, *, expected: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.expected = expected


class OpenCall:
    """A call of the 2025 era, on whose own channel the client can be asked."""

    def __init__(self, session: ServerSession, request_id: RequestId, questions: OpenQuestions) -> None:
        self.protocol_version = session.protocol_version
        self._session = session
        self._request_id = request_id
        self._questions = questions

    async def send(
        self, request: CreateMessageRequest | ElicitRequest, result_type: type[ResultT], seconds: float
    ) -> ResultT:
        """The client's result within ``seconds``. Raises ``NoResponse``, whatever the client does."""
        try:
            with anyio.move_on_after(seconds + WRITE_SECONDS), self._questions.one():
                return await self._session.send_request(
                    request, result_type, seconds, ServerMessageMetadata(related_request_id=self._request_id)
                )
        except MCPError as error:
            # A connection that closed answers its questions before it cancels its calls.
            await anyio.lowlevel.checkpoint()
            if error.code == REQUEST_TIMEOUT:
                raise NoResponse(f"nobody answered within {seconds:g} seconds", expected=True) from None
            raise NoResponse(f"the client refused it with error {error.code}") from None
        except ValidationError:
            raise NoResponse("the client's answer is none that MCP knows") from None
        except TimeoutError:
            raise NoResponse("it could not be sent") from None
        raise NoResponse("it was withdrawn before an answer came", expected=True)


class Rounds:
    """A call of the 2026 era: it ends with what has to be asked, and begins again with what the client brings along."""

    def __init__(
        self, seal: StateSeal, bound: BoundTo, state: RequestState, protocol_version: str, again: bool
    ) -> None:
        self.again = again
        self.protocol_version = protocol_version
        self._seal = seal
        self._bound = bound
        self._state = state
        self._keys: tuple[bytes, ...] = ()
        self._requests: dict[str, InputRequest] = {}
        self._asked: dict[str, str] = {}
        self._expires_at = float("inf")
        self._scope = anyio.CancelScope()

    async def run(self, call: Callable[[], Awaitable[Envelope]]) -> Envelope | InputRequiredResult:
        """The call's outcome, or what has to be asked first."""
        envelope = None
        with self._scope:
            envelope = await call()
        if envelope is not None:
            return envelope
        state = RequestState(self._asked, self._state.given)
        token = self._seal.close(self._keys, self._bound, state, self._expires_at)
        return InputRequiredResult(input_requests=self._requests, request_state=token)

    def now(self) -> float:
        return self._seal.now()

    def given(self, key: str, shown: str) -> Given | None:
        """What the client brought for this very question."""
        given = self._state.given.get(key)
        if given is not None and given.form != shown:
            log.info("the question %r has changed since it was answered; it is asked again", key)
            return None
        return given

    def left_out(self, key: str) -> bool:
        """Whether it was asked in the round before, and the client called again without a response."""
        return key in self._state.asked and key not in self._state.given

    async def ask(self, key: str, shown: str, request: InputRequest, expires_at: float) -> None:
        """End the call with this question. Returns only when it cannot be asked; the log says why."""
        if len({*self._state.given, *self._asked, key}) > REQUESTS_MAX:
            log.warning("the question %r was not asked: this call has asked %s others", key, REQUESTS_MAX)
            return
        # Noted before anything is awaited, so that questions asked side by side travel together.
        self._requests[key] = request
        self._asked[key] = shown
        self._expires_at = min(self._expires_at, expires_at)
        if not await self._can_seal():
            self._requests.pop(key, None)
            self._asked.pop(key, None)
            return
        self._scope.cancel()
        await anyio.sleep_forever()

    async def _can_seal(self) -> bool:
        try:
            self._keys = await anyio.to_thread.run_sync(self._seal.keys)
        except StorageError as error:
            log.error("nobody can be asked in place: %s", error.message)
            return False
        return True

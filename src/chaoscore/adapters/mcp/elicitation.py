"""Asking the user in place over MCP, in the way of either protocol era.

2025: the server sends ``elicitation/create`` while the call is open and withdraws it when time is up. 2026: the call
ends with what is asked and a sealed state, and the client calls again with the answers. Above is ``server``, which
gives each call its elicitor; the tools see ``app.elicitation`` alone.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    REQUEST_TIMEOUT,
    CallToolRequestParams,
    ClientCapabilities,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    RequestId,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from chaoscore.adapters.mcp.definition import Caller, RequestContext, ServerDefinition
from chaoscore.adapters.mcp.forms import requested_schema
from chaoscore.adapters.mcp.request_state import BoundTo, Given, RequestState, StateSeal
from chaoscore.app.elicitation import ASK_SECONDS, Form, FormAnswer
from chaoscore.app.envelope import Envelope
from chaoscore.domain.errors import InvalidInput, StorageError
from chaoscore.domain.json import Json, digest, is_object

log = logging.getLogger(__name__)

WRITE_SECONDS = 5.0
"""What a client may take to read a question; its time to answer begins after that."""

STATE_SECONDS = 3_600.0
"""How long an answer counts when the asker does not say."""

QUESTIONS_MAX = 64
"""Questions of one call, all rounds together."""


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


class Elicitation:
    """Gives each call of one server its elicitor."""

    def __init__(self, definition: ServerDefinition) -> None:
        self._server = definition.name
        self._seal = definition.seal
        self.questions = OpenQuestions()

    async def elicitor(
        self, ctx: RequestContext, caller: Caller, params: CallToolRequestParams
    ) -> LiveElicitor | RoundsElicitor | None:
        """``None`` for a client that cannot be asked.

        Raises ``InvalidInput`` for a ``requestState`` that does not belong to this call, ``StorageError`` when there
        is one and the keys cannot be read.
        """
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            if not shows_forms(ctx.session.client_capabilities) or not caller.hears_questions:
                return None
            if not ctx.session.can_send_request or ctx.request_id is None:
                return None
            return LiveElicitor(ctx.session, ctx.request_id, self.questions)
        forms = self._seal is not None and shows_forms(ctx.session.client_capabilities)
        if not forms and params.request_state is None:
            return None
        bound = BoundTo(self._server, params.name, params.arguments or {}, caller.peer.principal.key)
        state = RequestState() if params.request_state is None else await self._opened(bound, params)
        again = params.request_state is not None
        return RoundsElicitor(self._seal, bound, state, ctx.protocol_version, again) if self._seal and forms else None

    async def _opened(self, bound: BoundTo, params: CallToolRequestParams) -> RequestState:
        if self._seal is None:
            raise InvalidInput(
                "requestState: this server asks nothing; call the tool again without it", key="requestState"
            )
        keys = await anyio.to_thread.run_sync(self._seal.keys)
        state = self._seal.open(keys, bound, params.request_state or "")
        return _with_responses(state, params)


def _with_responses(state: RequestState, params: CallToolRequestParams) -> RequestState:
    """The state with what the client answered now, to what it was asked and to nothing else."""
    given = dict(state.given)
    for key, response in (params.input_responses or {}).items():
        if key in state.asked:
            answer = response.model_dump(mode="json") if isinstance(response, ElicitResult) else None
            given[key] = Given(state.asked[key], answer)
    return RequestState(state.asked, given)


def shows_forms(capabilities: ClientCapabilities | None) -> bool:
    """Elicitation declared without a mode means forms."""
    asked = capabilities.elicitation if capabilities is not None else None
    return asked is not None and (asked.form is not None or asked.url is None)


class LiveElicitor:
    """Asks while the call is open (2025-11-25 and 2025-06-18)."""

    again = False

    def __init__(self, session: ServerSession, request_id: RequestId, questions: OpenQuestions) -> None:
        self._session = session
        self._request_id = request_id
        self._questions = questions
        self._asked: dict[tuple[str, str], FormAnswer | None] = {}

    async def ask(
        self, key: str, form: Form, seconds: float = ASK_SECONDS, *, expires_at: float | None = None
    ) -> FormAnswer | None:
        schema = requested_schema(form, self._session.protocol_version)
        if schema is None:
            log.info("the question %r was not asked: MCP %s has no such form", key, self._session.protocol_version)
            return None
        if seconds <= 0:
            return None
        known = (key, _digest(form, schema))
        if known not in self._asked:
            self._asked[known] = await self._answer(key, form, schema, seconds)
        return self._asked[known]

    async def _answer(self, key: str, form: Form, schema: dict[str, Any], seconds: float) -> FormAnswer | None:
        answer: ElicitResult | None = None
        try:
            with anyio.move_on_after(seconds + WRITE_SECONDS), self._questions.one():
                answer = await self._session.send_request(
                    _request(form, schema),
                    ElicitResult,
                    seconds,
                    ServerMessageMetadata(related_request_id=self._request_id),
                )
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                log.info("nobody answered the question %r within %s seconds; it was withdrawn", key, seconds)
            else:
                log.warning("the client could not ask the question %r: error %s", key, error.code)
            # A connection that closed answers its questions before it cancels its calls.
            await anyio.lowlevel.checkpoint()
        except ValidationError:
            log.warning("the client's answer to the question %r is none that MCP knows", key)
        except TimeoutError:
            log.warning("the question %r could not be sent", key)
        return None if answer is None else read_answer(key, form, answer.action, answer.content)


class RoundsElicitor:
    """Asks by ending the call, and answers from what the client brings along when it calls again (2026-07-28)."""

    def __init__(
        self, seal: StateSeal, bound: BoundTo, state: RequestState, protocol_version: str, again: bool
    ) -> None:
        self.again = again
        self._seal = seal
        self._bound = bound
        self._state = state
        self._protocol_version = protocol_version
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

    async def ask(
        self, key: str, form: Form, seconds: float = ASK_SECONDS, *, expires_at: float | None = None
    ) -> FormAnswer | None:
        schema = requested_schema(form, self._protocol_version)
        now = self._seal.now()
        expires = now + STATE_SECONDS if expires_at is None else expires_at
        if schema is None or expires <= now:
            return None
        shown = _digest(form, schema)
        given = self._state.given.get(key)
        if given is not None and given.form == shown:
            return _read_given(key, form, given.answer)
        if given is not None:
            log.info("the question %r has changed since it was answered; it is asked again", key)
        if len({*self._state.given, *self._asked, key}) > QUESTIONS_MAX:
            log.warning("the question %r was not asked: this call has asked %s others", key, QUESTIONS_MAX)
            return None
        # Noted before anything is awaited, so that questions asked side by side travel together.
        self._requests[key] = _request(form, schema)
        self._asked[key] = shown
        self._expires_at = min(self._expires_at, expires)
        if not await self._can_seal():
            self._requests.pop(key, None)
            self._asked.pop(key, None)
            return None
        self._scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError("a question ends its call")

    async def _can_seal(self) -> bool:
        try:
            self._keys = await anyio.to_thread.run_sync(self._seal.keys)
        except StorageError as error:
            log.error("nobody can be asked in place: %s", error.message)
            return False
        return True


def read_answer(key: str, form: Form, action: str, content: Mapping[str, Json] | None) -> FormAnswer | None:
    """What the user answered; ``None``, and a line in the log, when it does not fit the form."""
    if action == "decline":
        return FormAnswer("decline")
    if action == "cancel":
        return FormAnswer("cancel")
    try:
        return FormAnswer("accept", form.read(content or {}))
    except InvalidInput as error:
        log.warning("the client's answer to the question %r does not fit its form: %s", key, error.message)
        return None


def _read_given(key: str, form: Form, answer: Json) -> FormAnswer | None:
    if not is_object(answer):
        log.warning("the client's answer to the question %r is no answer to a form", key)
        return None
    content = answer.get("content")
    return read_answer(key, form, str(answer.get("action")), content if is_object(content) else None)


def _request(form: Form, schema: dict[str, Any]) -> ElicitRequest:
    return ElicitRequest(params=ElicitRequestFormParams(message=form.message, requested_schema=schema))


def _digest(form: Form, schema: dict[str, Any]) -> str:
    return digest([form.message, schema])

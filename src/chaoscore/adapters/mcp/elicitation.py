"""Asking the user in place over MCP: forms, their answers, and who of a call's client can be asked at all.

``asking`` below carries requests and responses in the way of either protocol era. Above is ``server``, which gives each
call what it can ask; the tools see ``app.elicitation`` and ``app.client_model`` alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
from mcp_types import (
    CallToolRequestParams,
    ClientCapabilities,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from chaoscore.adapters.mcp import sampling
from chaoscore.adapters.mcp.asking import STATE_SECONDS, NoResponse, OpenCall, OpenQuestions, Rounds
from chaoscore.adapters.mcp.definition import Caller, RequestContext, ServerDefinition
from chaoscore.adapters.mcp.forms import requested_schema
from chaoscore.adapters.mcp.request_state import BoundTo, Given, RequestState
from chaoscore.app.client_model import ClientModel
from chaoscore.app.elicitation import ASK_SECONDS, Elicitor, Form, FormAnswer
from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import Json, digest, is_object

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InPlace:
    """What one call can ask of its client. ``rounds`` runs the call where asking ends it."""

    elicitor: Elicitor | None = None
    client_model: ClientModel | None = None
    rounds: Rounds | None = None


class Elicitation:
    """Gives each call of one server what it can ask of its client."""

    def __init__(self, definition: ServerDefinition) -> None:
        self._server = definition.name
        self._seal = definition.seal
        self._client_model = definition.client_model
        self.questions = OpenQuestions()

    async def in_place(self, ctx: RequestContext, caller: Caller, params: CallToolRequestParams) -> InPlace:
        """Empty for a client that cannot be asked.

        Raises ``InvalidInput`` for a ``requestState`` that does not belong to this call, ``StorageError`` when there
        is one and the keys cannot be read.
        """
        capabilities = ctx.session.client_capabilities
        forms, model = shows_forms(capabilities), self._client_model and sampling.has_model(capabilities)
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            if not (forms or model) or not caller.hears_questions:
                return InPlace()
            if not ctx.session.can_send_request or ctx.request_id is None:
                return InPlace()
            call = OpenCall(ctx.session, ctx.request_id, self.questions)
            return InPlace(LiveElicitor(call) if forms else None, sampling.LiveClientModel(call) if model else None)
        asks = self._seal is not None and (forms or model)
        if not asks and params.request_state is None:
            return InPlace()
        bound = BoundTo(self._server, params.name, params.arguments or {}, caller.peer.principal.key)
        state = RequestState() if params.request_state is None else await self._opened(bound, params)
        if self._seal is None or not asks:
            return InPlace()
        rounds = Rounds(self._seal, bound, state, ctx.protocol_version, params.request_state is not None)
        return InPlace(
            RoundsElicitor(rounds) if forms else None, sampling.RoundsClientModel(rounds) if model else None, rounds
        )

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
        if key not in state.asked:
            continue
        answer: Json = None
        if key.startswith(sampling.KEY_PREFIX):
            answer = sampling.kept(response)
        elif isinstance(response, ElicitResult):
            answer = response.model_dump(mode="json")
        given[key] = Given(state.asked[key], answer)
    return RequestState(state.asked, given)


def shows_forms(capabilities: ClientCapabilities | None) -> bool:
    """Elicitation declared without a mode means forms."""
    asked = capabilities.elicitation if capabilities is not None else None
    return asked is not None and (asked.form is not None or asked.url is None)


class LiveElicitor:
    """Asks while the call is open (2025-11-25 and 2025-06-18)."""

    again = False

    def __init__(self, call: OpenCall) -> None:
        self._call = call
        self._asked: dict[tuple[str, str], FormAnswer | None] = {}

    async def ask(
        self, key: str, form: Form, seconds: float = ASK_SECONDS, *, expires_at: float | None = None
    ) -> FormAnswer | None:
        version = self._call.protocol_version
        schema = requested_schema(form, version)
        if schema is None:
            log.info("the question %r was not asked: MCP %s has no such form", key, version)
            return None
        if seconds <= 0:
            return None
        known = (key, _digest(form, schema))
        if known not in self._asked:
            self._asked[known] = await self._answer(key, form, schema, seconds)
        return self._asked[known]

    async def _answer(self, key: str, form: Form, schema: dict[str, Any], seconds: float) -> FormAnswer | None:
        try:
            answer = await self._call.send(_request(form, schema), ElicitResult, seconds)
        except NoResponse as error:
            level = logging.INFO if error.expected else logging.WARNING
            log.log(level, "there is no answer to the question %r: %s", key, error.why)
            return None
        return read_answer(key, form, answer.action, answer.content)


class RoundsElicitor:
    """Asks by ending the call, and answers from what the client brings along when it calls again (2026-07-28)."""

    def __init__(self, rounds: Rounds) -> None:
        self.again = rounds.again
        self._rounds = rounds

    async def ask(
        self, key: str, form: Form, seconds: float = ASK_SECONDS, *, expires_at: float | None = None
    ) -> FormAnswer | None:
        schema = requested_schema(form, self._rounds.protocol_version)
        now = self._rounds.now()
        expires = now + STATE_SECONDS if expires_at is None else expires_at
        if schema is None or expires <= now:
            return None
        shown = _digest(form, schema)
        given = self._rounds.given(key, shown)
        if given is not None:
            return _read_given(key, form, given.answer)
        await self._rounds.ask(key, shown, _request(form, schema), expires)
        return None


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

"""Bytes to JSON-RPC messages, and refusals that say what is wrong: the first thing either transport does.

Stricter than the SDK's parser on purpose, so that both transports and both eras refuse the same: NaN, infinities and
(unless a server wants them) lone surrogates are not JSON; a request whose id is null, a fraction or a boolean is no
notification.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

import pydantic_core
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from pydantic import ValidationError

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_HUGE_EXPONENT = re.compile(rb"\d[eE]\+?\d{3}")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why bytes are no message. ``id`` is the request's, where it could be read."""

    code: int
    message: str
    id: RequestId | None = None

    def to_message(self) -> JSONRPCError:
        return JSONRPCError(jsonrpc="2.0", id=self.id, error=ErrorData(code=self.code, message=self.message))

    def to_bytes(self) -> bytes:
        return self.to_message().model_dump_json(by_alias=True, exclude_unset=True).encode()


def too_large(bytes_max: int) -> Refusal:
    return Refusal(INVALID_REQUEST, f"the message is larger than {bytes_max} bytes; send less in one call")


def parse(raw: bytes, lone_surrogates: bool = False) -> JSONRPCMessage | Refusal:
    """One message, or why it is none. Never raises."""
    try:
        value = pydantic_core.from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        value = _with_surrogates(raw) if lone_surrogates else None
        if value is None:
            return Refusal(PARSE_ERROR, f"not JSON: {error}")
    if not isinstance(value, dict):
        kind = "a batch" if isinstance(value, list) else "not an object"
        return Refusal(INVALID_REQUEST, f"one JSON-RPC message at a time, please: this is {kind}")
    if _HUGE_EXPONENT.search(raw) is not None and _has_infinity(value):
        return Refusal(PARSE_ERROR, "not JSON: a number is out of range")
    return _message(value)


def _with_surrogates(raw: bytes) -> object:
    """The value of JSON whose only fault may be escapes of lone surrogates; ``None`` when it has another."""
    if _SURROGATE_ESCAPE.search(raw) is None:
        return None
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> object:
    raise ValueError(name)


def _message(value: dict[str, Any]) -> JSONRPCMessage | Refusal:
    has_id = "id" in value
    raw_id = value.get("id")
    known_id: RequestId | None = raw_id if isinstance(raw_id, str | int) and not isinstance(raw_id, bool) else None
    if value.get("jsonrpc") != "2.0":
        return Refusal(INVALID_REQUEST, "'jsonrpc' must be \"2.0\"", known_id)
    try:
        if "method" not in value:
            if "result" in value:
                return JSONRPCResponse.model_validate(value, by_name=False)
            if "error" in value:
                return JSONRPCError.model_validate(value, by_name=False)
            return Refusal(INVALID_REQUEST, "a message needs 'method', 'result' or 'error'", known_id)
        if not isinstance(value["method"], str):
            return Refusal(INVALID_REQUEST, "'method' must be a string", known_id)
        if not isinstance(value.get("params"), dict | None):
            return Refusal(INVALID_REQUEST, "'params' must be an object", known_id)
        if not has_id:
            return JSONRPCNotification.model_validate(value, by_name=False)
        if known_id is None:
            return Refusal(INVALID_REQUEST, "'id' must be a string or an integer")
        return JSONRPCRequest.model_validate(value, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        at = ".".join(str(part) for part in first["loc"]) or "message"
        return Refusal(INVALID_REQUEST, f"{at}: {first['msg'].lower()}", known_id)


def _has_infinity(value: object) -> bool:
    stack = [value]
    while stack:
        at = stack.pop()
        if isinstance(at, float):
            if not math.isfinite(at):
                return True
        elif isinstance(at, dict):
            stack.extend(at.values())
        elif isinstance(at, list):
            stack.extend(at)
    return False


def is_initialize(message: JSONRPCMessage) -> bool:
    return isinstance(message, JSONRPCRequest) and message.method == "initialize"

"""Bytes in, bytes out: the parser never raises and never lets through what is no JSON; a result can always be sent."""

from __future__ import annotations

import json
import math
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from mcp_types.methods import serialize_server_result

from chaoscore.adapters.mcp.jsonrpc import Refusal, parse
from chaoscore.adapters.mcp.wire import DEPTH_MAX, TEXT_CHARS_MAX, tool_result
from chaoscore.app.envelope import Envelope
from chaoscore.domain.json import Json

ANY_TEXT = st.text(st.characters(), max_size=20)  # lone surrogates included
FLOATS = st.floats(allow_nan=True, allow_infinity=True)
ANY_VALUE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_raise(raw: bytes) -> None:
    assert isinstance(parse(raw), Refusal | JSONRPCRequest | JSONRPCNotification | JSONRPCResponse)


@given(st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), ANY_VALUE))
def test_any_object_is_a_message_or_refused_with_a_standard_code(value: dict[str, Any]) -> None:
    outcome = parse(json.dumps(value).encode())
    if isinstance(outcome, Refusal):
        assert outcome.code in (-32700, -32600)
        assert json.loads(outcome.to_bytes())["error"]["message"] == outcome.message
    elif isinstance(outcome, JSONRPCRequest):
        assert isinstance(outcome.id, int | str) and not isinstance(outcome.id, bool)
        assert value["jsonrpc"] == "2.0"
    elif isinstance(outcome, JSONRPCNotification):
        assert "id" not in value


@given(st.dictionaries(ANY_TEXT, ANY_VALUE, max_size=4))
def test_what_is_let_through_is_what_was_sent(params: dict[str, Any]) -> None:
    raw = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "m", "params": params}).encode()
    outcome = parse(raw)
    sent = json.loads(raw)["params"]  # two lone surrogates may have met and made a character
    if _is_json(sent):
        assert isinstance(outcome, JSONRPCRequest)
        assert outcome.params == sent
    else:
        assert isinstance(outcome, Refusal)
        assert outcome.code == -32700


def test_integers_arrive_in_full() -> None:
    outcome = parse(b'{"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"n": 123456789012345678901234567890}}')
    assert isinstance(outcome, JSONRPCRequest)
    assert outcome.params == {"n": 123456789012345678901234567890}


@given(ANY_VALUE, ANY_TEXT, ANY_TEXT)
def test_any_envelope_can_be_sent_in_both_eras(value: Any, message: str, warning: str) -> None:
    envelope = Envelope("DONE", message, {"value": cast("Json", value)}, warnings=(warning,))
    result = tool_result(envelope)
    for version in ("2025-11-25", "2026-07-28"):
        shaped = serialize_server_result("tools/call", version, result)
        wire = json.loads(JSONRPCResponse(jsonrpc="2.0", id=1, result=shaped).model_dump_json())
        assert wire["result"]["structuredContent"]["status"] == "DONE"
    if _is_json(value) and _is_json(message) and _is_json(warning):
        assert result["structuredContent"] == envelope.to_json(), "what can be sent is sent as it is"


@given(st.integers(1, 2 * DEPTH_MAX))
def test_nesting_is_kept_up_to_the_bound_and_named_beyond(depth: int) -> None:
    value: dict[str, Json] = {}
    for _ in range(depth):
        value = {"d": value}
    content = tool_result(Envelope("DONE", "deep", value))["structuredContent"]
    # The envelope and its data are two levels themselves.
    assert bool(content["warnings"]) is (depth + 1 > DEPTH_MAX)
    assert (content["data"] == value) is (depth + 1 <= DEPTH_MAX)


def test_a_text_that_speaks_of_nan_is_left_alone() -> None:
    content = tool_result(Envelope("DONE", "NaN and Infinity", {"text": "NaN"}))["structuredContent"]
    assert (content["message"], content["data"], content["warnings"]) == ("NaN and Infinity", {"text": "NaN"}, [])


@given(st.integers(0, 3 * TEXT_CHARS_MAX))
def test_the_text_is_bounded_and_the_structure_is_whole(size: int) -> None:
    result = tool_result(Envelope("DONE", "long", {"text": "x" * size}))
    assert len(result["content"][0]["text"]) <= TEXT_CHARS_MAX
    assert len(result["structuredContent"]["data"]["text"]) == size


def _is_json(value: Any) -> bool:
    """Whether every text can be UTF-8 and every number is finite."""
    if isinstance(value, str):
        return not any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(_is_json(key) and _is_json(item) for key, item in value.items())
    if isinstance(value, list):
        return all(_is_json(item) for item in value)
    return True

"""Raw bytes over stdio: whatever arrives, the connection survives and says what was wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.mcp.support import ENVELOPE, Message, RawStdio, call, message, raw_stdio


@pytest.fixture(scope="module")
def server() -> Iterator[RawStdio]:
    """One connection for all these tests, which must leave it as it was: that is what they are about."""
    with raw_stdio() as shared:
        yield shared


@pytest.fixture(scope="module")
def modern() -> Iterator[RawStdio]:
    """One connection of the stateless era."""
    with raw_stdio(handshake=False) as shared:
        shared.request(message("tools/list", {"_meta": ENVELOPE}, id=0))
        yield shared


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (b"garbage", -32700, "not JSON"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"', -32700, "not JSON"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": NaN}}', -32700, "not JSON"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": 1e999}}', -32700, "out of range"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "\\ud800"}}', -32700, "not JSON"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}', -32700, "not JSON"),
        (b"[" * 1_000 + b"]" * 1_000, -32700, "recursion"),
        (b'{"jsonrpc": "2.0", "id": 1, "x": ' + b"9" * 5_000 + b"}", -32700, "out of range"),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600, "a batch"),
        (b'"ping"', -32600, "not an object"),
        (b"{}", -32600, "jsonrpc"),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600, "jsonrpc"),
        (b'{"jsonrpc": "2.0", "id": 1}', -32600, "needs 'method'"),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, "'id'"),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, "'id'"),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, "'id'"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', -32600, "'method'"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}', -32600, "'params'"),
        (b'{"jsonrpc": "2.0", "id": 1, "error": {"code": "x"}}', -32600, "error"),
    ],
)
def test_what_is_no_message_is_refused_with_its_reason_and_the_next_call_works(
    server: RawStdio, line: bytes, code: int, words: str
) -> None:
    server.write(line + b"\n")
    error = server.receive()["error"]
    assert error["code"] == code
    assert words in error["message"]
    assert server.tool("echo", {"text": "still here"})["data"] == {"text": "still here"}


def test_a_refusal_carries_the_id_of_its_request_where_it_has_one(server: RawStdio) -> None:
    assert server.request({"jsonrpc": "2.0", "id": "mine", "method": 7})["id"] == "mine"
    server.write(b"garbage\n")
    assert server.receive()["id"] is None


def test_a_message_may_arrive_in_pieces_and_several_in_one(server: RawStdio) -> None:
    first = json.dumps(call("echo", {"text": "审批"}, id=1), ensure_ascii=False).encode()
    middle = first.index("审".encode()) + 1  # inside a character
    server.write(first[:middle])
    server.write(first[middle:] + b"\n\n  \n" + json.dumps(call("echo", {"text": "b"}, id=2)).encode() + b"\r\n")
    answers = [server.receive(), server.receive()]
    texts = {item["id"]: item["result"]["structuredContent"]["data"]["text"] for item in answers}
    assert texts == {1: "审批", 2: "b"}


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (call("echo", {"txt": "x", "text": "y"}), "/txt"),
        (call("echo", {"text": 5}), "/text"),
        (call("echo"), "/text"),
        (call("echo", [1]), "arguments"),
        (call("echo", "text"), "arguments"),
        (call("no_such_tool", {}), "name"),
        (call(None, {}), "name"),
        (call(5, {}), "name"),
        (message("tools/call", id=1), "name"),
    ],
)
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_every_argument_error_is_our_envelope_naming_the_key(
    server: RawStdio, modern: RawStdio, line: Message, key: str, era: str
) -> None:
    if era == "modern":
        line = {**line, "params": {**line.get("params", {}), "_meta": ENVELOPE}}
    result = (modern if era == "modern" else server).request(line)["result"]
    assert result["isError"] is True
    assert result["structuredContent"]["status"] == "VALIDATION_ERROR"
    assert result["structuredContent"]["error"]["details"]["key"] == key
    assert result["content"][0]["text"].startswith("VALIDATION_ERROR: ")
    stamps = (result.get("resultType"), "_meta" in result)
    assert stamps == (("complete", True) if era == "modern" else (None, False))


def test_null_arguments_are_no_arguments(server: RawStdio) -> None:
    line = call("whoami")
    line["params"]["arguments"] = None
    assert server.request(line)["result"]["structuredContent"]["ok"] is True


@pytest.mark.parametrize(("params", "key"), [(None, "params"), ({}, "uri"), ({"uri": 5}, "uri")])
def test_other_requests_with_wrong_params_name_the_key_and_nothing_more(
    server: RawStdio, params: object, key: str
) -> None:
    error = server.request(message("resources/read", params, id=1))["error"]
    assert (error["code"], error["data"]) == (-32602, {"key": key})


def test_an_unknown_method_is_not_found(server: RawStdio) -> None:
    assert server.request(message("prompts/list", id=1))["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("what", "value", "warns"),
    [
        ("surrogate", "a\N{REPLACEMENT CHARACTER}b", True),
        ("nan", None, True),
        ("null", None, False),
        ("big", 2**70, False),
        ("unicode", "审批 ✓", False),
    ],
)
def test_what_a_tool_returns_arrives_as_json_or_says_what_was_changed(
    server: RawStdio, what: str, value: object, warns: bool
) -> None:
    content = server.tool("odd", {"what": what})
    assert content["data"] == {"value": value}
    assert bool(content["warnings"]) is warns


def test_a_result_without_end_is_cut_where_parsers_give_up(server: RawStdio) -> None:
    content = server.tool("odd", {"what": "deep"})
    depth, at = 0, content["data"]["value"]
    while isinstance(at, dict):
        depth, at = depth + 1, at["d"]
    assert 100 < depth < 150
    assert "levels below" in content["warnings"][0]


def test_long_data_is_cut_in_the_text_only(server: RawStdio) -> None:
    result = server.request(call("odd", {"what": "long"}))["result"]
    assert len(result["content"][0]["text"]) <= 24_000
    assert "the whole is in structuredContent" in result["content"][0]["text"]
    assert len(result["structuredContent"]["data"]["value"]) == 100_000


def test_a_crash_tells_the_client_nothing_but_that_it_happened(server: RawStdio) -> None:
    content = server.tool("crash")
    broken = server.request(message("resources/read", {"uri": "fixture://broken"}, id=1))
    assert content["error"]["code"] == "INTERNAL_ERROR"
    assert broken["error"]["code"] == -32603
    assert "hunter2" not in json.dumps([content, broken])


def test_a_failure_of_a_tool_is_an_error_with_its_code(server: RawStdio) -> None:
    result = server.request(call("fail"))["result"]
    assert result["isError"] is True
    assert result["structuredContent"]["error"] == {"code": "NOT_PERFORMED", "details": {"reason": "because"}}


def test_a_blocking_outcome_is_no_error_and_says_stop(server: RawStdio) -> None:
    result = server.request(call("must_stop"))["result"]
    assert result["isError"] is False
    assert result["structuredContent"]["mustStop"] is True
    assert result["content"][0]["text"].splitlines()[1].startswith("STOP")


def test_a_cancelled_call_reaches_its_handler_and_is_never_answered(server: RawStdio) -> None:
    server.send(call("hold", {"key": "cancelled"}, id=7))
    server.wait_for(lambda state: "cancelled" in state["running"])
    server.send(message("notifications/cancelled", {"requestId": 7, "reason": "changed my mind"}))
    server.wait_for(lambda state: "cancelled" in state["cancelled"])
    assert server.request(message("ping", id="next"))["id"] == "next"


def test_progress_comes_in_order_before_the_answer_and_only_when_asked_for(server: RawStdio) -> None:
    server.send(call("count_up", {"steps": 20}, id=1, progressToken="token"))
    seen = [server.receive() for _ in range(20)]
    assert [item["params"]["progress"] for item in seen] == list(range(1, 21))
    assert seen[0]["params"] == {"progressToken": "token", "progress": 1, "total": 20, "message": "step 1"}
    assert server.receive()["id"] == 1
    assert server.request(call("count_up", {"steps": 5}, id=2))["id"] == 2


def test_work_goes_on_while_its_client_reads_no_progress(server: RawStdio) -> None:
    # More progress than pipe, backlog and queue hold together; nothing is read until both calls were sent.
    steps = 20_000
    server.send(call("count_up", {"steps": steps}, id=1, progressToken="t"), call("echo", {"text": "x"}, id=2))
    ids: list[object] = []
    last = 0
    while len(ids) < 2:
        item = server.receive()
        if "id" in item:
            ids.append(item["id"])
        else:
            assert item["params"]["progress"] > last
            last = item["params"]["progress"]
    assert sorted(map(str, ids)) == ["1", "2"]
    assert last == steps, "the newest progress is never dropped"


def test_a_client_that_stops_reading_loses_nothing(server: RawStdio) -> None:
    big = "x" * 100_000
    for number in range(40):  # far more than a pipe holds, unread
        server.send(call("echo", {"text": big}, id=number))
    answers = [server.receive() for _ in range(40)]
    assert sorted(item["id"] for item in answers) == list(range(40))
    assert all(item["result"]["structuredContent"]["data"]["text"] == big for item in answers)

"""Raw HTTP: sessions, hosts, bodies, forms of answers, and clients that go away."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.mcp.support import ENVELOPE, INITIALIZE, HttpServer, Message, call, http_server, message

PING = message("ping", id=1)


@pytest.fixture(scope="module")
def web() -> Iterator[HttpServer]:
    with http_server({"request_bytes_max": 100_000}) as server:
        yield server


@pytest.fixture(scope="module")
def session(web: HttpServer) -> str:
    return web.open_session()


def test_health_tells_how_the_service_is(web: HttpServer) -> None:
    answer = web.send("GET", "/health")
    assert (answer.status, answer.json()) == (200, {"ok": True, "status": "up"})
    assert web.send("POST", "/health", {}).status == 405


def test_initialize_opens_a_session_that_serves_and_can_be_ended(web: HttpServer) -> None:
    mine = web.open_session()
    assert web.tool(mine, "echo", {"text": "hi"})["data"] == {"text": "hi"}
    assert web.send("DELETE", "/mcp", headers={"mcp-session-id": mine}).status == 200
    assert web.post(PING, mine).status == 404


def test_an_unknown_session_is_not_found(web: HttpServer) -> None:
    for method in ("POST", "GET", "DELETE"):
        headers = {"mcp-session-id": "f" * 32, "accept": "text/event-stream", "content-type": "application/json"}
        answer = web.send(method, "/mcp", PING if method == "POST" else None, headers)
        assert (method, answer.status) == (method, 404)
        assert "send initialize" in answer.json()["error"]["message"]


def test_anything_but_initialize_needs_a_session(web: HttpServer) -> None:
    for method in ("POST", "GET", "DELETE"):
        headers = {"accept": "text/event-stream", "content-type": "application/json"}
        answer = web.send(method, "/mcp", PING if method == "POST" else None, headers)
        assert (method, answer.status) == (method, 400)
        assert "Mcp-Session-Id" in answer.json()["error"]["message"]


def test_an_anonymous_session_has_a_connection_and_a_binding_that_is_not_its_name(web: HttpServer) -> None:
    mine, other = web.open_session(), web.open_session()
    web.tool(mine, "remember", {"key": "one"})
    who, else_who = (web.tool(item, "whoami")["data"] for item in (mine, other))
    assert (who["principal"], who["stateful"], who["bound"], who["remembered"]) == ("anonymous", True, True, ["one"])
    assert else_who["remembered"] == []
    assert who["connection"] != else_who["connection"]
    assert mine not in json.dumps(who)


def test_a_stateless_request_has_a_fresh_connection_and_no_binding(web: HttpServer) -> None:
    def who() -> Any:
        answer = web.modern(call("whoami", {}))
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert "mcp-session-id" not in answer.headers
        return answer.json()["result"]["structuredContent"]["data"]

    first, second = who(), who()
    assert (first["stateful"], first["bound"]) == (False, False)
    assert first["connection"] != second["connection"]


def test_servers_at_two_paths_share_nothing(web: HttpServer) -> None:
    answer = web.post(message("initialize", INITIALIZE, id=0), path="/second/mcp")
    second = answer.headers["mcp-session-id"]
    assert web.post(PING, second).status == 404
    assert web.post(PING, second, path="/second/mcp").status == 200


def test_a_mounted_app_is_served_behind_the_guard(web: HttpServer) -> None:
    assert web.send("GET", "/hello/").body == b"hello"
    assert web.send("GET", "/hello/", headers={"host": "evil.example"}).status == 421


@pytest.mark.parametrize(
    ("host", "admitted"),
    [
        ("localhost", True),
        ("localhost:1", True),
        ("127.0.0.1:99", True),
        ("[::1]:3000", True),
        ("LOCALHOST", True),
        ("tools.example:8443", True),
        ("tools.example", False),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("192.168.1.5", False),
        ("", False),
    ],
)
def test_only_listed_hosts_are_served(web: HttpServer, host: str, admitted: bool) -> None:
    for path in ("/health", "/mcp"):
        status = web.send("GET", path, headers={"host": host}).status
        assert (status != 421) is admitted, (path, status)


@pytest.mark.parametrize(
    ("origin", "admitted"),
    [
        ("http://localhost:6274", True),
        ("https://127.0.0.1", True),
        ("http://[::1]:8080", True),
        ("https://app.example", True),
        ("http://app.example", False),
        ("https://app.example.evil.example", False),
        ("https://evil.example", False),
        ("http://localhost.evil.example", False),
        ("null", False),
        ("file://", False),
    ],
)
def test_only_listed_origins_are_served(web: HttpServer, origin: str, admitted: bool) -> None:
    answer = web.send("GET", "/health", headers={"origin": origin})
    assert answer.status == (200 if admitted else 403)
    assert admitted or "MCP_ALLOWED_ORIGINS" in answer.json()["error"]


def test_a_request_with_two_hosts_is_refused(web: HttpServer) -> None:
    with socket.create_connection(("127.0.0.1", web.port), timeout=10) as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        status = raw.makefile("rb").readline()
    assert status.split()[1] in (b"400", b"421")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"garbage", -32700),
        (b"", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": NaN}}', -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "\\ud800"}}', -32700),
        (b"[" * 5_000, -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "x": ' + b"9" * 5_000 + b"}", -32700),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', -32600),
        (b'{"jsonrpc": "2.0", "method": ["ping"], "id": 1}', -32600),
    ],
)
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_what_is_no_message_is_refused_alike_in_both_eras(
    web: HttpServer, session: str, body: bytes, code: int, era: str
) -> None:
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "ping"} if era == "modern" else {}
    answer = web.post(body, session if era == "legacy" else None, **headers)
    assert (answer.status, answer.json()["error"]["code"]) == (400, code)
    assert web.post(PING, session).status == 200


def test_a_body_beyond_the_bound_is_refused_whether_declared_or_not(web: HttpServer, session: str) -> None:
    body = call("echo", {"text": "x" * 200_000})
    answer = web.post(body, session)
    assert (answer.status, "100000 bytes" in answer.json()["error"]["message"]) == (413, True)
    with socket.create_connection(("127.0.0.1", web.port), timeout=10) as raw:
        raw.sendall(
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        chunk = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
        status = b""
        try:
            for _ in range(20):
                raw.sendall(chunk)
            status = raw.makefile("rb").readline()
        except OSError:  # the server closed its side, having answered
            status = raw.recv(100)
    assert status.split()[1] == b"413"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("application/json, text/event-stream", "text/event-stream"),
        ("*/*", "text/event-stream"),
        ("", "text/event-stream"),
        ("text/event-stream", "text/event-stream"),
        ("application/json", "application/json"),
        ("application/*;q=0.9", "application/json"),
    ],
)
def test_every_common_accept_is_served_in_a_form_it_names(
    web: HttpServer, session: str, accept: str, form: str
) -> None:
    answer = web.post(call("count_up", {"steps": 3}, progressToken=1), session, accept=accept)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith(form)
    messages = answer.messages()
    assert messages[-1]["result"]["structuredContent"]["ok"] is True
    assert len(messages) == (4 if form == "text/event-stream" else 1)


@pytest.mark.parametrize(
    ("accept", "form"),
    [("*/*", "application/json"), ("application/json", "application/json"), ("text/event-stream", "text/event-stream")],
)
def test_the_stateless_era_negotiates_too(web: HttpServer, accept: str, form: str) -> None:
    answer = web.modern(call("echo", {"text": "hi"}), accept=accept)
    assert answer.headers["content-type"].startswith(form)
    assert answer.messages()[-1]["result"]["structuredContent"]["data"] == {"text": "hi"}
    counted = web.modern(call("count_up", {"steps": 2}, progressToken="t"), accept=accept)
    assert counted.messages()[-1]["result"]["structuredContent"]["ok"] is True
    assert len(counted.messages()) == (1 if accept == "application/json" else 3)


def test_what_accepts_neither_form_is_refused(web: HttpServer, session: str) -> None:
    assert web.post(PING, session, accept="text/html").status == 406


def test_white_space_after_a_header_value_is_no_part_of_it(web: HttpServer) -> None:
    body = json.dumps({**call("whoami", {}), "params": {"name": "whoami", "_meta": ENVELOPE}}).encode()
    with socket.create_connection(("127.0.0.1", web.port), timeout=10) as raw:
        raw.sendall(
            b"POST /mcp HTTP/1.1\r\nHost: localhost \r\nContent-Type: application/json\t\r\nAccept: */* \r\n"
            b"MCP-Protocol-Version: 2026-07-28  \r\nMcp-Method: tools/call \r\nMcp-Name: whoami\t \r\n"
            b"Connection: close\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
        )
        assert raw.makefile("rb").readline().split()[1] == b"200"


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_client_that_disconnects_cancels_its_call(web: HttpServer, session: str, era: str) -> None:
    key = f"gone {era}"
    if era == "legacy":
        connection = web.start(call("hold", {"key": key}, progressToken=1), session)
    else:
        body = {**call("hold", {"key": key}), "params": {"name": "hold", "arguments": {"key": key}, "_meta": ENVELOPE}}
        connection = web.start(body, mcp_protocol_version="2026-07-28", mcp_method="tools/call", mcp_name="hold")
    web.wait_for(session, lambda state: key in state["running"])
    connection.close()
    web.wait_for(session, lambda state: key in state["cancelled"])


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_client_that_is_gone_at_once_leaves_nothing_running(web: HttpServer, session: str, era: str) -> None:
    keys = [f"at once {era} {number}" for number in range(40)]
    for key in keys:
        line = call("hold", {"key": key}, id=key)
        if era == "legacy":
            web.start(line, session).close()
        else:
            line["params"]["_meta"] = ENVELOPE
            web.start(line, mcp_protocol_version="2026-07-28", mcp_method="tools/call", mcp_name="hold").close()
    for _ in range(20):
        web.tool(session, "state")
    web.wait_for(session, lambda state: not set(keys) & set(state["running"]))


def test_a_cancelled_call_over_http_ends_its_stream(web: HttpServer, session: str) -> None:
    with web.start(call("hold", {"key": "told off"}, id=77), session, connection="close") as connection:
        web.wait_for(session, lambda state: "told off" in state["running"])
        assert web.post(message("notifications/cancelled", {"requestId": 77}), session).status == 202
        web.wait_for(session, lambda state: "told off" in state["cancelled"])
        rest = connection.makefile("rb").read()
    assert b"Request cancelled" in rest


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_client_that_never_reads_holds_up_neither_the_work_nor_the_others(
    web: HttpServer, session: str, era: str
) -> None:
    steps = 50_001 if era == "legacy" else 50_002
    line = call("count_up", {"steps": steps}, progressToken="t")
    if era == "legacy":
        connection = web.start(line, web.open_session())
    else:
        line["params"]["_meta"] |= ENVELOPE
        connection = web.start(line, mcp_protocol_version="2026-07-28", mcp_method="tools/call", mcp_name="count_up")
    with connection:
        web.wait_for(session, lambda state: steps in state["counted"])


def test_calls_of_one_session_run_at_the_same_time(web: HttpServer, session: str) -> None:
    with web.start(call("hold", {"key": "slow one"}, id="slow"), session, connection="close") as connection:
        web.wait_for(session, lambda state: "slow one" in state["running"])
        assert web.tool(session, "echo", {"text": "quick"})["ok"] is True
        web.tool(session, "release", {"key": "slow one"})
        assert b'"released"' in connection.makefile("rb").read()


def test_an_id_that_belongs_to_a_call_in_flight_is_refused_and_the_first_is_answered(
    web: HttpServer, session: str
) -> None:
    with web.start(call("hold", {"key": "first"}, id=7), session, connection="close") as connection:
        web.wait_for(session, lambda state: "first" in state["running"])
        for same in (7, "7"):
            answer = web.post(call("echo", {"text": "second"}, id=same), session)
            assert (answer.status, answer.json()["error"]["code"]) == (400, -32600)
        web.tool(session, "release", {"key": "first"})
        assert b'"released"' in connection.makefile("rb").read()
    assert web.post(call("echo", {"text": "third"}, id=7), session).status == 200


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (call("echo", {"txt": "x", "text": "y"}), "/txt"),
        (call("echo", [1]), "arguments"),
        (call("no_such_tool", {}), "name"),
    ],
)
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_argument_errors_are_our_envelope_over_http_too(
    web: HttpServer, session: str, line: Message, key: str, era: str
) -> None:
    answer = web.post(line, session) if era == "legacy" else web.modern(line)
    result = answer.messages()[-1]["result"]
    assert (answer.status, result["isError"]) == (200, True)
    assert result["structuredContent"]["error"]["details"]["key"] == key

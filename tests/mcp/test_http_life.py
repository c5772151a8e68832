"""The life of an HTTP server: bounds, authentication, what it logs, how it stops."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from chaoscore.adapters.mcp.http_server import listen
from chaoscore.domain.errors import ConfigurationInvalid
from tests.mcp.support import INITIALIZE, HttpServer, call, http_server, message

OPEN = message("initialize", INITIALIZE, id=0)


@pytest.fixture(scope="module")
def guarded() -> Iterator[HttpServer]:
    with http_server({"auth": True}) as server:
        yield server


def bearer(user: str) -> str:
    return f"Bearer token-of-{user}"


def test_authentication_goes_ahead_of_everything_but_health(guarded: HttpServer) -> None:
    assert guarded.send("GET", "/health").status == 200
    for method, path in (("POST", "/mcp"), ("GET", "/mcp"), ("GET", "/hello"), ("GET", "/nowhere")):
        answer = guarded.send(method, path, headers={"authorization": "Bearer wrong"})
        assert (path, answer.status) == (path, 401)
        assert "www-authenticate" in answer.headers


def test_the_principal_is_the_authenticated_identity_in_both_eras(guarded: HttpServer) -> None:
    mine = guarded.open_session(authorization=bearer("ada"))
    assert guarded.tool(mine, "whoami", authorization=bearer("ada"))["data"]["principal"] == (
        "oauth:https://id.example|ada"
    )
    answer = guarded.modern(call("whoami", {}), authorization=bearer("bob"))
    assert answer.json()["result"]["structuredContent"]["data"]["principal"] == "oauth:https://id.example|bob"


def test_somebody_elses_session_answers_like_a_missing_one(guarded: HttpServer) -> None:
    mine = guarded.open_session(authorization=bearer("ada"))
    stolen = guarded.post(message("ping", id=1), mine, authorization=bearer("bob"))
    missing = guarded.post(message("ping", id=1), "f" * 32, authorization=bearer("bob"))
    assert (stolen.status, stolen.body) == (missing.status, missing.body)
    assert stolen.status == 404
    assert guarded.post(message("ping", id=1), mine, authorization=bearer("ada")).status == 200


def test_the_number_of_sessions_is_bounded_and_room_comes_back() -> None:
    with http_server({"sessions_max": 2}) as web:
        first, _ = web.open_session(), web.open_session()
        assert web.post(OPEN).status == 503
        assert web.send("DELETE", "/mcp", headers={"mcp-session-id": first}).status == 200
        assert web.post(OPEN).status == 200


def test_a_client_that_takes_too_long_to_send_its_request_is_let_go() -> None:
    with http_server({"body_seconds": 0.3}) as web, socket.create_connection(("127.0.0.1", web.port), 10) as raw:
        raw.sendall(
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
        )
        assert raw.makefile("rb").readline().split()[1] == b"408"


def test_a_session_id_is_a_credential_and_appears_in_no_log() -> None:
    with http_server({"sessions_max": 5}) as web:
        mine = web.open_session()
        web.tool(mine, "echo", {"text": "x"})
        web.post(message("ping", id=1), "0123456789abcdef" * 2)
        web.send("DELETE", "/mcp", headers={"mcp-session-id": mine})
        code, log = web.terminate()
    assert code == 0
    assert "<session>" in log, "the SDK's own lines are there"
    assert mine not in log and "0123456789abcdef" not in log


def test_standard_output_stays_empty() -> None:
    with http_server() as web:
        web.tool(web.open_session(), "echo", {"text": "x"})
        web.terminate()
        assert web.process.stdout is not None
        assert web.process.stdout.read() == b""


def test_a_call_in_flight_at_sigterm_is_answered_before_the_server_ends() -> None:
    with http_server({"stop_seconds": 20}) as web:
        session = web.open_session()
        with web.start(call("nap", {"seconds": 1}), session) as connection:
            web.wait_for(session, lambda state: state["running"] == ["nap"])
            code, _ = web.terminate()
            answer = connection.makefile("rb").read()
    assert code == 0
    assert b"slept well" in answer


def test_a_call_that_outlives_the_stop_is_cancelled() -> None:
    with http_server({"stop_seconds": 1}) as web:
        session = web.open_session()
        with web.start(call("hold", {"key": "long"}), session):
            web.wait_for(session, lambda state: state["running"] == ["long"])
            assert web.terminate()[0] == 0


def test_streams_that_only_wait_do_not_hold_up_the_stop() -> None:
    listen_params = {
        "notifications": {"resourcesListChanged": True},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }
    with http_server({"stop_seconds": 60}) as web:
        session = web.open_session()
        waiting = message("subscriptions/listen", listen_params, id=1)
        with (
            web.start(waiting, mcp_protocol_version="2026-07-28", mcp_method="subscriptions/listen") as listening,
            socket.create_connection(("127.0.0.1", web.port), 10) as standing,
        ):
            standing.sendall(
                f"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
                f"Mcp-Session-Id: {session}\r\n\r\n".encode()
            )
            stream = standing.makefile("rb")
            assert stream.readline().split()[1] == b"200"
            heard = listening.makefile("rb")
            while b"acknowledged" not in heard.readline():
                pass
            assert web.terminate()[0] == 0
            assert b'"resultType":"complete"' in heard.read(), "the stream ended with its answer"
            assert stream.read().endswith(b"0\r\n\r\n"), "and the other one whole"


def test_listening_beyond_this_machine_without_authentication_says_so() -> None:
    with http_server({"everywhere": True}) as web:
        assert web.send("GET", "/health").status == 200
        assert web.send("GET", "/health", headers={"host": "192.168.1.5:80"}).status == 200, "an address is no name"
        assert web.send("GET", "/health", headers={"host": "evil.example"}).status == 421
        code, log = web.terminate()
    assert code == 0
    assert "without authentication" in json.dumps(web.started_with + log)


def test_a_taken_port_is_named_with_what_to_do() -> None:
    sockets = listen("127.0.0.1", 0)
    try:
        with pytest.raises(ConfigurationInvalid, match="the port is taken; choose another"):
            listen("127.0.0.1", sockets[0].getsockname()[1])
    finally:
        for item in sockets:
            item.close()


def test_a_host_that_is_none_is_named() -> None:
    with pytest.raises(ConfigurationInvalid, match=r"cannot listen on 'no\.such\.host\.invalid'"):
        listen("no.such.host.invalid", 0)

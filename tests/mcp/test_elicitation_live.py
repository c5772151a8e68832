"""Asking the user while the call is open (2025 era), seen on the wire."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mcp.support import (
    PATIENCE_SECONDS,
    HttpServer,
    Message,
    RawStdio,
    call,
    http_server,
    message,
    raw_stdio,
    until,
)

SERVER = "tests.mcp.elicitation_server"
FORMS: Message = {"elicitation": {}}
YES: Message = {"action": "accept", "content": {"sure": True}}


def journal(data: Path) -> list[str]:
    return (data / "journal").read_text().splitlines()


@contextmanager
def asker(data: Path, capabilities: Message | None = None, version: str = "2025-11-25") -> Iterator[RawStdio]:
    with raw_stdio({"data": str(data)}, handshake=False, module=SERVER) as server:
        server.initialize(capabilities=FORMS if capabilities is None else capabilities, protocolVersion=version)
        yield server


def answer_to(question: Message, result: object) -> Message:
    assert question["method"] == "elicitation/create", question
    return {"jsonrpc": "2.0", "id": question["id"], "result": result}


def data_of(answer: Message) -> Message:
    found: Message = answer["result"]["structuredContent"]["data"]
    return found


def test_nobody_answers_in_time_and_the_question_is_withdrawn(tmp_path: Path) -> None:
    with asker(tmp_path) as server:
        question = server.request(call("plain", {"seconds": 0.05}, id=7))
        withdrawn = server.receive()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == question["id"]
        answer = server.receive()
        assert answer["id"] == 7
        assert answer["result"]["structuredContent"]["mustStop"] is True
        # The answer that comes too late belongs to nobody.
        server.send(answer_to(question, YES))
        assert server.tool("echo", {"text": "on"})["data"] == {"text": "on"}
    assert journal(tmp_path) == ["begins", "asks go", "no answer"]


def test_calls_that_are_asked_at_once_get_each_their_own_answer(tmp_path: Path) -> None:
    with asker(tmp_path) as server:
        server.send(*(call("plain", id=number) for number in range(5)))
        questions = [server.receive() for _ in range(5)]
        assert len({question["id"] for question in questions}) == 5
        for number, question in enumerate(reversed(questions)):
            server.send(answer_to(question, {"action": "accept", "content": {"sure": number % 2 == 0}}))
        answers = {answer["id"]: answer for answer in (server.receive() for _ in range(5))}
        assert sorted(answers) == [0, 1, 2, 3, 4]
        sure = [data_of(answers[number])["answer"]["content"]["sure"] for number in range(5)]
        assert sure == [True, False, True, False, True]


@pytest.mark.parametrize(
    "result",
    [
        {"action": "perhaps", "content": {"sure": True}},
        {"content": {"sure": True}},
        {"action": "accept", "content": {"sure": {"deep": [1]}}},
        {"action": "accept", "content": [True]},
        {},
    ],
)
def test_a_result_that_is_no_answer_is_no_answer(tmp_path: Path, result: Message) -> None:
    with asker(tmp_path) as server:
        server.send(answer_to(server.request(call("plain", id=1)), result))
        assert data_of(server.receive()) == {"answer": None}
        server.end_input()
        code, rest, log = server.finish()
    assert (code, rest) == (0, [])
    assert "answer to the question 'go'" in log
    assert "Traceback" not in log


def test_what_does_not_fit_is_named_in_the_log_and_never_shown(tmp_path: Path) -> None:
    with asker(tmp_path) as server:
        server.send(answer_to(server.request(call("plain", id=1)), {"action": "accept", "content": {"sure": "hush"}}))
        assert data_of(server.receive()) == {"answer": None}
        server.end_input()
        _, _, log = server.finish()
    assert "does not fit its form: sure: must be boolean, not string" in log
    assert "hush" not in log


@pytest.mark.parametrize(
    ("capabilities", "asked"),
    [
        ({}, False),
        ({"elicitation": {"url": {}}}, False),
        ({"elicitation": {}}, True),
        ({"elicitation": {"form": {}}}, True),
        ({"elicitation": {"form": {}, "url": {}}}, True),
    ],
)
def test_who_can_show_forms_is_asked(tmp_path: Path, capabilities: Message, asked: bool) -> None:
    with asker(tmp_path, capabilities) as server:
        first = server.request(call("plain", id=1))
        assert (first.get("method") == "elicitation/create") is asked


def test_a_client_of_2025_06_18_is_asked_in_its_words_and_spared_what_it_does_not_know(tmp_path: Path) -> None:
    with asker(tmp_path, version="2025-06-18") as server:
        question = server.request(call("old", id=1))
        assert question["params"]["requestedSchema"]["properties"]["where"] == {
            "type": "string",
            "enum": ["blue", "green"],
            "enumNames": ["The blue cluster", "The green cluster"],
        }
        server.send(answer_to(question, {"action": "accept", "content": {"where": "blue"}}))
        assert data_of(server.receive())["answer"]["content"] == {"where": "blue"}
        # A choice of several is unknown to it.
        assert data_of(server.request(call("deploy", id=2))) == {"answer": None}


def test_a_client_older_than_elicitation_is_not_asked(tmp_path: Path) -> None:
    with asker(tmp_path, version="2025-03-26") as server:
        assert data_of(server.request(call("plain", id=1))) == {"answer": None}


def test_a_call_that_its_client_cancels_withdraws_its_question(tmp_path: Path) -> None:
    with asker(tmp_path) as server:
        question = server.request(call("deploy", id=3))
        server.send(message("notifications/cancelled", {"requestId": 3}))
        withdrawn = server.receive()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == question["id"]
        assert server.tool("echo", {"text": "on"})["data"] == {"text": "on"}
    assert journal(tmp_path)[-1] == "cancelled"


def test_when_the_input_ends_nobody_can_answer_and_the_call_says_so_at_once(tmp_path: Path) -> None:
    with raw_stdio({"data": str(tmp_path), "grace_seconds": 600}, handshake=False, module=SERVER) as server:
        server.initialize(capabilities=FORMS)
        question = server.request(call("deploy", {"seconds": 600}, id=1))
        server.end_input()
        code, rest, _ = server.finish()
        assert code == 0
        assert rest[0]["params"]["requestId"] == question["id"]
        assert data_of(rest[1]) == {"answer": None}
    assert journal(tmp_path) == ["begins", "asks approve", "no answer"]


def test_a_client_that_dies_while_its_user_is_asked_leaves_no_server_and_no_effect(tmp_path: Path) -> None:
    with raw_stdio({"data": str(tmp_path), "grace_seconds": 600}, handshake=False, module=SERVER) as server:
        server.initialize(capabilities=FORMS)
        server.request(call("deploy", {"seconds": 600}, id=1))
        server._out.close()
        server._in.close()
        assert server.process.wait(PATIENCE_SECONDS) == 0
    assert journal(tmp_path)[:2] == ["begins", "asks approve"]
    assert "effect" not in journal(tmp_path)


class Stream:
    """The answer of a request left open, read event by event."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read = b""

    def event(self) -> Message:
        import json

        while True:
            *lines, self._read = self._read.split(b"\n")
            for number, line in enumerate(lines):
                if line.startswith(b"data: ") and line[6:].strip():
                    self._read = b"\n".join([*lines[number + 1 :], self._read])
                    value: Message = json.loads(line[6:])
                    return value
            data = self._connection.recv(65_536)
            assert data, "the server closed the stream"
            self._read += data


@pytest.fixture
def web(tmp_path: Path) -> Iterator[HttpServer]:
    with http_server({"data": str(tmp_path), "stop_seconds": 15}, SERVER) as server:
        yield server


def test_over_http_the_question_comes_on_the_calls_own_stream_and_the_answer_in_a_request(
    web: HttpServer, tmp_path: Path
) -> None:
    session = web.open_session(FORMS)
    with web.start(call("plain", id=1), session) as connection:
        stream = Stream(connection)
        question = stream.event()
        assert web.tool(session, "echo", {"text": "meanwhile"})["data"] == {"text": "meanwhile"}
        assert web.post(answer_to(question, YES), session).status == 202
        assert data_of(stream.event())["answer"] == {"action": "accept", "content": {"sure": True}}


def test_another_session_cannot_answer(web: HttpServer) -> None:
    session, other = web.open_session(FORMS), web.open_session(FORMS)
    with web.start(call("plain", {"seconds": 600}, id=1), session) as connection:
        stream = Stream(connection)
        question = stream.event()
        assert web.post(answer_to(question, YES), other).status == 202
        assert web.post(answer_to(question, {"action": "decline"}), session).status == 202
        assert data_of(stream.event())["answer"] == {"action": "decline", "content": {}}


def test_an_http_client_that_disconnects_while_asked_ends_its_call(web: HttpServer, tmp_path: Path) -> None:
    session = web.open_session(FORMS)
    with web.start(call("deploy", {"seconds": 600}, id=1), session) as connection:
        Stream(connection).event()
    until(lambda: {"journal": journal(tmp_path)}, lambda seen: seen["journal"][-1] == "cancelled")
    assert "effect" not in journal(tmp_path)
    assert web.tool(session, "echo", {"text": "on"})["data"] == {"text": "on"}


def test_an_http_client_that_takes_no_events_is_never_asked(web: HttpServer, tmp_path: Path) -> None:
    session = web.open_session(FORMS)
    answer = web.post(call("plain", id=1), session, accept="application/json")
    assert data_of(answer.json()) == {"answer": None}
    assert journal(tmp_path) == ["begins", "cannot ask"]


def test_a_server_that_stops_withdraws_its_questions_and_answers_its_calls(web: HttpServer, tmp_path: Path) -> None:
    session = web.open_session(FORMS)
    with web.start(call("deploy", {"seconds": 600}, id=1), session) as connection:
        stream = Stream(connection)
        question = stream.event()
        code, log = web.terminate()
        assert code == 0
        withdrawn = stream.event()
        assert withdrawn["params"]["requestId"] == question["id"]
        assert data_of(stream.event()) == {"answer": None}
    assert "Traceback" not in log

"""Planning by the calling client's own model, on the wire: time-outs, cancellations, sizes, the sealed state."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.product import http_product, stdio_product
from tests.mcp.support import ENVELOPE, Message, RawStdio, call, message

ALLOWED = {"CHAOS_CORE_CLIENT_MODEL": "when-declared"}
HURRIED = {**ALLOWED, "CHAOS_CORE_PROVIDER_SECONDS": "1"}
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
GOAL = "tell me in one word what the notes are about"
READ: Message = {"id": "s1", "capability": "fs.read_text", "arguments": {"path": "notes.txt"}}
KEY = "model:plan"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("tides", "utf-8")
    return tmp_path


def text(words: str, **more: object) -> Message:
    return {"role": "assistant", "content": {"type": "text", "text": words}, "model": "claude-test-1", **more}


def plan(*steps: Message) -> Message:
    return text(json.dumps({"steps": list(steps)}))


def envelope(answer: Message) -> Message:
    found: Message = answer["result"]["structuredContent"]
    return found


def no_plan(answer: Message) -> str:
    """Why the client's model gave none, as the caller is told."""
    found = envelope(answer)
    assert (found["status"], found["ok"], answer["result"]["isError"]) == ("NEEDS_PLAN", True, False)
    return str(found["message"]).partition("the client's model gave no plan: ")[2]


def plans_in_audit(server: RawStdio) -> int:
    found = server.tool("chaoscore_inspect", {"what": "audit", "limit": 50})
    return sum(1 for event in found["data"]["events"] if event["kind"] == "plan-stored")


# -- while the call is open ------------------------------------------------------------------------------------------


def opened(server: RawStdio, version: str = "2025-11-25") -> None:
    server.initialize(capabilities={"sampling": {}}, protocolVersion=version)


def asked(server: RawStdio, name: str = "chaoscore_plan", id: int = 7) -> Message:
    question = server.request(call(name, {"objective": GOAL}, id=id))
    assert question["method"] == "sampling/createMessage", question
    return question


def response(question: Message, result: object) -> Message:
    return {"jsonrpc": "2.0", "id": question["id"], "result": result}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_older_revision_can_be_asked(folder: Path, version: str) -> None:
    with stdio_product(folder, **ALLOWED) as server:
        opened(server, version)
        server.send(response(asked(server), plan(READ)))
        assert envelope(server.receive())["data"]["author"]["source"] == "client-model"


def test_a_client_that_hangs_is_asked_no_longer_than_it_may_take(folder: Path) -> None:
    with stdio_product(folder, **HURRIED) as server:
        opened(server)
        question = asked(server)
        withdrawn = server.receive()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == question["id"]
        answer = server.receive()
        assert answer["id"] == 7
        assert no_plan(answer).startswith("nobody answered within")
        server.send(response(question, plan(READ)))  # too late: it belongs to nobody
        assert plans_in_audit(server) == 0


def test_both_turns_share_one_time(folder: Path) -> None:
    with stdio_product(folder, **HURRIED) as server:
        opened(server)
        server.send(response(asked(server), text("no plan")))
        second = server.receive()
        assert second["method"] == "sampling/createMessage"
        assert server.receive()["method"] == "notifications/cancelled"
        told = no_plan(server.receive())
        assert "the first at its root; then nobody answered within 0." in told


def test_a_call_that_is_cancelled_withdraws_its_question_and_stores_nothing(folder: Path) -> None:
    with stdio_product(folder, **ALLOWED) as server:
        opened(server)
        question = asked(server, "chaoscore_achieve", id=3)
        server.send(message("notifications/cancelled", {"requestId": 3}))
        withdrawn = server.receive()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == question["id"]
        server.send(response(question, plan(READ)))
        assert plans_in_audit(server) == 0
        assert server.tool("chaoscore_inspect", {"what": "runs"})["data"]["runs"] == []


def test_when_the_input_ends_the_call_is_answered_at_once(folder: Path) -> None:
    with stdio_product(folder, **ALLOWED) as server:
        opened(server)
        asked(server)
        server.end_input()
        code, rest, log = server.finish()
    assert code == 0
    assert (
        no_plan(rest[-1]) == "it was withdrawn before an answer came; write the steps yourself and call again with them"
    )
    assert "Traceback" not in log


def test_an_answer_that_wants_a_tool_is_none(folder: Path) -> None:
    block = {"type": "tool_use", "id": "t1", "name": "fs.erase", "input": {}}
    with stdio_product(folder, **ALLOWED) as server:
        opened(server)
        for content in (block, [{"type": "text", "text": json.dumps({"steps": [READ]})}, block]):
            server.send(response(asked(server), {"role": "assistant", "content": content, "model": "m"}))
            assert no_plan(server.receive()).startswith("it wanted to use a tool")


def test_text_in_several_blocks_is_one_text(folder: Path) -> None:
    whole = json.dumps({"steps": [READ]})
    blocks = [{"type": "text", "text": whole[:20]}, {"type": "text", "text": whole[20:]}]
    with stdio_product(folder, **ALLOWED) as server:
        opened(server)
        server.send(response(asked(server), {"role": "assistant", "content": blocks, "model": "m"}))
        assert envelope(server.receive())["status"] == "PLANNED"


@pytest.mark.parametrize("result", [{}, {"role": "assistant"}, {"action": "accept"}, {"content": "text"}])
def test_a_result_that_is_no_answer_is_none(folder: Path, result: Message) -> None:
    with stdio_product(folder, **ALLOWED) as server:
        opened(server)
        server.send(response(asked(server), result))
        assert no_plan(server.receive()).startswith("the client's answer is none that MCP knows")
        assert server.tool("chaoscore_inspect", {})["ok"] is True


def test_ten_megabytes_are_not_read_over_stdio(folder: Path) -> None:
    with stdio_product(folder, **HURRIED) as server:
        opened(server)
        server.send(response(asked(server), text("x" * 10_000_000)))
        refused = server.receive()
        assert "larger than" in refused["error"]["message"]
        assert server.receive()["method"] == "notifications/cancelled"
        assert no_plan(server.receive()).startswith("nobody answered within")
        assert server.tool("chaoscore_inspect", {})["ok"] is True


def test_ten_megabytes_are_not_read_over_http(folder: Path) -> None:
    with http_product(folder, **HURRIED) as web:
        session = web.open_session({"sampling": {}})
        with web.start(call("chaoscore_plan", {"objective": GOAL}, id=7), session, accept="text/event-stream") as held:
            question = event(held)
            assert question["method"] == "sampling/createMessage"
            assert web.post(response(question, text("x" * 10_000_000)), session).status == 413
            assert event(held)["method"] == "notifications/cancelled"
            assert no_plan(event(held)).startswith("nobody answered within")


def test_a_client_that_goes_away_over_http_leaves_no_plan(folder: Path) -> None:
    with http_product(folder, **ALLOWED) as web:
        session = web.open_session({"sampling": {}})
        with web.start(call("chaoscore_achieve", {"objective": GOAL}, id=7), session) as held:
            question = event(held)
        assert web.post(response(question, plan(READ)), session).status == 202
        working = web.tool(session, "chaoscore_inspect", {"what": "session"})["data"]["working_memory"]
        assert working == []


def event(held: Any) -> Message:
    """The next message of an event stream."""
    line = b""
    while not (line.startswith(b"data: {") and line.endswith(b"\n")):
        if line.endswith(b"\n"):
            line = b""
        byte = held.recv(1)
        assert byte, "the stream ended"
        line += byte
    found: Message = json.loads(line[6:])
    return found


# -- by calling again ------------------------------------------------------------------------------------------------


def asking(
    state: object = None, responses: object = None, name: str = "chaoscore_plan", objective: str = GOAL
) -> Message:
    request = call(name, {"objective": objective}, id=1)
    request["params"]["_meta"] = {**ENVELOPE, CAPABILITIES: {"sampling": {}}}
    if state is not None:
        request["params"]["requestState"] = state
    if responses is not None:
        request["params"]["inputResponses"] = responses
    return request


def begun(answer: Message) -> str:
    """The state of a call that waits for the client's model."""
    result = answer["result"]
    assert result["resultType"] == "input_required", result
    assert len(result["inputRequests"]) == 1
    (asked,) = result["inputRequests"].values()
    assert asked["method"] == "sampling/createMessage"
    return str(result["requestState"])


def opened_up(state: str) -> bytes:
    return base64.urlsafe_b64decode(state.split(".", 1)[1] + "==")


def test_the_call_ends_with_what_is_asked_and_nothing_is_stored_before_the_answer(folder: Path) -> None:
    with stdio_product(folder, **ALLOWED) as server:
        state = begun(server.request(asking()))
        answer = server.request(asking(state, {KEY: plan(READ)}))
        assert envelope(answer)["data"]["author"]["source"] == "client-model"
    with stdio_product(folder, **ALLOWED) as server:
        server.initialize()
        assert plans_in_audit(server) == 1


def test_a_server_that_is_killed_between_the_rounds_is_not_missed(folder: Path) -> None:
    with stdio_product(folder, **ALLOWED) as server:
        state = begun(server.request(asking(name="chaoscore_achieve")))
        server.process.kill()
        server.process.wait()
    with stdio_product(folder, **ALLOWED) as server:
        state = begun(server.request(asking(state, {KEY: text("no plan")}, "chaoscore_achieve")))
        server.process.kill()
        server.process.wait()
    with http_product(folder, **ALLOWED) as web:
        # Another principal: what was sealed for the local user is not good here.
        refused = web.modern(asking(state, {f"{KEY}-again": plan(READ)}, "chaoscore_achieve")).json()
        assert envelope(refused)["error"]["details"]["reason"] == "not-for-this-call"
    with stdio_product(folder, **ALLOWED) as server:
        done = server.request(asking(state, {f"{KEY}-again": plan(READ)}, "chaoscore_achieve"))
        assert envelope(done)["status"] == "ACHIEVED"


def test_what_the_client_keeps_for_us_shows_nothing_of_it(folder: Path) -> None:
    with stdio_product(folder, **ALLOWED) as server:
        first = begun(server.request(asking()))
        second = begun(server.request(asking(first, {KEY: text("VISIBLE words that are no plan")})))
        for state in (first, second):
            clear = state.encode() + opened_up(state)
            words = (b"VISIBLE", b"asked", b"given", b"plan", b"notes", b"fs.", b"claude")
            assert not [word for word in words if word in clear]
        assert len(opened_up(second)) > len(opened_up(first))  # the first answer is in it


def test_a_state_is_for_one_goal(folder: Path) -> None:
    with stdio_product(folder, **ALLOWED) as server:
        state = begun(server.request(asking()))
        for other in (
            asking(state, {KEY: plan(READ)}, objective="tell me everything"),
            asking(state, {KEY: plan(READ)}, "chaoscore_achieve"),
            asking(state[:-4], {KEY: plan(READ)}),
        ):
            refused = envelope(server.request(other))
            assert (refused["status"], refused["error"]["details"]["key"]) == ("VALIDATION_ERROR", "requestState")


@pytest.mark.parametrize(
    ("responses", "why"),
    [
        (None, "the client called again without an answer of it"),
        ({}, "the client called again without an answer of it"),
        ({"model:other": plan(READ)}, "the client called again without an answer of it"),
        ({KEY: {"action": "decline"}}, "the client answered 'decline'"),
        ({KEY: {"action": "accept", "content": {"steps": "x"}}}, "the client answered 'accept'"),
        ({KEY: {"roots": []}}, "the client's answer is none of a model"),
        ({KEY: text("x" * 1_000_000)}, "its answer has more than 65,536 bytes"),
        ({KEY: text("{}", stopReason="maxTokens")}, "its answer was cut off"),
        (
            {
                KEY: {
                    "role": "assistant",
                    "model": "m",
                    "content": [{"type": "tool_use", "id": "t", "name": "x", "input": {}}],
                }
            },
            "it wanted to use a tool",
        ),
    ],
    ids=["none", "empty", "another", "decline", "accept", "roots", "large", "cut", "tool"],
)
def test_what_is_no_plan_ends_the_asking(folder: Path, responses: object, why: str) -> None:
    with stdio_product(folder, **ALLOWED) as server:
        state = begun(server.request(asking()))
        assert no_plan(server.request(asking(state, responses))).startswith(why)


def test_ten_megabytes_are_not_read_in_the_second_round(folder: Path) -> None:
    with http_product(folder, **ALLOWED) as web:
        state = begun(web.modern(asking()).json())
        assert web.modern(asking(state, {KEY: text("x" * 10_000_000)})).status == 413
        assert envelope(web.modern(asking(state, {KEY: plan(READ)})).json())["status"] == "PLANNED"


def test_a_large_first_answer_does_not_become_a_large_state(folder: Path) -> None:
    with stdio_product(folder, **ALLOWED) as server:
        state = begun(server.request(asking()))
        state = begun(server.request(asking(state, {KEY: text("汐" * 21_000)})))
        assert len(state) < 4 * 65_536
        assert envelope(server.request(asking(state, {f"{KEY}-again": plan(READ)})))["status"] == "PLANNED"


def test_when_memories_have_come_since_the_model_is_asked_anew(folder: Path) -> None:
    """A plan says whether memories were in view when it was written."""
    with stdio_product(folder, **ALLOWED) as server:
        state = begun(server.request(asking()))
        remember = call("chaoscore_remember", {"key": "notes", "value": "the notes are about tides"}, id=2)
        remember["params"]["_meta"] = {**ENVELOPE, CAPABILITIES: {}}
        assert envelope(server.request(remember))["status"] == "REMEMBERED"
        state = begun(server.request(asking(state, {KEY: plan(READ)})))
        made = envelope(server.request(asking(state, {KEY: plan(READ)})))
        assert (made["status"], made["data"]["recalled"]) == ("PLANNED", True)


def test_a_state_that_comes_when_the_operator_has_said_never_asks_nobody(folder: Path) -> None:
    with stdio_product(folder, **ALLOWED) as server:
        state = begun(server.request(asking()))
    with stdio_product(folder) as server:
        found = envelope(server.request(asking(state, {KEY: plan(READ)})))
        assert found["status"] == "NEEDS_PLAN"
        assert "client" not in found["message"]

"""The life of a stdio server: how it opens, which eras it speaks, how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.mcp.support import ENVELOPE, INITIALIZE, ROOT, call, message, raw_stdio


def test_a_line_larger_than_the_bound_is_refused_once_and_costs_nothing_else() -> None:
    with raw_stdio({"message_bytes_max": 10_000}) as server:
        server.send(call("echo", {"text": "x" * 500_000}, id=1), call("echo", {"text": "small"}, id=2))
        refusal, answer = server.receive(), server.receive()
        assert refusal["error"]["code"] == -32600
        assert "10000 bytes" in refusal["error"]["message"]
        assert answer["id"] == 2


def test_pipelined_calls_are_all_answered_each_once() -> None:
    with raw_stdio({"unanswered_max": 16}) as server:
        server.send(*(call("echo", {"text": str(number)}, id=number) for number in range(500)))
        answers = [server.receive() for _ in range(500)]
        assert sorted(item["id"] for item in answers) == list(range(500))
        assert all(item["result"]["structuredContent"]["data"]["text"] == str(item["id"]) for item in answers)


def test_pipelined_calls_take_effect_in_order_of_arrival() -> None:
    with raw_stdio() as server:
        server.send(*(call("remember", {"key": str(number)}, id=number) for number in range(50)))
        for _ in range(50):
            server.receive()
        assert server.tool("whoami")["data"]["remembered"] == [str(number) for number in range(50)]


def test_calls_beyond_the_bound_wait_and_cancellations_overtake_them() -> None:
    with raw_stdio({"unanswered_max": 3}) as server:
        server.send(*(call("hold", {"key": str(number)}, id=number) for number in range(2)))
        server.wait_for(lambda state: len(state["running"]) == 2)
        server.send(
            call("hold", {"key": "third"}, id=2),
            call("echo", {"text": "held back, then cancelled"}, id="held"),
            call("echo", {"text": "held back"}, id="later"),
            message("notifications/cancelled", {"requestId": "held"}),
            message("notifications/cancelled", {"requestId": 0}),
        )
        assert server.receive()["id"] == "later", "room was made by a cancellation that overtook it"
        state = server.wait_for(lambda state: state["cancelled"] == ["0"])
        assert state["running"] == ["1", "third"]


def test_the_end_of_input_is_noticed_while_calls_are_held_back() -> None:
    with raw_stdio({"unanswered_max": 2, "grace_seconds": 0.3}) as server:
        server.send(*(call("hold", {"key": str(number)}, id=number) for number in range(3)))
        server.end_input()
        code, rest, _ = server.finish()
        assert code == 0
        assert {item["id"] for item in rest} == {0, 1}, "what never started is not answered"
        assert all(item["error"]["message"] == "Connection closed" for item in rest)


def test_a_handshake_may_be_pipelined_with_the_first_call() -> None:
    with raw_stdio(handshake=False) as server:
        server.send(message("initialize", INITIALIZE, id=1), message("notifications/initialized"), call("state", id=2))
        answers = {item["id"]: item for item in (server.receive(), server.receive())}
        assert answers[2]["result"]["structuredContent"]["ok"] is True


def test_stray_prints_of_tools_and_their_children_never_reach_the_wire() -> None:
    with raw_stdio() as server:
        assert server.tool("shout")["data"]["child"] == 1, "the child found end of file on its standard input"
        server.end_input()
        code, rest, stderr = server.finish()
        assert (code, rest) == (0, [])
        assert all(f"a stray {kind}" in stderr for kind in ("print", "write", "child"))


def test_a_discover_is_answered_and_a_following_initialize_still_works() -> None:
    with raw_stdio(handshake=False) as server:
        found = server.request(message("server/discover", {"_meta": ENVELOPE}, id=0))
        assert found["result"]["supportedVersions"] == ["2026-07-28"]
        assert server.initialize()["result"]["protocolVersion"] == "2025-11-25"
        assert server.tool("echo", {"text": "hi"})["data"] == {"text": "hi"}


def test_a_discover_may_be_followed_by_the_stateless_era_and_answers_the_same_then() -> None:
    with raw_stdio(handshake=False) as server:
        before = server.request(message("server/discover", {"_meta": ENVELOPE}, id="d"))
        listed = server.request(message("tools/list", {"_meta": ENVELOPE}, id=1))
        assert len(listed["result"]["tools"]) > 5
        assert server.request(message("server/discover", {"_meta": ENVELOPE}, id="d")) == before


def test_a_discover_in_a_version_nobody_knows_names_the_known_ones_and_locks_nothing() -> None:
    with raw_stdio(handshake=False) as server:
        unknown = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}
        error = server.request(message("server/discover", {"_meta": unknown}, id=0))["error"]
        assert (error["code"], error["data"]["supported"]) == (-32022, ["2026-07-28"])
        assert "result" in server.initialize()


def test_an_envelope_on_a_handshake_connection_is_refused_and_changes_nothing() -> None:
    with raw_stdio() as server:
        error = server.request(message("tools/list", {"_meta": ENVELOPE}, id=5))["error"]
        assert (error["code"], "2025 handshake" in error["message"]) == (-32600, True)
        assert server.tool("echo", {"text": "hi"})["ok"] is True


def test_an_initialize_on_a_stateless_connection_is_refused_with_the_versions_it_serves() -> None:
    with raw_stdio(handshake=False) as server:
        server.request(message("tools/list", {"_meta": ENVELOPE}, id=1))
        error = server.request(message("initialize", INITIALIZE, id=2))["error"]
        assert (error["code"], error["data"]["supported"]) == (-32022, ["2026-07-28"])


def test_notifications_before_the_first_request_do_no_harm() -> None:
    with raw_stdio(handshake=False) as server:
        server.send(*(message("notifications/initialized") for _ in range(20)))
        server.send(message("notifications/nonsense", {"x": 1}))
        assert server.initialize()["result"]["protocolVersion"] == "2025-11-25"


def test_a_client_that_says_nothing_and_goes_is_no_error() -> None:
    with raw_stdio(handshake=False) as server:
        server.end_input()
        assert server.finish() == (0, [], "")


def test_calls_in_flight_at_the_end_of_input_are_answered_before_the_server_exits() -> None:
    with raw_stdio() as server:
        server.send(call("hold", {"key": "a"}, id=7))
        server.wait_for(lambda state: state["running"] == ["a"])
        server.send(call("release", {"key": "a"}, id=8))
        server.end_input()
        code, rest, _ = server.finish()
        assert code == 0
        assert {item["id"] for item in rest} == {7, 8}
        assert all(item["result"]["structuredContent"]["ok"] for item in rest)


def test_a_call_that_outlives_the_grace_is_cancelled_and_told_so() -> None:
    with raw_stdio({"grace_seconds": 0.2}) as server:
        server.send(call("hold", {"key": "a"}, id=7))
        server.wait_for(lambda state: state["running"] == ["a"])
        server.end_input()
        code, rest, _ = server.finish()
        assert (code, [item["id"] for item in rest]) == (0, [7])
        assert rest[0]["error"]["message"] == "Connection closed"


def test_the_last_line_needs_no_line_end() -> None:
    with raw_stdio() as server:
        server.write(json.dumps(call("echo", {"text": "last"}, id=9)).encode())
        server.end_input()
        code, rest, _ = server.finish()
        assert (code, [item["id"] for item in rest]) == (0, [9])


def test_sigterm_ends_the_server_in_order() -> None:
    with raw_stdio({"stop_seconds": 0.2}) as server:
        server.send(call("hold", {"key": "a"}, id=7))
        server.wait_for(lambda state: state["running"] == ["a"])
        server.process.send_signal(signal.SIGTERM)
        code, rest, _ = server.finish()
        assert (code, [item["id"] for item in rest]) == (0, [7])


def test_a_client_that_goes_away_ends_the_server_without_its_answers() -> None:
    with raw_stdio() as server:
        server.send(call("hold", {"key": "a"}, id=1))
        server.wait_for(lambda state: state["running"] == ["a"])
        assert server.process.stdout is not None
        server.process.stdout.close()
        server.send(call("echo", {"text": "nobody reads this"}, id=2))
        assert server.process.wait(20) == 0


@pytest.mark.parametrize("redirections", ["> /dev/full", "< {file} > /dev/full"])
def test_an_output_that_cannot_be_written_ends_the_server_with_a_word(redirections: str, tmp_path: Path) -> None:
    file = tmp_path / "calls"
    file.write_bytes(json.dumps(message("initialize", INITIALIZE, id=1)).encode() + b"\ngarbage\n")
    command = f"{sys.executable} -m tests.mcp.fixture_server stdio {redirections.format(file=file)}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, input=file.read_bytes(), capture_output=True, timeout=30, check=False
    )
    assert done.returncode == 0
    assert b"answers cannot be written any more" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_closed_standard_stream_is_refused_with_what_to_do(closed: str) -> None:
    command = f"{sys.executable} -m tests.mcp.fixture_server stdio {closed}"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, timeout=30, check=False)
    assert done.returncode == 1
    assert b"ConfigurationInvalid: standard input or output is closed" in done.stderr


def test_a_server_that_wants_lone_surrogates_survives_them_everywhere() -> None:
    with raw_stdio({"lone_surrogates": True}) as server:
        for line in (
            call("echo", {"text": "a\ud800"}, id="in an argument"),
            call("echo", {"text": "a"}, id="in an id \ud800"),
            call("\ud800", {}, id="in a name"),
            message("\ud800", id="in a method"),
            call("count_up", {"steps": 1}, id="in a token", progressToken="\ud800"),
        ):
            server.send(line)
            while (answer := server.receive()).get("id") != line["id"]:
                assert answer["method"] == "notifications/progress"
        assert server.tool("echo", {"text": "alive"})["data"] == {"text": "alive"}


def test_the_principal_is_the_process_owner_and_the_connection_lasts() -> None:
    with raw_stdio() as server:
        server.tool("remember", {"key": "one"})
        who = server.tool("whoami")["data"]
        assert who["principal"].startswith("local:")
        assert (who["connection"], who["stateful"], who["bound"]) == ("conn-fixture", True, False)
        assert who["remembered"] == ["one"]


def test_standard_input_from_a_file_is_served_too() -> None:
    """asyncio cannot watch a regular file: the SDK's own stdio takes over."""
    lines = [message("initialize", INITIALIZE, id=1), message("notifications/initialized"), call("shout", id=2)]
    with tempfile.TemporaryFile() as file:
        file.write(b"".join(json.dumps(item).encode() + b"\n" for item in lines) + b"garbage\n")
        file.seek(0)
        done = subprocess.run(
            [sys.executable, "-m", "tests.mcp.fixture_server", "stdio"],
            cwd=ROOT,
            stdin=file,
            capture_output=True,
            timeout=30,
            check=True,
        )
    answers = {item["id"]: item for item in map(json.loads, done.stdout.splitlines())}
    assert answers[2]["result"]["structuredContent"]["ok"] is True
    assert answers[None]["error"]["code"] == -32700

"""The 14 tools over real stdio: their list, their envelopes, their refusals, and the order of calls."""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any

import pytest
from mcp_types import TextContent

from tests.interaction_surface.support import OPTIONS, Repository, sdk_client, wire
from tests.mcp.support import Era, call, message

ERAS: list[Era] = ["legacy", "auto"]
NAMES = [
    "chaos_begin_command",
    "chaos_create_decision",
    "chaos_get_active_decision",
    "chaos_get_decision_response",
    "chaos_answer_decision",
    "chaos_mark_decision_consumed",
    "chaos_create_resume_capsule",
    "chaos_get_resume_capsule",
    "chaos_find_resume_candidates",
    "chaos_resume_command",
    "chaos_complete_command",
    "chaos_cancel_command",
    "chaos_list_locks",
    "chaos_list_sessions",
]


@pytest.mark.parametrize("era", ERAS)
def test_the_tools_are_listed_in_the_contracts_order_with_schemas_and_hints(repository: Repository, era: Era) -> None:
    async def scenario() -> None:
        async with sdk_client(repository, era) as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == NAMES
            for tool in tools:
                assert tool.title and tool.description and tool.annotations and tool.output_schema
                assert tool.input_schema["additionalProperties"] is False
                properties: dict[str, Any] = tool.input_schema["properties"]
                assert all("description" in schema for schema in properties.values()), tool.name
            reading = {tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint}
            assert reading == {"chaos_get_resume_capsule", "chaos_list_locks", "chaos_list_sessions"}

    asyncio.run(scenario())


@pytest.mark.parametrize("era", ERAS)
def test_a_run_is_asked_about_answered_resumed_and_completed(repository: Repository, era: Era) -> None:
    """The SDK's client checks every structured result against the tool's output schema."""

    async def scenario() -> None:
        async with sdk_client(repository, era) as client:

            async def tool(name: str, **arguments: Any) -> dict[str, Any]:
                result = await client.call_tool(name, arguments)
                content = result.content[0]
                assert isinstance(content, TextContent)
                assert json.loads(content.text) == result.structured_content
                assert result.is_error is (not json.loads(content.text)["ok"])
                envelope: dict[str, Any] = json.loads(content.text)
                return envelope

            await client.list_tools()
            begun = await tool("chaos_begin_command", sourceCommand="chaos:run", changeId="c1", adapter="claude")
            run = begun["data"]["commandRunId"]
            asked = await tool(
                "chaos_create_decision", commandRunId=run, title="Which profile?", context="Pick one.", options=OPTIONS
            )
            assert (asked["status"], asked["mustStop"]) == ("WAITING_FOR_USER_DECISION", True)
            assert "stop" in asked["nextAction"].lower()
            decision = asked["data"]["decisionId"]
            waiting = await tool("chaos_get_active_decision")
            assert waiting["data"]["decision"]["context"] == "Pick one."
            assert waiting["data"]["decision"]["options"][1]["consequence"] == "Takes a minute."
            assert (await tool("chaos_get_decision_response", decisionId=decision))["status"] == "NO_RESPONSE_YET"
            blocked = await tool("chaos_begin_command", sourceCommand="chaos:apply", changeId="c1")
            assert (blocked["status"], blocked["mustStop"]) == ("CONFLICTING_COMMAND_ACTIVE", True)
            answered = await tool("chaos_answer_decision", decisionId=decision, selectedOptionId="compact")
            assert answered["status"] == "ANSWERED"
            assert "must not choose" in answered["warnings"][0]
            assert (await tool("chaos_find_resume_candidates"))["status"] == "FOUND"
            capsule = await tool("chaos_get_resume_capsule", commandRunId=run)
            assert capsule["data"]["capsule"]["answeredDecisionIds"] == [decision]
            assert (await tool("chaos_resume_command", commandRunId=run))["status"] == "RESUMED"
            response = await tool("chaos_get_decision_response", decisionId=decision)
            assert response["data"]["selectedOptionId"] == "compact"
            assert (await tool("chaos_mark_decision_consumed", decisionId=decision))["status"] == "CONSUMED"
            await tool("chaos_create_resume_capsule", commandRunId=run, openRisks="one", approvedScope=["a", "b"])
            assert (await tool("chaos_complete_command", commandRunId=run))["status"] == "COMPLETED"
            assert (await tool("chaos_list_locks"))["data"]["locks"][0]["state"] == "released"
            assert (await tool("chaos_list_sessions"))["data"]["latest"]["state"] == "completed"
            assert (await tool("chaos_cancel_command", commandRunId=run))["error"]["code"] == "INVALID_STATE_TRANSITION"

    asyncio.run(scenario())


REFUSED = [
    ("chaos_begin_command", {}, "sourceCommand"),
    ("chaos_begin_command", {"sourceCommand": "  "}, "sourceCommand"),
    ("chaos_begin_command", {"sourceCommand": "x", "changeId": None}, "changeId"),
    ("chaos_begin_command", {"sourceCommand": "x", "change": "c"}, "change"),
    ("chaos_begin_command", {"sourceCommand": "x", "adapter": "emacs"}, "adapter"),
    ("chaos_begin_command", {"sourceCommand": "x", "ttlSeconds": 0}, "ttlSeconds"),
    ("chaos_begin_command", {"sourceCommand": "x", "metadata": {"chaosCore": {}}}, "chaosCore"),
    ("chaos_create_decision", {"commandRunId": "R", "title": 1, "context": "c"}, "title"),
    ("chaos_create_decision", {"commandRunId": "R", "title": "t", "context": "c", "options": [{"id": "a"}]}, "label"),
    ("chaos_answer_decision", {"decisionId": None}, "decisionId"),
    ("chaos_list_sessions", {"limit": 501}, "limit"),
    ("chaos_list_sessions", {"cursor": "nonsense"}, "cursor"),
    ("chaos_list_locks", {"includeStale": "yes"}, "includeStale"),
    ("chaos_list_locks", {"cursor": "-1"}, "cursor"),
]


@pytest.mark.parametrize(("tool", "arguments", "key"), REFUSED)
def test_a_wrong_argument_is_an_envelope_that_names_it_and_says_stop(
    repository: Repository, tool: str, arguments: dict[str, Any], key: str
) -> None:
    with wire(repository) as server:
        answer = server.request(call(tool, arguments))["result"]
        envelope = json.loads(answer["content"][0]["text"])
        assert answer["isError"] is True
        assert (envelope["status"], envelope["mustStop"]) == ("VALIDATION_ERROR", True)
        assert key in envelope["message"]
        assert envelope["nextAction"].startswith("Stop")
        assert envelope["error"] == {"code": "VALIDATION_ERROR", "details": []}
    assert not (repository.path / ".chaos").exists(), "a refused call leaves a repository untouched"


def test_a_call_without_a_name_or_with_odd_arguments_is_an_envelope_too(repository: Repository) -> None:
    with wire(repository) as server:
        for params in ({}, {"name": 3}, {"name": "chaos_nope", "arguments": {}}, {"name": NAMES[0], "arguments": []}):
            answer = server.request(message("tools/call", params, id=7))["result"]
            envelope = json.loads(answer["content"][0]["text"])
            assert (envelope["status"], envelope["mustStop"]) == ("VALIDATION_ERROR", True)


QUESTION: dict[str, Any] = {"commandRunId": "R", "title": "t", "context": "c"}
LARGE: list[tuple[str, dict[str, Any], str]] = [
    ("chaos_begin_command", {"sourceCommand": "x" * 4_097}, "sourceCommand"),
    ("chaos_begin_command", {"sourceCommand": "審" * 1_366}, "sourceCommand"),
    ("chaos_begin_command", {"sourceCommand": "x", "metadata": {"k": "v" * 262_144}}, "metadata"),
    ("chaos_create_decision", {"commandRunId": "R", "title": "t", "context": "c" * 1_048_577}, "context"),
    ("chaos_create_decision", {"commandRunId": "R", "title": "t" * 16_385, "context": "c"}, "title"),
    (
        "chaos_create_decision",
        {**QUESTION, "options": [{"id": f"o{n}", "label": "l"} for n in range(101)]},
        "options",
    ),
    (
        "chaos_create_decision",
        {"commandRunId": "R", "title": "t", "context": "c", "options": [{"id": "a", "label": "l" * 16_385}]},
        "options[0].label",
    ),
    ("chaos_answer_decision", {"decisionId": "D", "freeformValue": "x" * 1_048_577}, "freeformValue"),
    ("chaos_create_resume_capsule", {"commandRunId": "R", "openRisks": ["r"] * 1_001}, "openRisks"),
    ("chaos_create_resume_capsule", {"commandRunId": "R", "constraints": "r" * 1_048_577}, "constraints"),
    ("chaos_cancel_command", {"commandRunId": "R", "reason": "r" * 1_048_577}, "reason"),
]


def test_what_is_too_large_is_refused_by_its_key_before_anything_is_written(repository: Repository) -> None:
    with wire(repository) as server:
        for tool, arguments, key in LARGE:
            envelope = server.tool(tool, **arguments)
            assert envelope["status"] == "TOO_LARGE", (tool, key, envelope["message"][:200])
            assert envelope["message"].startswith(f"{key}: ")
        assert not (repository.path / ".chaos").exists()
        assert server.begin("審" * 1_365).startswith("RUN-")


def test_calls_in_one_chunk_take_effect_in_order_of_arrival(repository: Repository) -> None:
    with wire(repository) as server:
        run = server.begin(changeId="c1", commandRunId="RUN-1")
        steps = [
            call("chaos_create_decision", {"commandRunId": run, "title": "T", "context": "c", "options": OPTIONS}, 1),
            call("chaos_get_active_decision", {}, 2),
            call("chaos_cancel_command", {"commandRunId": run}, 3),
            message("resources/read", {"uri": f"chaos://interactions/sessions/{run}"}, 4),
            call("chaos_list_locks", {}, 5),
            call("chaos_begin_command", {"sourceCommand": "chaos:other", "changeId": "c1"}, 6),
        ]
        server.send(*steps)
        answers = {answer["id"]: answer["result"] for answer in (server.receive() for _ in steps)}
        statuses = {number: json.loads(answers[number]["content"][0]["text"])["status"] for number in (1, 2, 3, 5, 6)}
        assert statuses == {
            1: "WAITING_FOR_USER_DECISION",
            2: "ACTIVE_DECISION",
            3: "CANCELLED",
            5: "LOCKS",
            6: "READY",
        }
        assert json.loads(answers[4]["contents"][0]["text"])["state"] == "cancelled"


def test_a_call_that_waits_for_the_lock_holds_up_later_calls_and_no_ping(repository: Repository) -> None:
    with wire(repository) as server:
        run = server.begin()
        # A live process of another make holds the lock: this one, for as long as the test lasts.
        lock = repository.root / ".runtime.lock"
        lock.write_text(json.dumps({"pid": os.getpid(), "at": int(time.time() * 1000)}))
        server.send(call("chaos_complete_command", {"commandRunId": run}, 1), call("chaos_list_sessions", {}, 2))
        server.send(message("ping", id=3))
        assert server.receive() == {"jsonrpc": "2.0", "id": 3, "result": {}}
        assert server.request(message("tools/list", id=4))["id"] == 4
        lock.unlink()
        first, second = server.receive(), server.receive()
        assert (first["id"], second["id"]) == (1, 2)
        shown = json.loads(second["result"]["content"][0]["text"])["data"]["sessions"]
        assert [session["state"] for session in shown] == ["completed"]


def test_a_caller_that_gives_up_leaves_the_queue(repository: Repository) -> None:
    with wire(repository) as server:
        server.begin()
        lock = repository.root / ".runtime.lock"
        lock.write_text(json.dumps({"pid": os.getpid(), "at": int(time.time() * 1000)}))
        server.send(
            call("chaos_begin_command", {"sourceCommand": "chaos:one"}, 1),
            call("chaos_begin_command", {"sourceCommand": "chaos:two"}, 2),
            call("chaos_list_sessions", {}, 3),
            message("notifications/cancelled", {"requestId": 2}),
            message("ping", id=4),
        )
        assert server.receive()["id"] == 4
        lock.unlink()
        assert [server.receive()["id"], server.receive()["id"]] == [1, 3]
        commands = {session["sourceCommand"] for session in server.tool("chaos_list_sessions")["data"]["sessions"]}
        assert commands == {"chaos:run", "chaos:one"}


def test_every_kind_of_question_is_answered_and_read_back(repository: Repository) -> None:
    with wire(repository) as server:
        run = server.begin()
        several = server.ask(run, "Which ones?", interactionType="multi-choice-decision")
        written = server.ask(run, "Why?", interactionType="freeform-input", options=[], requiresRationale=True)
        done = server.tool("chaos_answer_decision", decisionId=several, selectedOptionIds=["none", "full"])
        assert done["status"] == "ANSWERED"
        refused = server.tool("chaos_answer_decision", decisionId=written, freeformValue="because")
        assert refused["status"] == "VALIDATION_ERROR" and "rationale" in refused["message"]
        answer = {"decisionId": written, "freeformValue": "because", "rationale": "it is so", "selectedBy": "ann"}
        assert server.tool("chaos_answer_decision", **answer)["status"] == "ANSWERED"
        assert server.tool("chaos_answer_decision", **answer)["status"] == "ANSWERED"
        other = server.tool("chaos_answer_decision", decisionId=written, freeformValue="no", rationale="x")
        assert other["status"] == "DECISION_NOT_ANSWERABLE" and "ann" in other["message"]
        read = server.tool("chaos_get_decision_response", decisionId=several)["data"]
        assert read["selectedOptionIds"] == ["none", "full"]
        read = server.tool("chaos_get_decision_response", decisionId=written)["data"]
        assert (read["freeformValue"], read["rationale"], read["source"]) == ("because", "it is so", "mcp-tool")


def test_lone_surrogates_and_large_integers_survive_the_way_there_and_back(repository: Repository) -> None:
    metadata = {"text": "a\ud800b", "large": 2**60 + 1, "pair": "\U0001f600"}
    with wire(repository) as server:
        run = server.begin(metadata=metadata, commandRunId="RUN-odd")
        stored = repository.read(f"sessions/{run}.json")
        assert stored["metadata"] == metadata
        answer = server.request(message("resources/read", {"uri": f"chaos://interactions/sessions/{run}"}, 1))
        assert json.loads(answer["result"]["contents"][0]["text"])["metadata"] == metadata
        decision = server.ask(run, "odd \udc00 title")
        shown = server.tool("chaos_get_active_decision")["data"]["decision"]
        assert (shown["decisionId"], shown["title"]) == (decision, "odd \udc00 title")


def test_the_bridge_can_be_switched_off(repository: Repository) -> None:
    with wire(repository, "--no-answer-bridge") as server:
        decision = server.ask(server.begin())
        envelope = server.tool("chaos_answer_decision", decisionId=decision, selectedOptionId="full")
        assert envelope["status"] == "ANSWER_BRIDGE_OFF"
        assert server.tool("chaos_get_decision_response", decisionId=decision)["status"] == "NO_RESPONSE_YET"

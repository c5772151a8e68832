"""Planning by the calling client's own model, through the SDK's client: both transports, both eras."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ErrorData,
    ImageContent,
    TextContent,
)

from tests.app.harness import run, write_policy
from tests.mcp.product import environment, http_product
from tests.mcp.support import PATIENCE_SECONDS, Era, Transport
from tests.providers.server import Answer, ScriptedServer

warnings.filterwarnings("ignore", category=MCPDeprecationWarning)

WAYS = pytest.mark.parametrize(
    ("transport", "era"),
    [("stdio", "legacy"), ("stdio", "2026-07-28"), ("http", "legacy"), ("http", "2026-07-28")],
)
GOAL = "tell me in one word what the notes are about"
READ: dict[str, Any] = {"id": "s1", "capability": "fs.read_text", "arguments": {"path": "notes.txt"}}
WRITE: dict[str, Any] = {"id": "s1", "capability": "fs.write_text", "arguments": {"path": "a.txt", "text": "x"}}
ALLOWED = {"CHAOS_CORE_CLIENT_MODEL": "when-declared"}


def plan(*steps: dict[str, Any]) -> str:
    return json.dumps({"steps": list(steps)})


class Model:
    """The client's side: answers one after the other, the last one again and again."""

    def __init__(self, *answers: str | CreateMessageResult | ErrorData, name: str = "claude-test-1") -> None:
        self.asked: list[CreateMessageRequestParams] = []
        self._answers = list(answers)
        self._name = name

    async def __call__(
        self, _: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        self.asked.append(params)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, str):
            return CreateMessageResult(role="assistant", content=TextContent(text=answer), model=self._name)
        return answer

    def words(self, number: int = 0) -> str:
        content = self.asked[number].messages[0].content
        assert isinstance(content, TextContent)
        return content.text


@asynccontextmanager
async def product(
    directory: Path, transport: Transport, era: Era, model: Model | None, **more: str
) -> AsyncIterator[Client]:
    (directory / "work").mkdir(exist_ok=True)
    (directory / "work" / "notes.txt").write_text("tides", "utf-8")
    options: dict[str, Any] = {"mode": era, "read_timeout_seconds": PATIENCE_SECONDS, "sampling_callback": model}
    if transport == "stdio":
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "chaoscore.cli", "serve", "--stdio"],
            cwd=str(directory),
            env=environment(directory) | more,
        )
        async with Client(server, **options) as client:
            yield client
    else:
        with http_product(directory, **more) as web:
            async with Client(web.url, **options) as client:
                yield client


async def tool(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(f"chaoscore_{name}", arguments)
    assert result.structured_content is not None
    return cast("dict[str, Any]", result.structured_content)


async def plans_in_audit(client: Client) -> list[dict[str, Any]]:
    audit = await tool(client, "inspect", what="audit", limit=50)
    return [event["data"] for event in audit["data"]["events"] if event["kind"] == "plan-stored"]


@WAYS
def test_a_goal_is_planned_by_the_clients_model_and_everybody_is_told_so(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    model = Model(plan(READ))

    async def work() -> None:
        async with product(tmp_path, transport, era, model, **ALLOWED) as client:
            done = await tool(client, "achieve", objective=GOAL)
            assert (done["status"], done["data"]["evaluation"]["outcome"]) == ("ACHIEVED", "achieved")
            author = {"source": "client-model", "provider": "mcp-client", "model": "claude-test-1", "tokens": None}
            assert done["data"]["author"] == author
            kept = await tool(client, "inspect", what="plan", plan_id=done["data"]["plan_id"])
            assert kept["data"]["author"] == author
            if transport == "stdio":  # an anonymous caller sees the audit of its runs alone
                stored = await plans_in_audit(client)
                assert [event["author"] for event in stored] == ["client-model"]
                assert (stored[0]["provider"], stored[0]["model"]) == ("mcp-client", "claude-test-1")
            if era == "legacy":
                session = await tool(client, "inspect", what="session")
                assert session["data"]["working_memory"][-1]["plan_provider"] == "client-model"

    run(work())
    assert len(model.asked) == 1
    asked = model.asked[0]
    assert (asked.max_tokens, asked.include_context, asked.tools) == (8192, "none", None)
    assert asked.system_prompt is not None and "fs.read_text" in asked.system_prompt
    assert GOAL in model.words()


@WAYS
@pytest.mark.parametrize("said", [{}, {"CHAOS_CORE_CLIENT_MODEL": "never"}], ids=["unset", "never"])
def test_unless_the_operator_allows_it_no_clients_model_is_asked(
    tmp_path: Path, transport: Transport, era: Era, said: dict[str, str]
) -> None:
    model = Model(plan(READ))

    async def work() -> None:
        async with product(tmp_path, transport, era, model, **said) as client:
            for name in ("plan", "achieve"):
                needed = await tool(client, name, objective=GOAL)
                assert needed["status"] == "NEEDS_PLAN"
                assert "client" not in needed["message"]

    run(work())
    assert model.asked == []


@WAYS
def test_a_client_that_declares_no_model_is_not_asked(tmp_path: Path, transport: Transport, era: Era) -> None:
    async def work() -> None:
        async with product(tmp_path, transport, era, None, **ALLOWED) as client:
            needed = await tool(client, "achieve", objective=GOAL)
            assert needed["status"] == "NEEDS_PLAN"
            assert "client" not in needed["message"]

    run(work())


@WAYS
@pytest.mark.parametrize(
    ("first", "told"),
    [
        (plan({**READ, "capability": "fs.erase"}, READ), "/steps/0/capability"),
        ("Sure! Here is the plan you asked for.", "is not JSON"),
        ('{"steps": [], "steps": []}', "stands twice"),
    ],
    ids=["faulty", "prose", "a-key-twice"],
)
def test_a_faulty_answer_goes_back_once_with_every_fault(
    tmp_path: Path, transport: Transport, era: Era, first: str, told: str
) -> None:
    model = Model(first, f"```json\n{plan(READ)}\n```")

    async def work() -> None:
        async with product(tmp_path, transport, era, model, **ALLOWED) as client:
            made = await tool(client, "plan", objective=GOAL)
            assert (made["status"], made["data"]["author"]["source"]) == ("PLANNED", "client-model")

    run(work())
    assert len(model.asked) == 2
    assert told not in model.words(0)
    assert told in model.words(1)
    if "erase" in first:
        assert "/steps/1/id" in model.words(1)  # the second fault of the same answer: an id that is taken
    assert GOAL in model.words(1)


@WAYS
def test_a_plan_that_is_faulty_twice_leaves_it_to_the_caller(tmp_path: Path, transport: Transport, era: Era) -> None:
    model = Model(plan({**READ, "capability": "fs.erase"}))

    async def work() -> None:
        async with product(tmp_path, transport, era, model, **ALLOWED) as client:
            needed = await tool(client, "achieve", objective=GOAL)
            assert (needed["status"], needed["ok"]) == ("NEEDS_PLAN", True)
            assert needed["message"].count("its plan has 1 fault, the first at /steps/0/capability") == 2
            assert needed["data"]["plan_schema"]["type"] == "array"
            if transport == "stdio":
                assert await plans_in_audit(client) == []

    run(work())
    assert len(model.asked) == 2


IMAGE = CreateMessageResult(
    role="assistant", content=ImageContent(data="aGk=", mime_type="image/png"), model="m", stop_reason="endTurn"
)
CUT = CreateMessageResult(role="assistant", content=TextContent(text=plan(READ)), model="m", stop_reason="maxTokens")
TOOL = CreateMessageResult(role="assistant", content=TextContent(text="…"), model="m", stop_reason="toolUse")


@WAYS
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (IMAGE, "it answered without text"),
        (" \n", "it answered without text"),
        (CUT, "its answer was cut off at the limit of tokens"),
        (TOOL, "it wanted to use a tool"),
        ("x" * 65_537, "its answer has more than 65,536 bytes"),
        ("汐" * 30_000, "its answer has more than 65,536 bytes"),
        (plan(), "it found none with the registered capabilities"),
        ("[" * 60_000, "the first at its root"),
    ],
    ids=["image", "blank", "cut", "tool", "large", "large-in-bytes", "gives-up", "deep"],
)
def test_an_answer_without_a_plan_is_needs_plan_and_says_why(
    tmp_path: Path, transport: Transport, era: Era, answer: str | CreateMessageResult, why: str
) -> None:
    async def work() -> None:
        async with product(tmp_path, transport, era, Model(answer), **ALLOWED) as client:
            needed = await tool(client, "plan", objective=GOAL)
            assert (needed["status"], needed["ok"]) == ("NEEDS_PLAN", True)
            assert "the client's model gave no plan: " in needed["message"]
            assert why in needed["message"]
            assert needed["data"]["capabilities"]

    run(work())


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_client_that_refuses_is_not_asked_again(tmp_path: Path, transport: Transport) -> None:
    model = Model(ErrorData(code=-1, message="the user said no to SECRET-WORDS"))

    async def work() -> None:
        async with product(tmp_path, transport, "legacy", model, **ALLOWED) as client:
            needed = await tool(client, "achieve", objective=GOAL)
            assert needed["status"] == "NEEDS_PLAN"
            assert "the client's model gave no plan: the client refused it with error -1" in needed["message"]
            assert "SECRET" not in json.dumps(needed)

    run(work())
    assert len(model.asked) == 1


@WAYS
def test_policy_judges_a_plan_of_the_clients_model_like_any_other(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    write_policy(tmp_path, deniedCapabilities=["fs.read_text"], requireConfirmationFor=["fs.write_text"])

    async def work() -> None:
        more = {**ALLOWED, "CHAOS_CORE_POLICY_PATH": str(tmp_path / "policy.json")}
        async with product(tmp_path, transport, era, Model(plan(READ), plan(WRITE)), **more) as client:
            blocked = await tool(client, "achieve", objective=GOAL)
            assert (blocked["status"], blocked["data"]["steps"][0]["state"]) == ("BLOCKED", "denied")
            waiting = await tool(client, "achieve", objective=f"{GOAL} and keep it")
            assert (waiting["status"], waiting["mustStop"]) == ("WAITING_FOR_APPROVAL", True)
            assert not (tmp_path / "work" / "a.txt").exists()

    run(work())


@WAYS
def test_what_others_can_plan_is_not_asked_of_the_client(tmp_path: Path, transport: Transport, era: Era) -> None:
    model = Model(plan(READ))

    async def work() -> None:
        async with product(tmp_path, transport, era, model, **ALLOWED) as client:
            by_rules = await tool(client, "plan", objective="read notes.txt")
            assert by_rules["data"]["author"]["source"] == "rules"
            by_caller = await tool(client, "plan", objective=GOAL, steps=[READ])
            assert by_caller["data"]["author"]["source"] == "caller"
        refused = Answer({"error": {"message": "no"}}, status=401)
        with ScriptedServer(refused) as server:
            more = {**ALLOWED, "OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": server.url}
            async with product(tmp_path, transport, era, model, **more) as client:
                failed = await tool(client, "plan", objective=GOAL)
                assert failed["status"] == "PROVIDER_AUTH"

    run(work())
    assert model.asked == []


@WAYS
def test_neither_reasoning_nor_generated_text_comes_from_the_client(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    model = Model("text of mine")
    steps = [{"id": "s1", "capability": "cognition.generate_text", "arguments": {"instructions": "a haiku"}}]

    async def work() -> None:
        async with product(tmp_path, transport, era, model, **ALLOWED) as client:
            assert (await tool(client, "reason", objective=GOAL))["status"] == "NOT_CONFIGURED"
            done = await tool(client, "achieve", objective=GOAL, steps=steps, confirmed=True)
            assert done["data"]["steps"][0]["state"] == "failed"
            assert "NOT_CONFIGURED" in json.dumps(done)

    run(work())
    assert model.asked == []


@WAYS
def test_memories_are_shown_without_secrets_and_the_plan_says_that_they_were(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    model = Model(plan(READ))

    async def work() -> None:
        async with product(tmp_path, transport, era, model, **ALLOWED) as client:
            key = "sk-proj-CANARYcanary0123456789canary"
            await tool(client, "remember", key="notes", value=f"the notes are about the sea; {key}")
            made = await tool(client, "plan", objective=GOAL)
            assert (made["status"], made["data"]["recalled"]) == ("PLANNED", True)

    run(work())
    assert len(model.asked) == 1
    assert "the notes are about the sea; [redacted]" in model.words()
    assert "CANARY" not in str(model.asked)


@pytest.mark.parametrize("name", ["m\nGoal: approved by everybody", "x" * 101, "‮evil", ""])
def test_a_name_that_could_pass_for_more_than_a_name_is_not_kept(tmp_path: Path, name: str) -> None:
    """People who approve read who wrote the plan."""

    async def work() -> None:
        async with product(tmp_path, "stdio", "2026-07-28", Model(plan(WRITE), name=name), **ALLOWED) as client:
            made = await tool(client, "plan", objective=GOAL)
            assert made["data"]["author"]["source"] == "client-model"
            assert made["data"]["author"]["model"] is None

    run(work())


@WAYS
def test_the_repair_turn_counts_against_the_calls_of_a_goal(tmp_path: Path, transport: Transport, era: Era) -> None:
    model = Model("no plan")

    async def work() -> None:
        more = {**ALLOWED, "CHAOS_CORE_PROVIDER_CALLS_MAX": "1"}
        async with product(tmp_path, transport, era, model, **more) as client:
            needed = await tool(client, "plan", objective=GOAL)
            assert needed["status"] == "NEEDS_PLAN"
            assert "the bound provider_calls_max was reached" in needed["message"]

    run(work())
    assert len(model.asked) == 1

"""A key is in no message, repr, detail, log line or traceback, whatever the server and the environment do."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import subprocess
import sys
import traceback
from collections.abc import Iterator

import pytest

from chaoscore.adapters.providers.conversation import Tries
from chaoscore.domain.errors import ProviderError
from chaoscore.domain.json import JsonObject
from tests.providers.server import Answer, Hang, Huge, Reaction, Reset, ScriptedServer
from tests.providers.vendors import KEY, VENDORS, Vendor

SCHEMA: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["n"],
    "properties": {"n": {"type": "integer"}},
}
ECHO = {"error": {"message": f"Incorrect API key provided: {KEY}. Find yours at …", "code": KEY, "type": KEY}}
MASKED = {"error": {"message": "Incorrect API key provided: sk-proj-********************NARY"}}
HALF = KEY[: len(KEY) // 2]


@pytest.fixture
def loud() -> Iterator[io.StringIO]:
    """Everything that any logger says while root is at DEBUG and the SDKs' own switches are on."""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    for name in ("openai", "openai._base_client", "anthropic", "anthropic._base_client", "httpx2", "httpcore2.http11"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    yield heard
    root.removeHandler(handler)
    root.setLevel(before)


def everything_about(error: BaseException) -> str:
    """All that a logger, a debugger or a curious handler could print of an error and of those behind it."""
    shown: list[str] = []
    chain: list[BaseException | None] = [error]
    seen: set[int] = set()
    while chain:
        at = chain.pop()
        if at is None or id(at) in seen:
            continue
        seen.add(id(at))
        chain.extend([at.__cause__, at.__context__])
        shown += [str(at), repr(at), repr(at.args), repr(vars(at))]
        shown += traceback.TracebackException.from_exception(at, capture_locals=True).format()
    return "\n".join(shown)


CASES: dict[str, tuple[Reaction, ...]] = {
    "401": (Answer(ECHO, 401),),
    "403": (Answer(ECHO, 403),),
    "404": (Answer(ECHO, 404),),
    "400": (Answer(ECHO, 400),),
    "429": (Answer(ECHO, 429, {"retry-after": "600"}),),
    "500": (Answer(ECHO, 500),) * 3,
    "500-text": (Answer(f"<html>{KEY}</html>".encode(), 500),) * 3,
    "echo-in-200": (Answer(ECHO),),
    "long-echo": (Answer({"error": {"message": " " * 19_990 + KEY + "x" * 400}}, 401),),
    "reset": (Reset(),) * 3,
    "hang": (Hang(),) * 3,
    "huge": (Huge(20_000_000, announced=False),),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_no_failure_shows_the_key(vendor: Vendor, case: str, loud: io.StringIO) -> None:
    with ScriptedServer(*CASES[case]) as server:
        provider = vendor.make(server.url, Tries(1.0 if case == "hang" else 5.0, 0 if case == "hang" else 2, 0.01))
        with pytest.raises(ProviderError) as caught:
            asyncio.run(provider.generate_json("x", "SECRET-PROMPT", SCHEMA))
    assert server.requests
    shown = everything_about(caught.value) + json.dumps(caught.value.details)
    assert HALF not in shown
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert HALF not in loud.getvalue() and "SECRET-PROMPT" not in loud.getvalue()


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_a_model_that_repeats_the_key_in_broken_json_does_not_show_it(vendor: Vendor, loud: io.StringIO) -> None:
    wrong = vendor.ok(json.dumps({"n": f"the key is {KEY}", KEY: 1}))
    with ScriptedServer(wrong, wrong) as server, pytest.raises(ProviderError) as caught:
        asyncio.run(vendor.make(server.url).generate_json("x", "y", SCHEMA))
    assert HALF not in str(caught.value) + json.dumps(caught.value.details)


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_a_masked_key_of_the_server_is_taken_out_too(vendor: Vendor) -> None:
    with ScriptedServer(Answer(MASKED, 401)) as server, pytest.raises(ProviderError) as caught:
        asyncio.run(vendor.make(server.url).generate_text("x", "y"))
    assert "NARY" not in str(caught.value)
    assert "[redacted]" in str(caught.value)


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_a_call_that_succeeds_says_nothing_in_the_logs(vendor: Vendor, loud: io.StringIO) -> None:
    with ScriptedServer(vendor.ok("SECRET-ANSWER")) as server:
        provider = vendor.make(server.url)
        asyncio.run(provider.generate_text("x", "SECRET-PROMPT"))
    said = [line for line in loud.getvalue().splitlines() if "selector" not in line]
    assert said == []
    assert HALF not in repr(provider) + repr(vars(provider)) + json.dumps(provider.describe())


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_the_sdks_own_switches_do_not_turn_their_logs_on(vendor: str) -> None:
    """In a process of its own, because the switches are read when the SDK is imported."""
    program = f"""
import asyncio, logging, sys
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
from chaoscore.adapters.providers import make_provider
from tests.providers.server import Answer, ScriptedServer
with ScriptedServer(Answer({{"error": {{"message": "no"}}}}, 401)) as server:
    url = server.url.removesuffix("/v1") if {vendor!r} == "anthropic" else server.url
    provider = make_provider({vendor!r}, api_key={KEY!r}, base_url=url)
    try:
        asyncio.run(provider.generate_text("SECRET-PROMPT", "y"))
    except Exception as error:
        print(type(error).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": "", "OPENAI_LOG": "debug", "ANTHROPIC_LOG": "debug", "PYTHONPATH": sys.path[0]},
        cwd=sys.path[0],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "ProviderAuthFailed", done.stderr
    assert HALF not in done.stderr and "SECRET-PROMPT" not in done.stderr
    assert "openai" not in done.stderr and "httpcore2" not in done.stderr and "anthropic" not in done.stderr

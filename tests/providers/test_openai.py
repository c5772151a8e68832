"""What only the OpenAI provider does: two APIs, servers that know less, settings."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from chaoscore.adapters.providers import PROVIDERS, make_provider
from chaoscore.adapters.providers.anthropic import MODEL_DEFAULT as ANTHROPIC_DEFAULT
from chaoscore.adapters.providers.openai import MODEL_DEFAULT, openai_provider
from chaoscore.domain.errors import (
    ConfigurationInvalid,
    NotConfigured,
    ProviderError,
    ProviderRateLimited,
    ProviderUnavailable,
)
from chaoscore.domain.json import JsonObject
from tests.providers.server import Answer, ScriptedServer
from tests.providers.vendors import CHAT, KEY, MODEL, RESPONSES, Vendor, at

SCHEMA: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["n"],
    "properties": {"n": {"type": "integer"}},
}
OPEN: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}}


def generate(vendor: Vendor, server: ScriptedServer, schema: JsonObject = SCHEMA) -> None:
    asyncio.run(vendor.make(server.url).generate_json("x", "y", schema))


def test_the_official_endpoint_is_asked_through_the_responses_api_with_a_strict_schema_and_nothing_stored() -> None:
    with ScriptedServer(RESPONSES.ok('{"n": 1}')) as server:
        generate(RESPONSES, server)
    request = server.requests[0]
    assert request.path == "/v1/responses"
    assert request.body["store"] is False
    assert at(request.body, "text", "format", "strict") is True
    described = openai_provider(api_key=KEY).describe()
    assert (described["api"], described["base_url"]) == ("responses", "https://api.openai.com/v1")


def test_a_base_url_is_asked_through_chat_completions_with_response_format() -> None:
    with ScriptedServer(CHAT.ok('{"n": 1}')) as server:
        generate(CHAT, server)
    request = server.requests[0]
    assert request.path == "/v1/chat/completions"
    assert at(request.body, "response_format", "type") == "json_schema"
    assert at(request.body, "response_format", "json_schema", "strict") is True


def test_a_schema_that_is_not_strict_is_not_called_strict() -> None:
    with ScriptedServer(CHAT.ok('{"n": 1}')) as server:
        generate(CHAT, server, OPEN)
    assert at(server.bodies()[0], "response_format", "json_schema", "strict") is False


def test_a_model_that_wants_max_completion_tokens_gets_it_from_then_on() -> None:
    no = Answer({"error": {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'."}}, 400)
    with ScriptedServer(no, CHAT.ok("a"), CHAT.ok("b")) as server:
        provider = CHAT.make(server.url)
        asyncio.run(provider.generate_text("x", "y"))
        asyncio.run(provider.generate_text("x", "y"))
    assert ["max_tokens" in body for body in server.bodies()] == [True, False, False]
    assert server.bodies()[2]["max_completion_tokens"] == 4096


def test_a_server_without_response_format_is_told_the_schema_in_words() -> None:
    no = Answer({"error": {"message": "response_format of type json_schema is not supported"}}, 400)
    with ScriptedServer(no, CHAT.ok('{"n": 1}')) as server:
        provider = CHAT.make(server.url)
        asyncio.run(provider.generate_json("x", "y", SCHEMA))
    assert "response_format" not in server.bodies()[1]
    assert '"required":["n"]' in CHAT.instructions(server.bodies()[1])
    assert provider.schema_enforced is False


def test_a_request_that_is_refused_for_another_reason_is_not_tried_again() -> None:
    with (
        ScriptedServer(Answer({"error": {"message": "context too long"}}, 400)) as server,
        pytest.raises(ProviderError, match="context too long"),
    ):
        generate(CHAT, server)
    assert len(server.requests) == 1


def test_an_error_inside_a_successful_answer_is_an_error() -> None:
    with (
        ScriptedServer(Answer({"error": {"message": "model is loading"}})) as server,
        pytest.raises(ProviderError, match="model is loading"),
    ):
        generate(CHAT, server)


def test_a_response_that_failed_later_is_told_by_its_code() -> None:
    def failed(code: str) -> Answer:
        return Answer({"status": "failed", "error": {"code": code, "message": "m"}, "output": [], "usage": None})

    with ScriptedServer(failed("server_error"), RESPONSES.ok('{"n": 1}')) as server:
        generate(RESPONSES, server)
    with ScriptedServer(*[failed("rate_limit_exceeded")] * 3) as server, pytest.raises(ProviderRateLimited):
        generate(RESPONSES, server)
    with ScriptedServer(failed("other")) as server, pytest.raises(ProviderUnavailable):
        generate(RESPONSES, server)


def test_a_local_server_needs_no_key() -> None:
    with ScriptedServer(CHAT.ok("hello")) as server:
        provider = openai_provider(base_url=server.url)
        assert provider.is_configured()
        assert asyncio.run(provider.generate_text("x", "y")).text == "hello"
    assert server.bodies()[0]["model"] == MODEL_DEFAULT


def test_the_environment_decides_neither_key_nor_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer() as other, ScriptedServer(CHAT.ok("hello")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", other.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment-0123456789")
        monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin-from-the-environment-0123")
        monkeypatch.setenv("HTTP_PROXY", other.url)
        asyncio.run(openai_provider(base_url=server.url, model=MODEL).generate_text("x", "y"))
    assert other.requests == []
    assert "environment" not in str(server.requests[0].headers)


def test_without_key_and_address_it_is_not_configured_and_says_what_to_do() -> None:
    provider = openai_provider()
    assert not provider.is_configured()
    with pytest.raises(NotConfigured, match="OPENAI_API_KEY"):
        asyncio.run(provider.generate_text("x", "y"))


def test_a_provider_is_made_by_name_and_an_unknown_name_lists_the_valid_ones() -> None:
    openai, anthropic = make_provider("openai"), make_provider("anthropic", api_key=KEY)
    assert openai is not None and (openai.id, openai.model) == ("openai", MODEL_DEFAULT)
    assert anthropic is not None and (anthropic.id, anthropic.model) == ("anthropic", ANTHROPIC_DEFAULT)
    assert make_provider("none") is None
    with pytest.raises(ConfigurationInvalid) as caught:
        make_provider("opnai")
    assert all(name in caught.value.message for name in PROVIDERS)


@pytest.mark.parametrize(
    "url",
    ["ftp://x/v1", "x", "http://", "http://user:pw@x/v1", "https://x/v1?key=abc", "http://[::1/v1", "http://x:99999"],
)
def test_a_base_url_that_is_none_or_holds_a_secret_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ConfigurationInvalid, match="OPENAI_BASE_URL") as caught:
        openai_provider(base_url=url)
    assert "pw" not in caught.value.message and "abc" not in caught.value.message


def test_a_key_that_would_travel_unencrypted_is_warned_about() -> None:
    assert openai_provider(api_key=KEY, base_url="http://192.0.2.1/v1").describe()["warnings"]
    assert openai_provider(api_key=KEY, base_url="http://localhost:1/v1").describe()["warnings"] == []
    assert openai_provider(api_key=KEY, base_url="https://192.0.2.1/v1").describe()["warnings"] == []


def in_a_new_process(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_and_making_a_provider_loads_no_sdk() -> None:
    loaded = in_a_new_process(
        "import sys\n"
        "from chaoscore.adapters.providers import make_provider\n"
        f"make_provider('openai', api_key={KEY!r}).describe(); make_provider('anthropic')\n"
        "print(sorted({'openai', 'anthropic', 'httpx', 'httpx2', 'pydantic', 'ssl'} & set(sys.modules)))"
    )
    assert "openai" not in loaded and "httpx" not in loaded and "pydantic" not in loaded


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_missing_sdk_says_what_to_install(name: str) -> None:
    """The import is made to fail in a process of its own, as it does where the extra is not installed."""
    said = in_a_new_process(
        "import asyncio, sys\n"
        f"sys.modules[{name!r}] = None\n"
        "from chaoscore.adapters.providers import make_provider\n"
        f"provider = make_provider({name!r}, api_key={KEY!r})\n"
        "try:\n"
        "    asyncio.run(provider.generate_text('x', 'y'))\n"
        "except Exception as error:\n"
        "    print(error.code, error.message, error.__context__)"
    )
    assert said == f"NOT_CONFIGURED the {name} provider needs its SDK; run pip install 'chaos-core[{name}]' None"

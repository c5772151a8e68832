"""How the program reaches out: proxy, certificate authorities, the model and its time, as an operator sets them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaoscore.bootstrap import open_kernel
from chaoscore.domain.errors import ConfigurationInvalid, NotConfigured
from chaoscore.domain.json import JsonObject
from chaoscore.settings import Settings, load_settings
from tests.app.harness import Bench, World, step, write_policy
from tests.capabilities.servers import answer, certificate, serving
from tests.cli.harness import Desk
from tests.providers.server import Answer, Hang, ScriptedServer
from tests.providers.vendors import CHAT

PASSWORD = "correct-horse-battery"


def load(place: Path, **environ: str) -> Settings:
    return load_settings({}, {"HOME": str(place), **environ}, place)


def refused(place: Path, **environ: str) -> str:
    with pytest.raises(ConfigurationInvalid) as caught:
        load(place, **environ)
    (name,) = environ
    assert name in caught.value.message
    return caught.value.message


async def fetched(place: Path, url: str, policy: Mapping[str, object], **environ: str) -> JsonObject:
    """``http.request`` through the whole kernel, opened with these settings."""
    path = write_policy(place, **policy)  # type: ignore[arg-type]
    settings = load(place, CHAOS_CORE_DATA_DIR=str(place / "data"), CHAOS_CORE_POLICY_PATH=str(path), **environ)
    async with open_kernel(settings) as kernel:
        caller = Bench(kernel, World(place))
        done = await caller.execute(await caller.plan(step("s1", "http.request", {"url": url})))
        assert PASSWORD not in json.dumps(done), "the password of the proxy was shown"
        events = await kernel.stores.audit.tail(None, None, 100, None)
        assert PASSWORD not in json.dumps([event for _, event in events])
        return dict(done["data"]["steps"][0])


# -- the proxy -------------------------------------------------------------------------------------------------------


NO_PROXIES = (
    *("proxy", "proxy:3128", "https://proxy:3128", "socks5://proxy:1080", "http://proxy", "http://proxy:0"),
    *(
        f"http://u:{PASSWORD}@proxy",
        f"http://u:{PASSWORD}@x@proxy:1",
        "http://proxy:1/path",
        "environment",
        "http://:1",
    ),
    "http://p:99999",
)


@pytest.mark.parametrize("value", NO_PROXIES)
def test_a_proxy_that_is_none_is_refused_with_the_form_and_without_the_value(value: str, tmp_path: Path) -> None:
    said = refused(tmp_path, CHAOS_CORE_HTTP_PROXY=value)
    assert "http://host:port" in said and "user:password@" in said and PASSWORD not in said


def test_the_password_of_a_proxy_is_known_to_every_redactor_and_shown_by_nothing(tmp_path: Path) -> None:
    settings = load(tmp_path, CHAOS_CORE_HTTP_PROXY=f"http://ann:{PASSWORD}%21@proxy.example:3128")
    assert settings.http_proxy is not None and PASSWORD not in repr(settings)
    assert {f"{PASSWORD}%21", f"{PASSWORD}!"} <= set(settings.secrets())
    assert load(tmp_path, CHAOS_CORE_HTTP_PROXY="http://proxy.example:3128").secrets() == ()


def test_requests_go_through_the_proxy_that_the_operator_names_and_through_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with serving(answer(b"by proxy")) as proxy, serving(answer(b"by another")) as other:
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
                monkeypatch.setenv(name, other.url())
            done = await fetched(
                tmp_path,
                "http://public.example/x",
                {"httpAllowedDomains": ["public.example"]},
                CHAOS_CORE_HTTP_PROXY=f"http://ann:{PASSWORD}@127.0.0.1:{proxy.port}",
            )
            assert done["state"] == "succeeded", done
            assert proxy.requests[0].startswith("GET http://public.example/x HTTP/1.1\r\n")
            assert "Proxy-Authorization: Basic " in proxy.requests[0] and other.connections == 0

    asyncio.run(story())


# -- certificate authorities -----------------------------------------------------------------------------------------


def test_a_file_of_authorities_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "not.pem").write_text("no certificate\n")
    (tmp_path / "large.pem").write_bytes(b"\n" * 4_194_305)
    for name, why in (
        ("missing.pem", "no such file"),
        ("not.pem", "BEGIN CERTIFICATE"),
        ("large.pem", "more than 4,194,304 bytes"),
        ("", "is not a file"),
    ):
        said = refused(tmp_path, CHAOS_CORE_CA_FILE=str(tmp_path / name))
        assert why in said and str(tmp_path / name).rstrip("/") in said


def test_a_server_of_an_authority_of_the_operators_own_is_trusted_only_with_the_file(tmp_path: Path) -> None:
    context, authority = certificate(tmp_path, "localhost")

    async def story() -> None:
        async with serving(answer(b"safe"), tls=context) as server:
            pair = f"localhost:{server.port}"
            policy: dict[str, object] = {"httpAllowedDomains": ["localhost"], "httpAllowPrivate": [pair]}
            trusting = await fetched(tmp_path, f"https://{pair}/", policy, CHAOS_CORE_CA_FILE=str(authority))
            assert trusting["state"] == "succeeded", trusting
            doubting = await fetched(tmp_path, f"https://{pair}/", policy)
            assert doubting["state"] == "failed" and "certificate" in json.dumps(doubting)

    asyncio.run(story())


def test_a_model_behind_an_authority_of_the_operators_own_is_reached_with_the_file(tmp_path: Path) -> None:
    context, authority = certificate(tmp_path, "localhost")
    body = json.dumps({"choices": [{"finish_reason": "stop", "message": {"content": "hello"}}], "model": "m"}).encode()

    async def story() -> None:
        async with serving(answer(body, "200 OK", "Content-Type: application/json"), tls=context) as server:
            settings = load(
                tmp_path,
                CHAOS_CORE_DATA_DIR=str(tmp_path / "data"),
                OPENAI_BASE_URL=f"https://localhost:{server.port}/v1",
                CHAOS_CORE_CA_FILE=str(authority),
            )
            async with open_kernel(settings) as kernel:
                assert kernel.provider is not None
                assert (await kernel.provider.generate_text("x", "y")).text == "hello"

    asyncio.run(story())


def test_a_file_of_authorities_that_breaks_later_is_told_as_such(tmp_path: Path) -> None:
    _, authority = certificate(tmp_path, "localhost")
    settings = load(
        tmp_path,
        CHAOS_CORE_DATA_DIR=str(tmp_path / "data"),
        OPENAI_BASE_URL="https://localhost:1/v1",
        CHAOS_CORE_CA_FILE=str(authority),
    )
    authority.write_text("gone")

    async def story() -> None:
        async with open_kernel(settings) as kernel:
            assert kernel.provider is not None
            with pytest.raises(NotConfigured, match="CHAOS_CORE_CA_FILE"):
                await kernel.provider.generate_text("x", "y")

    asyncio.run(story())


@pytest.mark.parametrize("name", ["CHAOS_CORE_HTTP_PROXY", "CHAOS_CORE_CA_FILE"])
def test_dotenv_may_not_say_through_whom_requests_go(name: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"{name}=http://proxy:1\n")
    with pytest.raises(ConfigurationInvalid) as caught:
        load(tmp_path)
    assert name in caught.value.message and "use the environment" in caught.value.message


# -- the model and its time ------------------------------------------------------------------------------------------


def test_one_try_and_the_whole_call_of_a_model_have_their_own_seconds(desk: Desk) -> None:
    policy = str(desk.policy())
    with ScriptedServer(*[Hang() for _ in range(9)]) as server:
        desk.extra |= {"OPENAI_BASE_URL": server.url, "CHAOS_CORE_PROVIDER_TRY_SECONDS": "1"}
        plan = desk.plan(step("s1", "cognition.generate_text", {"instructions": "say hello"}))
        done = desk.run("achieve", "--plan", plan, "--policy", policy, "--json")
    assert done.json()["data"]["steps"][0]["error"]["code"] == "PROVIDER_TIMEOUT", done
    assert len(server.requests) == 3, "each of three tries ended after its own second"
    with ScriptedServer(*[Hang() for _ in range(9)]) as server:
        desk.extra |= {"OPENAI_BASE_URL": server.url, "CHAOS_CORE_PROVIDER_TRY_SECONDS": ""}
        desk.extra |= {"CHAOS_CORE_PROVIDER_SECONDS": "3"}
        done = desk.run("achieve", "make it nice", "--policy", policy, "--json")
    assert done.json()["error"]["code"] == "PROVIDER_TIMEOUT", done
    assert len(server.requests) <= 1, "the one try had all the time there was, loading the SDK included"


@pytest.mark.parametrize("value", ["0", "3601", "soon", "1e3"])
def test_seconds_of_a_try_that_make_no_sense_are_refused_with_the_bounds(value: str, tmp_path: Path) -> None:
    assert "from 1 to 3,600" in refused(tmp_path, CHAOS_CORE_PROVIDER_TRY_SECONDS=value)


def test_one_try_cannot_be_given_more_time_than_the_whole_call(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match="more than CHAOS_CORE_PROVIDER_SECONDS"):
        load(tmp_path, CHAOS_CORE_PROVIDER_TRY_SECONDS="90", CHAOS_CORE_PROVIDER_SECONDS="30")
    assert load(tmp_path, CHAOS_CORE_PROVIDER_SECONDS="30").limits.provider_try_seconds == 30


# -- what is told of the model ---------------------------------------------------------------------------------------

KEY = "a-key-of-no-known-shape-0123"


def told(desk: Desk, *more: str) -> dict[str, object]:
    done = desk.run("inspect", "providers", "--json", *more)
    assert done.code == 0, done.err
    assert KEY not in done.out + done.err
    (facts,) = done.json()["data"]["providers"]
    return dict(facts)


def test_inspect_tells_which_model_is_asked_and_where_and_never_the_key(desk: Desk) -> None:
    desk.extra |= {"OPENAI_API_KEY": KEY, "OPENAI_MODEL": "gpt-mine"}
    facts = told(desk)
    assert facts["id"] == "openai" and facts["display_name"] == "OpenAI" and facts["model"] == "gpt-mine"
    assert (facts["endpoint"], facts["api"], facts["schema_enforced"]) == ("official", "responses", True)
    desk.extra |= {"OPENAI_BASE_URL": f"http://192.0.2.7/{KEY}/v1"}
    facts = told(desk)
    assert (facts["endpoint"], facts["schema_enforced"]) == ("custom", None)
    assert "unencrypted" in str(facts["warnings"])
    shown = desk.run("inspect", "providers")
    assert shown.code == 0 and "gpt-mine" in shown.out and KEY not in shown.out
    desk.extra |= {"CHAOS_CORE_PROVIDER": "anthropic", "ANTHROPIC_API_KEY": KEY}
    assert (told(desk)["id"], told(desk)["api"]) == ("anthropic", "messages")
    desk.extra |= {"CHAOS_CORE_PROVIDER": "none"}
    nothing = desk.run("inspect", "providers", "--json").json()["data"]
    assert nothing["providers"] == [] and nothing["configured"] is False


@pytest.mark.parametrize(("said", "enforced"), [('{"tide_mark": "kelp-41"}', True), ('{"fruit": "apple"}', False)])
def test_a_probe_tells_whether_the_server_enforces_a_schema(said: str, enforced: bool, desk: Desk) -> None:
    with ScriptedServer(CHAT.ok(said)) as server:
        desk.extra |= {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        assert told(desk, "--probe")["schema_enforced"] is enforced
    assert len(server.requests) == 1
    assert desk.run("inspect", "health", "--probe").code == 2


def test_a_probe_without_a_model_says_what_to_set(desk: Desk) -> None:
    done = desk.run("inspect", "providers", "--probe")
    assert done.code == 6 and "OPENAI_BASE_URL" in done.err


def test_a_server_that_refuses_the_key_is_told_without_it(desk: Desk) -> None:
    with ScriptedServer(Answer({"error": {"message": f"bad key {KEY}"}}, status=401)) as server:
        desk.extra |= {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        done = desk.run("inspect", "providers", "--probe")
    assert done.code == 1 and KEY not in done.err + done.out

"""What every provider does with what a server does: the same sentences for three APIs, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import time
import tracemalloc
from collections.abc import Callable, Coroutine
from typing import TypeVar

import pytest
import uvloop

from chaoscore.adapters.providers.conversation import Tries
from chaoscore.app.ports import GenerateOptions
from chaoscore.domain.errors import (
    ProviderAuthFailed,
    ProviderError,
    ProviderOutputInvalid,
    ProviderRateLimited,
    ProviderRefused,
    ProviderTimedOut,
    ProviderTruncated,
    ProviderUnavailable,
)
from chaoscore.domain.json import Json, JsonObject
from tests.providers.server import WAIT_SECONDS, Answer, Drip, Hang, Huge, Reset, ScriptedServer
from tests.providers.vendors import KEY, MODEL, QUICK, USAGE, VENDORS, Vendor, at

T = TypeVar("T")
SCHEMA: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["n"],
    "properties": {"n": {"type": "integer", "minimum": 0}},
}
LOOPS: tuple[Callable[[], asyncio.AbstractEventLoop], ...] = (asyncio.new_event_loop, uvloop.new_event_loop)

pytestmark = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)


def run(
    work: Coroutine[object, object, T], loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
) -> T:
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(work)


def ask(vendor: Vendor, server: ScriptedServer, tries: Tries = QUICK, deadline_seconds: float = 30.0) -> Json:
    provider = vendor.make(server.url, tries)
    options = GenerateOptions(deadline_seconds=deadline_seconds)
    return run(provider.generate_json("Count.", "How many?", SCHEMA, options)).raw


def failed(
    kind: type[ProviderError],
    vendor: Vendor,
    server: ScriptedServer,
    tries: Tries = QUICK,
    deadline_seconds: float = 30.0,
) -> ProviderError:
    with pytest.raises(kind) as caught:
        ask(vendor, server, tries, deadline_seconds)
    assert type(caught.value) is kind
    return caught.value


def spent(error: ProviderError, name: str) -> Json:
    return at(error.details["usage"], name)


def test_text_comes_back_with_its_model_and_what_it_cost(vendor: Vendor) -> None:
    with ScriptedServer(vendor.ok("hello")) as server:
        made = run(vendor.make(server.url).generate_text("Greet.", "Me."))
    assert (made.text, made.model, made.provider_id) == ("hello", MODEL, vendor.name.split("-")[0])
    assert (made.usage.calls, made.usage.tokens, made.usage.cached_tokens) == (
        1,
        USAGE["input"] + USAGE["output"],
        USAGE["cached"],
    )


def test_the_request_holds_model_key_bound_and_words_and_keeps_instructions_apart(vendor: Vendor) -> None:
    with ScriptedServer(vendor.ok("hello")) as server:
        run(vendor.make(server.url).generate_text("Greet.", "Me.", GenerateOptions(output_tokens_max=77)))
    request = server.requests[0]
    assert request.body["model"] == MODEL
    assert vendor.instructions(request.body) == "Greet."
    assert vendor.last_turn(request.body) == "Me."
    assert KEY in (request.headers.get("authorization", "") + request.headers.get("x-api-key", ""))
    assert 77 in request.body.values()
    assert request.headers["accept-encoding"] == "identity"


def test_json_is_asked_for_with_the_schema_and_comes_back_as_a_value(vendor: Vendor) -> None:
    with ScriptedServer(vendor.ok('{"n": 3}')) as server:
        assert ask(vendor, server) == {"n": 3}
    sent = vendor.schema(server.bodies()[0])
    assert at(sent, "properties", "n", "type") == "integer"
    assert at(sent, "additionalProperties") is False


def test_a_refusal_is_told_before_anything_is_parsed(vendor: Vendor) -> None:
    with ScriptedServer(vendor.refusal('{"n": 1}')) as server:
        error = failed(ProviderRefused, vendor, server)
    assert len(server.requests) == 1
    assert spent(error, "input_tokens") == USAGE["input"]


def test_an_answer_that_was_cut_off_is_truncated_even_when_it_is_valid(vendor: Vendor) -> None:
    with ScriptedServer(vendor.truncated('{"n": 1}')) as server:
        error = failed(ProviderTruncated, vendor, server)
    assert len(server.requests) == 1
    assert spent(error, "output_tokens") == USAGE["output"]


def test_a_filtered_answer_is_a_refusal(vendor: Vendor) -> None:
    with ScriptedServer(vendor.filtered()) as server:
        failed(ProviderRefused, vendor, server)


def test_an_answer_that_ignores_the_schema_goes_back_once_with_path_and_message(vendor: Vendor) -> None:
    with ScriptedServer(vendor.ok('{"n": "three"}'), vendor.ok('{"n": 3}')) as server:
        made = run(vendor.make(server.url).generate_json("Count.", "How many?", SCHEMA))
    assert made.raw == {"n": 3}
    assert made.usage.calls == 2
    assert made.usage.input_tokens == 2 * USAGE["input"]
    again = vendor.last_turn(server.bodies()[1])
    assert "/n" in again and "must be integer, not string" in again


def test_a_bound_that_no_server_checks_is_checked_here(vendor: Vendor) -> None:
    with ScriptedServer(vendor.ok('{"n": -1}'), vendor.ok('{"n": 1}')) as server:
        assert ask(vendor, server) == {"n": 1}
    assert "/n: -1 is below the minimum" in vendor.last_turn(server.bodies()[1])


def test_an_answer_that_ignores_the_schema_twice_is_invalid_and_asked_for_no_third_time(vendor: Vendor) -> None:
    with ScriptedServer(vendor.ok('{"m": 1}'), vendor.ok('{"n": 1.5}'), vendor.ok('{"n": 1}')) as server:
        error = failed(ProviderOutputInvalid, vendor, server)
    assert len(server.requests) == 2
    assert "/n: must be integer" in error.message
    assert spent(error, "calls") == 2


def test_a_server_that_ignored_the_schema_is_told_it_in_words_from_then_on(vendor: Vendor) -> None:
    with ScriptedServer(vendor.ok("three"), vendor.ok('{"n": 3}')) as server:
        provider = vendor.make(server.url)
        run(provider.generate_json("Count.", "How many?", SCHEMA))
    assert "JSON Schema" not in vendor.instructions(server.bodies()[0])
    assert '"additionalProperties":false' in vendor.instructions(server.bodies()[1])
    assert provider.schema_enforced is False


@pytest.mark.parametrize(
    "text",
    ['{"n": 1', '{"n": 1,}', "{n: 1}", '{"n": NaN}', 'Here: {"n": 1}', "[" * 100_000, '{"n": 1} {"n": 2}', "1" * 9000],
)
def test_json_that_is_broken_is_never_mended(vendor: Vendor, text: str) -> None:
    with ScriptedServer(vendor.ok(text), vendor.ok(text)) as server:
        failed(ProviderOutputInvalid, vendor, server)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have_are_not_taken_for_numbers(vendor: Vendor, text: str) -> None:
    with ScriptedServer(vendor.ok(text), vendor.ok(text)) as server, pytest.raises(ProviderOutputInvalid):
        run(vendor.make(server.url).generate_json("x", "y", {"type": "number"}))


def test_one_whole_code_fence_around_the_answer_is_taken_off(vendor: Vendor) -> None:
    with ScriptedServer(vendor.ok('```json\n{"n": 4}\n```')) as server:
        assert ask(vendor, server) == {"n": 4}


def test_a_refused_key_is_not_tried_again(vendor: Vendor) -> None:
    body: Json = {"error": {"message": f"Incorrect API key provided: {KEY}", "type": "invalid_request_error"}}
    with ScriptedServer(Answer(body, 401)) as server:
        error = failed(ProviderAuthFailed, vendor, server)
    assert len(server.requests) == 1
    assert "Incorrect API key provided: [redacted]" in error.message
    assert "_API_KEY" in error.message


def test_a_rate_limit_is_waited_out_as_long_as_the_server_says(vendor: Vendor) -> None:
    slow = Answer({"error": {"message": "slow down"}}, 429, {"retry-after": "0.3"})
    with ScriptedServer(slow, vendor.ok('{"n": 1}')) as server:
        started = time.monotonic()
        made = run(vendor.make(server.url).generate_json("Count.", "How many?", SCHEMA))
        assert time.monotonic() - started >= 0.3
    assert made.usage.calls == 2


def test_a_wait_beyond_the_deadline_fails_at_once_and_says_how_long(vendor: Vendor) -> None:
    slow = Answer({"error": {"message": "slow down"}}, 429, {"retry-after": "3600"})
    with ScriptedServer(slow) as server:
        error = failed(ProviderRateLimited, vendor, server, deadline_seconds=20)
    assert len(server.requests) == 1
    assert error.details["retry_after_seconds"] == 3600


def test_a_retry_time_given_as_a_date_is_understood(vendor: Vendor) -> None:
    dates = {"date": "Mon, 30 Nov 2026 12:00:00 GMT", "retry-after": "Mon, 30 Nov 2026 12:30:00 GMT"}
    with ScriptedServer(Answer({"error": {"message": "slow down"}}, 429, dates)) as server:
        error = failed(ProviderRateLimited, vendor, server)
    assert error.details["retry_after_seconds"] == 1800


def test_rate_limits_are_waited_out_a_bounded_number_of_times(vendor: Vendor) -> None:
    slow = Answer({"error": {"message": "slow down"}}, 429, {"retry-after-ms": "5"})
    with ScriptedServer(*[slow] * 5) as server:
        error = failed(ProviderRateLimited, vendor, server)
    assert len(server.requests) == 1 + QUICK.retries_max
    assert spent(error, "calls") == 3


def test_an_empty_account_is_not_tried_again(vendor: Vendor) -> None:
    body: Json = {"error": {"message": "no quota", "code": "insufficient_quota", "type": "billing_error"}}
    with ScriptedServer(Answer(body, 429)) as server:
        error = failed(ProviderRateLimited, vendor, server)
    assert len(server.requests) == 1
    assert "billing" in error.message


def test_a_server_that_says_do_not_retry_is_obeyed(vendor: Vendor) -> None:
    with ScriptedServer(Answer({"error": {"message": "x"}}, 500, {"x-should-retry": "false"})) as server:
        failed(ProviderUnavailable, vendor, server)
    assert len(server.requests) == 1


def test_a_server_error_is_tried_again_and_its_recovery_is_used(vendor: Vendor) -> None:
    boom = Answer({"error": {"message": "boom"}}, 500)
    with ScriptedServer(boom, Reset(), vendor.ok('{"n": 1}')) as server:
        assert ask(vendor, server) == {"n": 1}


def test_a_server_that_keeps_failing_is_unavailable_after_three_tries(vendor: Vendor) -> None:
    with ScriptedServer(*[Answer(b"<html>bad gateway</html>", 502)] * 4) as server:
        error = failed(ProviderUnavailable, vendor, server)
    assert len(server.requests) == 3
    assert "HTTP 502" in error.message


@pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
def test_a_server_that_hangs_is_left_after_the_time_of_one_try(
    vendor: Vendor, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    hangs = [Hang(), Hang()]
    with ScriptedServer(*hangs) as server:
        provider = vendor.make(server.url, Tries(try_seconds=0.3, retries_max=1, backoff_seconds=0.01))
        with pytest.raises(ProviderTimedOut) as caught:
            run(provider.generate_text("x", "y"), loop)
        assert all(hang.left.wait(WAIT_SECONDS) for hang in hangs)
    assert "0.3 s" in caught.value.message
    assert spent(caught.value, "calls") == 2


def test_the_deadline_bounds_all_tries_together(vendor: Vendor) -> None:
    with ScriptedServer(Hang(), Hang(), Hang()) as server:
        started = time.monotonic()
        failed(ProviderTimedOut, vendor, server, Tries(0.4, 2, 0.01), deadline_seconds=0.6)
        assert time.monotonic() - started < 2.0
    assert len(server.requests) == 2


def test_a_server_that_drips_is_left_too(vendor: Vendor) -> None:
    with ScriptedServer(Drip()) as server:
        started = time.monotonic()
        failed(ProviderTimedOut, vendor, server, Tries(0.4, 0, 0.01))
        assert time.monotonic() - started < 3.0


@pytest.mark.parametrize("announced", [True, False], ids=["with-length", "chunked"])
@pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
def test_an_answer_of_50_megabytes_is_not_read(
    vendor: Vendor, announced: bool, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    huge = Huge(50_000_000, announced)
    bound = 1_048_576
    with ScriptedServer(huge) as server:
        provider = vendor.make(server.url, QUICK, bound)
        tracemalloc.start()
        try:
            with pytest.raises(ProviderOutputInvalid, match="larger than 1 MiB"):
                run(provider.generate_text("x", "y"), loop)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert len(server.requests) == 1
    assert huge.sent < 20_000_000
    assert peak < 40_000_000


@pytest.mark.parametrize("status", [400, 500])
def test_a_huge_error_is_not_read_either(vendor: Vendor, status: int) -> None:
    body = b'{"error": {"message": "' + b"x" * 9_000_000 + b'"}}'
    with ScriptedServer(Answer(body, status)) as server:
        failed(ProviderOutputInvalid, vendor, server)


def test_a_compressed_answer_is_not_unpacked(vendor: Vendor) -> None:
    with ScriptedServer(Answer(b"\x1f\x8b", headers={"content-encoding": "gzip"})) as server:
        error = failed(ProviderOutputInvalid, vendor, server)
    assert "compressed" in error.message


def test_a_connection_reset_half_way_is_tried_again_and_then_unavailable(vendor: Vendor) -> None:
    with ScriptedServer(Reset(), Reset(), Reset()) as server:
        error = failed(ProviderUnavailable, vendor, server)
    assert len(server.requests) == 3
    assert spent(error, "calls") == 3


def test_a_server_that_is_not_there_is_unavailable(vendor: Vendor) -> None:
    with ScriptedServer() as server:
        gone = server.url
    with pytest.raises(ProviderUnavailable):
        run(vendor.make(gone).generate_text("x", "y"))


@pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
def test_cancelling_a_call_closes_its_connection(vendor: Vendor, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    hang = Hang()

    async def cancelled() -> None:
        task = asyncio.create_task(vendor.make(server.url).generate_json("Count.", "How many?", SCHEMA))
        assert await asyncio.to_thread(hang.asked.wait, WAIT_SECONDS)
        assert not hang.left.is_set()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Seen by the server while this loop still lives: the call closed it, not the end of the program.
        assert await asyncio.to_thread(hang.left.wait, WAIT_SECONDS)

    with ScriptedServer(hang) as server:
        run(cancelled(), loop)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "body", [b"<html>welcome</html>", b"[]", b'"text"', b"null", b"{}", b"\xff\xfe", b"", b'{"choices": [{}]}']
)
def test_an_answer_that_is_not_the_apis_is_a_typed_failure(vendor: Vendor, body: bytes) -> None:
    with ScriptedServer(Answer(body)) as server:
        failed(ProviderOutputInvalid, vendor, server)
    assert len(server.requests) == 1


def test_an_empty_answer_is_a_typed_failure(vendor: Vendor) -> None:
    with ScriptedServer(vendor.ok("")) as server:
        failed(ProviderOutputInvalid, vendor, server)


def test_a_redirect_is_not_followed_with_the_key(vendor: Vendor) -> None:
    with ScriptedServer() as other, ScriptedServer(Answer({}, 307, {"location": f"{other.url}/x"})) as server:
        error = failed(ProviderError, vendor, server)
    assert other.requests == []
    assert "redirect" in error.message


def test_an_unknown_model_names_the_setting(vendor: Vendor) -> None:
    with ScriptedServer(Answer({"error": {"message": "no such model"}}, 404)) as server:
        error = failed(ProviderError, vendor, server)
    assert "_MODEL" in error.message and "no such model" in error.message


def test_a_server_that_refuses_the_schema_is_told_it_in_words(vendor: Vendor) -> None:
    no = Answer({"error": {"message": "Invalid schema for the answer: too complex"}}, 400)
    with ScriptedServer(no, vendor.ok('{"n": 1}'), vendor.ok('{"n": 2}')) as server:
        provider = vendor.make(server.url)
        assert run(provider.generate_json("Count.", "How many?", SCHEMA)).raw == {"n": 1}
        assert run(provider.generate_json("Count.", "How many?", SCHEMA)).raw == {"n": 2}
    for body in server.bodies()[1:]:
        assert not body.keys() & {"text", "response_format", "output_config"}
        assert '"required":["n"]' in vendor.instructions(body)
    assert provider.schema_enforced is False


def test_text_that_utf8_cannot_hold_is_sent_all_the_same(vendor: Vendor) -> None:
    with ScriptedServer(vendor.ok('{"n": "\\ud800"}'), vendor.ok('{"n": 1}')) as server:
        made = run(vendor.make(server.url).generate_json("Count \ud800.", "How \udfff many?", SCHEMA))
    assert made.raw == {"n": 1}


def test_calls_at_the_same_time_do_not_meet(vendor: Vendor) -> None:
    async def both() -> list[str]:
        made = await asyncio.gather(*(provider.generate_text("x", str(i)) for i in range(4)))
        return sorted(text.text for text in made)

    with ScriptedServer(*(vendor.ok(str(i)) for i in range(4))) as server:
        provider = vendor.make(server.url)
        assert run(both()) == ["0", "1", "2", "3"]
        assert len(server.requests) == 4


def test_one_provider_serves_one_loop_after_another(vendor: Vendor) -> None:
    with ScriptedServer(vendor.ok("1"), vendor.ok("2")) as server:
        provider = vendor.make(server.url)
        assert run(provider.generate_text("x", "y")).text == "1"
        assert run(provider.generate_text("x", "y"), uvloop.new_event_loop).text == "2"


def test_the_probe_tells_a_server_that_enforces_from_one_that_ignores(vendor: Vendor) -> None:
    with ScriptedServer(vendor.ok('{"tide_mark": "kelp-41"}'), vendor.ok('{"fruit": "apple"}')) as server:
        provider = vendor.make(server.url)
        assert run(provider.probe()).enforced is True
        assert provider.schema_enforced is True
        assert run(provider.probe()).enforced is False
        assert provider.schema_enforced is False
    assert "tide_mark" not in vendor.last_turn(server.bodies()[0]) + vendor.instructions(server.bodies()[0])
    assert "tide_mark" in json.dumps(vendor.schema(server.bodies()[0]))


def test_a_probe_that_could_not_ask_leaves_what_was_known(vendor: Vendor) -> None:
    with ScriptedServer(Answer({"error": {"message": "no"}}, 401)) as server:
        provider = vendor.make(server.url)
        before = provider.schema_enforced
        with pytest.raises(ProviderAuthFailed):
            run(provider.probe())
        assert provider.schema_enforced is before

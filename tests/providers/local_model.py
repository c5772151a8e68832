"""The provider and the planner against a real model, as a program: ``scripts/local-model`` runs it.

Asserted, because it must hold with any model behind an enforcing server: plans that come back are valid and linked
(references lead to earlier steps' outputs), the schema is enforced, a cancelled call stops the server's work. Reported
and not asserted: how good the plans are; that is the model's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from chaoscore.adapters.capabilities.builtin import builtin_capabilities
from chaoscore.adapters.providers.conversation import ModelProvider, Tries
from chaoscore.adapters.providers.openai import openai_provider
from chaoscore.adapters.system.ids import RandomIds
from chaoscore.app.capabilities import Registry
from chaoscore.app.planning import Budget, Planner, PlanRequest, Proposal
from chaoscore.app.ports import GenerateOptions
from chaoscore.app.reasoning import INTENT_SCHEMA, Reasoner
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.json import JsonObject
from chaoscore.domain.limits import Limits
from chaoscore.domain.lint import lint
from chaoscore.domain.schema import schema_faults

# One thread of a small machine reads some 30 tokens a second: a plan's instructions alone take a minute.
TRIES = Tries(try_seconds=900.0, retries_max=0)
ANSWER_TOKENS_MAX = 800
LIMITS = Limits(provider_tokens_max=100_000, provider_seconds=900.0)


LONG: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["numbers"],
    "properties": {"numbers": {"type": "array", "minItems": 500, "items": {"type": "string", "enum": ["one", "two"]}}},
}
"""Enforced, it keeps any model busy."""


@dataclass(frozen=True, slots=True)
class Goal:
    """``fits`` tells whether a plan's capabilities, in order, are what a person would expect."""

    words: str
    fits: Callable[[list[str]], bool]


GOALS = (
    Goal("read README.md", lambda used: used == ["fs.read_text"]),
    Goal("list the Markdown files under docs", lambda used: used == ["fs.list"]),
    Goal(
        "list the Markdown files under docs and read each of them",
        lambda used: used == ["fs.list", "fs.read_text"],
    ),
    Goal(
        "fetch https://example.com/data.json and save its body to data.json",
        lambda used: used == ["http.request", "fs.write_text"],
    ),
    Goal("读取 README.md，然后写一份摘要", lambda used: used[:2] == ["fs.read_text", "cognition.generate_text"]),
)


def say(line: str) -> None:
    print(line, flush=True)


async def schema_is_enforced(provider: ModelProvider) -> None:
    started = time.monotonic()
    probed = await provider.probe(GenerateOptions(output_tokens_max=60, deadline_seconds=900.0))
    assert probed.enforced, "the server accepted a schema and ignored it"
    say(f"schema enforced: yes ({time.monotonic() - started:.1f} s, {probed.usage.tokens} tokens)")


async def cancelling_stops_the_work(provider: ModelProvider) -> None:
    """A short call after a cancelled long one has to wait for nothing: there is one slot."""
    options = GenerateOptions(output_tokens_max=20, deadline_seconds=900.0)
    started = time.monotonic()
    await provider.generate_text("Be brief.", "Say ok.", options)
    alone = time.monotonic() - started
    long = asyncio.create_task(
        provider.generate_json(
            "Count.", "Begin.", LONG, GenerateOptions(output_tokens_max=4_000, deadline_seconds=900.0)
        )
    )
    await asyncio.wait({long}, timeout=5.0)
    assert not long.done(), "the long call ended too early to be cancelled"
    long.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await long
    assert long.cancelled()
    started = time.monotonic()
    await provider.generate_text("Be brief.", "Say ok.", options)
    after = time.monotonic() - started
    # A thousand tokens and more would take minutes.
    assert after < 30.0 + 3 * alone, (
        f"the server went on after the cancellation: {after:.1f} s instead of {alone:.1f} s"
    )
    say(f"cancelled: yes (a short call takes {alone:.1f} s alone, {after:.1f} s after a cancelled long one)")


async def an_intent_is_valid(provider: ModelProvider) -> None:
    started = time.monotonic()
    budget = Budget(LIMITS, ANSWER_TOKENS_MAX)
    words = "write an index of the Markdown files under docs"
    try:
        reasoned = await Reasoner(provider, LIMITS, RandomIds()).reason(words, {}, (), budget)
    except ChaosError as error:
        say(f"intent: typed failure {error.code} ({time.monotonic() - started:.0f} s)")
        return
    assert schema_faults(reasoned.intent, INTENT_SCHEMA) == []
    say(f"intent valid: yes ({time.monotonic() - started:.0f} s): {json.dumps(reasoned.intent, ensure_ascii=False)}")


async def plans(provider: ModelProvider) -> None:
    registry = Registry(provided.capability for provided in builtin_capabilities(ids=RandomIds()))
    planner = Planner(registry, provider, LIMITS, RandomIds())
    valid = good = 0
    for goal in GOALS:
        started = time.monotonic()
        budget = Budget(LIMITS, ANSWER_TOKENS_MAX)
        try:
            made = await planner.propose(PlanRequest(goal.words), budget)
        except ChaosError as error:
            outcome = f"typed failure {error.code}: {error.message[:160]}"
        else:
            outcome = "asked the caller to plan"
            if isinstance(made, Proposal):
                # Valid and linked, by the linter once more, and the facts tell of every reference.
                assert lint(made.steps, registry, LIMITS).faults == ()
                assert made.author.source == "provider" and made.usage.tokens > 0
                used = [step.capability for step in made.steps]
                links = sum(len(facts.derives_from) for facts in made.facts.values())
                fits = goal.fits(used)
                valid, good = valid + 1, good + fits
                outcome = f"{'as expected' if fits else 'valid but unexpected'}: {' → '.join(used)}, {links} links"
        spent, seconds = budget.usage, time.monotonic() - started
        say(f"  {goal.words!r}: {outcome} ({seconds:.0f} s, {spent.calls} calls, {spent.tokens} tokens)")
    # Valid by construction or a typed failure, never anything else; at least one must have come through.
    assert valid > 0, "no plan came back valid"
    say(f"plan quality, reported only: {valid} of {len(GOALS)} valid and linked, {good} as a person would expect")


async def check(url: str) -> None:
    provider = openai_provider(base_url=url, model="local", tries=TRIES)
    await schema_is_enforced(provider)
    await cancelling_stops_the_work(provider)
    await an_intent_is_valid(provider)
    await plans(provider)


def main(model: str) -> None:
    started = time.monotonic()
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.providers.local_model_server", model],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        # llama.cpp may say other things first.
        for line in server.stdout:
            if line.startswith('{"url"'):
                break
        else:
            raise SystemExit("the model's server did not start")
        say(f"model loaded in {time.monotonic() - started:.1f} s")
        asyncio.run(check(json.loads(line)["url"]))
        say("all assertions held")
    finally:
        assert server.stdin is not None
        server.stdin.close()
        server.terminate()
        server.wait(20)


if __name__ == "__main__":
    main(sys.argv[1])

"""Law 10 for the audit: whoever puts a secret wherever an event speaks of, no event of any kind holds it."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaoscore.adapters.sqlite import open_stores
from chaoscore.app.ports import HandlerContext, Provided
from chaoscore.bootstrap import open_kernel
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.capability import Annotations, Capability
from chaoscore.domain.errors import CapabilityError
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.redaction import Redactor
from chaoscore.settings import Secret, Settings
from chaoscore.testing.fakes import CountingIds, FakeClock, FakeProcesses
from tests.app.harness import Bench, World, step, write_policy

SHAPED = "sk-proj-CANARY0123456789abcdef"
KNOWN = "no-shape-but-known-canary"
ACCENTED = 'pä"ss-wört-canary'
TEXT: JsonObject = {"type": "object", "properties": {"text": {"type": "string"}}}


def bodies(directory: Path) -> list[str]:
    """What the audit's table holds, as a thief of the file would read it."""
    database = sqlite3.connect(directory / "chaoscore.db")
    try:
        return [str(body) for (body,) in database.execute("SELECT body FROM audit ORDER BY seq")]
    finally:
        database.close()


def failing() -> Provided:
    """A capability whose error repeats what it was given."""

    async def handler(arguments: JsonObject, context: HandlerContext) -> Json:
        raise CapabilityError(f"cannot log in with {arguments['text']}")

    return Provided(Capability("test.login", "log in", "low", TEXT, TEXT, Annotations(), builtin=True), handler)


@pytest.mark.parametrize("secret", [SHAPED, KNOWN])
def test_no_kind_of_event_holds_a_secret_that_a_caller_put_somewhere(secret: str, tmp_path: Path) -> None:
    policy = write_policy(tmp_path, requireConfirmationFor=["test.append"])
    configured = Settings(tmp_path / "data", policy, openai_api_key=Secret(KNOWN))

    async def story() -> None:
        world = World(tmp_path)
        async with open_kernel(configured, extra=(*world.provided(), failing())) as kernel:
            caller = Bench(kernel, world)
            await caller.call("chaoscore_remember", key=f"key {secret}", value=secret, tags=[f"tag {secret}"])
            await caller.call("chaoscore_remember", key=f"key {secret}", value={secret: secret}, expect_version=1)
            await caller.call("chaoscore_remember", key=f"key {secret}", forget=True)
            plan = await caller.plan(
                step(secret, "test.login", {"text": secret}, why=secret, on_error="continue"),
                step("asks", "test.append", {"text": secret}),
                step("fetches", "http.request", {"url": f"https://{secret.lower()}.example/?key={secret}"}),
            )
            answer = await caller.execute(plan, confirmed=True)
            assert secret not in str(answer)

    asyncio.run(story())
    found = bodies(tmp_path / "data")
    kinds = {kind for body in found for kind in (body.partition('"kind":"')[2].partition('"')[0],)}
    assert {"memory-written", "memory-forgotten", "plan-stored", "verdict-given", "intent-recorded"} <= kinds
    assert {"action-outcome-unknown", "grant-given"} <= kinds, kinds
    told = [body for body in found if secret in body]
    assert told == []
    assert any("[redacted]" in body for body in found if '"memory-written"' in body)
    assert any("cannot log in with [redacted]" in body for body in found)


texts = st.builds(
    lambda before, middle, after: f"{before} {middle} {after}",
    st.text(max_size=4),
    st.sampled_from(("", SHAPED, KNOWN, ACCENTED)),
    st.text(max_size=4),
)
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(texts, values, max_size=3), min_size=1, max_size=20))
def test_whatever_an_event_says_is_written_without_secrets_and_verifies(
    tmp_path_factory: pytest.TempPathFactory, said: list[dict[str, Json]]
) -> None:
    directory = tmp_path_factory.mktemp("audit")

    async def story() -> None:
        stores = await open_stores(
            directory, FakeClock(), CountingIds(), FakeProcesses(), redactor=Redactor([KNOWN, ACCENTED])
        )
        try:
            await stores.audit.append([AuditEvent("said", 1.0, "local:1", data=data) for data in said])
            assert (await stores.audit.verify()).fault is None
            shown = await stores.audit.tail(None, None, 100, None)
            assert len(shown) == len(said)
            for _, event in shown:
                for secret in (SHAPED, KNOWN, ACCENTED):
                    assert secret not in repr(event)
        finally:
            await stores.close()

    asyncio.run(story())
    for body in bodies(directory):
        assert SHAPED not in body and KNOWN not in body and "ss-wört-canary" not in body

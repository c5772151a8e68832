"""Law 8 at the gate: what an output delivered is never taken for a reference, so it cannot put off a question."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaoscore.adapters.files.policy_file import PolicyFile
from chaoscore.adapters.system.clock import SystemClock
from chaoscore.app.capabilities import Registry
from chaoscore.app.gate import Gate
from chaoscore.domain.capability import Capability, Sink
from chaoscore.domain.json import Json
from chaoscore.domain.limits import Limits

# A capability of a third party that does not say that its URL is text.
HOOK = Capability("hook.post", "posts", "high", {"type": "object"}, {}, sinks=(Sink("/to/url", "url"),), builtin=True)
POLICY = """{"allowedCapabilities": [], "deniedCapabilities": [], "requireConfirmationFor": [],
 "httpAllowedDomains": ["good.example"]}"""


def gate(folder: Path) -> Gate:
    path = folder / "policy.json"
    path.write_text(POLICY)
    clock = SystemClock()
    return Gate(Registry([HOOK]), {}, PolicyFile(path, ["hook.post"], clock), clock, Limits())


@pytest.mark.parametrize("delivered", [{"$from": "s1", "path": ""}, {"$item": ""}, {"$from": "s1", "odd": 1}])
@pytest.mark.parametrize("at_the_sink", [True, False])
def test_a_delivered_value_that_looks_like_a_reference_is_refused_as_a_url(
    delivered: Json, at_the_sink: bool, tmp_path: Path
) -> None:
    arguments: dict[str, Json] = {"to": {"url": delivered}}
    if not at_the_sink:
        arguments = {"to": {"url": "https://evil.example"}, "note": delivered}
    verdict = gate(tmp_path).judge("hook.post", arguments)
    assert verdict.effect == "DENY"
    assert verdict.pending == ()


def test_a_reference_in_a_plan_as_written_is_not_known_yet(tmp_path: Path) -> None:
    judge = gate(tmp_path).judge
    assert judge("hook.post", {"to": {"url": {"$from": "s1", "path": "/u"}}}, written=True).pending == ("url",)
    assert judge("hook.post", {"to": {"$from": "s1", "path": "/u"}}, written=True).pending == ("url",)
    assert judge("hook.post", {"to": {"url": "https://good.example"}}, written=True).effect == "ALLOW"

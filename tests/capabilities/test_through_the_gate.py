"""The capabilities behind the real gate and a real policy file: what an allowed plan can and cannot make them do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from chaoscore.adapters.capabilities import builtin_capabilities
from chaoscore.adapters.files.policy_file import PolicyFile
from chaoscore.adapters.system import SystemClock
from chaoscore.app.capabilities import Registry
from chaoscore.app.gate import Gate, Outcome, Subject, default_checks
from chaoscore.domain.action import Grant
from chaoscore.domain.json import Json, JsonObject, is_object
from chaoscore.domain.limits import Limits
from chaoscore.domain.plan import Step
from chaoscore.domain.run import Propose
from tests.capabilities.servers import Names, Script, answer, redirect, routes, serving
from tests.capabilities.support import CountingIds

SUBJECT = Subject("run-1", "local:1")
CONFIRM_NOTHING: dict[str, Json] = {"requireConfirmationFor": []}


class House:
    """A data directory with a policy, one open folder around it, and the gate over both."""

    def __init__(self, folder: Path, names: Names | None = None, **policy: Json) -> None:
        self.data = folder / "data"
        self.data.mkdir()
        whole = {
            "allowedCapabilities": [],
            "deniedCapabilities": [],
            "requireConfirmationFor": ["http.request", "fs.write_text"],
            "httpAllowedDomains": [],
            **policy,
        }
        (self.data / "policy.json").write_text(json.dumps(whole))
        provided = builtin_capabilities(
            ids=CountingIds(),
            roots=[str(folder)],
            protected=[str(self.data), str(self.data / "policy.json")],
            resolver=names or Names({}),
        )
        clock = SystemClock()
        self.registry = Registry(item.capability for item in provided)
        source = PolicyFile(self.data / "policy.json", set(self.registry), clock)
        handlers = {item.capability.name: item.handler for item in provided}
        self.gate = Gate(self.registry, handlers, source, clock, Limits())

    async def act(self, capability: str, arguments: JsonObject, approve: bool = False) -> Outcome:
        proposal = Propose(Step("s1", capability, arguments), None, arguments, 1)
        assert self.gate.fault(proposal) is None
        admission = self.gate.admit(SUBJECT, proposal, ())
        if approve:
            now = SystemClock().now()
            grant = Grant("g1", SUBJECT.run, admission.digest, "caller", "someone", now, now + 60)
            admission = self.gate.admit(SUBJECT, proposal, (grant,))
        return await self.gate.perform(SUBJECT, admission, default_checks(self.registry[capability], ()))


def code(outcome: Outcome) -> str:
    assert outcome.error is not None, outcome
    return outcome.error.code


def test_a_write_that_was_approved_happens_and_one_into_the_data_directory_does_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        house = House(tmp_path)
        written = await house.act("fs.write_text", {"path": "a.md", "text": "x"}, approve=True)
        assert (written.event, (tmp_path / "a.md").read_text()) == ("succeed", "x")
        policy = (house.data / "policy.json").read_text()
        for path in ("data/policy.json", "data/new.db", ".env", ".chaos/interactions/x.json"):
            refused = await house.act("fs.write_text", {"path": path, "text": "{}", "overwrite": True}, approve=True)
            assert refused.event == "fail", "a refusal is certain: never outcome-unknown"
        assert (house.data / "policy.json").read_text() == policy
        assert sorted(path.name for path in house.data.iterdir()) == ["policy.json"]

    asyncio.run(scenario())


def test_a_file_too_large_for_an_output_is_refused_by_the_capability_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        house = House(tmp_path)
        (tmp_path / "full.md").write_text("0123456789abcde\n" * 65_536)
        assert (await house.act("fs.read_text", {"path": "full.md"})).event == "succeed"
        (tmp_path / "more.md").write_text("x" * 1_048_577)
        assert code(await house.act("fs.read_text", {"path": "more.md"})) == "FS_TOO_LARGE"

    asyncio.run(scenario())


def web(script_domain: str, port: int, *more: str) -> dict[str, Json]:
    return {"httpAllowedDomains": [script_domain, *more], "httpAllowPrivate": [f"{script_domain}:{port}"]}


async def redirected(tmp_path: Path, script: Script, confirm: bool, *more: str) -> tuple[Outcome, list[str]]:
    """The outcome of an approved request to allowed.test, and what its server was asked."""
    async with serving(script) as server:
        names = Names({"allowed.test": [["127.0.0.1"]], "other.test": [["127.0.0.1"]], "inside.test": [["10.0.0.1"]]})
        policy = web("allowed.test", server.port, *more) | ({} if confirm else CONFIRM_NOTHING)
        house = House(tmp_path, names, **policy)
        url = f"http://allowed.test:{server.port}/start"
        return await house.act("http.request", {"url": url}, approve=True), server.requests


def test_an_approved_request_may_be_redirected_within_its_origin_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        own = routes({"/start": redirect("/end"), "/end": answer(b"end")})
        for confirm in (True, False):
            (tmp_path / str(confirm)).mkdir()
            outcome, _ = await redirected(tmp_path / str(confirm), own, confirm)
            assert outcome.event == "succeed" and is_object(outcome.output)
            assert outcome.output["body"] == "end"
        (tmp_path / "other").mkdir()
        outcome, requests = await redirected(tmp_path / "other", redirect("http://other.test/"), True, "other.test")
        assert (code(outcome), len(requests)) == ("NEEDS_APPROVAL", 1)

    asyncio.run(scenario())


def test_an_allowed_domain_cannot_redirect_to_one_that_is_not_or_into_the_network(tmp_path: Path) -> None:
    async def scenario() -> None:
        hostile = {
            "http://169.254.169.254/latest/meta-data/": "DENIED_BY_POLICY",
            "http://other.test/": "DENIED_BY_POLICY",
            "http://inside.test/": "HTTP_ADDRESS_REFUSED",
            "http://127.0.0.1:1/": "DENIED_BY_POLICY",
        }
        for number, (location, expected) in enumerate(hostile.items()):
            (tmp_path / str(number)).mkdir()
            outcome, requests = await redirected(tmp_path / str(number), redirect(location), False, "inside.test")
            assert (code(outcome), outcome.event, len(requests)) == (expected, "fail", 1), location

    asyncio.run(scenario())


def test_an_error_status_fails_the_action(tmp_path: Path) -> None:
    async def scenario() -> None:
        outcome, _ = await redirected(tmp_path, answer(b"no", "404 Not Found"), False)
        assert outcome.event == "fail" and is_object(outcome.output)
        assert outcome.output["status"] == 404

    asyncio.run(scenario())


def test_without_a_model_the_action_is_failed_with_the_providers_code(tmp_path: Path) -> None:
    async def scenario() -> None:
        outcome = await House(tmp_path).act("cognition.generate_text", {"instructions": "x"})
        assert (outcome.event, code(outcome)) == ("fail", "NOT_CONFIGURED")

    asyncio.run(scenario())

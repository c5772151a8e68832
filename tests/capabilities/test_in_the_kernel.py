"""Installed and built-in capabilities in the assembled kernel, through its tools: nothing else knows of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from chaoscore.app.envelope import Envelope
from chaoscore.bootstrap import Kernel, open_kernel
from chaoscore.domain.errors import ConfigurationInvalid
from chaoscore.domain.json import Json, JsonObject
from chaoscore.settings import Settings
from tests.capabilities.installed import Site

ROOT = Path(__file__).parents[2]


def settings(folder: Path, **policy: Json) -> Settings:
    """An open folder with a data directory in it, and a policy that differs from the default in these keys."""
    data = folder / "data"
    data.mkdir()
    whole = {
        "allowedCapabilities": [],
        "deniedCapabilities": [],
        "requireConfirmationFor": ["http.request", "fs.write_text"],
        "httpAllowedDomains": [],
    }
    (data / "policy.json").write_text(json.dumps(whole | policy))
    return Settings(data_dir=data, policy_path=data / "policy.json", fs_roots=(folder,))


async def call(kernel: Kernel, tool: str, arguments: JsonObject) -> Envelope:
    return await kernel.tools.call(tool, arguments, kernel.local_context())


def install_the_documented_example(site: Site) -> None:
    text = (ROOT / "docs" / "capabilities.md").read_text()
    source = text.split("```python\n", 1)[1].split("```", 1)[0]
    site.install("acme-words", "acme_words", source, "acme.count_words = acme_words:words")


COUNT: Json = [{"id": "s1", "capability": "acme.count_words", "arguments": {"text": "one two three"}}]


def test_an_installed_capability_that_the_policy_names_is_planned_run_and_listed(site: Site, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_kernel(settings(tmp_path, allowedCapabilities=["acme.*", "fs.list"])) as kernel:
            done = await call(kernel, "chaoscore_achieve", {"objective": "count words", "steps": COUNT})
            assert done.status == "ACHIEVED", done
            assert '"count": 3' in json.dumps(done.data)
            listed = await call(kernel, "chaoscore_inspect", {"what": "capabilities"})
            assert "acme.count_words" in json.dumps(listed.data)

    install_the_documented_example(site)
    asyncio.run(scenario())


def test_an_installed_capability_that_the_policy_does_not_name_does_not_exist(site: Site, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_kernel(settings(tmp_path)) as kernel:
            done = await call(kernel, "chaoscore_plan", {"objective": "count words", "steps": COUNT})
            assert (done.ok, done.error_code) == (False, "PLAN_INVALID")

    install_the_documented_example(site)
    asyncio.run(scenario())


def test_a_broken_package_that_the_policy_names_refuses_to_start(site: Site, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_kernel(settings(tmp_path, allowedCapabilities=["acme.count_words"])):
            raise AssertionError("started")

    site.install("acme-words", "acme_words", "raise ValueError('broken')", "acme.count_words = acme_words:words")
    with pytest.raises(ConfigurationInvalid, match="acme-words"):
        asyncio.run(scenario())


def test_the_example_plan_asks_before_it_writes_and_then_writes_the_index(tmp_path: Path) -> None:
    async def scenario() -> None:
        plan = json.loads((ROOT / "examples" / "index-docs.json").read_text())
        async with open_kernel(settings(tmp_path)) as kernel:
            asked = await call(kernel, "chaoscore_achieve", plan)
            assert (asked.status, asked.must_stop) == ("WAITING_FOR_APPROVAL", True)
            assert not (tmp_path / "DOCS.md").exists()
            run = asked.data["run_id"]
            done = await call(kernel, "chaoscore_execute", {"run_id": run, "confirmed": True})
            assert done.status == "ACHIEVED", done
        assert "| [Title A](docs/a.md) | `docs/a.md` | 2 |" in (tmp_path / "DOCS.md").read_text()

    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Title A\ntext\n")
    (tmp_path / "docs" / ".env").write_text("SECRET=1")
    asyncio.run(scenario())

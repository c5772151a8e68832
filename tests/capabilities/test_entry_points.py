"""Capabilities of installed packages: really installed ones, as a wheel's files on ``sys.path``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from chaoscore.adapters.capabilities import declared_names, entry_point_capabilities
from chaoscore.app.capabilities import Registry
from chaoscore.app.ports import HandlerContext
from chaoscore.domain.capability import Annotations
from chaoscore.domain.errors import ConfigurationInvalid
from chaoscore.domain.json import Json
from chaoscore.domain.limits import Limits
from chaoscore.domain.lint import check_steps
from tests.capabilities.installed import Site
from tests.capabilities.support import Desk, desk

TRANSLATE = """
    from chaoscore.app.ports import Provided
    from chaoscore.domain.capability import Capability

    async def shout(arguments, context):
        return {"text": arguments["text"].upper()}

    shouting = Provided(
        Capability(
            name="acme.shout",
            description="Write a text in capital letters",
            risk="low",
            input_schema={"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
            output_schema={"type": "object", "properties": {"text": {"type": "string"}}},
            builtin=True,
        ),
        shout,
    )

    def make():
        return shouting
"""


def anything(_: str) -> bool:
    return True


def nothing(_: str) -> bool:
    return False


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("target", ["shouting", "make"])
def test_an_installed_package_adds_a_capability_and_nothing_else_changes(site: Site, zipped: bool, target: str) -> None:
    site.install("acme-shout", "acme_shout", TRANSLATE, f"acme.shout = acme_shout:{target}", zipped)
    builtin = desk().provided
    (installed,) = entry_point_capabilities(lambda name: name == "acme.shout", [p.capability.name for p in builtin])

    registry = Registry(item.capability for item in (*builtin, installed))
    steps: Json = [{"id": "s1", "capability": "acme.shout", "arguments": {"text": "hi"}}]
    assert check_steps(steps, registry, Limits()).ok

    async def call() -> Json:
        return await installed.handler({"text": "hi"}, HandlerContext(lambda _: None, "key", 1.0))

    assert asyncio.run(call()) == {"text": "HI"}


def test_the_example_of_the_documentation_is_a_capability(site: Site) -> None:
    text = (Path(__file__).parents[2] / "docs" / "capabilities.md").read_text()
    source = text.split("```python\n", 1)[1].split("```", 1)[0]
    declared = text.split("```toml\n", 1)[1].split("```", 1)[0].splitlines()[1]
    site.install("acme-words", "acme_words", source, declared.replace('"', ""))
    (installed,) = entry_point_capabilities(lambda name: name == "acme.count_words")
    words = Desk((installed,))
    assert words.call("acme.count_words", text="one two") == {"count": 2}
    assert words.refusal("acme.count_words", text=" ").code == "ACME_NO_WORDS"


def test_what_a_package_does_not_declare_is_taken_at_its_worst(site: Site) -> None:
    site.install("acme-shout", "acme_shout", TRANSLATE, "acme.shout = acme_shout:shouting")
    (installed,) = entry_point_capabilities(anything)
    capability = installed.capability
    assert capability.annotations == Annotations(read_only=False, idempotent=False, destructive=True, open_world=True)
    assert capability.untrusted_output
    assert not capability.annotations.may_repeat
    assert not capability.builtin  # whatever the package says


def test_a_package_that_the_policy_does_not_name_is_never_imported(site: Site) -> None:
    site.install("acme-shout", "acme_shout", "raise RuntimeError('imported')", "acme.shout = acme_shout:x")
    assert entry_point_capabilities(nothing) == ()
    assert "acme_shout" not in sys.modules
    assert "acme.shout" in declared_names()


def test_a_package_cannot_take_the_name_of_a_built_in_capability(site: Site) -> None:
    site.install("evil", "evil", "raise RuntimeError('imported')", "http.request = evil:x")
    for allowed in (anything, nothing):
        with pytest.raises(ConfigurationInvalid) as error:
            entry_point_capabilities(allowed, ["http.request"])
        assert "'evil 1.0'" in error.value.message and "'http.request'" in error.value.message
    assert "evil" not in sys.modules


def test_two_packages_with_one_name_refuse_to_start_and_both_are_named(site: Site) -> None:
    site.install("acme-shout", "acme_shout", TRANSLATE, "acme.shout = acme_shout:shouting")
    site.install("other", "other_shout", TRANSLATE, "acme.shout = other_shout:shouting")
    with pytest.raises(ConfigurationInvalid) as error:
        entry_point_capabilities(anything)
    assert "acme-shout 1.0" in error.value.message and "other 1.0" in error.value.message
    assert "acme_shout" not in sys.modules and "other_shout" not in sys.modules


def test_a_package_found_twice_on_the_path_is_one_package(site: Site) -> None:
    site.install("acme-shout", "acme_shout", TRANSLATE, "acme.shout = acme_shout:shouting")
    site.install("acme-shout", "acme_shout", TRANSLATE, "acme.shout = acme_shout:shouting", zipped=True)
    assert len(entry_point_capabilities(anything)) == 1


WELL_MEANT = TRANSLATE + "    import dataclasses\n    "


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("import no_such_module_anywhere", "x", "ModuleNotFoundError"),
        ("raise ValueError('broken\\nSECRET-SECOND-LINE')", "x", "ValueError: broken"),
        ("import sys\nsys.exit(3)", "x", "SystemExit"),
        ("x = 1", "y", "AttributeError"),
        ("x = 1", "x", "is int, not chaoscore.app.ports.Provided"),
        ("def x():\n    raise KeyError('k')", "x", "KeyError"),
        ("def x():\n    return 5", "x", "is int, not"),
        ("from chaoscore.app.ports import Provided\nx = Provided(1, 2)", "x", "its capability is int"),
        (WELL_MEANT + "x = Provided(shouting.capability, None)", "x", "not an async function"),
        (WELL_MEANT + "x = Provided(shouting.capability, lambda a, c: {})", "x", "not an async function"),
        (
            WELL_MEANT + "x = Provided(dataclasses.replace(shouting.capability, name='a.b'), shout)",
            "x",
            "provides 'a.b'",
        ),
        (WELL_MEANT + "x = Provided(dataclasses.replace(shouting.capability, risk='none'), shout)", "x", "risk 'none'"),
        (
            WELL_MEANT
            + "x = Provided(dataclasses.replace(shouting.capability, input_schema={'type': 'objekt'}), shout)",
            "x",
            "its input_schema must be",
        ),
        (
            WELL_MEANT + "schema = {'type': 'object', 'required': 1}\n"
            "    x = Provided(dataclasses.replace(shouting.capability, output_schema=schema), shout)",
            "x",
            "its output_schema is not a JSON Schema",
        ),
    ],
)
def test_a_broken_package_is_named_with_what_is_wrong(site: Site, source: str, target: str, words: str) -> None:
    site.install("broken-package", "broken_package", source, f"acme.shout = broken_package:{target}")
    with pytest.raises(ConfigurationInvalid) as error:
        entry_point_capabilities(anything)
    assert words in error.value.message
    assert "'broken-package 1.0'" in error.value.message
    assert "SECRET" not in error.value.message
    assert error.value.details == {"capability": "acme.shout", "distribution": "broken-package 1.0"}


def test_a_name_that_no_policy_could_hold_is_refused(site: Site) -> None:
    source = TRANSLATE.replace("acme.shout", "Shout")
    site.install("acme-shout", "acme_shout", source, "Shout = acme_shout:shouting")
    with pytest.raises(ConfigurationInvalid, match="lower-case words joined by dots"):
        entry_point_capabilities(anything)

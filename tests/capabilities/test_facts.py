"""What the built-in capabilities declare about themselves: the linter, the policy and people rely on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jmespath
import pytest
from jsonschema import Draft202012Validator

from chaoscore.app.capabilities import Registry
from chaoscore.domain.capability import Annotations, Sink
from chaoscore.domain.json import Json, is_object
from tests.capabilities.support import desk

DESK = desk()
FACTS = [item.capability for item in DESK.provided]


def schemas(schema: Json, at: str = "") -> Iterator[tuple[str, dict[str, Json]]]:
    if not is_object(schema):
        return
    yield at, dict(schema)
    properties = schema.get("properties")
    if is_object(properties):
        for key, member in properties.items():
            yield from schemas(member, f"{at}/{key}")
    yield from schemas(schema.get("items"), f"{at}/0")


def test_the_built_in_capabilities_are_exactly_these() -> None:
    assert [capability.name for capability in FACTS] == [
        "fs.list",
        "fs.read_text",
        "fs.write_text",
        "json.query",
        "http.request",
        "cognition.generate_text",
    ]
    assert list(Registry(FACTS)) == [capability.name for capability in FACTS]
    assert all(capability.builtin for capability in FACTS)


@pytest.mark.parametrize("capability", FACTS, ids=lambda capability: str(capability.name))
def test_schemas_are_valid_closed_and_described(capability: object) -> None:
    from chaoscore.domain.capability import Capability

    assert isinstance(capability, Capability)
    for schema in (capability.input_schema, capability.output_schema):
        Draft202012Validator.check_schema(schema)
        for at, part in schemas(schema):
            if "properties" in part:
                assert part["additionalProperties"] is False, at
                required = part.get("required", [])
                assert isinstance(required, list)
                assert set(required) <= set(part["properties"])  # type: ignore[arg-type]
            if at and part.get("type") not in ("object", "array") and "enum" not in part:
                assert part.get("description") or at in ("/model", "/provider") or at.endswith("/0"), at
    for at, part in schemas(capability.input_schema):
        if part.get("type") == "string":
            assert "maxLength" in part, f"{capability.name}{at} is not bounded"


def test_risk_effects_trust_and_sinks_are_declared_as_they_are() -> None:
    reads = Annotations(read_only=True, idempotent=True, destructive=False, open_world=False)
    web = Annotations(read_only=True, idempotent=True, destructive=False, open_world=True)
    declared = {c.name: (c.risk, c.annotations, c.untrusted_output, c.sinks) for c in FACTS}
    assert declared == {
        "fs.list": ("low", reads, True, (Sink("/path", "path"),)),
        "fs.read_text": ("low", reads, True, (Sink("/path", "path"),)),
        "fs.write_text": ("high", Annotations(False, False, True, False), False, (Sink("/path", "path"),)),
        "json.query": ("low", reads, False, ()),
        "http.request": ("medium", web, True, (Sink("/url", "url"),)),
        "cognition.generate_text": ("medium", Annotations(True, False, False, True), True, ()),
    }


def test_the_roots_in_force_are_part_of_what_is_approved(tmp_path: object) -> None:
    digests = [
        desk(roots=roots).capability(name).capability.definition_digest()
        for name in ("fs.list", "fs.read_text", "fs.write_text")
        for roots in ([], [tmp_path])
    ]
    assert len(set(digests)) == 6


def test_the_documentation_names_every_function_and_every_error_code() -> None:
    import re

    from chaoscore.adapters.capabilities.query.functions import FUNCTION_NAMES

    root = Path(__file__).parents[2]
    text = (root / "docs" / "capabilities.md").read_text()
    standard = set(jmespath.functions.Functions.FUNCTION_TABLE)
    assert [name for name in FUNCTION_NAMES if name not in standard and f"`{name}" not in text] == []
    sources = (root / "src" / "chaoscore" / "adapters" / "capabilities").rglob("*.py")
    codes = {found for path in sources for found in re.findall(r'"((?:FS|HTTP|QUERY)_[A-Z_]+)"', path.read_text())}
    assert len(codes) > 15
    assert sorted(code for code in codes if f"`{code}`" not in text) == []

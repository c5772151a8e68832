"""Our schemas and the published ones accept and refuse the same; a workspace copy may only tighten, in linear time."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from chaoscore.adapters.files.interaction import schemas
from chaoscore.adapters.files.interaction.patterns import Pattern, UnsupportedPattern
from chaoscore.adapters.files.interaction.validator import Schema
from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.app.interactions.service import InteractionService
from chaoscore.domain.interaction.digest import content_hash, js_canonical, verify_content
from chaoscore.domain.json import Json, JsonObject
from tests.interaction.conftest import Place
from tests.interaction.steps import begin
from tests.interop.recorded import harness, shared

DATA = Path(__file__).parent / "data"


def published(kind: str) -> JsonObject:
    return cast("JsonObject", json.loads((DATA / f"schema/{kind}.schema.json").read_text()))


def test_the_copied_schemas_are_the_published_ones() -> None:
    found = shared()
    if found is None:
        pytest.skip("no published schemas beside this checkout")
    for folder in ("schema", "examples"):
        for path in (found / folder).glob("*.json"):
            assert (DATA / folder / path.name).read_bytes() == path.read_bytes()


def values(schema: Any, root: Any) -> st.SearchStrategy[Any]:
    """Documents that follow the schema, mostly; now and then something else in any place."""
    if "$ref" in schema:
        return values(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    kinds = schema.get("type", ["object"])
    options: list[st.SearchStrategy[Any]] = []
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if "const" in schema:
            options.append(st.just(schema["const"]))
        elif "enum" in schema:
            options.append(st.sampled_from(schema["enum"]))
        elif kind == "string":
            options.append(texts(schema))
        elif kind == "integer":
            options.append(st.integers(-3, 5))
        elif kind == "boolean":
            options.append(st.booleans())
        elif kind == "null":
            options.append(st.none())
        elif kind == "array":
            options.append(st.lists(values(schema["items"], root), min_size=schema.get("minItems", 0), max_size=3))
        else:
            options.append(objects(schema, root))
    wrong = st.sampled_from([None, 1, 1.5, True, "", "x" * 200, [], {}, {"unknown": 1}, [None]])
    return st.integers(0, 19).flatmap(lambda dice: wrong if dice == 0 else st.one_of(options))


def texts(schema: Any) -> st.SearchStrategy[str]:
    if schema.get("format") == "date-time":
        return st.sampled_from(["2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05+02:00", "2026-01-02", "soon"])
    if "pattern" in schema:
        return st.sampled_from(["RUN-1", "a:b.c_d", "-x", "a b", "a\n", "x" * 160, "x" * 161, "sha256:" + "aB" * 32])
    most = schema.get("maxLength", 5)
    return st.sampled_from(["", "x", "\U0001f600" * 2, "x" * most, "x" * (most + 1), "\U0001f600" * (most // 2 + 1)])


def objects(schema: Any, root: Any) -> st.SearchStrategy[Any]:
    known = {key: values(child, root) for key, child in schema.get("properties", {}).items()}
    required = {key: known[key] for key in schema.get("required", []) if key in known}
    optional = {key: value for key, value in known.items() if key not in required}
    whole = st.fixed_dictionaries(required, optional=optional)
    extra = st.dictionaries(st.sampled_from(["extra", "chaosCore"]), st.just(1), max_size=1)
    lost = st.sampled_from([None, *required])
    return st.tuples(st.integers(0, 9), whole, extra, lost).map(
        lambda drawn: {
            **{k: v for k, v in drawn[1].items() if drawn[0] != 0 or k != drawn[3]},
            **(drawn[2] if drawn[0] == 1 else {}),
        }
    )


def reference(schema: JsonObject) -> Draft202012Validator:
    """A validator of another make, told the two peculiarities of the format: UTF-16 lengths and date-times."""
    return Draft202012Validator(json.loads(json.dumps(schema)))


@pytest.mark.parametrize("kind", schemas.KINDS)
def test_both_accept_and_refuse_the_same_documents(kind: str) -> None:
    theirs, ours = Schema(published(kind)), schemas.builtin(kind)
    assert {v["$id"] for v in (published(kind), schemas.builtin_document(kind))} == {published(kind)["$id"]}
    other = reference(schemas.builtin_document(kind))
    schema = published(kind)
    seen = {True: 0, False: 0}

    @settings(max_examples=150, deadline=None, database=None)
    @given(values(schema, schema))
    def agree(document: Json) -> None:
        mine = ours.violations(document)
        assert mine == theirs.violations(document)
        seen[not mine] += 1
        text = json.dumps(document)
        # The other validator counts code points, knows no date-time, lets `$` match before a newline, checks minimum.
        peculiar = any(part in text for part in ("\\ud83d", "soon", '-02"', "\\n"))
        if not peculiar and kind != "runner-lease":
            assert (not mine) == other.is_valid(document), mine

    agree()
    assert seen[False] > 5


EXAMPLES = {"decision": "decision", "response": "response", "resume-capsule": "resume-capsule", "session": "session"}


@pytest.mark.parametrize("path", sorted((DATA / "examples").glob("*.json")), ids=lambda path: str(path.name))
def test_the_published_examples_are_valid(path: Path) -> None:
    assert schemas.builtin(path.name.split(".")[0]).violations(json.loads(path.read_text())) == []


@settings(max_examples=300, deadline=None, database=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    )
)
def test_the_canonical_form_is_that_of_the_published_reference(value: Any) -> None:
    assert js_canonical(value) == harness().canonical(value)


def test_a_capsule_is_sealed_as_its_peers_seal_it() -> None:
    capsule = json.loads((DATA / "examples/resume-capsule.example.json").read_text())
    assert verify_content(capsule) == "missing"
    sealed = {**capsule, "metadata": {"contentHash": content_hash(capsule)}}
    assert verify_content(sealed) == "valid" and harness().capsule_hash_state(sealed) == "valid"
    assert verify_content({**sealed, "nextStep": "other"}) == "tampered"


@pytest.mark.parametrize("validate", [True, False])
def test_a_workspace_schema_may_tighten_and_never_loosen(place: Place, validate: bool) -> None:
    place.bench.validate = validate

    async def story(service: InteractionService) -> None:
        await begin(service)

    place.tell(story)
    path = place.root / "schema/session.schema.json"
    schema = json.loads(path.read_text())
    schema["properties"]["sourceCommand"]["maxLength"] = 10
    schema["additionalProperties"] = True
    path.write_text(json.dumps(schema))

    async def tight(service: InteractionService) -> None:
        refused = await service.begin(BeginRequest("chaos:long-command"))
        assert refused.status == ("SCHEMA_VALIDATION_ERROR" if validate else "READY")
        session = place.root / "sessions/RUN-1.json"
        session.write_text(session.read_text().replace('"schemaVersion": 1', '"more": 1, "schemaVersion": 1'))
        loose = await begin(service)
        assert loose.status == "SCHEMA_VALIDATION_ERROR"

    place.tell(tight)


def test_missing_schema_files_are_written_by_the_first_write_and_existing_ones_kept(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await begin(service)
        (place.root / "schema/lock.schema.json").unlink()
        (place.root / "schema/index.schema.json").write_text("{}")
        await begin(service, "RUN-2")
        assert json.loads((place.root / "schema/lock.schema.json").read_text()) == schemas.builtin_document("lock")
        assert (place.root / "schema/index.schema.json").read_text() == "{}"

    place.tell(story)


BOMBS = ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(x+x+)+y", "^([a-zA-Z]+)*$", "^(.*a){12}$"]


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_pattern_bomb_in_a_workspace_schema_costs_nothing(bomb: str) -> None:
    text = "a" * 5_000 + "!" if "x" not in bomb else "x" * 5_000
    before = time.process_time()
    assert Pattern(bomb).search(text) is False
    assert time.process_time() - before < 5.0


SAMPLES = [
    "", "a", "b", "ab", "abc", "aab", "a.b", "x1", "_", "-", "\n", "a\n", "é", "]", "\\", "^", "$", "12-34", "AbZ",
]  # fmt: skip
SUPPORTED = [
    "a", "^a$", "a|b", "^(?:a|b)+$", "[a-c]{2,3}", "[^a]", "^[A-Za-z0-9][A-Za-z0-9._:-]*$", r"\d+-\d{2}", r"\w",
    r"^\W$", r"^\s$", "a?b*c+", "^.{2}$", r"[\d_]", r"^[\]\\^-]$", "^$", "", "(a(b|c)?)+$", r"\.", "a{0}b", "(ab|a)c",
    "x{1,}1",
]  # fmt: skip


@pytest.mark.parametrize("pattern", SUPPORTED)
def test_a_supported_pattern_finds_what_it_always_found(pattern: str) -> None:
    ours, theirs = Pattern(pattern), re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    for sample in SAMPLES:
        assert ours.search(sample) == (theirs.search(sample) is not None), (pattern, sample)


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "(?<n>a)", "a{5000}", "(a{900}){900}", "*a", "(a", "a)", "[a"])
def test_an_unsupported_pattern_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(UnsupportedPattern):
        Pattern(pattern)

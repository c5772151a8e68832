"""Facts of a capability: its name's form, the worst until declared, and a digest of everything a person approves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaoscore.domain.capability import NAME, Annotations, Capability, Sink
from chaoscore.domain.evaluation import Check
from chaoscore.domain.principal import ANONYMOUS, Principal

PLAIN = Capability("x.y", "does", "low", {"type": "object"}, {})


@pytest.mark.parametrize("name", ["a.b", "fs.read_text", "a1.b_2.c3"])
def test_a_name_is_dotted_lower_case(name: str) -> None:
    assert NAME.match(name)


@pytest.mark.parametrize("name", ["", "a", "a.", ".a", "A.b", "a.B", "a..b", "1.a", "a.b\n", "a-b.c", "a.b ", "ä.b"])
def test_anything_else_is_no_name(name: str) -> None:
    assert not NAME.match(name)


def test_what_is_not_declared_is_taken_at_its_worst() -> None:
    assert PLAIN.untrusted_output
    assert not PLAIN.builtin
    worst = Annotations()
    assert (worst.read_only, worst.idempotent, worst.destructive, worst.open_world) == (False, False, True, True)
    assert not worst.may_repeat


@pytest.mark.parametrize(("read_only", "idempotent"), [(True, False), (False, True), (True, True)])
def test_only_reads_and_idempotent_actions_may_be_repeated(read_only: bool, idempotent: bool) -> None:
    assert Annotations(read_only, idempotent).may_repeat


APPROVED: list[dict[str, Any]] = [
    {"name": "x.z"},
    {"description": "does more"},
    {"risk": "high"},
    {"input_schema": {}},
    {"output_schema": {"type": "object"}},
    {"annotations": Annotations(read_only=True)},
    {"annotations": Annotations(idempotent=True)},
    {"annotations": Annotations(destructive=False)},
    {"annotations": Annotations(open_world=False)},
    {"untrusted_output": False},
    {"sinks": (Sink("/url", "url"),)},
    {"scope": {"roots": ["/srv"]}},
]


@pytest.mark.parametrize("change", APPROVED)
def test_a_changed_definition_has_another_digest(change: dict[str, Any]) -> None:
    assert replace(PLAIN, **change).definition_digest() != PLAIN.definition_digest()


def test_what_changes_no_meaning_changes_no_digest() -> None:
    same = replace(PLAIN, builtin=True, timeout_seconds=5.0, default_expect=(Check("/a", "exists"),))
    assert same.definition_digest() == PLAIN.definition_digest()


def test_principals_are_told_apart_and_share_memories_as_the_contract_says() -> None:
    local, oauth = Principal("local", "501"), Principal("oauth", "someone")
    assert [who.key for who in (local, oauth, ANONYMOUS)] == ["local:501", "oauth:someone", "anonymous"]
    assert [who.memory_namespace for who in (local, ANONYMOUS, oauth)] == ["shared", "shared", "oauth:someone"]
    assert [who.is_anonymous for who in (local, oauth, ANONYMOUS)] == [False, False, True]

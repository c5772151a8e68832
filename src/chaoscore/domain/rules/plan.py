"""``plan_by_rules``: the steps of a goal of one clause, or what in it could not be explained."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from chaoscore.domain.capability import Capability
from chaoscore.domain.json import JsonObject
from chaoscore.domain.rules.clauses import CLAUSES, Clause, Slots, Steps
from chaoscore.domain.rules.words import BARE, POLITE, QUESTION, STOP, UNKNOWN, Token, tokens_of

GOAL_CHARS_MAX = 500


@dataclass(frozen=True, slots=True)
class RulesPlan:
    """``steps`` as a caller would write them, for the linter to check; ``rule`` names the clause."""

    steps: Steps
    rule: str


@dataclass(frozen=True, slots=True)
class Abstained:
    """``unexplained`` are the words, as written and in order, that no rule explains."""

    unexplained: tuple[str, ...]
    reason: str


def plan_by_rules(objective: str, capabilities: Mapping[str, Capability]) -> RulesPlan | Abstained:
    """A plan only if every word of the goal is explained. Total; time grows with the goal's length.

    ``capabilities`` are those registered: a clause whose capability is missing is not understood.
    """
    if len(objective) > GOAL_CHARS_MAX:
        return Abstained((), f"the goal has more than {GOAL_CHARS_MAX} characters, rules read one short clause")
    tokens = tokens_of(objective)
    if not tokens:
        return Abstained((), "the goal is empty")
    found = None if any(token.kind == UNKNOWN for token in tokens) else _understood(tokens)
    if found is None:
        odd = tuple(token.text for token in tokens if token.kind in (UNKNOWN, BARE))
        words = f"rules cannot explain {', '.join(repr(word) for word in odd[:10])}" if odd else ""
        return Abstained(odd, words or "rules know the words of the goal, but not a clause made of them")
    clause, steps = found
    missing = sorted({str(step["capability"]) for step in steps} - set(capabilities))
    if missing:
        return Abstained((), f"the goal needs {', '.join(missing)}, which is not registered")
    return RulesPlan(tuple(_explained(step, clause) for step in steps), clause.name)


def _understood(tokens: list[Token]) -> tuple[Clause, Steps] | None:
    """The first clause that is the whole sentence between its courtesies, with the steps it means."""
    start, end = 0, len(tokens)
    while start < end and tokens[start].kind == POLITE:
        start += 1
    asks = end > start and tokens[end - 1].kind == QUESTION
    if end > start and tokens[end - 1].kind in (QUESTION, STOP):
        end -= 1
    courteous = start > 0
    while end > start and tokens[end - 1].kind == POLITE:
        end -= 1
    core = [token for token in tokens[start:end] if token.kind != POLITE or token.text.isascii()]
    kinds = "".join(token.kind for token in core)
    for clause in CLAUSES:
        if asks and not (clause.question or courteous):
            continue
        match = clause.pattern.fullmatch(kinds)
        if match:
            return clause, clause.steps(_slots(match, core))
    return None


def _slots(match: re.Match[str], tokens: list[Token]) -> Slots:
    return {
        name: tuple(tokens[match.start(name) : match.end(name)])
        for name, text in match.groupdict().items()
        if text is not None
    }


def _explained(step: JsonObject, clause: Clause) -> JsonObject:
    return {**step, "why": f"rule: {clause.name}"}

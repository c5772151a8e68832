"""One action that a person is asked about, as they must see it before they answer: everything it will do, and why it is
asked. What is shown is what the answer is bound to: the action as the question in the database keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from chaoscore.cli.terminal import visible
from chaoscore.cli.views.words import in_full, indented, one_line, plain, title, word
from chaoscore.domain.approval import AskedAction, Difference
from chaoscore.domain.capability import Capability
from chaoscore.domain.json import Json, JsonObject, is_array, is_object, pointer_tokens
from chaoscore.domain.limits import Limits
from chaoscore.domain.lint import lint
from chaoscore.domain.plan import Plan, StepFacts

ARGUMENT_LINES_SHOWN_MAX = 120
DIFFERENCE_CHARS_SHOWN_MAX = 400
OUTSIDE = "untrusted, written outside"


@dataclass(frozen=True, slots=True)
class Lineage:
    """Which steps' outputs flow into which argument of a plan, directly or through others."""

    plan: Plan
    facts: Mapping[str, StepFacts]

    @classmethod
    def of(cls, plan: Plan, capabilities: Mapping[str, Capability], limits: Limits) -> Lineage:
        return cls(plan, lint(plan.steps, capabilities, limits).facts)


def approval_view(
    asked: AskedAction, heading: str, lineage: Lineage | None, *, in_whole: bool = False
) -> list[RenderableType]:
    """``heading`` says what is asked, and which of how many this is."""
    shown = asked.shown
    out: list[RenderableType] = [
        Text(),
        Text.assemble(title(f"{heading}  "), where_of(asked)),
        Text.assemble(("  capability  ", "dim"), visible(_text(shown.get("capability"))), *_risk(shown)),
    ]
    for key, label in (("description", "does"), ("why", "why"), ("rule", "asked by")):
        if _text(shown.get(key)):
            out.append(indented([f"{label:<12}{visible(_text(shown.get(key)))}"], 2))
    reasons = shown.get("reasons")
    told = [reason for reason in reasons if reason != shown.get("rule")] if is_array(reasons) else []
    out += [plain(f"              {reason}", "dim") for reason in told]
    verdict = shown.get("verdict")
    out += [Text.assemble(("  confined to ", "dim"), line) for line in _scope(verdict) if line]
    out.append(plain("  arguments", "dim"))
    arguments = shown.get("arguments")
    if not is_object(arguments):
        out.append(indented(in_full(arguments), 4))
    for name, value in arguments.items() if is_object(arguments) else ():
        lines = in_full({name: value})
        cut = lines if in_whole else lines[:ARGUMENT_LINES_SHOWN_MAX]
        out.append(indented(cut, 4))
        if len(cut) < len(lines):
            out.append(plain(f"    … {len(lines) - len(cut)} more lines are not shown here", "yellow"))
        out += _sources(name, asked, lineage)
    if asked.changed:
        out.append(plain("  changed since it was last shown", "yellow"))
        out += [indented([changed_text(difference, in_whole=in_whole)], 4) for difference in asked.changed]
    return out


def where_of(asked: AskedAction) -> str:
    return asked.step if asked.item is None else f"{asked.step}, item {asked.item}"


def is_cut(asked: AskedAction) -> bool:
    """Whether ``approval_view`` leaves anything out unless asked for all."""
    arguments = asked.shown.get("arguments")
    long = is_object(arguments) and any(
        len(in_full({name: value})) > ARGUMENT_LINES_SHOWN_MAX for name, value in arguments.items()
    )
    return long or any(changed_text(d) != changed_text(d, in_whole=True) for d in asked.changed)


def changed_text(difference: Difference, *, in_whole: bool = False) -> str:
    """One difference: where, before → after."""
    longest = 10**9 if in_whole else DIFFERENCE_CHARS_SHOWN_MAX
    before = "nothing" if difference.absent == "before" else _quoted(difference.before, longest)
    after = "nothing" if difference.absent == "after" else _quoted(difference.after, longest)
    return f"{one_line(difference.pointer or '/', 400)}: {before} → {after}"


def confined_to(asked: AskedAction, name: str) -> list[str]:
    """What the operator confined the capability to, under ``name``: its ``roots``, for one."""
    verdict = asked.shown.get("verdict")
    scope = verdict.get("scope") if is_object(verdict) else None
    values = scope.get(name) if is_object(scope) else None
    return [value for value in values if isinstance(value, str)] if is_array(values) else []


def _quoted(value: Json, longest: int) -> str:
    return one_line(json.dumps(value, ensure_ascii=False), longest)


def _risk(shown: JsonObject) -> list[Text]:
    effects = _text(shown.get("effects"))
    return [Text("  "), word(_text(shown.get("risk")) or "unknown"), plain(f" risk{', ' if effects else ''}{effects}")]


def _scope(verdict: Json) -> list[str]:
    """``roots /a, /b``: what the operator confined the capability to."""
    scope = verdict.get("scope") if is_object(verdict) else None
    if not is_object(scope):
        return []
    return [
        f"{name} {', '.join(map(one_line, value)) if is_array(value) else one_line(value)}"
        for name, value in scope.items()
    ]


def _sources(name: str, asked: AskedAction, lineage: Lineage | None) -> list[RenderableType]:
    """Where the values below one argument come from, and whether somebody outside wrote them."""
    out: list[RenderableType] = []
    sources = asked.shown.get("sources")
    for source in sources if is_array(sources) else ():
        if is_object(source) and _is_below(name, _text(source.get("argument"))):
            outside = source.get("untrusted") is True
            where = f"{_inside(_text(source.get('argument')))} {_text(source.get('from'))}"
            out.append(plain(f"      ↑{where}{f' ({OUTSIDE})' if outside else ''}", "yellow" if outside else "dim"))
    if lineage is None:
        return out
    facts = lineage.facts.get(asked.step, StepFacts())
    for pointer, steps in facts.derives_from.items():
        if not _is_below(name, pointer):
            continue
        origins = ", ".join(f"{step} {lineage.plan.step(step).capability}" for step in steps)
        outside = pointer in facts.untrusted
        note = f"      ↑{_inside(pointer)} made from {origins}" + (f" ({OUTSIDE})" if outside else "")
        if pointer in facts.untrusted_sinks:
            note += ": it decides where this goes"
        out.append(plain(note, "yellow" if outside else "dim"))
    return out


def _is_below(name: str, pointer: str) -> bool:
    tokens = pointer_tokens(pointer)
    return bool(tokens) and tokens[0] == name


def _inside(pointer: str) -> str:
    tokens = pointer_tokens(pointer)
    return f" {'/'.join(tokens[1:])}" if len(tokens) > 1 else ""


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""

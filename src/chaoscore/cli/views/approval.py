"""One waiting action as a person must see it before saying yes: everything it will do, and why it is asked."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import RenderableType
from rich.text import Text

from chaoscore.cli.terminal import visible
from chaoscore.cli.views.words import in_full, indented, one_line, plain, title, word
from chaoscore.domain.action import Action
from chaoscore.domain.capability import Capability
from chaoscore.domain.json import Json, is_array, pointer_tokens
from chaoscore.domain.plan import Plan, StepFacts

ARGUMENT_LINES_SHOWN_MAX = 120


def approval_view(
    action: Action,
    plan: Plan,
    facts: StepFacts,
    capabilities: Mapping[str, Capability],
    place: str,
    *,
    in_whole: bool = False,
) -> list[RenderableType]:
    """``place`` says which of how many this is."""
    step = plan.step(action.step)
    where = action.step if action.item is None else f"{action.step}, item {action.item}"
    shown: list[RenderableType] = [
        Text(),
        Text.assemble(title(f"approval {place}  "), where, (f"  {visible(step.why)}" if step.why else "", "dim")),
        Text.assemble(("  capability  ", "dim"), action.capability, *_effects(capabilities.get(action.capability))),
    ]
    if action.verdict is not None:
        shown.append(Text.assemble(("  asked by    ", "dim"), action.verdict.rule))
        shown += [plain(f"              {why}", "dim") for why in action.verdict.reasons if why != action.verdict.rule]
        shown += [Text.assemble(("  confined to ", "dim"), line) for line in _scope(action.verdict.scope)]
    shown.append(plain("  arguments", "dim"))
    for name, value in (action.arguments or {}).items():
        lines = in_full({name: value})
        cut = lines if in_whole else lines[:ARGUMENT_LINES_SHOWN_MAX]
        shown.append(indented(cut, 4))
        if len(cut) < len(lines):
            shown.append(plain(f"    … {len(lines) - len(cut)} more lines: answer v to see everything", "yellow"))
        shown += _sources(name, plan, facts)
    return shown


def is_cut(action: Action) -> bool:
    """Whether ``approval_view`` leaves lines out unless asked for all."""
    return any(len(in_full({k: v})) > ARGUMENT_LINES_SHOWN_MAX for k, v in (action.arguments or {}).items())


def _effects(capability: Capability | None) -> list[Text]:
    if capability is None:
        return []
    hints = capability.annotations
    says = [word(capability.risk), plain(" risk")]
    if not hints.read_only:
        says.append(plain(", changes things"))
    if hints.destructive and not hints.read_only:
        says.append(plain(", can destroy"))
    if hints.open_world:
        says.append(plain(", reaches outside"))
    return [Text("  "), *says]


def _scope(scope: Mapping[str, Json]) -> list[str]:
    """``roots /a, /b``: what the operator confined the capability to."""
    return [
        f"{name} {', '.join(map(one_line, value)) if is_array(value) else one_line(value)}"
        for name, value in scope.items()
    ]


def _sources(name: str, plan: Plan, facts: StepFacts) -> list[RenderableType]:
    """Where the values below one argument come from, and whether somebody outside wrote them."""
    out: list[RenderableType] = []
    for pointer, steps in facts.derives_from.items():
        tokens = pointer_tokens(pointer)
        if not tokens or tokens[0] != name:
            continue
        inside = f" {'/'.join(tokens[1:])}" if len(tokens) > 1 else ""
        sources = ", ".join(f"{step} {plan.step(step).capability}" for step in steps)
        outside = pointer in facts.untrusted
        note = f"      ↑{inside} from {sources}" + (" (written outside)" if outside else "")
        if pointer in facts.untrusted_sinks:
            note += ": it decides where this goes"
        out.append(plain(note, "yellow" if outside else "dim"))
    return out

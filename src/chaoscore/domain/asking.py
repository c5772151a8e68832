"""The words of a run's question, made from facts alone: the same facts always make the same document.

It exists apart from ``approval`` so that what a person reads can be read, and changed, in one place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from chaoscore.domain.action import Action
from chaoscore.domain.approval import DENY, DENY_ALL, AskedAction, DecisionKind, RunDecision, option_id
from chaoscore.domain.interaction.decision import Decision, Option
from chaoscore.domain.interaction.marks import marked
from chaoscore.domain.interaction.names import KERNEL_RUN, instant_text
from chaoscore.domain.json import Json, JsonObject, brief, digest, is_array, is_object

DIGEST_CHARS = 12
DESCRIPTION_CHARS_MAX = 60_000
CONTEXT_CHARS_MAX = 200_000


@dataclass(frozen=True, slots=True)
class Setting:
    """What a question is about: the run's public label, the plan's objective and author, the question's own id."""

    decision: str
    run: str
    objective: str
    author: str
    dependants: dict[str, tuple[str, ...]]
    created_at: float
    expires_at: float
    doors: tuple[str, ...] = ()


def session_of(run: str) -> str:
    """The id of the session that stands for a run in the interactions folder."""
    return f"{KERNEL_RUN}{run}"


def command_of(run: str) -> str:
    """Its source command: the first word names the run, so that no rule about duplicates ever joins two runs."""
    return f"chaoscore-{run} execute"


def approval_question(setting: Setting, actions: Sequence[AskedAction]) -> Decision:
    """Confirm one action, or choose among several; what is not chosen is denied."""
    prefix = digest([action.digest for action in actions]).removeprefix("sha256:")[:DIGEST_CHARS]
    if len(actions) == 1:
        (action,) = actions
        name = str(action.shown["capability"])
        title = f"Approve {name} in run {setting.run} · {prefix}"
        denial = Option(DENY, "Deny", _after_no(setting, actions), "it does not run, now or later in this run")
        options: tuple[Option, ...] = (_approve(action, "Approve: run it once, exactly as shown"), denial)
        kind = "confirmation"
    else:
        title = f"Approve {len(actions)} actions of run {setting.run} · {prefix}"
        options = (
            *(_approve(action, f"Approve {_where(action)}: {action.shown['capability']}") for action in actions),
            Option(DENY_ALL, "Deny all", _after_no(setting, actions), "none of them runs, now or later in this run"),
        )
        kind = "multi-choice-decision"
    context = "\n\n".join([_opening(setting, len(actions)), *(_told(action) for action in actions)])
    return _decision(setting, "approval", kind, title, context, options)


def preface(decision: RunDecision) -> str:
    """What a question says before it comes to its actions; all of it where it does not end with them."""
    told = "".join(f"\n\n{_told(action)}" for action in decision.actions)
    return decision.question.context.removesuffix(told)


def outcome_question(setting: Setting, asked: AskedAction, action: Action) -> Decision:
    """Nobody knows whether the effect happened: a person looks and says."""
    prefix = asked.digest.removeprefix("sha256:")[:DIGEST_CHARS]
    name = action.capability
    title = f"What became of {name} in run {setting.run}? · {prefix}"
    why = action.error.message if action.error is not None else "its process ended before the result was recorded"
    lines = [
        f"Goal: {brief(setting.objective, 2_000)}",
        f"The effect of {_where(asked)} ({name}) may or may not have happened: {why}.",
        f"It began {_at(action.started_at)}, attempt {action.attempt}. Look at what it acts on before you answer.",
    ]
    if action.evidence is not None:
        lines.append(f"A late result arrived and was kept as evidence:\n{_pretty(action.evidence)}")
    options = (
        Option(
            "happened", "It happened", "count it as done; steps that need its output get none", "nothing runs again"
        ),
        Option("retry", "Run it again", "only when it certainly did not happen", "if it did happen, it happens twice"),
        Option("give-up", "Give it up", "count it as failed", "steps that depend on it are skipped"),
    )
    context = "\n\n".join([*lines, _told(asked)])
    return _decision(setting, "outcome", "single-choice-decision", title, context, options)


def _decision(
    setting: Setting,
    kind: DecisionKind,
    interaction: str,
    title: str,
    context: str,
    options: tuple[Option, ...],
) -> Decision:
    return Decision(
        decision_id=setting.decision,
        command_run_id=session_of(setting.run),
        change_id=None,
        source_command=command_of(setting.run),
        interaction_type=interaction,
        state="waiting",
        title=title,
        context=_cut(context, CONTEXT_CHARS_MAX),
        options=options,
        created_at=instant_text(int(setting.created_at * 1000)),
        independent=True,
        expires_at=instant_text(int(setting.expires_at * 1000)),
        created_by="chaos-core",
        metadata=marked({}, kernel=True, kind=kind, run=setting.run, doors=list(setting.doors)),
    )


def _approve(action: AskedAction, label: str) -> Option:
    risk = action.shown.get("risk")
    text = _pretty(action.shown.get("arguments"))
    return Option(
        action.option,
        label,
        _cut(text, DESCRIPTION_CHARS_MAX),
        f"it runs once with exactly these arguments ({action.digest})",
        risk if isinstance(risk, str) else None,
    )


def _opening(setting: Setting, count: int) -> str:
    what = "One action waits" if count == 1 else f"{count} actions wait"
    return (
        f"Goal: {brief(setting.objective, 2_000)}\nPlan written by: {setting.author}\n"
        f"{what} for a person. What is not approved is denied. "
        f"Without an answer by {instant_text(int(setting.expires_at * 1000))} it counts as no."
    )


def _told(action: AskedAction) -> str:
    """One action in full, as text."""
    shown = action.shown
    lines = [f"{_where(action)}: {shown['capability']}, risk {shown.get('risk', 'unknown')}"]
    for key, words in (("description", "does"), ("why", "why"), ("effects", "effects"), ("rule", "rule that asks")):
        value = shown.get(key)
        if isinstance(value, str) and value:
            lines.append(f"  {words}: {value}")
    reasons = shown.get("reasons")
    if is_array(reasons) and reasons:
        lines.append("  reasons: " + "; ".join(str(reason) for reason in reasons))
    lines.append("  arguments: " + _pretty(shown.get("arguments")).replace("\n", "\n  "))
    sources = shown.get("sources")
    for source in sources if is_array(sources) else ():
        if is_object(source):
            trust = ", untrusted" if source.get("untrusted") is True else ""
            lines.append(f"  {source.get('argument')} comes from {source.get('from')}{trust}")
    for difference in action.changed:
        before = "nothing" if difference.absent == "before" else brief(difference.before, 400)
        after = "nothing" if difference.absent == "after" else brief(difference.after, 400)
        lines.append(f"  changed since it was last shown: {difference.pointer or '/'}: {before} → {after}")
    return "\n".join(lines)


def _after_no(setting: Setting, actions: Sequence[AskedAction]) -> str:
    names = list(dict.fromkeys(name for a in actions for name in setting.dependants.get(a.step, ())))
    if not names:
        return "nothing else depends on it" if len(actions) == 1 else "nothing else depends on them"
    return f"what depends on it is skipped: {', '.join(names)}"


def _where(action: AskedAction) -> str:
    return f"step {action.step}" if action.item is None else f"step {action.step}, item {action.item}"


def _pretty(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _cut(text: str, chars_max: int) -> str:
    if len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}\n… {len(text) - chars_max} more characters; chaoscore decide shows everything"


def _at(seconds: float | None) -> str:
    return "at an unknown time" if seconds is None else f"at {instant_text(int(seconds * 1000))}"


def shown_action(
    *,
    capability: str,
    risk: str,
    description: str,
    effects: str,
    why: str,
    arguments: Json,
    verdict: JsonObject,
    sources: Sequence[JsonObject],
) -> dict[str, Json]:
    """What a person is shown of an action; secrets are already left out by the caller."""
    return {
        "capability": capability,
        "risk": risk,
        "description": description,
        "effects": effects,
        "why": why,
        "arguments": arguments,
        "rule": verdict.get("rule"),
        "reasons": verdict.get("reasons", []),
        "verdict": verdict,
        "sources": list(sources),
    }


__all__ = [
    "Setting",
    "approval_question",
    "command_of",
    "option_id",
    "outcome_question",
    "preface",
    "session_of",
    "shown_action",
]

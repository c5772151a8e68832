"""A question as a human must see it before answering, and the lists of what waits, runs and is locked."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from chaoscore.cli.terminal import visible
from chaoscore.cli.views.words import indented, one_line, plain, rows, title, when, whole_ids, word
from chaoscore.domain.approval import RunDecision
from chaoscore.domain.interaction.names import instant_ms
from chaoscore.domain.json import Json, JsonObject, is_array, is_object

CONTEXT_LINES_SHOWN_MAX = 200
_KINDS = {
    "single-choice-decision": "choose one",
    "multi-choice-decision": "choose one or more",
    "confirmation": "confirm",
    "freeform-input": "answer in writing",
}


def text_of(value: Json) -> str:
    return value if isinstance(value, str) else ""


def options_of(question: JsonObject) -> list[JsonObject]:
    options = question.get("options")
    return [option for option in options if is_object(option)] if is_array(options) else []


def question_view(question: JsonObject, *, in_whole: bool = False) -> list[RenderableType]:
    """Everything a human needs: context, options with what follows from them, and until when."""
    shown: list[RenderableType] = [
        Text(),
        Text.assemble(
            title(one_line(text_of(question.get("title")), 400)),
            ("   ", ""),
            kind_text(text_of(question.get("interactionType"))),
        ),
        labelled("decision", text_of(question.get("decisionId"))),
        labelled("asked by", f"{text_of(question.get('createdBy'))}  run {text_of(question.get('commandRunId'))}"),
    ]
    if question.get("changeId"):
        shown.append(labelled("change", text_of(question.get("changeId"))))
    shown.append(labelled("asked at", text_of(question.get("createdAt"))))
    if question.get("expiresAt"):
        shown.append(labelled("until", text_of(question.get("expiresAt"))))
    shown += [Text(), *block(text_of(question.get("context")), in_whole), Text()]
    if question.get("recommendation"):
        shown += [plain("recommended by the asker", "dim"), *block(text_of(question.get("recommendation")), in_whole)]
        shown.append(Text())
    for option in options_of(question):
        shown += option_view(option, question)
    if question.get("requiresRationale") is True:
        shown += [Text(), plain("a reason is required", "yellow")]
    return shown


def option_view(option: JsonObject, question: JsonObject) -> list[RenderableType]:
    name = text_of(option.get("id"))
    recommended = option.get("recommended") is True or question.get("recommendedOptionId") == name
    head = Text.assemble("  ", title(name), "  ", plain(one_line(text_of(option.get("label")), 400)))
    if recommended:
        head.append("  recommended", "green")
    shown: list[RenderableType] = [head]
    for key, style in (("description", ""), ("consequence", ""), ("risk", "red")):
        value = text_of(option.get(key))
        if value:
            label = "" if key == "description" else f"{key}: "
            shown += [plain(f"      {label if not at else ''}{line}", style) for at, line in enumerate(_lines(value))]
    return shown


def waiting_table(waiting: Sequence[RunDecision | JsonObject]) -> Table:
    """What waits, of both kinds, in the order given."""
    return whole_ids(rows(("decision", "question", "about", "asked at", "until"), map(_waiting_row, waiting)), 0)


def _waiting_row(question: RunDecision | JsonObject) -> tuple[str, ...]:
    if isinstance(question, RunDecision):
        times = (when(question.created_at), when(question.expires_at))
        return (question.id, one_line(question.question.title, 60), "a run", *times)
    change = text_of(question.get("changeId"))
    return (
        text_of(question.get("decisionId")),
        one_line(text_of(question.get("title")), 60),
        f"change {change}" if change else f"agent {text_of(question.get('createdBy'))}".strip(),
        instant(question.get("createdAt")),
        instant(question.get("expiresAt")),
    )


def instant(value: Json) -> str:
    """A written time as the reader's local time; as it stands where it is none."""
    at = instant_ms(text_of(value))
    return when(at / 1000) if at is not None else text_of(value) or "–"


def sessions_table(sessions: Sequence[JsonObject]) -> Table:
    lines = [
        (
            text_of(session.get("commandRunId")),
            word(text_of(session.get("state"))),
            one_line(text_of(session.get("sourceCommand")), 40),
            text_of(session.get("changeId")) or "–",
            text_of(session.get("lastSeenAt")),
        )
        for session in sessions
    ]
    return whole_ids(rows(("run", "state", "command", "change", "last seen"), lines), 0)


def locks_table(locks: Sequence[JsonObject]) -> Table:
    lines = []
    for lock in locks:
        state = word(text_of(lock.get("state")))
        if lock.get("stale") is True:
            state.append(" stale", "red")
        lines.append(
            (
                text_of(lock.get("changeId")),
                state,
                text_of(lock.get("reason")),
                text_of(lock.get("lockedByCommandRunId")),
                text_of(lock.get("createdAt")),
                text_of(lock.get("staleReason")) or "–",
            )
        )
    return whole_ids(rows(("change", "state", "reason", "held by", "since", "note"), lines), 3)


def capsule_view(capsule: JsonObject) -> list[RenderableType]:
    """What is needed to go on."""
    context = capsule.get("contextCapsule")
    about = context if is_object(context) else {}
    shown: list[RenderableType] = [
        labelled("run", text_of(capsule.get("commandRunId"))),
        labelled("command", text_of(capsule.get("sourceCommand"))),
        labelled("next step", text_of(capsule.get("nextStep"))),
    ]
    if capsule.get("lastCompletedStep"):
        shown.append(labelled("done", text_of(capsule.get("lastCompletedStep"))))
    shown.append(labelled("intent", text_of(about.get("intent"))))
    if about.get("selectedPath"):
        shown.append(labelled("chosen", text_of(about.get("selectedPath"))))
    for key, label in (
        ("approvedScope", "approved"),
        ("constraints", "must hold"),
        ("openRisks", "risks"),
        ("forbiddenActions", "forbidden"),
    ):
        shown += _items(label, about.get(key))
    return [*shown, *_items("needs files", capsule.get("requiredArtifacts"))]


def kind_text(interaction_type: str) -> Text:
    return plain(_KINDS.get(interaction_type, ""), "dim")


def labelled(label: str, value: str) -> Text:
    return Text.assemble((f"{label:<11} ", "dim"), plain(one_line(value, 1_000)))


def _items(label: str, value: Json) -> list[RenderableType]:
    items = [item for item in value if isinstance(item, str)] if is_array(value) else []
    return [labelled(label if not at else "", item) for at, item in enumerate(items)]


def block(value: str, in_whole: bool) -> list[RenderableType]:
    lines = _lines(value)
    cut = lines if in_whole else lines[:CONTEXT_LINES_SHOWN_MAX]
    shown: list[RenderableType] = [indented(cut, 2)]
    if len(cut) < len(lines):
        shown.append(plain(f"  … {len(lines) - len(cut)} more lines: --full shows everything", "yellow"))
    return shown


def is_long(value: str) -> bool:
    """Whether ``block`` leaves lines out unless asked for all."""
    return len(_lines(value)) > CONTEXT_LINES_SHOWN_MAX


def _lines(value: str) -> list[str]:
    return visible(value, lines=True).split("\n")

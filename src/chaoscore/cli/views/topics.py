"""What ``chaoscore_inspect`` answers, drawn: lists as tables, single things in full."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import RenderableType
from rich.text import Text

from chaoscore.cli.views.words import in_full, one_line, plain, rows, title, when, whole_ids, word
from chaoscore.domain.json import Json, JsonObject, is_array, is_object

Columns = tuple[tuple[str, Callable[[JsonObject], "str | Text"]], ...]


def topic_view(what: str, message: str, data: JsonObject) -> list[RenderableType]:
    known = _TABLES.get(what)
    if known is None:
        return [title(message), *(plain(line) for line in in_full(data))]
    key, columns = known
    found = data.get(key)
    things = [thing for thing in found if is_object(thing)] if is_array(found) else []
    if what == "capabilities" and len(things) == 1:
        return [title(message), *(plain(line) for line in in_full(things[0]))]
    shown: list[RenderableType] = [title(message)]
    if things:
        made = rows([name for name, _ in columns], [[cell(thing) for _, cell in columns] for thing in things])
        shown.append(whole_ids(made, 0) if what == "decisions" else made)
    if things and isinstance(data.get("how"), str):
        shown.append(plain(str(data["how"]), "dim"))
    if isinstance(data.get("cursor"), str):
        shown.append(plain(f"more: add --cursor {data['cursor']}", "dim"))
    return shown


def _text(key: str, longest: int = 80) -> Callable[[JsonObject], str]:
    return lambda thing: one_line(_shown(thing.get(key)), longest)


def _word(key: str) -> Callable[[JsonObject], Text]:
    return lambda thing: word(str(thing.get(key)))


def _time(key: str) -> Callable[[JsonObject], str]:
    return lambda thing: when(thing.get(key))


def _effect(thing: JsonObject) -> Text:
    verdict = thing.get("verdict")
    return word(str(verdict.get("effect"))) if is_object(verdict) else plain("–")


def _tags(thing: JsonObject) -> str:
    tags = thing.get("tags")
    return ", ".join(str(tag) for tag in tags) if is_array(tags) else ""


def _asked(thing: JsonObject) -> str:
    """What a question is about: each action's step, item and capability."""
    actions = thing.get("actions")
    shown = []
    for action in actions if is_array(actions) else ():
        if is_object(action):
            item = action.get("item")
            place = f"{action.get('step')}" if item is None else f"{action.get('step')},{item}"
            shown.append(one_line(f"{place} {action.get('capability')}"))
    return ", ".join(shown)


def _shown(value: Json) -> Json:
    return "–" if value is None else value


_TABLES: dict[str, tuple[str, Columns]] = {
    "capabilities": (
        "capabilities",
        (("capability", _text("name")), ("risk", _word("risk")), ("policy", _effect), ("", _text("description", 90))),
    ),
    "runs": (
        "runs",
        (
            ("run", _text("label")),
            ("status", _word("status")),
            ("since", _time("created_at")),
            ("goal", _text("objective")),
        ),
    ),
    "decisions": (
        "decisions",
        (
            ("decision", _text("decision")),
            ("kind", _text("kind")),
            ("asks about", _asked),
            ("until", _time("expires_at")),
            ("folder", _text("folder_problem", 60)),
        ),
    ),
    "audit": (
        "events",
        (
            ("event", _text("seq")),
            ("when", _time("at")),
            ("what", _text("kind")),
            ("step", _text("step")),
            ("", _text("data")),
        ),
    ),
    "memory": (
        "memories",
        (("key", _text("key")), ("value", _text("value", 60)), ("tags", _tags), ("version", _text("version"))),
    ),
}

"""A plan as somebody wrote it into a file: the same JSON that ``chaoscore_plan`` takes, or its steps alone."""

from __future__ import annotations

import sys
from pathlib import Path

from chaoscore.app.plans import NewPlan
from chaoscore.cli.json_text import parse_json
from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import is_array, is_object

KEYS = ("objective", "intent", "steps", "constraints", "change_id")
FILE_BYTES_MAX = 4_194_304


def read_plan(path: str, objective: str | None, constraints: list[str]) -> NewPlan:
    """``-`` reads standard input; ``objective`` takes the place of the file's. Raises ``InvalidInput``."""
    name = "standard input" if path == "-" else repr(path)
    value = parse_json(_text(path, name), name)
    if is_array(value):
        return NewPlan(objective=objective, steps=value, constraints=tuple(constraints))
    if not is_object(value) or "steps" not in value:
        raise InvalidInput(f'{name} is not a plan: write {{"objective": "…", "steps": […]}} or the steps alone')
    for key in value:
        if key not in KEYS and key != "$schema":
            raise InvalidInput(f"{name} has an unknown key {key!r}; there are {', '.join(KEYS)}", key=key)
    more = value.get("constraints", [])
    if not is_array(more) or not all(isinstance(text, str) for text in more):
        raise InvalidInput(f"constraints in {name} must be a list of texts", key="constraints")
    intent, written, change = value.get("intent"), value.get("objective"), value.get("change_id")
    return NewPlan(
        objective=objective or (written if isinstance(written, str) else None),
        intent=intent if is_object(intent) else None,
        steps=value["steps"],
        constraints=(*(str(text) for text in more), *constraints),
        change_id=change if isinstance(change, str) else None,
    )


def _text(path: str, name: str) -> str:
    try:
        if path == "-":
            data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read: {(error.strerror or 'unknown error').lower()}") from None
    if len(data) > FILE_BYTES_MAX:
        raise InvalidInput(f"{name} has more than {FILE_BYTES_MAX} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name} is not UTF-8 text (byte {error.start})") from None

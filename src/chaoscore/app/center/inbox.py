"""What waits for a person, from everywhere, in one list: oldest first, a page at a time.

Two ordered streams (the database, the folders) are merged. A page's cursor holds the place in each of them, so that
answers given meanwhile never make a page skip something.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass

from chaoscore.app.center.folders import Folder, FolderQuestion
from chaoscore.app.ports import Clock, DecisionStore
from chaoscore.domain.approval import WaitingDecision
from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.interaction.decision import Decision
from chaoscore.domain.interaction.fields import WrongShape

RUNS = "runs"
"""Where questions of the kernel's runs come from; other sources are keys of folders."""
CURSOR_CHARS_MAX = 600
SUMMARY_CHARS_MAX = 160
WARNINGS_MAX = 10


@dataclass(frozen=True, slots=True)
class InboxItem:
    """One line of the list. ``blocking``: work stands still until it is answered. ``simple``: it can be answered
    together with others, because it is a confirmation that stands for itself."""

    source: str
    id: str
    title: str
    asked_by: str
    about: str
    summary: str
    blocking: bool
    needs_person: bool
    simple: bool
    digest: str
    created_at: float
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class InboxPage:
    """``total`` counts everything that waits, ``cursor`` continues the list."""

    items: tuple[InboxItem, ...]
    total: int
    cursor: str | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    row: int = 0
    folder: tuple[float, str, str] = (-1.0, "", "")

    def text(self) -> str:
        raw = json.dumps([self.row, *self.folder], separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    @classmethod
    def read(cls, text: str) -> _Place:
        """Raises ``InvalidInput`` for a cursor that is not ours."""
        try:
            if len(text) > CURSOR_CHARS_MAX:
                raise ValueError("too long")
            value = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            row, created, folder, name = value
            if type(row) is not int or not 0 <= row < 2**62 or not isinstance(created, int | float):
                raise ValueError("not a place")
            return cls(row, (float(created), str(folder), str(name)))
        except (ValueError, TypeError, RecursionError, OverflowError):
            raise InvalidInput("this page's address is not one of ours; begin at the first page", key="after") from None


class Inbox:
    def __init__(self, decisions: DecisionStore, folders: Sequence[Folder], clock: Clock) -> None:
        self._decisions = decisions
        self._folders = folders
        self._clock = clock

    async def page(self, cursor: str | None, limit: int) -> InboxPage:
        """Raises ``InvalidInput`` for a foreign cursor and ``StorageError``."""
        place, now = _Place.read(cursor) if cursor else _Place(), self._clock.now()
        rows, total, unreadable = await self._decisions.waiting_after(place.row, limit + 1, now)
        warnings = list(unreadable[:WARNINGS_MAX])
        asked: list[FolderQuestion] = []
        for folder in self._folders:
            found, problems = await folder.waiting()
            asked += found
            warnings += problems
        asked.sort(key=lambda question: question.place)
        later = [question for question in asked if question.place > place.folder]
        items, at = _merged(rows, later, place, limit)
        more = len(rows) + len(later) > len(items)
        return InboxPage(items, total + len(asked), at.text() if more else None, tuple(warnings))


def _merged(
    rows: Sequence[WaitingDecision], questions: Sequence[FolderQuestion], place: _Place, limit: int
) -> tuple[tuple[InboxItem, ...], _Place]:
    items: list[InboxItem] = []
    row, question = 0, 0
    at_row, at_folder = place.row, place.folder
    while len(items) < limit and (row < len(rows) or question < len(questions)):
        is_row = question >= len(questions) or (
            row < len(rows) and rows[row].created_at <= questions[question].created_at
        )
        if is_row:
            items.append(_of_run(rows[row]))
            at_row = rows[row].place
            row += 1
        else:
            items.append(_of_agent(questions[question]))
            at_folder = questions[question].place
            question += 1
    return tuple(items), _Place(at_row, at_folder)


def _of_run(row: WaitingDecision) -> InboxItem:
    about = ", ".join(row.capabilities[:4]) + (", …" if len(row.capabilities) > 4 else "")
    return InboxItem(
        source=RUNS,
        id=row.id,
        title=row.title,
        asked_by=f"run {row.run}",
        about=about if row.actions == 1 else f"{row.actions} actions: {about}",
        summary=row.summary,
        blocking=True,  # its run rests until somebody answers
        needs_person=row.mode == "human",
        simple=row.interaction_type == "confirmation",
        digest=row.digest,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )


def _of_agent(question: FolderQuestion) -> InboxItem:
    document = question.document
    independent = document.get("independent") is True
    return InboxItem(
        source=question.folder,
        id=question.id,
        title=_text(document.get("title")),
        asked_by=_text(document.get("sourceCommand")) or _text(document.get("commandRunId")),
        about=_text(document.get("changeId")),
        summary=" ".join(_text(document.get("context"))[:SUMMARY_CHARS_MAX].split()),
        blocking=not independent,
        needs_person=False,
        simple=independent
        and document.get("interactionType") == "confirmation"
        and document.get("requiresRationale") is not True,
        digest=_text(document.get("decisionHash")) or _digest(document),
        created_at=question.created_at,
        expires_at=question.expires_at,
    )


def _digest(document: object) -> str:
    try:
        return Decision.from_json(document).digest()  # type: ignore[arg-type]
    except WrongShape:
        return ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""

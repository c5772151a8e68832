"""What the doctor needs to look at, as a port. Every method only reads; none raises for what it finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from chaoscore.domain.interaction.errors import Violation
from chaoscore.domain.json import Json

EntryKind = Literal["absent", "folder", "file", "other", "leads-out"]
Kind = Literal["session", "decision", "response", "capsule", "runner"]


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON file. ``name`` is what it should be about; ``problem`` says why there is no ``value``."""

    path: str
    name: str
    value: Json = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log. ``whole`` is false for a last line without its newline."""

    number: int
    value: Json = None
    problem: str | None = None
    whole: bool = True


@dataclass(frozen=True, slots=True)
class WriteLockFacts:
    """``.runtime.lock`` as it stands. ``holder`` in words."""

    state: Literal["free", "held", "dead", "unreadable", "directory"]
    holder: str = ""
    seconds: float = 0.0


class Evidence(Protocol):
    """Paths are relative to the interactions root, with ``/``; those of ``repository_*`` to the repository."""

    @property
    def root(self) -> str: ...

    @property
    def repository(self) -> str: ...

    @property
    def schema_dir(self) -> str: ...

    def shown(self, path: str) -> str:
        """A path below the root as a person knows it: from the repository where possible."""
        ...

    def entry(self, path: str) -> EntryKind:
        """``""`` is the root itself. ``leads-out`` is a symbolic link to somewhere outside the root."""
        ...

    def document(self, path: str) -> Document | None:
        """``None`` when nothing is there."""
        ...

    def documents(self, kind: Kind) -> Iterator[Document]:
        """All of a kind in enumeration order, one at a time. Broken files come too, with their problem."""
        ...

    def lines(self, path: str) -> Iterator[Line]:
        """A JSONL file, one line at a time; nothing for one that is not there."""
        ...

    def schema_kinds(self) -> Sequence[str]: ...

    def schema_problem(self, kind: str) -> str | None:
        """``missing``, or why the workspace's schema cannot be used; ``None`` when it can."""
        ...

    def violations(self, kind: str, value: Json) -> Sequence[Violation]:
        """Against the built-in schema and the workspace's."""
        ...

    def write_lock(self) -> WriteLockFacts: ...

    def leftovers(self) -> Sequence[str]:
        """Temporary files that no live writer can still own."""
        ...

    def restrictions(self) -> Sequence[str]:
        """What this file system cannot do, as sentences."""
        ...

    def repository_entry(self, path: str) -> EntryKind: ...

    def repository_text(self, path: str) -> str | None:
        """A text file of the repository, ``None`` when it is not there or cannot be read."""
        ...

    def repository_lines(self, path: str) -> Iterator[Line]: ...

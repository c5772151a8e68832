"""The nine schemas: embedded in the package, seeded into the workspace, checked on every write.

The built-in copy is the floor. A workspace copy may only tighten: it is read once per process, as every peer does, and
one that cannot be used refuses the documents of its kind by name.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from chaoscore.adapters.files.interaction.encoding import NotJson, loads, pretty
from chaoscore.adapters.files.interaction.fileops import FileOps, storage_error
from chaoscore.adapters.files.interaction.validator import BadSchema, Schema
from chaoscore.domain.interaction.errors import MalformedState, SchemaViolation
from chaoscore.domain.json import Json, JsonObject, is_array, is_object

KINDS = (
    "active", "audit-event", "decision", "index", "lock", "response", "resume-capsule", "runner-lease", "session",
)  # fmt: skip
_SCHEMA_BYTES_MAX = 1 << 20


@cache
def builtin_document(kind: str) -> JsonObject:
    text = files(__package__).joinpath(f"schemas/{kind}.schema.json").read_text("utf-8")
    document: JsonObject = json.loads(text)
    return document


@cache
def builtin(kind: str) -> Schema:
    return Schema(builtin_document(kind))


def file_name(kind: str) -> str:
    return f"{kind}.schema.json"


class Schemas:
    """Validation of what is about to be written."""

    def __init__(self, directory: Path, use_workspace: bool) -> None:
        self._directory = directory
        self._use_workspace = use_workspace
        self._workspace: dict[str, Schema | None] = {}

    def require(self, kind: str, label: str, document: JsonObject) -> None:
        """Raises ``SchemaViolation``; ``MalformedState`` when the workspace schema cannot be used."""
        violations = builtin(kind).violations(document)
        if not violations and self._use_workspace:
            own = self._own(kind)
            try:
                violations = own.violations(document) if own is not None else []
            except BadSchema as error:
                raise _unusable(file_name(kind), str(error)) from None
        if violations:
            raise SchemaViolation(label, violations)

    def has_own(self, kind: str) -> bool:
        """Whether the workspace says something of its own about the kind (also something unusable)."""
        try:
            return self._use_workspace and self._own(kind) is not None
        except MalformedState:
            return True

    def problem(self, kind: str) -> str | None:
        """Why the workspace's copy cannot be used; ``None`` when it can, and when there is none."""
        try:
            own = self._own(kind)
            if own is not None:
                own.violations({})
        except MalformedState as error:
            return error.message
        except BadSchema as error:
            return str(error)
        return None

    def _own(self, kind: str) -> Schema | None:
        """``None`` when there is none, or when it says what the built-in one says."""
        if kind not in self._workspace:
            self._workspace[kind] = self._load(kind)
        return self._workspace[kind]

    def _load(self, kind: str) -> Schema | None:
        name = file_name(kind)
        try:
            with (self._directory / name).open("rb") as file:
                data = file.read(_SCHEMA_BYTES_MAX + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unusable(name, (error.strerror or "failed").lower()) from error
        try:
            if len(data) > _SCHEMA_BYTES_MAX:
                raise BadSchema(f"it has more than {_SCHEMA_BYTES_MAX} bytes")
            document = loads(data)
            return None if _rules(document) == _rules(builtin_document(kind)) else Schema(document)
        except (NotJson, BadSchema, RecursionError) as error:
            raise _unusable(name, str(error) or "it is nested too deeply") from None


def _rules(schema: Json) -> Json:
    """The schema without words for humans: a copy that differs only in those says what the built-in one says."""
    if is_object(schema):
        return {
            key: _rules(child)
            for key, child in schema.items()
            if not (key in ("title", "description", "$comment", "$schema", "default") and not is_object(child))
        }
    return [_rules(child) for child in schema] if is_array(schema) else schema


def _unusable(name: str, why: str) -> MalformedState:
    return MalformedState(
        f"schema/{name} cannot be used: {why}; repair or remove it (it is written anew when missing)",
        path=f"schema/{name}",
    )


def has_any(directory: Path) -> bool:
    try:
        return any(name.endswith(".schema.json") for name in os.listdir(directory))
    except OSError:
        return False


def missing(directory: Path) -> list[str]:
    """The kinds without a file."""
    return [kind for kind in KINDS if not os.path.lexists(directory / file_name(kind))]


def seed(
    directory: Path, ops: FileOps, force: bool = False, kinds: Sequence[str] = KINDS
) -> tuple[list[str], list[str]]:
    """Write the schema files that are missing (or all); which were written and which skipped.

    Existing files are never overwritten without ``force``. Raises ``StorageError``.
    """
    written, skipped = [], []
    try:
        os.makedirs(directory, exist_ok=True)
        for kind in kinds:
            path = str(directory / file_name(kind))
            if os.path.lexists(path) and not force:
                skipped.append(file_name(kind))
                continue
            _write(ops, path, builtin_document(kind))
            written.append(file_name(kind))
    except OSError as error:
        raise storage_error(error, "schema") from error
    return written, skipped


def _write(ops: FileOps, path: str, document: Json) -> None:
    """Complete or not at all: peers cache what they read for the life of their process."""
    temporary = f"{os.path.dirname(path)}/.{os.path.basename(path)}.{os.getpid()}.{os.urandom(6).hex()}.tmp"
    fd = ops.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        try:
            rest = pretty(document)
            while rest:
                rest = rest[ops.write(fd, rest) :]
        finally:
            ops.close(fd)
        ops.rename(temporary, path)
    except OSError:
        try:
            ops.unlink(temporary)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
        raise

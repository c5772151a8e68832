"""``fs.list``: what is in a folder, as entries whose paths go straight into ``fs.read_text``.

The gate stands above it, ``confine`` below. Only what could be read is listed; the rest is counted.
"""

from __future__ import annotations

import asyncio
import os
import stat

from chaoscore.adapters.capabilities.fs.confine import Confinement, Guard, Place, open_inside, reported
from chaoscore.adapters.capabilities.fs.glob import PATTERN_CHARS_MAX, Glob
from chaoscore.adapters.capabilities.fs.names import PATH_CHARS_MAX, name_fault
from chaoscore.adapters.capabilities.fs.options import FsOptions
from chaoscore.app.ports import HandlerContext, Provided
from chaoscore.domain.capability import Annotations, Capability, Sink
from chaoscore.domain.errors import NotPerformed
from chaoscore.domain.json import Json, JsonObject

NAME = "fs.list"
TOO_MANY = "FS_TOO_MANY"


def provide(confinement: Confinement, options: FsOptions) -> Provided:
    async def list_folder(arguments: JsonObject, _: HandlerContext) -> Json:
        glob = arguments.get("glob")
        matcher = Glob(glob) if isinstance(glob, str) else None
        recursive = bool(arguments.get("recursive", matcher is not None and matcher.goes_down))
        walk = _Walk(confinement, options, matcher, recursive)
        return await asyncio.to_thread(walk.run, str(arguments["path"]))

    return Provided(_capability(confinement, options), list_folder)


def _capability(confinement: Confinement, options: FsOptions) -> Capability:
    return Capability(
        name=NAME,
        description=(
            "List a folder among those the operator opened, sorted by path. With a glob: only the files that match. At "
            f"most {options.entries_max} entries; more fail, so narrow the path or the glob. Each entry's path can be "
            "given to fs.read_text."
        ),
        risk="low",
        input_schema={
            "type": "object",
            "required": ["path"],
            "additionalProperties": False,
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": PATH_CHARS_MAX,
                    "description": "a folder; '.' is the first open folder itself; absolute within any",
                },
                "glob": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": PATTERN_CHARS_MAX,
                    "description": "files only: '*.md' by name, 'guide/**/*.md' by path from the folder that is listed",
                },
                "recursive": {
                    "type": "boolean",
                    "description": "look into folders below; true by itself when the glob contains '/'",
                },
            },
        },
        output_schema={
            "type": "object",
            "required": ["entries", "skipped"],
            "additionalProperties": False,
            "properties": {
                "entries": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["path", "kind", "bytes"],
                        "additionalProperties": False,
                        "properties": {
                            "path": {"type": "string", "description": "as fs.* takes it back"},
                            "kind": {"type": "string", "enum": ["file", "directory"]},
                            "bytes": {
                                "type": ["integer", "null"],
                                "description": "size of a file; null for a directory",
                            },
                        },
                    },
                },
                "skipped": {
                    "type": "integer",
                    "description": "how many were left out because fs.* never touches them: links, devices, .git, …",
                },
            },
        },
        annotations=Annotations(read_only=True, idempotent=True, destructive=False, open_world=False),
        untrusted_output=True,
        sinks=(Sink("/path", "path"),),
        builtin=True,
        scope={"roots": list(confinement.roots)},
    )


class _Walk:
    """One listing. Holds one descriptor per level, so what is listed below a folder is what is in that folder."""

    def __init__(self, confinement: Confinement, options: FsOptions, glob: Glob | None, recursive: bool) -> None:
        self._confinement = confinement
        self._options = options
        self._glob = glob
        self._recursive = recursive
        self._found: list[tuple[tuple[str, ...], dict[str, Json]]] = []
        self._visited = 0
        self._skipped = 0

    def run(self, path: str) -> dict[str, Json]:
        place = self._confinement.locate(path)
        guard = self._confinement.guard()
        with self._confinement.folder(place, guard) as folder, reported(place):
            self._enter(folder, place, (), guard)
        self._found.sort(key=lambda item: item[0])
        return {"entries": [entry for _, entry in self._found], "skipped": self._skipped}

    def _enter(self, folder: int, place: Place, below: tuple[str, ...], guard: Guard) -> None:
        own = os.fstat(folder)
        for name in self._names(folder, place):
            try:
                info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                continue  # gone since the folder was read
            inner = place.child(name)
            if inner.protected_here() is not None or guard.covers(own, name, info):
                self._skipped += 1
            elif stat.S_ISDIR(info.st_mode):
                self._folder(folder, name, inner, (*below, name), guard)
            elif stat.S_ISREG(info.st_mode) and info.st_nlink <= 1:
                if self._glob is None or self._glob.matches((*below, name)):
                    self._add(below, inner, name, "file", info.st_size)
            else:
                self._skipped += 1

    def _names(self, folder: int, place: Place) -> list[str]:
        names: list[str] = []
        with os.scandir(folder) as found:
            for entry in found:
                self._visited += 1
                if self._visited > self._options.visited_max:
                    most = self._options.visited_max
                    raise NotPerformed(
                        f"{place.shown!r} and what is below it has more than {most} entries", code=TOO_MANY
                    )
                # A name that is not UTF-8, or that a path could not carry, could not be given back.
                if name_fault(entry.name) is None:
                    names.append(entry.name)
                else:
                    self._skipped += 1
        return names

    def _folder(self, held: int, name: str, place: Place, below: tuple[str, ...], guard: Guard) -> None:
        if self._glob is None:
            self._add(below[:-1], place, name, "directory", None)
        if not self._recursive:
            return
        if len(below) > self._options.depth_max:
            most = self._options.depth_max
            raise NotPerformed(f"{place.shown!r} is more than {most} folders deep; list a deeper folder", code=TOO_MANY)
        try:
            inner = open_inside(held, name, place, guard)
        except NotPerformed:
            self._skipped += 1  # not ours to enter, or changed meanwhile
            return
        try:
            self._enter(inner, place, below, guard)
        finally:
            os.close(inner)

    def _add(self, below: tuple[str, ...], place: Place, name: str, kind: str, size: int | None) -> None:
        if len(self._found) >= self._options.entries_max:
            most = self._options.entries_max
            raise NotPerformed(f"more than {most} entries; narrow the path or the glob", code=TOO_MANY)
        self._found.append(((*below, name), {"path": place.shown, "kind": kind, "bytes": size}))

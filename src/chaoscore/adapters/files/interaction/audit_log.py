"""``audit.jsonl`` and each decision's own part of it: one line per event, one append per operation.

A tail that a crash tore off is fenced by a newline, so that it spoils one line and never the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import islice

from chaoscore.adapters.files.interaction.encoding import line
from chaoscore.adapters.files.interaction.fileops import FileOps
from chaoscore.adapters.files.interaction.folder import Folder
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction.names import AUDIT_PATH
from chaoscore.domain.json import JsonObject

_BATCH_LINES = 200


def append(folder: Folder, lines: Sequence[JsonObject], durable: bool) -> tuple[list[str], int]:
    """Append all lines: warnings naming the files that could not be written, and how much the whole log grew."""
    if not lines:
        return [], 0
    parts: dict[str, list[bytes]] = {AUDIT_PATH: []}
    for document in lines:
        encoded = line(document)
        parts[AUDIT_PATH].append(encoded)
        decision = document.get("decisionId")
        if isinstance(decision, str) and decision:
            parts.setdefault(f"decisions/{decision}/audit.jsonl", []).append(encoded)
    warnings, grown = [], 0
    for relative, chunks in parts.items():
        try:
            data = b"".join(chunks)
            if relative != AUDIT_PATH:
                folder.require_inside(relative.rpartition("/")[0])
            torn = _append(folder.ops, folder.path(relative), data, durable and relative == AUDIT_PATH)
            if relative == AUDIT_PATH:
                grown = len(data) + torn
            if torn:
                warnings.append(f"{relative} had a torn last line; it was fenced off")
        except ChaosError as error:
            warnings.append(f"{error.message}; the audit line was not written")
        except OSError as error:
            why = (error.strerror or "failed").lower()
            warnings.append(f"{relative}: the audit line could not be written ({why}); what it would record happened")
    return warnings, grown


def archive(folder: Folder, relative: str, lines: Iterable[JsonObject]) -> list[str]:
    """Append lines to a file of ours in the archive; warnings when it cannot be done."""
    try:
        directory = relative.rpartition("/")[0]
        if not os.path.isdir(folder.path(directory)):
            folder.ops.mkdir(folder.path(directory))
        folder.require_inside(directory)
        rest = iter(lines)
        while batch := b"".join(line(document) for document in islice(rest, _BATCH_LINES)):
            _append(folder.ops, folder.path(relative), batch, False)
    except ChaosError as error:
        return [error.message]
    except OSError as error:
        return [f"{relative} could not be written ({(error.strerror or 'failed').lower()})"]
    return []


def _append(ops: FileOps, path: str, data: bytes, durable: bool) -> bool:
    """Whether a torn tail was fenced."""
    fd = ops.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
    try:
        size = ops.fstat(fd).size
        torn = size > 0 and ops.pread(fd, 1, size - 1) != b"\n"
        rest = b"\n" + data if torn else data
        while rest:
            rest = rest[ops.write(fd, rest) :]
        if durable:
            ops.fdatasync(fd)
        return torn
    finally:
        ops.close(fd)

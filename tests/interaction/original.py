"""A peer that locks and writes as the original does, faults included: it deletes a lock it finds empty or that vanished
while it looked, checks no owner when it releases, and writes the whole lock table back as it read it.

Run as ``python -m tests.interaction.original ROOT COUNT NAME``: COUNT times, add one lock entry of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path


def acquire(path: Path) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            if breakable(path):
                with contextlib.suppress(OSError):
                    path.unlink()
                continue
            time.sleep(0.003)
            continue
        os.write(fd, json.dumps({"pid": os.getpid(), "at": int(time.time() * 1000)}, separators=(",", ":")).encode())
        os.close(fd)
        return True
    return False


def breakable(path: Path) -> bool:
    try:
        record = json.loads(path.read_text())
        pid, at = record["pid"], record["at"]
    except (OSError, ValueError, KeyError, TypeError):
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return bool(time.time() * 1000 - at >= 15_000)


def add_lock(root: Path, name: str) -> None:
    path = root / "locks.json"
    empty = '{"schemaVersion": 1, "locks": [], "updatedAt": "x"}'
    table = json.loads(path.read_text() if path.exists() else empty)
    table["locks"].append(
        {
            "schemaVersion": 1, "lockId": name, "changeId": f"change-{name}", "lockedByCommandRunId": "RUN-theirs",
            "lockedByCommand": "chaos:theirs", "reason": "manual-hold", "state": "active", "blockingDecisionIds": [],
            "compatibleCommands": [], "createdAt": "2026-01-02T03:04:05.678Z", "expiresAt": None, "releasedAt": None,
            "metadata": {},
        }
    )  # fmt: skip
    temporary = root / f".locks.json.{os.getpid()}.{int(time.time() * 1000)}.abc.tmp"
    temporary.write_text(json.dumps(table, indent=2) + "\n")
    temporary.rename(path)


def main(root: Path, count: int, name: str) -> int:
    path = root / ".runtime.lock"
    for number in range(count):
        if not acquire(path):
            return 1
        add_lock(root, f"LOCK-{name}-{number}")
        path.unlink(missing_ok=True)
        time.sleep(0.001)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))

"""What somebody can do to an audit who holds its key and may write every file: the chain then holds."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from chaoscore.domain.audit import GENESIS, chain_mac


def taken_out(data: Path, seq: int) -> None:
    """One event less; every later link, and the checkpoint, made anew. ``data`` is the data directory."""
    key = (data / "audit.key").read_bytes()
    with sqlite3.connect(data / "chaoscore.db") as database:
        rows = database.execute("SELECT principal, run, body FROM audit WHERE seq != ? ORDER BY seq", (seq,)).fetchall()
        for trigger in ("audit_is_never_changed", "audit_is_never_deleted"):
            database.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        database.execute("DELETE FROM audit")
        mac = GENESIS
        for place, row in enumerate(rows, 1):
            mac = chain_mac(key, place, mac, row[2])
            database.execute(
                "INSERT INTO audit (seq, principal, run, body, mac) VALUES (?, ?, ?, ?, ?)", (place, *row, mac)
            )
    database.close()
    (data / "audit.head").write_bytes(b"%020d %s\n" % (len(rows), mac.encode("ascii")))

"""The product itself behind raw pipes and sockets, for tests of what only the wire shows.

``python -m tests.mcp.product stdio {"cwd": …, "env": {…}}`` is ``chaoscore serve --stdio`` in that folder.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mcp.support import PATIENCE_SECONDS, HttpServer, RawStdio, raw_stdio


def environment(directory: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "PYTHONPATH", "VIRTUAL_ENV")}
    return {
        **kept,
        "HOME": str(directory),
        "CHAOS_CORE_DATA_DIR": str(directory / "data"),
        "CHAOS_CORE_FS_ROOTS": str(directory / "work"),
    }


@contextmanager
def stdio_product(directory: Path, **more: str) -> Iterator[RawStdio]:
    """`chaoscore serve --stdio`, before its first message."""
    options = {"cwd": str(directory), "env": environment(directory) | more}
    with raw_stdio(options, handshake=False, module="tests.mcp.product") as server:
        yield server


@contextmanager
def http_product(directory: Path, **more: str) -> Iterator[HttpServer]:
    """`chaoscore serve --http` on a free port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "chaoscore.cli", "serve", "--http", "--port", "0"],
        cwd=directory,
        env=environment(directory) | more,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        port, log = None, ""
        for line in process.stderr:
            log += line.decode()
            if found := re.search(rb"listening on http://\S+?:(\d+)", line):
                port = int(found[1])
                break
        assert port is not None, f"the server did not start: {log}"
        yield HttpServer(process, port, log)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
        process.stderr.close()


def main() -> None:
    options = json.loads(sys.argv[-1])
    os.chdir(options["cwd"])
    os.environ.clear()
    os.environ.update(options["env"])
    os.execv(sys.executable, [sys.executable, "-m", "chaoscore.cli", "serve", f"--{sys.argv[1]}"])


if __name__ == "__main__":
    main()

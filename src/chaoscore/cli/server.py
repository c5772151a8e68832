"""Starting the MCP server. Imports nothing that only a person at a terminal needs: every agent starts its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from chaoscore.cli.exits import Exit
from chaoscore.cli.logs import configure_logs
from chaoscore.settings import load_settings
from chaoscore.settings.sources import Flags


def start_stdio(flags: Flags, environ: Mapping[str, str], cwd: Path) -> int:
    """Serve until the client closes its end. Standard output belongs to the protocol, whatever the settings say."""
    settings = load_settings(flags, environ, cwd)
    configure_logs(settings)
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(
            "this is an MCP server and speaks JSON-RPC on standard input and output; a client starts it "
            "(chaoscore install --help), Ctrl-C ends it\n"
        )
    import asyncio

    from chaoscore.bootstrap import serve_stdio

    asyncio.run(serve_stdio(settings))
    return Exit.OK


def start_http(flags: Flags, environ: Mapping[str, str], cwd: Path) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    settings = load_settings(flags, environ, cwd)
    configure_logs(settings, stdout_is_free=True)
    import asyncio

    from chaoscore.bootstrap import serve_http

    asyncio.run(serve_http(settings))
    return Exit.OK

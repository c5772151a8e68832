"""Starting the MCP server. Imports nothing that only a person at a terminal needs: every agent starts its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from chaoscore.cli.exits import Exit
from chaoscore.cli.logs import configure_logs
from chaoscore.settings import load_settings
from chaoscore.settings.sources import Flags

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from chaoscore.bootstrap_center import CenterEntry


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

    from chaoscore.adapters.mcp.stdio_fds import claim_standard_streams, loading

    fds = claim_standard_streams()  # before anything else is imported: whatever prints then does not reach the wire
    with loading():
        import chaoscore.adapters.mcp.stdio  # noqa: F401  (bootstrap imports it when it serves; here it is loaded in time)
        from chaoscore.bootstrap import serve_stdio

    asyncio.run(serve_stdio(settings, fds))
    return Exit.OK


def start_http(
    flags: Flags, environ: Mapping[str, str], cwd: Path, repository: str | None = None, *, worker: bool = True
) -> int:
    """Serve until SIGTERM or Ctrl-C; ``repository`` is the one whose human decisions are served beside the kernel.
    Without ``worker`` an answered run goes on only when somebody calls."""
    from chaoscore.settings.interaction import load_interaction_settings

    settings = load_settings(flags, environ, cwd)
    interactions = load_interaction_settings({"repo-root": repository} if repository else {}, environ, cwd)
    configure_logs(settings, stdout_is_free=True)
    import asyncio

    from chaoscore.bootstrap import serve_http

    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(serve_http(settings, interactions, worker=worker, on_center=tell_of_the_center))
    return Exit.OK


def tell_of_the_center(entry: CenterEntry) -> None:
    """How to come in, on standard error and in no log: whoever reads it can answer for the operator."""
    sys.stderr.write(
        f"Decision Center: {entry.page}\n"
        f"  come in once, within 15 minutes: {entry.link}\n"
        f"  or with this token, until the server ends: {entry.token}\n"
    )
    sys.stderr.flush()


def fast_loop() -> Callable[[], AbstractEventLoop] | None:
    """uvloop's event loop, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop

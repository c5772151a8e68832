"""``chaoscore decide --web``: the Decision Center on this machine for as long as somebody needs it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.exits import Exit

if TYPE_CHECKING:
    from chaoscore.bootstrap_center import CenterEntry

HOST = "127.0.0.1"
_TERMINAL_ONLY = (
    "decision", "change", "run", "option", "approve_all", "deny_all", "text", "rationale", "by", "hash", "pin_stdin",
    "go_on", "json",
)  # fmt: skip


def add_web(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("in a browser")
    group.add_argument(
        "--web", action="store_true", help=f"answer in a browser: serve the Decision Center at {HOST} until Ctrl-C"
    )
    group.add_argument("--port", metavar="PORT", help="with --web: the port to listen on (default: any free one)")
    group.add_argument("--worker", action="store_true", help="with --web: go on with runs here once they are answered")
    group.add_argument("--no-browser", action="store_true", help="with --web: open no browser, only print the link")


def wants_web(args: argparse.Namespace) -> bool:
    """Raises ``InvalidInput`` for options that do not go together."""
    from chaoscore.domain.errors import InvalidInput

    if not args.web:
        for name in ("port", "worker", "no_browser"):
            if getattr(args, name):
                raise InvalidInput(f"--{name.replace('_', '-')} goes with --web", key=name)
        return False
    others = [name for name in _TERMINAL_ONLY if getattr(args, name, None)]
    if others:
        name = "DECISION" if others[0] == "decision" else f"--{others[0].replace('_', '-')}"
        raise InvalidInput(f"--web answers in the browser; leave {name} out", key=others[0])
    return True


def serve_web(call: Call) -> int:
    """Until Ctrl-C or SIGTERM. Raises ``ConfigurationInvalid`` when it cannot listen."""
    import asyncio
    from dataclasses import replace
    from tempfile import TemporaryDirectory

    from chaoscore.bootstrap import serve_http
    from chaoscore.cli.interactions import settings_of
    from chaoscore.cli.logs import configure_logs
    from chaoscore.cli.server import fast_loop, tell_of_the_center

    settings = call.settings()
    if call.args.port is None:
        settings = replace(settings, port=0)
    # Nobody but this machine: names and origins that a server is told to admit are for that server.
    settings = replace(settings, host=HOST, allowed_hosts=(), allowed_origins=())
    configure_logs(settings, level="warning")
    interactions = settings_of(call)

    with TemporaryDirectory(prefix="chaoscore-center-") as folder:

        def tell(entry: CenterEntry) -> None:
            tell_of_the_center(entry)
            sys.stderr.write("  Ctrl-C ends it\n")
            sys.stderr.flush()
            if not call.args.no_browser and has_display(call.environ):
                open_browser(entry.link, Path(folder))

        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            runner.run(serve_http(settings, interactions, worker=call.args.worker, tools=False, on_center=tell))
    return Exit.OK


def has_display(environ: Mapping[str, str]) -> bool:
    """Whether a browser would have somewhere to appear."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def open_browser(link: str, folder: Path) -> None:
    """Open the link by way of a file that only this user can read: other users see every program's arguments."""
    import threading
    import webbrowser
    from html import escape

    page = folder / "open.html"
    handle = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(
            '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0;url={escape(link)}"><title>Decision Center</title>'
            f'<p><a href="{escape(link)}">Open the Decision Center</a>'
        )
    # A browser of the terminal would hold up the server.
    threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()

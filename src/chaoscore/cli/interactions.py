"""What the commands about human decisions share: their options, the runtime they open, how an envelope ends them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from chaoscore.cli.exits import Exit

if TYPE_CHECKING:
    from chaoscore.app.envelope import Envelope
    from chaoscore.bootstrap_interaction import Interactions
    from chaoscore.cli.call import Call
    from chaoscore.settings.interaction import InteractionSettings

_EXITS = {
    "VALIDATION_ERROR": Exit.USAGE,
    "SCHEMA_VALIDATION_ERROR": Exit.USAGE,
    "TOO_LARGE": Exit.USAGE,
    "RUNTIME_BUSY": Exit.RUNNING,
    "NO_SPACE": Exit.STORAGE,
    "READ_ONLY": Exit.STORAGE,
    "PERMISSION": Exit.STORAGE,
    "IO_ERROR": Exit.STORAGE,
    "MALFORMED_STATE": Exit.STORAGE,
    "INTERNAL_ERROR": Exit.INTERNAL,
}
_FLAGS = ("repo_root", "root", "schema_dir", "config")


def add_interaction_options(parser: argparse.ArgumentParser) -> None:
    """Where the folder is, and what every command understands."""
    group = parser.add_argument_group("common options")
    group.add_argument(
        "--repo-root",
        metavar="DIR",
        help="the repository (CHAOS_REPOSITORY_ROOT; default: the nearest folder upwards that has .chaos/interactions)",
    )
    group.add_argument(
        "--root", metavar="DIR", help="the interactions folder (CHAOS_INTERACTIONS_ROOT; REPO/.chaos/interactions)"
    )
    group.add_argument("--schema-dir", metavar="DIR", help="the schemas (CHAOS_INTERACTIONS_SCHEMA_DIR; ROOT/schema)")
    group.add_argument("--config", metavar="FILE", help="JSON settings, as chaos-interaction-mcp takes them")
    group.add_argument("--debug", action="store_true", help="show the traceback of an unexpected error")
    group.add_argument("--json", action="store_true", help="answer with one JSON document on standard output")


def settings_of(call: Call) -> InteractionSettings:
    """Raises ``ConfigurationInvalid``."""
    from chaoscore.settings.interaction import load_interaction_settings

    flags = {name.replace("_", "-"): getattr(call.args, name) for name in _FLAGS if getattr(call.args, name)}
    settings = load_interaction_settings(flags, call.environ, call.cwd, search_upwards=True)
    for warning in settings.warnings:
        call.terminal.warn(warning)
    return settings


def with_interactions(call: Call, work: Callable[[Interactions], Awaitable[int]]) -> int:
    """Open the folder, do the work, close it. A command makes no folder and sweeps nothing: servers do."""
    import asyncio

    from chaoscore.bootstrap_interaction import open_interactions
    from chaoscore.cli.interaction_server import configure_interaction_logs

    settings = settings_of(call)
    configure_interaction_logs("warn")

    async def all_of_it() -> int:
        async with open_interactions(settings, start=False) as runtime:
            return await work(runtime)

    return asyncio.run(all_of_it())


def told(call: Call, envelope: Envelope) -> int:
    """Say what an operation answered that is not shown otherwise, and the exit code of it."""
    for warning in envelope.warnings:
        call.terminal.warn(warning)
    if call.terminal.as_json:
        call.terminal.answer(envelope.to_json())
    if envelope.ok:
        return envelope_exit(envelope)
    call.terminal.error(envelope.message, envelope.next_action)
    return envelope_exit(envelope)


def envelope_exit(envelope: Envelope) -> Exit:
    """The exit code of what an operation answered."""
    return Exit.OK if envelope.ok else _EXITS.get(envelope.error_code or "", Exit.FAILED)


def this_person() -> str:
    """The name under which an answer of this terminal is recorded."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name[:160]
    except (ImportError, KeyError):
        return "cli-user"

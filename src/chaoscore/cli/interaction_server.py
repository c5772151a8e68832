"""``chaos-interaction-mcp``: the human-decision server on stdio, with the flags of the original.

Every agent starts its own, so nothing is imported that only a person at a terminal needs. Standard output belongs to
the protocol: help, errors and logs go to standard error. Exit codes: 0 done, 1 it cannot start, 2 a flag or setting is
wrong.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from chaoscore.domain.errors import ChaosError, ConfigurationInvalid
from chaoscore.settings.interaction import (
    LOG_LEVELS,
    InteractionLogLevel,
    InteractionSettings,
    load_interaction_settings,
)

DONE, CANNOT_START, WRONG_SETTING = 0, 1, 2
VALUES = ("repo-root", "root", "schema-dir", "log-level", "config")
SWITCHES = ("validate", "answer-bridge")
MODES = ("seed-schemas", "force", "help", "version")
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")

HELP = f"""\
usage: chaos-interaction-mcp [options]

The human-decision MCP server on standard input and output: decisions, sessions, change locks and resume capsules as
JSON files in a repository. A client starts it; docs/decisions.md shows how.

  --repo-root DIR      the repository (CHAOS_REPOSITORY_ROOT; default: the working directory)
  --root DIR           the interactions folder (CHAOS_INTERACTIONS_ROOT; default: REPO/.chaos/interactions)
  --schema-dir DIR     the schemas (CHAOS_INTERACTIONS_SCHEMA_DIR; default: ROOT/schema)
  --[no-]validate      check documents against the folder's own schemas too (CHAOS_INTERACTION_VALIDATE; default: yes)
  --[no-]answer-bridge offer chaos_answer_decision (CHAOS_INTERACTION_ANSWER_BRIDGE; default: yes)
  --log-level LEVEL    {", ".join(LOG_LEVELS)} (CHAOS_INTERACTION_LOG_LEVEL; default: info)
  --config FILE        JSON with repositoryRoot, root, schemaDir, validate, logLevel, answerBridge
  --seed-schemas       write the schema files that are missing, and exit; with --force all of them
  --version, --help

A flag beats the environment, the environment beats the config file. --key=value is the same as --key value.
"""


def run(argv: Sequence[str] | None = None) -> int:
    """The console script. Answers the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if "--help" in arguments or "-h" in arguments:
        sys.stderr.write(HELP)
        return DONE
    try:
        flags = parse(arguments)
        if "version" in flags:
            from chaoscore import __version__

            sys.stderr.write(f"chaos-interaction-mcp {__version__}\n")
            return DONE
        settings = load_interaction_settings(flags, os.environ, _cwd())
    except ConfigurationInvalid as error:
        return _complain(error.message, WRONG_SETTING)
    try:
        return _seed(settings, "force" in flags) if "seed-schemas" in flags else _serve(settings)
    except ChaosError as error:
        return _complain(error.message, CANNOT_START)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return _complain(f"it cannot start: {type(error).__name__}: {error}", CANNOT_START)


def parse(arguments: Sequence[str]) -> Mapping[str, str | bool]:
    """The flags without their dashes; the last one wins, and ``--no-…`` over its opposite wherever it stands.

    Raises ``ConfigurationInvalid`` naming what is not understood.
    """
    out: dict[str, str | bool] = {}
    refused: set[str] = set()
    rest = list(arguments)
    while rest:
        token = rest.pop(0)
        name, equals, value = token[2:].partition("=")
        if not token.startswith("--"):
            raise _unknown(token, "every argument is a flag or the value of one")
        given = value if equals else None
        if name in VALUES:
            if given is None:
                if not rest or rest[0].startswith("--"):
                    raise _unknown(token, "it needs a value")
                given = rest.pop(0)
            out[name] = given
        elif name.removeprefix("no-") in SWITCHES:
            if given is None and rest and rest[0].lower() in (*_TRUE, *_FALSE):
                given = rest.pop(0)
            wanted = _truth(token, given) != name.startswith("no-")
            switch = name.removeprefix("no-")
            if not wanted:
                refused.add(switch)
            out[switch] = wanted
        elif name in MODES and not equals:
            out[name] = True
        else:
            known = [*VALUES, *SWITCHES, *(f"no-{switch}" for switch in SWITCHES), *MODES]
            near = get_close_matches(name, known, n=1)
            raise _unknown(token, f"did you mean --{near[0]}?" if near else "--help lists the flags")
    return {**out, **dict.fromkeys(refused, False)}


def _truth(token: str, given: str | None) -> bool:
    if given is None:
        return True
    if given.lower() not in (*_TRUE, *_FALSE):
        raise _unknown(token, f"{given[:80]!r} is neither true nor false")
    return given.lower() in _TRUE


def _unknown(token: str, why: str) -> ConfigurationInvalid:
    return ConfigurationInvalid(f"{token[:80]!r} is not understood: {why}", variable=token[:80])


def _seed(settings: InteractionSettings, force: bool) -> int:
    from chaoscore.bootstrap_interaction import seed_schemas

    written, skipped = seed_schemas(settings, force)
    sys.stderr.write(
        f"schemas in {settings.schema_dir}: {len(written)} written, {len(skipped)} kept as they were"
        f"{' (--force writes them too)' if skipped else ''}\n"
    )
    return DONE


def _serve(settings: InteractionSettings) -> int:
    configure_interaction_logs(settings.log_level)
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write("this is an MCP server and speaks JSON-RPC on standard input and output; Ctrl-C ends it\n")
    import asyncio

    from chaoscore.adapters.mcp.stdio_fds import claim_standard_streams
    from chaoscore.bootstrap_interaction import require_usable_root, serve_interaction_stdio

    require_usable_root(settings)
    fds = claim_standard_streams()
    asyncio.run(serve_interaction_stdio(settings, fds))
    return DONE


def configure_interaction_logs(level: InteractionLogLevel) -> None:
    """One line per event on standard error, in the form of every other program of ours."""
    from chaoscore.cli.logs import install_handler

    install_handler(sys.stderr, "warning" if level == "warn" else level, ())


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"chaos-interaction-mcp: {message}\n")
    return code


def _cwd() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ConfigurationInvalid("the working directory is gone; change to one that exists") from None


if __name__ == "__main__":
    sys.exit(run())

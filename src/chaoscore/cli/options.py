"""The argument parser's looks, and the options that many commands share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

from chaoscore.cli.exits import Exit
from chaoscore.settings.model import LOG_LEVELS, PROVIDERS

if TYPE_CHECKING:
    from chaoscore.cli.call import Call

SETTING_OPTIONS = (
    "data_dir",
    "policy_path",
    "fs_roots",
    "provider",
    "log_level",
    "host",
    "port",
    "allowed_hosts",
    "allowed_origins",
)
"""What options and ``Settings`` call alike."""


class Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=100)
        self._action_max_length = 14  # argparse forgets the indent of sub-commands when it looks for the widest


class Parser(argparse.ArgumentParser):
    """Errors as ``error: …`` and ``help: …``; options are never guessed from their first letters."""

    def __init__(
        self,
        prog: str | None = None,
        usage: str | None = None,
        description: str | None = None,
        epilog: str | None = None,
        **more: object,
    ) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=Formatter,
            allow_abbrev=False,
            add_help=bool(more.get("add_help", True)),
        )

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"error: {message}\nhelp: {self.prog} --help\n")
        sys.exit(int(Exit.USAGE))

    def _check_value(self, action: argparse.Action, value: object) -> None:
        choices = [str(choice) for choice in action.choices or ()]
        if choices and value not in choices:
            near = get_close_matches(str(value), choices, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(choices)}"
            raise argparse.ArgumentError(action, f"unknown {value!r}; {hint}")


def examples(*lines: tuple[str, str]) -> str:
    """The epilog of a command: what to type and what it is for."""
    return "examples:\n" + "\n".join(f"  {command}\n      {meaning}" for command, meaning in lines)


def add_common(parser: argparse.ArgumentParser, *, json: bool = True) -> None:
    """What every command understands."""
    group = parser.add_argument_group("common options")
    group.add_argument(
        "--data-dir", dest="data_dir", metavar="DIR", help="where plans, runs, memories and audit are kept"
    )
    group.add_argument(
        "--policy", dest="policy_path", metavar="FILE", help="the policy file (default: in the data directory)"
    )
    group.add_argument("--log-level", dest="log_level", choices=LOG_LEVELS, metavar="LEVEL", help=", ".join(LOG_LEVELS))
    group.add_argument("--debug", action="store_true", help="show the traceback of an unexpected error")
    if json:
        group.add_argument("--json", action="store_true", help="answer with one JSON document on standard output")


def add_roots(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--root",
        dest="fs_roots",
        action="append",
        metavar="DIR",
        help="a folder that fs.* may touch, besides CHAOS_CORE_FS_ROOTS (repeat for more)",
    )


def add_provider(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--provider", choices=PROVIDERS, metavar="NAME", help=f"who plans: {', '.join(PROVIDERS)}")


def setting_flags(args: argparse.Namespace) -> Mapping[str, str | Sequence[str] | None]:
    """The settings among the options, as ``load_settings`` takes them."""
    return {name: getattr(args, name, None) for name in SETTING_OPTIONS}


def whole(low: int, high: int) -> Callable[[str], int]:
    """The type of an option that takes a whole number within bounds."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return read


class Subcommands:
    """The commands below one command: each with its own help, each leading to one function."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._group = parser.add_subparsers(dest="subcommand", metavar="COMMAND", required=True, parser_class=Parser)

    def add(self, name: str, about: str, work: Callable[[Call], int]) -> argparse.ArgumentParser:
        made = self._group.add_parser(name, help=about, description=about[:1].upper() + about[1:] + ".")
        made.set_defaults(work=work)
        return made

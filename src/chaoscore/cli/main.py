"""The two entry points. Everything heavier than parsing is imported by the command that needs it.

``chaos-core-mcp`` is started by every agent for itself, so its way to the server passes no table, colour or command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chaoscore.cli.exits import Exit, exit_of, help_of
from chaoscore.domain.errors import ChaosError, ConfigurationInvalid

if TYPE_CHECKING:
    import argparse

    from chaoscore.cli.terminal import Terminal


def run(argv: Sequence[str] | None = None) -> int:
    """``chaoscore``: the umbrella. Answers the exit code; see ``exits``."""
    from chaoscore.cli.parser import chaoscore_parser

    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = chaoscore_parser()
    if not arguments:
        return _guarded(lambda: _print(parser.format_help()))
    return _guarded(lambda: _dispatch(parser.parse_args(arguments)))


def run_kernel_server(argv: Sequence[str] | None = None) -> int:
    """``chaos-core-mcp``: the server alone, on stdio unless told otherwise."""
    arguments = list(sys.argv[1:] if argv is None else argv)

    def serve() -> int:
        if arguments in ([], ["--stdio"]):
            from chaoscore.cli.server import start_stdio

            return start_stdio({}, os.environ, _cwd())
        from chaoscore.cli.commands.serve import serve_with
        from chaoscore.cli.parser import server_parser

        args = server_parser().parse_args(arguments)
        return serve_with(args, os.environ, _cwd())

    return _guarded(serve, debug="--debug" in arguments)


def _dispatch(args: argparse.Namespace) -> int:
    from chaoscore.cli.call import Call
    from chaoscore.cli.suggesting import keep_flags
    from chaoscore.cli.terminal import Terminal

    terminal = Terminal(
        environ=os.environ, as_json=getattr(args, "json", False), may_ask=not getattr(args, "no_input", False)
    )
    work: Callable[[Call], int] = args.work

    def begin() -> int:
        cwd = _cwd()
        keep_flags(args, cwd)
        return work(Call(args, os.environ, cwd, terminal))

    return _guarded(begin, args.debug, terminal)


def _guarded(work: Callable[[], int], debug: bool = False, terminal: Terminal | None = None) -> int:
    """Every way a command can end becomes an exit code; nobody but ``--debug`` sees a traceback."""
    try:
        code = work()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Python would try to flush once more at its end and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.BROKEN_PIPE
    except KeyboardInterrupt:
        if terminal is None or not terminal.told_of_interrupt:
            _complain("interrupted", None)
        return Exit.INTERRUPTED
    except ChaosError as error:
        if debug:
            raise
        return _explain(error, terminal)
    except Exception as error:
        if debug:
            raise
        _complain(f"unexpected {type(error).__name__}: {error}", "run it again with --debug and report what it shows")
        return Exit.INTERNAL


def _explain(error: ChaosError, terminal: Terminal | None) -> int:
    lines = [error.message]
    faults = error.details.get("faults")
    if isinstance(faults, list) and not (len(faults) == 1 and str(faults[0]["message"]) in error.message):
        for fault in faults:
            where = fault.get("pointer") or fault.get("key") or ""
            suggestion = f" ({fault['suggestion']})" if fault.get("suggestion") else ""
            lines.append(f"  {where}: {fault['message']}{suggestion}" if where else f"  {fault['message']}{suggestion}")
    _complain("\n".join(lines), help_of(error))
    if terminal is not None and terminal.as_json:
        terminal.answer(
            {"ok": False, "error": {"code": error.code, "message": error.message, "details": error.details}}
        )
    return exit_of(error)


def _complain(message: str, help_line: str | None) -> None:
    from chaoscore.cli.terminal import visible

    text = f"error: {visible(message, lines=True)}\n" + (f"help: {help_line}\n" if help_line else "")
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # nobody is there to be told


def _print(text: str) -> int:
    sys.stdout.write(text)
    return Exit.OK


def _cwd() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ConfigurationInvalid(
            "the working directory is gone; change to one that exists", variable="the working directory"
        ) from None


if __name__ == "__main__":
    sys.exit(run_kernel_server())

"""``chaoscore pin``: the PIN with which a person shows that it is they who approve. Typed, never shown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.exits import Exit
from chaoscore.cli.options import Subcommands, add_common, examples
from chaoscore.cli.suggesting import command

if TYPE_CHECKING:
    from chaoscore.adapters.files.approver_pin import FilePin

ATTEMPTS_MAX = 3
EXAMPLES = examples(
    ("chaoscore pin set", "choose a PIN, typed twice and not shown"),
    ("chaoscore pin change", "the old one, then a new one twice"),
    ("chaoscore pin remove", "approvals ask for no PIN any more"),
    ("chaoscore pin status", "is one set; exit 0 yes, 1 no"),
)
_SHORT = {
    "set": examples(("chaoscore pin set", "at a terminal; 6 to 128 characters, typed twice")),
    "change": examples(("chaoscore pin change", "at a terminal; asks for the old one first")),
    "remove": examples(("chaoscore pin remove", "at a terminal; asks for the PIN first")),
    "status": examples(
        ("chaoscore pin status", "is one set; exit 0 yes, 1 no"),
        ("chaoscore pin status --json", "the same for programs"),
    ),
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    commands = Subcommands(parser)

    def command(name: str, about: str, work: Callable[[Call], int]) -> None:
        made = commands.add(name, about, work)
        made.epilog = _SHORT[name]
        add_common(made, json=name == "status")

    command("set", "choose a PIN, typed at a terminal", _set)
    command("change", "take another PIN in place of the one that is set", _change)
    command("remove", "take the PIN away", _remove)
    command("status", "whether a PIN is set, and whether wrong tries hold it up", _status)


def _set(call: Call) -> int:
    pin = _pin(call)
    _refuse_without_terminal()
    if pin.status().is_set:
        call.terminal.error("a PIN is set already", f"change it with '{command('pin', 'change')}'")
        return Exit.FAILED

    def work() -> None:
        pin.create(_chosen(call))

    return _typed(call, work, "the PIN is set")


def _change(call: Call) -> int:
    pin = _pin(call)
    _refuse_without_terminal()
    if _told_unset(call, pin):
        return Exit.FAILED

    def work() -> None:
        old = _hidden(call, "the PIN that is set: ")
        pin.check(old)
        pin.change(old, _chosen(call))

    return _typed(call, work, "the PIN is changed")


def _remove(call: Call) -> int:
    pin = _pin(call)
    _refuse_without_terminal()
    if _told_unset(call, pin):
        return Exit.FAILED

    def work() -> None:
        pin.remove(_hidden(call, "the PIN that is set: "))

    return _typed(call, work, "the PIN is removed")


def _status(call: Call) -> int:
    from chaoscore.cli.views.words import plain, unbroken

    pin = _pin(call)
    status = pin.status()
    if call.terminal.as_json:
        call.terminal.answer(
            {
                "set": status.is_set,
                "path": str(pin.path),
                "wrong_tries": status.wrong_tries,
                "seconds_left": status.seconds_left,
            }
        )
    call.terminal.show(
        unbroken("a PIN is set" if status.is_set else f"no PIN is set; '{command('pin', 'set')}' sets one")
    )
    if status.wrong_tries:
        call.terminal.show(plain(f"wrong tries in a row: {status.wrong_tries}"))
    if status.seconds_left:
        call.terminal.show(plain(f"none is checked for another {status.seconds_left} s"))
    return Exit.OK if status.is_set else Exit.FAILED


def _pin(call: Call) -> FilePin:
    from chaoscore.bootstrap_pin import approver_pin

    return approver_pin(call.settings())


def _refuse_without_terminal() -> None:
    from chaoscore.domain.errors import InvalidInput

    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidInput(
            "a PIN is typed by a person: standard input and output must be a terminal, not a pipe or a file",
            key="terminal",
        )


def _told_unset(call: Call, pin: FilePin) -> bool:
    """Raises ``StorageError`` for a malformed file before anything is typed."""
    if pin.status().is_set:
        return False
    call.terminal.error("no PIN is set", f"set one with '{command('pin', 'set')}'")
    return True


def _typed(call: Call, work: Callable[[], None], done: str) -> int:
    from chaoscore.cli.views.words import plain

    try:
        work()
    except EOFError:
        call.terminal.error("the input ended; nothing was changed", "run it again")
        return Exit.FAILED
    call.terminal.show(plain(done))
    return Exit.OK


def _chosen(call: Call) -> str:
    """A new PIN, typed twice alike. Raises ``InvalidInput`` after three that may not be one."""
    from chaoscore.domain.errors import InvalidInput
    from chaoscore.domain.pin import normal_form, pin_fault

    why = ""
    for _ in range(ATTEMPTS_MAX):
        if why:
            call.terminal.warn(why)
        new = _hidden(call, "a new PIN, 6 to 128 characters: ")
        why = pin_fault(normal_form(new)) or ""
        if why:
            continue
        if _hidden(call, "the same once more: ") == new:
            return new
        why = "the two were not the same; type it again"
    raise InvalidInput(f"{why}; nothing was changed", key="pin")


def _hidden(call: Call, question: str) -> str:
    """What is typed, without showing it. Raises ``EOFError``, ``InvalidInput`` where the terminal cannot hide it."""
    import asyncio

    return asyncio.run(call.terminal.read_secret(question))

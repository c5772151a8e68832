"""A person's answer to a run's question at a terminal: whether it can count here, what it does, the PIN, sending it.

``decide``, ``resolve`` and the conversation of ``achieve`` stand above it; ``Approvals`` below checks everything again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from chaoscore.app.approvals import Answer, AnswerDoor
from chaoscore.bootstrap import Kernel
from chaoscore.cli.exits import Exit
from chaoscore.cli.picker import read_text
from chaoscore.cli.suggesting import command
from chaoscore.cli.terminal import Terminal
from chaoscore.cli.views.words import plain, unbroken
from chaoscore.domain.approval import RunDecision
from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.interaction.response import Choice

PIN_CHARS_READ_MAX = 4_096
DOOR: AnswerDoor = "terminal"


def choice_of(options: tuple[str, ...], rationale: str | None = None) -> Choice:
    return Choice(options[0] if len(options) == 1 else None, options if len(options) > 1 else (), None, rationale)


def why_not_here(kernel: Kernel, decision: RunDecision) -> str | None:
    """Why no answer at a terminal can count, where that is known before anybody is asked."""
    if decision.mode != "human":
        return None
    if DOOR not in decision.doors:
        doors = ", ".join(decision.doors) or "none"
        return f"the policy's approvalDoors are {doors}: an answer at the terminal does not count"
    if not kernel.services.approvals.pin_is_set():
        return f"the policy wants a person, and no approver's PIN is set: '{command('pin', 'set')}' sets one"
    return None


async def send(
    kernel: Kernel, terminal: Terminal, decision: RunDecision, choice: Choice, digest: str, pin: str | None = None
) -> RunDecision | None:
    """The decision as answered; ``None`` when the person left it at the question for the PIN.

    ``digest`` is that of the question which was shown. Raises what ``Approvals.answer`` raises.
    """
    approvals = kernel.services.approvals
    decision.chosen(choice)  # what is no answer costs nobody a PIN
    if pin is None and approvals.needs_pin(decision, DOOR) and approvals.pin_is_set() and terminal.interactive:
        pin = await terminal.ask_secret("  the approver's PIN: ")
        if pin is None:
            return None
    return await approvals.answer(Answer(decision.id, choice, digest, DOOR, kernel.principal.key, pin))


def piped_pin() -> str:
    """The PIN as a script hands it over: the first line of standard input. Raises ``InvalidInput``."""
    if sys.stdin is None or sys.stdin.isatty():
        raise InvalidInput(
            "--pin-stdin reads a pipe or a file; at a terminal leave it out and type the PIN, which is not shown",
            key="pin-stdin",
        )
    try:
        pin = sys.stdin.readline(PIN_CHARS_READ_MAX).rstrip("\r\n")
    except UnicodeDecodeError:
        pin = ""
    if not pin:
        raise InvalidInput("--pin-stdin: the first line of standard input holds no PIN", key="pin-stdin")
    return pin


def by_flags(args: argparse.Namespace) -> bool:
    """Whether the answer was typed on the command line."""
    return bool(args.option or args.approve_all or args.deny_all or args.text is not None)


def refuse_flags(args: argparse.Namespace, refused: Mapping[str, str], why: str) -> None:
    """Raises ``InvalidInput`` for a flag, by its field of ``args``, that does not fit the question."""
    for name, flag in refused.items():
        if getattr(args, name) not in (None, False):
            raise InvalidInput(f"{flag}: {why}", key=flag.removeprefix("--"))


async def ask_rationale(given: str | None, *, required: bool) -> str | None:
    """The reason, asked for where it was not given. Raises ``EOFError``."""
    prompt = "reason (required): " if required else "reason (enter: none): "
    if given is not None:
        return given
    typed = (await read_text(prompt)).strip()
    while required and not typed:
        typed = (await read_text(prompt)).strip()
    return typed or None


def left(terminal: Terminal, decision: str) -> Exit:
    """Say that nothing was answered."""
    terminal.show(plain("not answered; it goes on waiting", "yellow"))
    terminal.show(unbroken(f"answer it later: {command('decide', decision)}", "dim"))
    return Exit.WAITING

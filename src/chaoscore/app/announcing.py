"""Telling people that something began to wait, through whatever the operator configured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from chaoscore.app.approval_ports import Notice, Notifier
from chaoscore.app.copyable import Copyable
from chaoscore.app.runs.supervisor import Supervisor
from chaoscore.domain.approval import RunDecision
from chaoscore.domain.records import Run


class Announcer:
    """Every question is announced once, by the process that asked it, when it is durable.

    ``page_of`` gives the address of a decision's page once this process serves a Decision Center.
    """

    def __init__(self, notifier: Notifier, copyable: Copyable) -> None:
        self._notifier = notifier
        self._copyable = copyable
        self._telling: set[asyncio.Task[None]] = set()
        self.page_of: Callable[[str], str] | None = None

    def listen(self, supervisor: Supervisor) -> None:
        supervisor.on_rest(self._rested)

    def _rested(self, run: Run, asked: Sequence[RunDecision]) -> None:
        for decision in asked:
            task = asyncio.get_running_loop().create_task(self._notifier.tell(self._notice(decision)))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    def _notice(self, decision: RunDecision) -> Notice:
        """One plain line; the arguments stay where they can be read in full."""
        url = None if self.page_of is None else self.page_of(decision.id)
        command = self._copyable("decide", decision.id)
        return Notice(decision.id, decision.run, decision.kind, decision.question.title, command, url)

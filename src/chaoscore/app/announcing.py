"""Telling people that something began to wait, through whatever the operator configured."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from chaoscore.app.approval_ports import Notice, Notifier
from chaoscore.app.runs.supervisor import Supervisor
from chaoscore.domain.approval import RunDecision
from chaoscore.domain.records import Run


class Announcer:
    """Every question is announced once, by the process that asked it, when it is durable."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._telling: set[asyncio.Task[None]] = set()

    def listen(self, supervisor: Supervisor) -> None:
        supervisor.on_rest(self._rested)

    def _rested(self, run: Run, asked: Sequence[RunDecision]) -> None:
        for decision in asked:
            task = asyncio.get_running_loop().create_task(self._notifier.tell(notice_of(decision)))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)


def notice_of(decision: RunDecision) -> Notice:
    """One plain line; the arguments stay where they can be read in full."""
    return Notice(decision.id, decision.run, decision.kind, decision.question.title)

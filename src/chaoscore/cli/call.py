"""One invocation of the command line: what was typed, where, and the kernel that commands work with."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from chaoscore.cli.options import setting_flags
from chaoscore.cli.suggesting import copyable
from chaoscore.cli.terminal import Terminal, keep_secret
from chaoscore.settings import Settings, load_settings

if TYPE_CHECKING:
    from chaoscore.bootstrap import Kernel


@dataclass(frozen=True, slots=True)
class Call:
    args: argparse.Namespace
    environ: Mapping[str, str]
    cwd: Path
    terminal: Terminal

    def settings(self, *, read_only: bool = False) -> Settings:
        """``read_only`` takes a data directory that cannot be written. Raises ``ConfigurationInvalid``,
        ``StorageError``."""
        settings = load_settings(setting_flags(self.args), self.environ, self.cwd, read_only=read_only)
        keep_secret(settings.secrets())
        return replace(settings, copy_flags=copyable().data)

    def run(self, work: Callable[[Kernel], Awaitable[int]]) -> int:
        """Open the kernel, do the work, close it. Ctrl-C cancels the work and lets the kernel close in order."""
        import asyncio

        async def all_of_it() -> int:
            async with self.kernel() as kernel:
                return await work(kernel)

        return asyncio.run(all_of_it())

    @asynccontextmanager
    async def kernel(self, settings: Settings | None = None) -> AsyncIterator[Kernel]:
        from chaoscore.bootstrap import open_kernel
        from chaoscore.cli.logs import configure_logs

        settings = settings or self.settings()
        # A command speaks for itself; the log only adds what went wrong, unless more was asked for.
        quiet = settings.log_level == "info" and self.args.log_level is None
        configure_logs(settings, level="warning" if quiet else None)
        async with open_kernel(settings) as kernel:
            yield kernel

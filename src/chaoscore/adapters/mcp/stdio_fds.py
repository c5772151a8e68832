"""The standard streams of a stdio server, moved to safety. Imports next to nothing: call it before the rest.

Descriptors 0 and 1 belong to JSON-RPC alone. They are duplicated to private ones, and what is left in their place is
the null device and standard error, so that a stray ``print`` or a child process can neither write onto the wire nor
eat from it (law 9).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from chaoscore.domain.errors import ConfigurationInvalid


@dataclass(frozen=True, slots=True)
class WireFds:
    """Private descriptors of the wire, not inherited by children."""

    read: int
    write: int


def claim_standard_streams() -> WireFds | None:
    """Take descriptors 0 and 1 for the wire. ``None`` on Windows, where the SDK's own stdio does it.

    Raises ``ConfigurationInvalid`` when one of them is closed: then another file may have taken its number.
    """
    if sys.stdin is None or sys.stdout is None:
        raise ConfigurationInvalid(
            "standard input or output is closed; an MCP client holds both, use --http to serve without one"
        )
    if sys.platform == "win32":
        return None
    import fcntl

    read = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    write = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        os.dup2(null, 1)
    os.close(null)
    return WireFds(read, write)


@contextmanager
def loading() -> Iterator[None]:
    """Around the imports of a server that starts: nothing they make is ever garbage, so nothing looks for it.

    A tenth of the time to the first answer, and less work for the collector ever after.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collecting:
            gc.enable()


def give_back(fds: WireFds) -> None:
    """Put the wire on 0 and 1 again: for the SDK's own stdio, which claims them itself."""
    os.dup2(fds.read, 0)
    os.dup2(fds.write, 1)
    os.close(fds.read)
    os.close(fds.write)

"""Lines in and frames out on two file descriptors, without a thread: asyncio watches them.

Both sides are bounded. Reading stops while more than ``queue_bytes_max`` wait to be taken; a line longer than
``line_bytes_max`` is skipped as it arrives and reported once; writing waits while the client does not read.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import stat
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final

log = logging.getLogger(__name__)

READ_BYTES: Final = 65_536
WRITE_BACKLOG_BYTES_MAX: Final = 1_048_576


class Line(Enum):
    """What a read gives when it is not a line."""

    TOO_LONG = "too long"
    END = "end"


class LineReader:
    """Lines of a descriptor, without their line ends.

    Raises ``ConnectionError`` at once when the descriptor cannot be watched.
    """

    def __init__(self, fd: int, line_bytes_max: int, queue_bytes_max: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._line_bytes_max = line_bytes_max
        self._queue_bytes_max = queue_bytes_max
        self._queue: deque[bytes | Line] = deque()
        self._queued_bytes = 0
        self._partial = bytearray()
        self._skipping = False
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        try:
            self._loop.add_reader(fd, self._readable)
        except (OSError, NotImplementedError) as error:
            raise ConnectionError(f"descriptor {fd} cannot be watched") from error
        self._watched = True

    async def next(self) -> bytes | Line:
        """The next line; ``Line.TOO_LONG`` for one that was skipped; ``Line.END`` for good at the end."""
        while not self._queue:
            if self._ended:
                return Line.END
            self._watch()
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        item = self._queue.popleft()
        if isinstance(item, bytes):
            self._queued_bytes -= len(item)
        return item

    def end(self) -> None:
        """Read nothing more; what has arrived whole is still given."""
        self._unwatch()
        self._ended = True
        self._partial.clear()
        self._wake()

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self._take(data)
        else:
            # A last line without its line end is a line: `printf '{…}' | server` is a fair use.
            last = bytes(self._partial)
            self.end()
            if last.strip():
                self._put(last)
        if self._queue or self._ended:
            self._wake()

    def _take(self, data: bytes) -> None:
        head, *rest = data.split(b"\n")
        self._grow(head)
        for piece in rest:
            self._finish_line()
            self._grow(piece)
        if self._queued_bytes > self._queue_bytes_max:
            self._unwatch()

    def _grow(self, piece: bytes) -> None:
        if self._skipping:
            return
        if len(self._partial) + len(piece) > self._line_bytes_max:
            self._skipping = True
            self._partial.clear()
        else:
            self._partial += piece

    def _finish_line(self) -> None:
        if self._skipping:
            self._skipping = False
            self._queue.append(Line.TOO_LONG)
        elif self._partial.strip():
            self._put(bytes(self._partial))
        self._partial.clear()

    def _put(self, line: bytes) -> None:
        self._queue.append(line)
        self._queued_bytes += len(line)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _watch(self) -> None:
        if not self._watched and not self._ended:
            self._loop.add_reader(self._fd, self._readable)
            self._watched = True

    def _unwatch(self) -> None:
        if self._watched:
            self._loop.remove_reader(self._fd)
            self._watched = False


class FrameWriter:
    """Frames to a descriptor, in order, each whole. ``on_broken`` is told once when nobody reads any more."""

    def __init__(self, fd: int, on_broken: Callable[[], None]) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._on_broken = on_broken
        self._backlog = bytearray()
        self._drained = asyncio.Event()
        self._drained.set()
        self.broken = False
        # A terminal shares its flags with standard error: it stays blocking, a person reads fast enough.
        self._blocking_before = os.get_blocking(fd)
        if not stat.S_ISCHR(os.fstat(fd).st_mode):
            os.set_blocking(fd, False)

    def write(self, frame: bytes) -> None:
        """Put a frame on its way; it may wait in the backlog."""
        if self.broken:
            return
        if not self._backlog:
            try:
                written = os.write(self._fd, frame)
            except (BlockingIOError, InterruptedError):
                written = 0
            except OSError as error:
                self._break(error)
                return
            if written == len(frame):
                return
            frame = frame[written:]
            self._loop.add_writer(self._fd, self._writable)
            self._drained.clear()
        self._backlog += frame

    async def room(self) -> None:
        """Wait while too much is on its way."""
        if len(self._backlog) > WRITE_BACKLOG_BYTES_MAX:
            await self._drained.wait()

    async def drain(self) -> None:
        await self._drained.wait()

    def close(self) -> None:
        """Drop what is on its way and give the descriptor's flags back."""
        if self._backlog:
            self._loop.remove_writer(self._fd)
            self._backlog.clear()
            self._drained.set()
        self.broken = True
        os.set_blocking(self._fd, self._blocking_before)

    def _writable(self) -> None:
        try:
            written = os.write(self._fd, self._backlog)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._loop.remove_writer(self._fd)
            self._break(error)
            return
        del self._backlog[:written]
        if not self._backlog:
            self._loop.remove_writer(self._fd)
            self._drained.set()

    def _break(self, error: OSError) -> None:
        if error.errno == errno.EPIPE:
            log.info("the client no longer reads")
        else:
            log.error("answers cannot be written any more: %s", error.strerror)
        self.broken = True
        self._backlog.clear()
        self._drained.set()
        self._on_broken()

"""Logs of our own: one line per event, on stderr unless an HTTP server is told otherwise, without secrets (law 9, 10).

Other libraries' chatter stays off below warning, whatever the level: a model SDK's debug log repeats what was sent.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Sequence
from typing import TextIO

from chaoscore.domain.redaction import Redactor
from chaoscore.settings import LogLevel, Settings

FRAMES_SHOWN_MAX = 12
_LEVELS: dict[LogLevel, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "silent": logging.CRITICAL + 1,
}


class LineFormatter(logging.Formatter):
    """``time=… level=… logger=… message="…"``; an exception is folded into the same line. Redacted as a whole."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        seconds, millis = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)), int(record.msecs)
        parts = [
            f"time={seconds}.{millis:03d}Z",
            f"level={record.levelname.lower()}",
            f"logger={record.name}",
            f"message={json.dumps(record.getMessage(), ensure_ascii=False)}",
        ]
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            frames = traceback.extract_tb(error.__traceback__)[-FRAMES_SHOWN_MAX:]
            at = " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames))
            parts.append(f"error={json.dumps(f'{type(error).__name__}: {error}', ensure_ascii=False)}")
            parts.append(f"at={json.dumps(at, ensure_ascii=False)}")
        return self._redactor.text(" ".join(parts))


def configure_logs(settings: Settings, *, level: LogLevel | None = None, stdout_is_free: bool = False) -> None:
    """Send everything to one handler. ``stdout_is_free`` only where nothing else is written there (HTTP)."""
    stream: TextIO = sys.stdout if stdout_is_free and settings.log_stream == "stdout" else sys.stderr
    install_handler(stream, level or settings.log_level, settings.secrets())


def install_handler(stream: TextIO, level: LogLevel, secrets: Sequence[str]) -> None:
    """Replace whatever handlers there are; ``secrets`` never appear in a line."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter(Redactor(secrets)))
    root = logging.getLogger()
    for old in tuple(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    wanted = _LEVELS[level]
    root.setLevel(max(wanted, logging.WARNING))
    logging.getLogger("chaoscore").setLevel(wanted)
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # a log that cannot be written is not a reason to print a traceback

"""Where values come from: flags, then the environment, then ``.env`` in the working directory.

``.env`` may come with a cloned repository, so it may not say where the policy and the data are, which folders may be
touched, what is run, or where somebody else's key is sent. A misspelt ``CHAOS_CORE_…`` is refused: it would leave a
guard off.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeAlias

from chaoscore.domain.errors import ConfigurationInvalid
from chaoscore.domain.limits import Limits
from chaoscore.settings.model import VARIABLES, Variable, limit_variable

Flags: TypeAlias = "Mapping[str, str | Sequence[str] | None]"
DOTENV_BYTES_MAX = 1_048_576
OWN_PREFIX = "CHAOS_CORE_"
KNOWN_NAMES = frozenset({v.name for v in VARIABLES} | {limit_variable(item.name) for item in fields(Limits)})
"""Every environment variable there is, apart from the ``COGNITION_…`` ones that came before them."""


@dataclass(frozen=True, slots=True)
class Found:
    """A value and the words that say where it stands. ``parts`` are the values of a repeated flag, else the text."""

    text: str
    name: str
    file: Path | None = None
    repeated: tuple[str, ...] | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.text,) if self.repeated is None else self.repeated

    def wrong(self, why: str) -> ConfigurationInvalid:
        return ConfigurationInvalid(f"{_place(self.name, self.file)}: {why}", variable=self.name)


class Sources:
    """Flags, environment and ``.env`` in order of precedence. An empty value counts as not set."""

    def __init__(
        self, flags: Flags, environ: Mapping[str, str], cwd: Path, dotenv: Mapping[str, str] | None = None
    ) -> None:
        self._flags = flags
        self._environ = environ
        self._dotenv = dotenv or {}
        self._file = cwd / ".env"

    def find(self, variable: Variable) -> Found | None:
        return self.from_flag(variable) or self.from_elsewhere(variable)

    def from_flag(self, variable: Variable) -> Found | None:
        given = self._flags.get(variable.field)
        if not given:
            return None
        flag = variable.flag or f"--{variable.field.replace('_', '-')}"
        if isinstance(given, str):
            return Found(given, flag)
        return Found(",".join(given), flag, repeated=tuple(given))

    def from_elsewhere(self, variable: Variable) -> Found | None:
        for name in variable.names():
            if self._environ.get(name):
                return Found(self._environ[name], name)
        for name in variable.names():
            if self._dotenv.get(name):
                return Found(self._dotenv[name], name, self._file)
        return None

    def refuse_unknown_names(self) -> None:
        for names, file in ((self._environ, None), (self._dotenv, self._file)):
            for name in sorted(names):
                if name.startswith(OWN_PREFIX) and name not in KNOWN_NAMES:
                    raise ConfigurationInvalid(
                        f"{_place(name, file)} is not a setting; {_near(name, KNOWN_NAMES)}", variable=name
                    )
        for variable in VARIABLES:
            for name in variable.names():
                if not variable.dotenv and self._dotenv.get(name):
                    instead = f"{variable.flag} or the environment" if variable.flag else "the environment"
                    raise ConfigurationInvalid(
                        f"{_place(name, self._file)} is refused: that file can come with somebody else's folder; "
                        f"take the line out and use {instead}",
                        variable=name,
                    )

    def refuse_borrowed_keys(self) -> None:
        """A base URL in ``.env`` gets the key of the same file: never none, never the environment's."""
        if not self._dotenv.get("OPENAI_BASE_URL"):
            return
        url, own_key = "OPENAI_BASE_URL", self._dotenv.get("OPENAI_API_KEY")
        if not own_key:
            raise ConfigurationInvalid(
                f"{_place(url, self._file)} comes without OPENAI_API_KEY, so that file could send your key to somebody "
                "else's server; put that server's key next to it, or set both in the environment",
                variable=url,
            )
        environment_key = self._environ.get("OPENAI_API_KEY")
        if not self._environ.get(url) and environment_key and environment_key != own_key:
            raise ConfigurationInvalid(
                f"{_place(url, self._file)} would be sent the OPENAI_API_KEY of the environment; take that variable "
                "away, or set OPENAI_BASE_URL in the environment too",
                variable=url,
            )


def read_dotenv(cwd: Path) -> dict[str, str] | None:
    """Every assignment in ``.env``, ``None`` without such a file; a folder of that name is not one.

    Variables inside values are not expanded. Raises ``ConfigurationInvalid`` for a file that cannot be read and for a
    line about one of our settings that cannot be understood; other people's lines are theirs.
    """
    path = cwd / ".env"
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            data = file.read(DOTENV_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise ConfigurationInvalid(f"{str(path)!r} cannot be read: {error.strerror}", variable=".env") from None
    if len(data) > DOTENV_BYTES_MAX:
        raise ConfigurationInvalid(f"{str(path)!r} has more than {DOTENV_BYTES_MAX} bytes", variable=".env")
    return _assignments(data.decode("utf-8-sig", errors="surrogateescape"), path)


def _assignments(text: str, path: Path) -> dict[str, str]:
    from io import StringIO

    from dotenv.parser import parse_stream  # only where there is a file: it costs more than all the rest

    ours = (OWN_PREFIX, *(name for variable in VARIABLES for name in variable.names()))
    found: dict[str, str] = {}
    for binding in parse_stream(StringIO(text)):
        if binding.error and any(name in binding.original.string for name in ours):
            line = binding.original.line
            raise ConfigurationInvalid(
                f"{str(path)!r} line {line} cannot be understood; write NAME=value", variable=".env"
            )
        if binding.key is not None and not binding.error:
            found[binding.key] = binding.value or ""
    return found


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a named pipe would otherwise wait for a writer


def _place(name: str, file: Path | None) -> str:
    return name if file is None else f"{name} in {str(file)!r}"


def _near(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else "docs/settings.md lists them all"

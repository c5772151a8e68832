"""The only module that reads the environment, ``.env``, config files and flags: once, into one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from chaoscore.domain.limits import Limits

LogLevel = Literal["debug", "info", "warning", "error", "silent"]
LogStream = Literal["stderr", "stdout"]


class Secret:
    """A value that no print, log line or error can show."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the one adapter that needs it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("Secret", self._value))


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything an operator can set. Paths are absolute; ``allowed_hosts`` and ``allowed_origins`` may be empty."""

    data_dir: Path
    policy_path: Path
    fs_roots: tuple[Path, ...] = ()
    provider: str = "openai"
    openai_api_key: Secret | None = None
    openai_model: str | None = None
    openai_base_url: str | None = None
    anthropic_api_key: Secret | None = None
    anthropic_model: str | None = None
    log_level: LogLevel = "info"
    log_stream: LogStream = "stderr"
    host: str = "127.0.0.1"
    port: int = 3000
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def secrets(self) -> tuple[str, ...]:
        """Every secret value in force, for the redactor."""
        return tuple(s.reveal() for s in (self.openai_api_key, self.anthropic_api_key) if s is not None)

"""What an operator can set, as one frozen value, with the names and bounds of every setting.

``load`` makes the value, bootstrap and the command line read it; below it are only the domain's limits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from chaoscore.domain.limits import Limits

LogLevel = Literal["debug", "info", "warning", "error", "silent"]
LogStream = Literal["stderr", "stdout"]
ClientModelUse = Literal["never", "when-declared"]

PROVIDERS = ("openai", "anthropic", "none")
CLIENT_MODEL_USES: tuple[ClientModelUse, ...] = ("never", "when-declared")
LOG_LEVELS: tuple[LogLevel, ...] = ("debug", "info", "warning", "error", "silent")
LOG_STREAMS: tuple[LogStream, ...] = ("stderr", "stdout")
SWITCH = ("true", "false")


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
    """Everything an operator can set. Paths are absolute, the program of ``notify_command`` too; ``()`` is none."""

    data_dir: Path
    policy_path: Path
    fs_roots: tuple[Path, ...] = ()
    interactions_root: Path | None = None
    """Where questions of new runs are mirrored as files; ``None`` mirrors them nowhere."""
    provider: str = "openai"
    openai_api_key: Secret | None = None
    openai_model: str | None = None
    openai_base_url: str | None = None
    anthropic_api_key: Secret | None = None
    anthropic_model: str | None = None
    client_model: ClientModelUse = "never"
    """Whether the model of a calling client may be asked for a plan that nobody here could write."""
    log_level: LogLevel = "info"
    log_stream: LogStream = "stderr"
    host: str = "127.0.0.1"
    port: int = 3000
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    http_proxy: Secret | None = None
    """``http://[user:password@]host:port``, the only proxy that ``http.request`` goes through."""
    ca_file: Path | None = None
    """Certificate authorities trusted besides the system's, by ``http.request`` and by model providers."""
    notify_command: tuple[str, ...] = field(default=(), repr=False)  # an argument can be a secret
    notify_desktop: bool = False
    copy_flags: tuple[str, ...] = ()
    """The flags that lead another command to this data directory and policy; none where it finds them by itself."""
    limits: Limits = field(default_factory=Limits)

    def secrets(self) -> tuple[str, ...]:
        """Every secret value in force, for the redactor."""
        keys = tuple(s.reveal() for s in (self.openai_api_key, self.anthropic_api_key) if s is not None)
        if self.http_proxy is None:
            return keys
        # The address alone is no secret and is not looked for; its password is, as it is written and as it is sent.
        user, at, _ = self.http_proxy.reveal().partition("://")[2].rpartition("@")
        password = user.partition(":")[2]
        return (*keys, user, password, unquote(password)) if at else keys


@dataclass(frozen=True, slots=True)
class Variable:
    """One setting's names. ``field`` is the one in ``Settings`` and in the flags; ``old`` an earlier variable name.

    ``dotenv`` tells whether ``.env`` may set it.
    """

    field: str
    name: str
    flag: str | None = None
    old: str | None = None
    dotenv: bool = True

    def names(self) -> tuple[str, ...]:
        """The variable, and the earlier name that still works where the new one is not set."""
        return (self.name,) if self.old is None else (self.name, self.old)


VARIABLES: tuple[Variable, ...] = (
    Variable("data_dir", "CHAOS_CORE_DATA_DIR", "--data-dir", "COGNITION_DATA_DIR", dotenv=False),
    Variable("policy_path", "CHAOS_CORE_POLICY_PATH", "--policy", "COGNITION_POLICY_PATH", dotenv=False),
    Variable("fs_roots", "CHAOS_CORE_FS_ROOTS", "--root", dotenv=False),
    Variable("interactions_root", "CHAOS_INTERACTIONS_ROOT", dotenv=False),
    Variable("provider", "CHAOS_CORE_PROVIDER", "--provider", "COGNITION_PROVIDER"),
    Variable("openai_api_key", "OPENAI_API_KEY"),
    Variable("openai_model", "OPENAI_MODEL"),
    Variable("openai_base_url", "OPENAI_BASE_URL"),
    Variable("anthropic_api_key", "ANTHROPIC_API_KEY"),
    Variable("anthropic_model", "ANTHROPIC_MODEL"),
    Variable("client_model", "CHAOS_CORE_CLIENT_MODEL"),
    Variable("log_level", "CHAOS_CORE_LOG_LEVEL", "--log-level", "COGNITION_LOG_LEVEL"),
    Variable("log_stream", "CHAOS_CORE_LOG_STREAM", None, "COGNITION_LOG_STREAM"),
    Variable("host", "HOST", "--host"),
    Variable("port", "PORT", "--port"),
    Variable("allowed_hosts", "MCP_ALLOWED_HOSTS", "--allowed-host"),
    Variable("allowed_origins", "MCP_ALLOWED_ORIGINS", "--allowed-origin"),
    Variable("http_proxy", "CHAOS_CORE_HTTP_PROXY", dotenv=False),
    Variable("ca_file", "CHAOS_CORE_CA_FILE", dotenv=False),
    Variable("notify_command", "CHAOS_CORE_NOTIFY_COMMAND", dotenv=False),
    Variable("notify_desktop", "CHAOS_CORE_NOTIFY_DESKTOP"),
)

LIMIT_BOUNDS: dict[str, tuple[float, float]] = {
    "steps_max": (1, 1_000),
    "items_max": (1, 100_000),
    "concurrency_max": (1, 128),
    "argument_bytes_max": (1_024, 268_435_456),
    "output_bytes_max": (1_024, 268_435_456),
    "run_output_bytes_max": (1_024, 1_073_741_824),
    "step_seconds": (0.1, 86_400),
    "run_seconds": (1, 604_800),
    "wait_seconds_default": (0, 86_400),
    "wait_seconds_max": (1, 86_400),
    "replans_max": (0, 10),
    "provider_calls_max": (1, 100),
    "provider_tokens_max": (1_000, 10_000_000),
    "provider_try_seconds": (1, 3_600),
    "provider_seconds": (1, 3_600),
    "recalled_memories_max": (1, 50),
    "working_memory_max": (1, 1_000),
    "lease_seconds": (2, 600),
    "grant_seconds": (60, 2_592_000),
    "decision_seconds": (60, 31_536_000),
    "objective_chars_max": (100, 100_000),
    "request_bytes_max": (65_536, 268_435_456),
}
"""The least and the most that ``CHAOS_CORE_<LIMIT>`` may set."""


def limit_variable(name: str) -> str:
    """The environment variable of one limit."""
    return f"CHAOS_CORE_{name.upper()}"

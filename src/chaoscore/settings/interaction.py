"""Settings of the human-decision runtime: flags, environment, a JSON config file, defaults, in that order.

The names, their precedence and their defaults are those of the shared contract, so that a repository set up for another
implementation works with this one. What is not understood is refused by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from chaoscore.domain.errors import ConfigurationInvalid
from chaoscore.domain.json import Json, JsonObject, is_object

InteractionLogLevel = Literal["debug", "info", "warn", "error", "silent"]
LOG_LEVELS: tuple[InteractionLogLevel, ...] = ("debug", "info", "warn", "error", "silent")
STORE_PATH = Path(".chaos") / "interactions"
CONFIG_BYTES_MAX = 1_048_576

InteractionFlags: TypeAlias = "Mapping[str, str | bool]"
"""By flag without dashes: ``repo-root``, ``root``, ``schema-dir``, ``validate``, ``log-level``, ``config``,
``answer-bridge``. A flag that is not given is absent; switches are booleans."""

# Keys that other programs of the same family read from the same file.
_OTHERS_KEYS = frozenset(
    {
        *("runnersDir", "runtimeDir", "commandsEnabled", "enabled", "staleDecisionAgeHours", "staleLockAgeHours"),
        *("expiredRunnerLeaseGraceMs", "includeTodoCandidates", "validateArtifacts", "checkMcpPackage"),
        *("checkDecisionCenterPackage", "enforcementMode", "strictBlocksOnBlocker", "writeHookViolations"),
        *("blockOnPendingDecisionSameChange", "blockOnMalformedState", "hookViolationsPath", "agentCommand"),
        *("agentArgs", "workingDirectory", "sessionAdapter", "claudeModel", "claudePermissionMode"),
        *("agentAckTimeoutMs", "maxAutoResumeCycles", "decisionPollMs", "sessionLeaseTtlMs", "heartbeatIntervalMs"),
        *("forceAdapter", "requireExplicitResumeForDeadSessions", "allowAutoResumeAcrossDeadSessions"),
        *("stopOnUnsafeWriteRisk", "stopOnValidationFailure", "allowAutoResumeWhenRunnerActive"),
        *("stopOnNewMaterialDecision", "writeRunnerAudit", "allowProcessResume"),
    }
)
VARIABLES = frozenset(
    {
        *("CHAOS_REPOSITORY_ROOT", "CHAOS_INTERACTIONS_ROOT", "CHAOS_INTERACTIONS_SCHEMA_DIR"),
        *("CHAOS_INTERACTION_VALIDATE", "CHAOS_INTERACTION_LOG_LEVEL", "CHAOS_INTERACTION_ANSWER_BRIDGE"),
        "CHAOS_INTERACTION_CACHE_DIR",
    }
)
"""Every environment variable of this server, apart from where the user's cache is."""

_OWN_KEYS = frozenset({"repositoryRoot", "root", "schemaDir", "validate", "logLevel", "answerBridge"})
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class InteractionSettings:
    """Paths are absolute. ``cache_dir`` holds a rebuildable index, ``None`` where the user has no cache directory."""

    repository: Path
    root: Path
    schema_dir: Path
    validate: bool = True
    log_level: InteractionLogLevel = "info"
    answer_bridge: bool = True
    cache_dir: Path | None = None
    warnings: tuple[str, ...] = ()


def load_interaction_settings(
    flags: InteractionFlags, environ: Mapping[str, str], cwd: Path, *, search_upwards: bool = False
) -> InteractionSettings:
    """Read every source once; makes nothing on disk. Raises ``ConfigurationInvalid`` naming the flag, variable or key.

    ``search_upwards`` (for people, who may stand in a subfolder): without a named root or repository, the nearest
    folder above ``cwd`` that has a store is the repository.
    """
    reader = _Reader(flags, environ, cwd, *_config(flags, cwd))
    repository = reader.path("repo-root", "CHAOS_REPOSITORY_ROOT", "repositoryRoot")
    root = reader.path("root", "CHAOS_INTERACTIONS_ROOT", "root")
    if repository is None and root is None and search_upwards:
        repository = next((place for place in (cwd, *cwd.parents) if (place / STORE_PATH).is_dir()), None)
    repository = repository or Path(os.path.abspath(cwd))
    root = root or repository / STORE_PATH
    return InteractionSettings(
        repository=repository,
        root=root,
        schema_dir=reader.path("schema-dir", "CHAOS_INTERACTIONS_SCHEMA_DIR", "schemaDir") or root / "schema",
        validate=reader.switch("validate", "CHAOS_INTERACTION_VALIDATE", "validate"),
        log_level=reader.level(),
        answer_bridge=reader.switch("answer-bridge", "CHAOS_INTERACTION_ANSWER_BRIDGE", "answerBridge"),
        cache_dir=_cache_dir(environ, cwd),
        warnings=reader.warnings,
    )


class _Reader:
    def __init__(
        self, flags: InteractionFlags, environ: Mapping[str, str], cwd: Path, config: JsonObject, file: str
    ) -> None:
        self._flags = flags
        self._environ = environ
        self._cwd = cwd
        self._config = config
        self._file = file
        unknown = sorted(set(config) - _OWN_KEYS - _OTHERS_KEYS)
        self.warnings = tuple(f"{key[:80]!r} in {file} is no setting and was ignored" for key in unknown)

    def path(self, flag: str, variable: str, key: str) -> Path | None:
        """Relative to the working directory, wherever it was written."""
        for text, name in (
            (self._flags.get(flag), f"--{flag}"),
            (self._environ.get(variable) or None, variable),
            (self._config.get(key), f"{key!r} in {self._file}"),
        ):
            if text is None:
                continue
            if not isinstance(text, str) or not text or "\0" in text:
                raise _wrong(name, f"{_shown(text)} is not a path; name a folder")
            if "${" in text:
                raise _wrong(name, f"{_shown(text)} has a variable that nothing replaced; write the folder's path")
            return Path(os.path.abspath(self._cwd / text))
        return None

    def switch(self, flag: str, variable: str, key: str) -> bool:
        """On, unless somebody says otherwise. An empty variable says nothing."""
        given = self._flags.get(flag)
        if isinstance(given, bool):
            return given
        text = self._environ.get(variable, "").strip().lower()
        if text:
            if text not in (*_TRUE, *_FALSE):
                raise _wrong(variable, f"{_shown(self._environ[variable])} is neither true nor false")
            return text in _TRUE
        value = self._config.get(key, True)
        if not isinstance(value, bool):
            raise _wrong(f"{key!r} in {self._file}", f"{_shown(value)} is neither true nor false")
        return value

    def level(self) -> InteractionLogLevel:
        for text, name in (
            (self._flags.get("log-level"), "--log-level"),
            (self._environ.get("CHAOS_INTERACTION_LOG_LEVEL") or None, "CHAOS_INTERACTION_LOG_LEVEL"),
            (self._config.get("logLevel"), f"'logLevel' in {self._file}"),
        ):
            if text is None:
                continue
            if text not in LOG_LEVELS:
                raise _wrong(name, f"unknown value {_shown(text)}; valid are {', '.join(LOG_LEVELS)}")
            return text
        return "info"


def _config(flags: InteractionFlags, cwd: Path) -> tuple[JsonObject, str]:
    """The config file and its name; an empty one without ``--config``."""
    named = flags.get("config")
    if named is None:
        return {}, ""
    if not isinstance(named, str) or not named or "\0" in named:
        raise _wrong("--config", f"{_shown(named)} is not a path; name a JSON file")
    path = str(cwd / named)
    try:
        with open(path, "rb") as file:
            data = file.read(CONFIG_BYTES_MAX + 1)
    except OSError as error:
        raise _wrong("--config", f"{path!r} cannot be read ({(error.strerror or 'failed').lower()})") from None
    if len(data) > CONFIG_BYTES_MAX:
        raise _wrong("--config", f"{path!r} has more than {CONFIG_BYTES_MAX} bytes")
    try:
        value: Json = json.loads(data)
    except (ValueError, RecursionError):
        raise _wrong("--config", f"{path!r} is not JSON; mend it or leave the flag out") from None
    if not is_object(value):
        raise _wrong("--config", f"{path!r} is not a JSON object")
    return value, repr(path)


def _cache_dir(environ: Mapping[str, str], cwd: Path) -> Path | None:
    named = environ.get("CHAOS_INTERACTION_CACHE_DIR")
    if named:
        return Path(os.path.abspath(cwd / named))
    # The XDG rule, without an import that every server would pay for at its start.
    base = environ.get("XDG_CACHE_HOME", "")
    home = environ.get("HOME") or environ.get("USERPROFILE") or ""
    if os.path.isabs(base):
        return Path(base) / "chaos-core" / "interactions"
    return Path(home) / ".cache" / "chaos-core" / "interactions" if os.path.isabs(home) else None


def _wrong(name: str, why: str) -> ConfigurationInvalid:
    return ConfigurationInvalid(f"{name}: {why}", variable=name)


def _shown(value: Json) -> str:
    return repr(value[:80]) if isinstance(value, str) else type(value).__name__

"""Every setting read once, in the order of precedence, into one frozen value."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TypeVar, cast

from chaoscore.domain.errors import ConfigurationInvalid
from chaoscore.domain.limits import Limits
from chaoscore.settings import values
from chaoscore.settings.model import (
    CLIENT_MODEL_USES,
    LIMIT_BOUNDS,
    LOG_LEVELS,
    LOG_STREAMS,
    PROVIDERS,
    SWITCH,
    VARIABLES,
    ClientModelUse,
    LogLevel,
    LogStream,
    Settings,
    Variable,
    limit_variable,
)
from chaoscore.settings.paths import absolute, data_folder, existing_folder, user_data_dir
from chaoscore.settings.sources import Flags, Found, Sources, read_dotenv

T = TypeVar("T")
FS_ROOTS_MAX = 64
POLICY_FILE = "policy.json"
INTERACTIONS_FOLDER = "interactions"
_ORDERED_LIMITS = (
    ("wait_seconds_default", "wait_seconds_max"),
    ("output_bytes_max", "run_output_bytes_max"),
    ("provider_try_seconds", "provider_seconds"),
)


def load_settings(flags: Flags, environ: Mapping[str, str], cwd: Path, *, read_only: bool = False) -> Settings:
    """Read every source once. ``flags`` are keyed by the fields of ``Settings``; ``None`` means not given.

    ``fs_roots`` of the flags add to the roots of the environment; every other flag takes its setting's place.
    ``read_only`` takes a data directory that cannot be written. Makes nothing on disk. Raises ``ConfigurationInvalid``
    naming the variable or flag, and for ``.env`` the file; ``StorageError`` for a data directory that cannot be used.
    """
    sources = Sources(flags, environ, cwd, read_dotenv(cwd))
    sources.refuse_unknown_names()
    sources.refuse_borrowed_keys()
    read = _Reader(sources, environ, cwd)
    data_dir = read.data_dir(writable=not read_only)
    policy_path = read.one("policy_path", read.path) or data_dir / POLICY_FILE
    return Settings(
        data_dir=data_dir,
        policy_path=policy_path,
        fs_roots=read.roots(),
        interactions_root=read.one("interactions_root", read.path) or data_dir / INTERACTIONS_FOLDER,
        provider=read.one("provider", values.one_of(PROVIDERS)) or "openai",
        openai_api_key=read.one("openai_api_key", values.secret),
        openai_model=read.one("openai_model", values.model_name),
        openai_base_url=read.one("openai_base_url", values.base_url),
        anthropic_api_key=read.one("anthropic_api_key", values.secret),
        anthropic_model=read.one("anthropic_model", values.model_name),
        client_model=cast(ClientModelUse, read.one("client_model", values.one_of(CLIENT_MODEL_USES)) or "never"),
        log_level=cast(LogLevel, read.one("log_level", values.one_of(LOG_LEVELS)) or "info"),
        log_stream=cast(LogStream, read.one("log_stream", values.one_of(LOG_STREAMS)) or "stderr"),
        host=read.one("host", values.host) or "127.0.0.1",
        port=read.number("port", 3000, 0, 65_535),
        allowed_hosts=read.many("allowed_hosts", values.ALLOWED_HOST, "host, host:port or host:*"),
        allowed_origins=read.many("allowed_origins", values.ALLOWED_ORIGIN, "http(s)://host, host:port or host:*"),
        http_proxy=read.one("http_proxy", values.proxy),
        ca_file=read.one("ca_file", lambda found: values.ca_file(found, read.path(found))),
        notify_command=read.one("notify_command", read.command) or (),
        notify_desktop=read.one("notify_desktop", values.one_of(SWITCH)) == "true",
        copy_flags=_copy_flags(data_dir, policy_path, environ),
        limits=read.limits(),
    )


def _copy_flags(data_dir: Path, policy_path: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """As a terminal needs them that has nothing of this process's environment."""
    try:
        usual: Path | None = user_data_dir(environ)
    except ConfigurationInvalid:
        usual = None
    flags = () if data_dir == usual else ("--data-dir", str(data_dir))
    return flags if policy_path == data_dir / POLICY_FILE else (*flags, "--policy", str(policy_path))


class _Reader:
    def __init__(self, sources: Sources, environ: Mapping[str, str], cwd: Path) -> None:
        self._sources = sources
        self._environ = environ
        self._cwd = cwd
        self._by_field = {variable.field: variable for variable in VARIABLES}

    def one(self, name: str, read: Callable[[Found], T]) -> T | None:
        found = self._sources.find(self._by_field[name])
        return None if found is None else read(found)

    def number(self, name: str, default: int, low: int, high: int) -> int:
        found = self._sources.find(self._by_field[name])
        return default if found is None else int(values.number(found, whole=True, low=low, high=high))

    def many(self, name: str, form: re.Pattern[str], shape: str) -> tuple[str, ...]:
        found = self._sources.find(self._by_field[name])
        if found is None:
            return ()
        parts = tuple(part.strip() for text in found.parts for part in text.split(",") if part.strip())
        for part in parts:
            if not form.fullmatch(part):
                raise found.wrong(f"{part!r} is not of the form {shape}")
        return parts

    def limits(self) -> Limits:
        defaults, given = Limits(), cast("dict[str, int | float]", {})
        for item in fields(Limits):
            found = self._sources.find(Variable(item.name, limit_variable(item.name)))
            if found is not None:
                low, high = LIMIT_BOUNDS[item.name]
                given[item.name] = values.number(found, whole=isinstance(item.default, int), low=low, high=high)
        for smaller, larger in _ORDERED_LIMITS:
            least, most = (given.get(name, getattr(defaults, name)) for name in (smaller, larger))
            if least > most and smaller in given:
                raise ConfigurationInvalid(
                    f"{limit_variable(smaller)} is {least:,g}, more than {limit_variable(larger)}, which is {most:,g}",
                    variable=limit_variable(smaller),
                )
            given[smaller] = min(least, most)  # a default gives way to a bound that somebody set
        return Limits(**given)  # type: ignore[arg-type]

    def path(self, found: Found) -> Path:
        return absolute(found.text, found, self._cwd, self._environ)

    def command(self, found: Found) -> tuple[str, ...]:
        from chaoscore.settings.programs import command

        return command(found, self._environ)

    def data_dir(self, *, writable: bool) -> Path:
        found = self._sources.find(self._by_field["data_dir"])
        if found is not None:
            return data_folder(self.path(found), found, writable=writable)
        return data_folder(user_data_dir(self._environ), None, writable=writable)

    def roots(self) -> tuple[Path, ...]:
        variable = self._by_field["fs_roots"]
        given, below = self._sources.from_flag(variable), self._sources.from_elsewhere(variable)
        named: list[tuple[str, Found]] = []
        if below is not None:
            named += [(part, below) for part in below.text.split(os.pathsep) if part]
        if given is not None:
            named += [(part, given) for part in given.parts if part]
        roots = tuple(
            dict.fromkeys(existing_folder(absolute(text, at, self._cwd, self._environ), at) for text, at in named)
        )
        if len(roots) > FS_ROOTS_MAX:
            raise ConfigurationInvalid(f"{len(roots)} roots are more than {FS_ROOTS_MAX}", variable=variable.name)
        return roots

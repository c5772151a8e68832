"""Reading ``policy.json``: strictly, or not at all (law 3, spec §3).

The policy file adapter and ``chaoscore policy check`` stand above it. Whatever is not fully understood raises
``PolicyInvalid``, which names the file, the key and what to write; all faults are listed at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import cast

from chaoscore.domain.errors import PolicyInvalid
from chaoscore.domain.json import (
    DuplicateKey,
    Json,
    JsonObject,
    brief,
    digest,
    is_array,
    is_object,
    type_name,
    unique_keys,
)
from chaoscore.domain.policy.hosts import ascii_host, is_address, split_port
from chaoscore.domain.policy.model import DEFAULT_DOORS, DOORS, ApprovalMode, Door, Policy

POLICY_BYTES_MAX = 1_048_576
FAULTS_MAX = 50
WARNINGS_MAX = 50

REQUIRED_KEYS = ("allowedCapabilities", "deniedCapabilities", "requireConfirmationFor", "httpAllowedDomains")
OPTIONAL_KEYS = ("approvalMode", "approvalDoors", "httpAllowPrivate")
MODES: tuple[ApprovalMode, ...] = ("caller", "human")

_SEGMENT = r"[a-z][a-z0-9_]*"
_EXACT = re.compile(rf"{_SEGMENT}(?:\.{_SEGMENT})+")
_PREFIX = re.compile(rf"{_SEGMENT}(?:\.{_SEGMENT})*\.\*")


@dataclass(frozen=True, slots=True)
class ParsedPolicy:
    """A policy fully understood. ``warnings`` are rules that say something odd but clear."""

    policy: Policy
    warnings: tuple[str, ...] = ()


def parse_policy_bytes(data: bytes, known: Collection[str], file: str) -> ParsedPolicy:
    """Read the bytes of a policy file. ``known`` are the names of every capability there is, ``file`` is for messages.

    Raises ``PolicyInvalid``; no message repeats the file's content beyond the entry at fault.
    """
    return parse_policy(_decode(data, file), known, file)


def parse_policy(raw: Json, known: Collection[str], file: str) -> ParsedPolicy:
    """Read a policy from JSON. Raises ``PolicyInvalid`` with every fault in ``details['faults']``."""
    reader = _Reader(frozenset(known))
    policy = reader.read(raw)
    if reader.faults:
        key, message = reader.faults[0]
        where = f"{key if key.isprintable() else brief(key)}: " if key else ""
        more = f" (and {len(reader.faults) - 1} more)" if len(reader.faults) > 1 else ""
        raise PolicyInvalid(
            f"{file}: {where}{message}{more}",
            file=file,
            key=key,
            faults=[{"key": fault_key, "message": text} for fault_key, text in reader.faults[:FAULTS_MAX]],
        )
    return ParsedPolicy(policy, tuple(reader.warnings))


class _Reader:
    """Collects faults and warnings while reading; what it returns means something only without faults.

    A fault's message goes on where its key ends: whoever shows both writes the key once.
    """

    def __init__(self, known: frozenset[str]) -> None:
        self.known = known
        self.faults: list[tuple[str, str]] = []
        self.warnings: list[str] = []

    def fault(self, key: str, message: str) -> None:
        if not key.isascii() or len(key) > 200:
            key = key[:200].encode("ascii", "backslashreplace").decode("ascii")
        self.faults.append((key, message))

    def warn(self, message: str) -> None:
        if len(self.warnings) < WARNINGS_MAX:
            self.warnings.append(message)

    def did_you_mean(self, text: str, names: Iterable[str]) -> str:
        if len(self.faults) + len(self.warnings) >= FAULTS_MAX:
            return ""  # looking for near names takes time, and this many are not read
        near = _nearest(text, names)
        return f"; did you mean {near!r}?" if near else "; 'chaoscore inspect capabilities' lists them"

    def read(self, raw: Json) -> Policy:
        if not is_object(raw):
            self.fault("", f"a policy is an object, not {type_name(raw)}")
            return Policy()
        self._keys(raw)
        domains = self._list(raw, "httpAllowedDomains", self._domain)
        private = self._list(raw, "httpAllowPrivate", _private)
        for position, entry in enumerate(private):
            host = split_port(entry)[0]
            if not _covered(host, domains):
                why = f"httpAllowedDomains does not allow {host!r}"
                self.warn(f"httpAllowPrivate[{position}]: {entry!r} has no effect while {why}")
        return Policy(
            allowed=self._list(raw, "allowedCapabilities", self._name),
            denied=self._list(raw, "deniedCapabilities", self._name),
            confirm=self._list(raw, "requireConfirmationFor", self._name),
            http_allowed_domains=domains,
            http_allow_private=private,
            approval_mode=self._mode(raw),
            approval_doors=self._doors(raw),
            digest=digest(raw) if not self.faults else "",
        )

    def _keys(self, raw: JsonObject) -> None:
        valid = (*REQUIRED_KEYS, *OPTIONAL_KEYS)
        for key in raw:
            if key not in valid:
                near = _nearest(key, valid)
                hint = f"did you mean {near!r}?" if near else f"valid keys: {', '.join(valid)}"
                self.fault(key, f"unknown key; {hint}")
        for key in REQUIRED_KEYS:
            if key not in raw:
                self.fault(key, f'is missing; write "{key}": [] for an empty list')

    def _list(self, raw: JsonObject, key: str, read: Callable[[str, str], str]) -> tuple[str, ...]:
        """The entries of a list in the form they are compared in. ``read`` raises ``ValueError`` for a wrong one."""
        if key not in raw:
            return ()
        entries = raw[key]
        if not is_array(entries):
            self.fault(key, f"must be a list of texts, not {type_name(entries)}")
            return ()
        found: dict[str, int] = {}
        for position, entry in enumerate(entries):
            place = f"{key}[{position}]"
            if not isinstance(entry, str):
                self.fault(place, f"must be text, not {type_name(entry)}")
                continue
            try:
                value = read(place, entry)
            except ValueError as error:
                self.fault(place, f"{brief(entry)} {error}")
                continue
            first = found.setdefault(value, position)
            if first != position:
                self.fault(place, f"{brief(entry)} stands in {key}[{first}] already; remove one of them")
        return tuple(found)

    def _name(self, place: str, entry: str) -> str:
        if _PREFIX.fullmatch(entry):
            prefix = entry[:-1]
            if not any(name.startswith(prefix) for name in self.known):
                prefixes = sorted({f"{name.rpartition('.')[0]}.*" for name in self.known})
                self.warn(f"{place}: {entry!r} matches no capability{self.did_you_mean(entry, prefixes)}")
            return entry
        if not _EXACT.fullmatch(entry):
            raise ValueError("is no capability name; write a name as 'fs.read_text' or a prefix as 'fs.*'")
        if entry not in self.known:
            raise ValueError(f"is not a registered capability{self.did_you_mean(entry, sorted(self.known))}")
        return entry

    def _domain(self, place: str, entry: str) -> str:
        wild = entry.startswith("*.")
        host = _host(entry[2:] if wild else entry)
        if not wild:
            return host
        if is_address(host):
            raise ValueError("is no domain pattern; an address has no subdomains")
        if "." not in host:
            self.warn(f"{place}: {entry!r} covers every domain that ends in .{host}")
        return f"*.{host}"

    def _mode(self, raw: JsonObject) -> ApprovalMode:
        mode = raw.get("approvalMode", MODES[0])
        if isinstance(mode, str) and mode in MODES:
            return mode
        self.fault("approvalMode", f"must be 'caller' or 'human', not {brief(mode)}")
        return "human"

    def _doors(self, raw: JsonObject) -> tuple[Door, ...]:
        if "approvalDoors" not in raw:
            return DEFAULT_DOORS
        doors = self._list(raw, "approvalDoors", _door)
        if raw["approvalDoors"] in ([], ()):
            self.fault("approvalDoors", f"must name at least one of {', '.join(DOORS)}")
        return cast("tuple[Door, ...]", doors)


def _door(place: str, entry: str) -> str:
    if entry not in DOORS:
        raise ValueError(f"is no door; valid doors: {', '.join(DOORS)}")
    return entry


def _private(place: str, entry: str) -> str:
    if "://" in entry or "/" in entry or "*" in entry or "@" in entry:
        raise ValueError("must be host:port, without scheme, path or wildcard")
    host, port = split_port(entry)
    if port is None:
        raise ValueError("must name a port, as in 'localhost:8080'")
    return f"{ascii_host(host)}:{port}"


def _host(text: str) -> str:
    if "://" in text or "/" in text:
        raise ValueError("must be a host alone, without scheme or path, as in 'example.com'")
    if "*" in text:
        raise ValueError("must be an exact host or '*.' and a domain, as in '*.example.com'")
    if not text.startswith("[") and ":" in text:
        raise ValueError("must be a host alone, without a port; an IPv6 address stands in brackets")
    return ascii_host(text)


def _covered(host: str, domains: Iterable[str]) -> bool:
    return any(
        host == domain or (domain.startswith("*.") and host.endswith(domain[1:]) and not is_address(host))
        for domain in domains
    )


def _nearest(text: str, names: Iterable[str]) -> str | None:
    if len(text) > 200:
        return None
    by_lower = {name.lower(): name for name in names}
    near = get_close_matches(text.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[near[0]] if near else None


def _decode(data: bytes, file: str) -> Json:
    if len(data) > POLICY_BYTES_MAX:
        raise _unreadable(file, f"has more than {POLICY_BYTES_MAX} bytes")
    if data.startswith(b"\xef\xbb\xbf"):
        raise _unreadable(file, "begins with a byte order mark; save it as UTF-8 without one")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(file, f"is not UTF-8: byte {error.start} cannot be read") from None
    try:
        return cast("Json", json.loads(text, object_pairs_hook=unique_keys, parse_constant=_no_constant))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise _unreadable(file, f"is not JSON: {error.msg.lower()} at {place}") from None
    except DuplicateKey as error:
        what = f"the key {brief(error.key)} stands there twice; remove one of them"
        raise PolicyInvalid(f"{file}: {what}", file=file, key=error.key) from None
    except _Refused as error:
        raise PolicyInvalid(f"{file}: {error}", file=file, key="") from None
    except (ValueError, RecursionError):
        raise _unreadable(file, "is not a policy: it holds a number too long or is nested too deeply") from None


class _Refused(Exception):
    """A number that JSON does not know."""


def _no_constant(name: str) -> Json:
    raise _Refused(f"{name} is not JSON")


def _unreadable(file: str, why: str) -> PolicyInvalid:
    return PolicyInvalid(f"{file} {why}", file=file, key="")

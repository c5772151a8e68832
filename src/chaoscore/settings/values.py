"""How one setting's text becomes its value, or is refused with what to write instead."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from chaoscore.settings.model import Secret
from chaoscore.settings.sources import Found

_DIGITS = re.compile(r"[0-9]{1,18}")
_DECIMAL = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_NAME = r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])"
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_USER = r"(?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})"
_PROXY = re.compile(rf"http://(?:{_USER}{{1,200}}(?::{_USER}{{0,200}})?@)?{_NAME}:(?P<port>[0-9]{{1,5}})/?")
CA_BYTES_MAX = 4_194_304
_BASE_URL = re.compile(rf"https?://{_NAME}(?::[0-9]{{1,5}})?(?:/[!-~]*)?")
ALLOWED_HOST = re.compile(rf"{_NAME}(?::(?:[0-9]{{1,5}}|\*))?")
ALLOWED_ORIGIN = re.compile(rf"https?://{_NAME}(?::(?:[0-9]{{1,5}}|\*))?")


def one_of(valid: Sequence[str]) -> Callable[[Found], str]:
    def read(found: Found) -> str:
        if found.text not in valid:
            raise found.wrong(f"unknown value {found.text[:80]!r}; valid are {', '.join(valid)}")
        return found.text

    return read


def number(found: Found, *, whole: bool, low: float, high: float) -> int | float:
    text = found.text.strip()
    form, kind = (_DIGITS, "a whole number") if whole else (_DECIMAL, "a number")
    value = (int(text) if whole else float(text)) if form.fullmatch(text) else None
    if value is None or not low <= value <= high:
        raise found.wrong(f"{found.text[:80]!r} is not {kind} from {low:,g} to {high:,g}")
    return value


def secret(found: Found) -> Secret:
    text = found.text.strip()
    if not text.isascii() or not text.isprintable() or " " in text:
        raise found.wrong("the value is not a key: it has white space or characters outside ASCII")
    return Secret(text)


def model_name(found: Found) -> str:
    text = found.text.strip()
    if not text.isprintable() or not text or " " in text or len(text) > 200:
        raise found.wrong(f"{found.text[:80]!r} is not the name of a model")
    return text


def base_url(found: Found) -> str:
    # The value is not repeated: an address can carry a password.
    text = found.text.strip()
    if not _BASE_URL.fullmatch(text):
        raise found.wrong("the value is not of the form http(s)://host[:port]/path without a user name or password")
    return text


def proxy(found: Found) -> Secret:
    """``http://[user:password@]host:port``; the value is not repeated, because it can carry a password."""
    text = found.text.strip()
    matched = _PROXY.fullmatch(text)
    if matched is None or not 0 < int(matched["port"]) <= 65_535:
        raise found.wrong(
            "the value is not of the form http://host:port or http://user:password@host:port, with a port from 1 to "
            "65535 and everything but letters, digits and -._~ of the user and the password written as %XX"
        )
    return Secret(text.rstrip("/"))


def ca_file(found: Found, path: Path) -> Path:
    """A file of certificate authorities in PEM form that can be read now; links are left as they are."""
    try:
        found_there = os.stat(path)
        if not stat.S_ISREG(found_there.st_mode):
            raise found.wrong(f"{str(path)!r} is not a file; name a PEM file")
        if found_there.st_size > CA_BYTES_MAX:
            raise found.wrong(f"{str(path)!r} has more than {CA_BYTES_MAX:,} bytes; name a PEM file")
        import ssl  # only where there is a file: every server would pay for it at its start

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        except ssl.SSLError:
            raise found.wrong(
                f"{str(path)!r} holds no certificate that can be read; name a PEM file with "
                "'-----BEGIN CERTIFICATE-----' blocks"
            ) from None
    except OSError as error:
        raise found.wrong(f"{str(path)!r} cannot be read: {(error.strerror or 'failed').lower()}") from None
    return path


def host(found: Found) -> str:
    """A name or address to listen on, IPv6 without brackets."""
    text = found.text.strip()
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if not _HOST.fullmatch(bare):
        raise found.wrong(f"{found.text[:80]!r} is not a host name or address")
    return bare

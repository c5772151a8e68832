"""Host names and URLs as the policy reads them: one strict reading, so that no two readers can disagree about a host.

The policy parser and the evaluator stand above it; whoever connects to a URL must use the ``host`` answered here, not
its own reading. What can be read in two ways is refused: credentials, white space, backslashes, addresses in unusual
notations, and the few characters that IDNA 2003 and 2008 map differently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

URL_CHARS_MAX = 8_192

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://([^/?#]*)(?:[/?#].*)?", re.DOTALL)
_UNSAFE = re.compile(
    r"[\x00-\x20\x7f\\\u0080-\u00a0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ud800-\udfff]"
)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_HOST = re.compile(rf"{_LABEL.pattern}(?:\.{_LABEL.pattern})*")
# Nearly every URL: lower case, a name that is no address, a short port. One match instead of six; what it does not take
# is read below, with the same answer where both would take it.
_PLAIN = re.compile(
    rf"(https?)://((?:{_LABEL.pattern}\.)*[a-z_](?:[a-z0-9_-]{{0,61}}[a-z0-9_])?)(?::([1-9][0-9]{{0,3}}))?(?:[/?#][!-\[\]-~]*)?"
)
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[0-9]{1,5}")
_DEVIATIONS = frozenset("\u00df\u03c2\u1e9e\u200c\u200d")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a URL leads. ``host`` is lower-case ASCII without a final dot, IPv6 in brackets; ``port`` always known."""

    scheme: str
    host: str
    port: int


def parse_url(url: str) -> Target:
    """Raises ``ValueError`` saying what is wrong, without repeating the URL (it may carry a secret)."""
    scheme, host, port = _read(url)
    return Target(scheme, host, port or (443 if scheme == "https" else 80))


def url_host(url: str) -> str:
    """The ``host`` of ``parse_url``, and as strict."""
    return _read(url)[1]


def _read(url: str) -> tuple[str, str, int | None]:
    if len(url) > URL_CHARS_MAX:
        raise ValueError(f"the url has {len(url)} characters, at most {URL_CHARS_MAX} are read")
    plain = _PLAIN.fullmatch(url)
    if plain is not None and len(plain[2]) <= 253:
        return plain[1], plain[2], int(plain[3]) if plain[3] else None
    if _UNSAFE.search(url):
        raise ValueError("the url contains white space, a control character or a backslash")
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError("the url is not of the form https://host/path")
    scheme, authority = match[1].lower(), match[2]
    if scheme not in ("http", "https"):
        raise ValueError(f"the scheme {scheme[:20]!r} is not http or https")
    if "@" in authority:
        raise ValueError("the url carries credentials in front of the host")
    host, port = split_port(authority)
    return scheme, ascii_host(host), port


def split_port(authority: str) -> tuple[str, int | None]:
    """``host:port`` apart; IPv6 stands in brackets. Raises ``ValueError`` for a port that is not 1 to 65535."""
    if authority.startswith("["):
        host, closing, rest = authority.partition("]")
        host += closing
        if rest and not rest.startswith(":"):
            raise ValueError("something other than a port follows the address in brackets")
        colon, text = rest[:1], rest[1:]
    else:
        host, colon, text = authority.partition(":")
    if not colon:
        return host, None
    if not _PORT.fullmatch(text) or not 1 <= int(text) <= 65_535:
        raise ValueError("the port is not a number from 1 to 65535")
    return host, int(text)


def ascii_host(text: str) -> str:
    """A host in the one form that is compared. Raises ``ValueError`` saying what is wrong with it."""
    if len(text) > 253:
        raise ValueError("the host has more than 253 characters")
    if text.startswith("["):
        return _ipv6(text)
    host = text.lower() if text.isascii() else _idna(text)
    host = host.removesuffix(".")
    if len(host) > 253 or not _HOST.fullmatch(host):
        raise ValueError("the host is not a host name")
    last = host[host.rfind(".") + 1 :]
    if last[0].isdigit() and _NUMBER.fullmatch(last) and not _IPV4.fullmatch(host):
        raise ValueError("the host is an address in an unusual notation; write four decimal numbers")
    return host


def is_address(host: str) -> bool:
    """Whether a host answered by ``ascii_host`` is an IP address."""
    return host.startswith("[") or _IPV4.fullmatch(host) is not None


def _idna(text: str) -> str:
    if _DEVIATIONS.intersection(text):
        raise ValueError("the host has a character that standards map differently; write its xn-- form")
    try:
        return text.encode("idna").decode("ascii").lower()
    except (UnicodeError, ValueError):
        raise ValueError("the host is not a host name") from None


def _ipv6(text: str) -> str:
    import ipaddress

    if not text.endswith("]") or "%" in text:
        raise ValueError("the address in brackets is not IPv6")
    try:
        return f"[{ipaddress.IPv6Address(text[1:-1]).compressed}]"
    except ValueError:
        raise ValueError("the address in brackets is not IPv6") from None

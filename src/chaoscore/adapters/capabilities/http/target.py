"""Where one request goes, read from a URL by the policy's own reader, so that what was allowed is what is requested.

``request`` stands above it, ``chaoscore.domain.policy.hosts`` below: the host is the one the policy compared, never a
second reading. What that reader leaves open (the path) is made ASCII here. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

from chaoscore.domain.errors import NotPerformed
from chaoscore.domain.policy.hosts import is_address, parse_url

URL_REFUSED = "HTTP_URL_REFUSED"
URL_CHARS_MAX = 4_096
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SAFE = "!#$%&'()*+,/:;=?@[]~"
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Target:
    """``host`` is lower-case ASCII, an IPv6 address without brackets. ``path`` is what stands on the request line,
    query included. ``url`` is the text the policy is asked about."""

    url: str
    scheme: str
    host: str
    port: int
    path: str

    @property
    def address(self) -> str | None:
        """The host when it is an address itself."""
        return self.host if ":" in self.host or is_address(self.host) else None

    @property
    def pair(self) -> str:
        """``host:port`` as ``httpAllowPrivate`` has it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_default_port(self) -> bool:
        return self.port == _DEFAULT_PORTS[self.scheme]

    @property
    def authority(self) -> str:
        """What stands in ``Host``."""
        return self.pair.rpartition(":")[0] if self.is_default_port else self.pair


def parse_target(url: str) -> Target:
    """Raises ``NotPerformed`` (``HTTP_URL_REFUSED``), saying what is wrong with the URL."""
    if len(url) > URL_CHARS_MAX:
        raise _refused(url, f"it has {len(url)} characters, at most {URL_CHARS_MAX} are requested")
    try:
        read = parse_url(url)
        # Only the path is taken from this one; the reader above has made sure that both find it in the same place.
        parts = urlsplit(url)
    except ValueError as error:
        raise _refused(url, str(error)) from None
    path = quote(parts.path or "/", safe=_SAFE)
    if parts.query:
        path += "?" + quote(parts.query, safe=_SAFE)
    return Target(url.partition("#")[0], read.scheme, read.host.strip("[]"), read.port, path)


def redirect_target(base: Target, location: str) -> Target:
    """Where a ``Location`` leads. Raises ``NotPerformed`` for what ``parse_target`` refuses, and for https → http,
    where anybody on the way could answer."""
    try:
        joined = urljoin(base.url, location)
    except ValueError:
        raise _refused(location, "the redirect is not a URL") from None
    target = parse_target(joined)
    if base.scheme == "https" and target.scheme == "http":
        raise _refused(joined, "it is a redirect from https to http; ask for the http URL itself if that is meant")
    return target


def _refused(url: str, why: str) -> NotPerformed:
    # What stands before an "@" may be a password.
    shown = "" if "@" in url else f" {url[:_SHOWN_CHARS]!r}"
    return NotPerformed(f"the url{shown} is refused: {why}", code=URL_REFUSED)

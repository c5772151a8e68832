"""What the operator decides about ``http.request``: bounds and the way out. Plain values; bootstrap makes one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """``body_bytes_max`` bounds the body both as sent and after decompression; ``total_seconds`` the whole request,
    redirects included.

    ``proxy`` is ``http://[user:password@]host:port``; ``None`` goes out directly, whatever the environment says. Names
    are then resolved by the proxy, so only addresses that are written out can be checked here. ``ca_file`` names
    certificate authorities trusted besides the system's.
    """

    body_bytes_max: int = 1_048_576
    header_bytes_max: int = 65_536
    redirects_max: int = 5
    total_seconds: float = 30.0
    connect_seconds: float = 10.0
    proxy: str | None = None
    ca_file: str | None = None

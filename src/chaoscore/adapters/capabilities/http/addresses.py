"""Which addresses an HTTP request may be sent to: pure rules over resolved addresses, nothing else.

``http_connect`` stands above it and asks about every address a name resolved to, before it connects to any of them.
The tables are the IANA special-purpose registries written out: ``ipaddress`` answers differently from one Python
patch release to the next, and a guard must not.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Literal

Kind = Literal["internal", "link-local", "never"]

_V4: tuple[tuple[str, Kind, str], ...] = (
    ("0.0.0.0/8", "never", "unspecified"),
    ("10.0.0.0/8", "internal", "private"),
    ("100.64.0.0/10", "internal", "carrier-grade NAT"),
    ("127.0.0.0/8", "internal", "loopback"),
    ("169.254.0.0/16", "link-local", "link-local"),
    ("172.16.0.0/12", "internal", "private"),
    ("192.0.0.0/24", "never", "protocol assignment"),
    ("192.0.2.0/24", "never", "documentation"),
    ("192.88.99.0/24", "never", "6to4 relay"),
    ("192.168.0.0/16", "internal", "private"),
    ("198.18.0.0/15", "internal", "benchmarking"),
    ("198.51.100.0/24", "never", "documentation"),
    ("203.0.113.0/24", "never", "documentation"),
    ("224.0.0.0/4", "never", "multicast"),
    ("240.0.0.0/4", "never", "reserved"),
)
_V6: tuple[tuple[str, Kind, str], ...] = (
    ("::/128", "never", "unspecified"),
    ("::1/128", "internal", "loopback"),
    ("::ffff:0:0/96", "never", "IPv4-mapped"),
    ("fc00::/7", "internal", "unique local"),
    ("fe80::/10", "link-local", "link-local"),
    ("ff00::/8", "never", "multicast"),
    ("2001::/23", "never", "protocol assignment"),
    ("2001:db8::/32", "never", "documentation"),
    ("2002::/16", "never", "6to4"),
    ("3fff::/20", "never", "documentation"),
)
_V4_NETWORKS = tuple((ipaddress.IPv4Network(net), kind, words) for net, kind, words in _V4)
_V6_NETWORKS = tuple((ipaddress.IPv6Network(net), kind, words) for net, kind, words in _V6)
_V6_GLOBAL = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an address is not one to connect to.

    ``internal`` is what the operator may lift for one ``host:port``; ``link-local`` too, but only where the address
    itself was written (it is where clouds keep credentials); ``never`` is no destination of a web request at all.
    """

    kind: Kind
    words: str


def refusal(address: str) -> Refusal | None:
    """``None`` for a public unicast address. What is not an address at all is refused."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return Refusal("never", "not an IP address")
    if isinstance(parsed, ipaddress.IPv4Address):
        return next((Refusal(kind, words) for net, kind, words in _V4_NETWORKS if parsed in net), None)
    if parsed.scope_id is not None:
        return Refusal("never", "scoped to one interface")
    for network, kind, words in _V6_NETWORKS:
        if parsed in network:
            return Refusal(kind, words)
    if parsed in _NAT64:
        # The translator connects to the IPv4 address inside, so that is what decides; only public ones may be there.
        inner = refusal(str(ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)))
        return None if inner is None else Refusal("never", f"NAT64 of a {inner.words} address")
    return None if parsed in _V6_GLOBAL else Refusal("never", "reserved")

"""From a target to addresses that may be connected to: every address a name resolves to is checked, or none is used.

``request`` stands above it; the system's resolver, or the one that was injected, below.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from chaoscore.adapters.capabilities.http.addresses import refusal
from chaoscore.adapters.capabilities.http.target import Target
from chaoscore.domain.errors import NotPerformed

ADDRESS_REFUSED = "HTTP_ADDRESS_REFUSED"
UNREACHABLE = "HTTP_UNREACHABLE"
_ADDRESSES_MAX = 32

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to IP addresses, best first. Raises ``OSError`` when the name has none."""


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """``getaddrinfo`` in a thread of the event loop's pool."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(entry[4][0]) for entry in found]


async def checked_addresses(target: Target, resolver: Resolver, private_hosts: Sequence[str]) -> tuple[str, ...]:
    """The target's addresses, best first, all of them checked.

    Raises ``NotPerformed``. One bad address refuses them all: which of them is taken may not depend on chance.
    """
    if target.address is not None:
        addresses: tuple[str, ...] = (target.address,)
    else:
        try:
            addresses = tuple(dict.fromkeys(await resolver(target.host, target.port)))
        except (OSError, UnicodeError):
            raise NotPerformed(
                f"the name {target.host!r} does not resolve; check its spelling and the network", code=UNREACHABLE
            ) from None
    if not 0 < len(addresses) <= _ADDRESSES_MAX:
        raise NotPerformed(f"the name {target.host!r} resolves to {len(addresses)} addresses", code=UNREACHABLE)
    check_addresses(target, addresses, private_hosts)
    return addresses


def check_addresses(target: Target, addresses: Sequence[str], private_hosts: Sequence[str]) -> None:
    """Raises ``NotPerformed`` (``HTTP_ADDRESS_REFUSED``) when one of them may not be connected to for this target.

    ``private_hosts`` lift the refusal for exactly their ``host:port``. A link-local address has to be written out for
    that: a name in the intranet that turns to 169.254.169.254 stays refused.
    """
    lifted = target.pair in private_hosts
    for address in addresses:
        refused = refusal(address)
        if refused is None:
            continue
        written_out = target.address is not None
        if lifted and (refused.kind == "internal" or (refused.kind == "link-local" and written_out)):
            continue
        hint = f"; the operator can allow {target.pair!r} in httpAllowPrivate" if refused.kind == "internal" else ""
        raise NotPerformed(
            f"{target.host!r} leads to {address} ({refused.words}), which is not a public address{hint}",
            code=ADDRESS_REFUSED,
        )

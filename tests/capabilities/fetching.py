"""Fetching through ``http.request`` in tests: the output, or the error it must be."""

from __future__ import annotations

import pytest

from chaoscore.adapters.capabilities.http.options import HttpOptions
from chaoscore.domain.errors import CapabilityError, NotPerformed
from chaoscore.domain.json import Json, JsonObject, is_object
from tests.capabilities.servers import Server
from tests.capabilities.support import Desk, desk


async def fetch(fetcher: Desk, url: str, **arguments: Json) -> JsonObject:
    output = await fetcher.start("http.request", {"url": url, **arguments})
    assert is_object(output)
    return output


async def failure(fetcher: Desk, url: str) -> CapabilityError:
    with pytest.raises(CapabilityError) as error:
        await fetcher.start("http.request", {"url": url})
    return error.value


async def refusal(fetcher: Desk, url: str) -> NotPerformed:
    error = await failure(fetcher, url)
    assert isinstance(error, NotPerformed)
    return error


def towards(server: Server, options: HttpOptions | None = None, **more: object) -> Desk:
    """A desk that may reach this server by its address."""
    return desk(http=options, private_hosts=(f"127.0.0.1:{server.port}",), **more)  # type: ignore[arg-type]

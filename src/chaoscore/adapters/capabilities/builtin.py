"""The built-in capabilities: one line each. A new one is a file and a line here; nothing else changes.

Bootstrap stands above it and hands over plain values; the files of the capabilities below.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaoscore.adapters.capabilities import cognition
from chaoscore.adapters.capabilities.fs import list as fs_list
from chaoscore.adapters.capabilities.fs import read_text, write_text
from chaoscore.adapters.capabilities.fs.confine import Confinement
from chaoscore.adapters.capabilities.fs.options import FsOptions
from chaoscore.adapters.capabilities.http import request
from chaoscore.adapters.capabilities.http.options import HttpOptions
from chaoscore.adapters.capabilities.http.resolve import Resolver, system_resolver
from chaoscore.adapters.capabilities.query import capability as json_query
from chaoscore.adapters.capabilities.query.options import QueryOptions
from chaoscore.app.ports import AIProvider, Ids, Provided


def builtin_capabilities(
    *,
    ids: Ids,
    roots: Sequence[str] = (),
    protected: Sequence[str] = (),
    provider: AIProvider | None = None,
    fs: FsOptions | None = None,
    http: HttpOptions | None = None,
    query: QueryOptions | None = None,
    resolver: Resolver = system_resolver,
) -> tuple[Provided, ...]:
    """All built-in capabilities, in the order they are listed.

    ``roots`` are the folders that ``fs.*`` may touch, ``protected`` paths it never touches even there (the data
    directory, the policy file). ``None`` options are the defaults. Raises ``ConfigurationInvalid`` for a root that
    cannot be one.
    """
    confinement = Confinement(roots, protected)
    bounds = fs or FsOptions()
    return (
        fs_list.provide(confinement, bounds),
        read_text.provide(confinement, bounds),
        write_text.provide(confinement, bounds, lambda: ids.label("write")),
        json_query.provide(query),
        request.provide(http, resolver),
        cognition.provide(provider, ids),
    )

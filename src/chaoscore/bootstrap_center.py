"""The Decision Center over an open kernel and an open decision runtime.

Beside ``bootstrap``, which imports it only when it serves HTTP: servers that speak to one client over stdio do not pay
for templates and pages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from chaoscore.adapters.files.interaction import FileInteractionStore, FolderSettings
from chaoscore.adapters.system import SystemClock
from chaoscore.adapters.web import CENTER_PATH, Access, CenterSite, front_door
from chaoscore.app.center import Center, Folder, Parts
from chaoscore.app.center.inbox import RUNS
from chaoscore.app.interactions import InteractionService
from chaoscore.bootstrap_interaction import random_hex
from chaoscore.domain.redaction import Redactor

if TYPE_CHECKING:
    from chaoscore.bootstrap import Kernel
    from chaoscore.bootstrap_interaction import Interactions

__all__ = ["CENTER_PATH", "CenterEntry", "OpenCenter", "front_door", "open_center"]


@dataclass(frozen=True, slots=True, repr=False)
class CenterEntry:
    """How a person comes in: ``link`` works once and not for long, ``token`` in the form at ``page`` until the server
    ends. For the eyes of whoever started it; no log gets it."""

    page: str
    link: str
    token: str

    def page_of(self, decision: str) -> str:
        """Where a question of a run is answered, after signing in."""
        return f"{self.page}decisions/{RUNS}/{quote(decision, safe='')}"


@dataclass(frozen=True, slots=True)
class OpenCenter:
    site: CenterSite

    def entry(self, host: str, port: int) -> CenterEntry:
        """``host`` and ``port`` are those that are listened on."""
        name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
        page = f"http://{name}:{port}{CENTER_PATH}/"
        access = self.site.access
        return CenterEntry(page, f"{page}enter?token={access.link}", access.token)


@asynccontextmanager
async def open_center(
    kernel: Kernel, runtime: Interactions, origins: Collection[str], *, worker: bool
) -> AsyncIterator[OpenCenter]:
    """``origins`` are those that the operator lists: a proxy in front may have another name than this server."""
    services, stores = kernel.services, kernel.stores
    folders = [Folder(str(runtime.settings.root), runtime.service)]
    own: list[InteractionService] = []
    root = kernel.settings.interactions_root
    if root is not None and root != runtime.settings.root:
        kept = FolderSettings(
            root, root.parent, root / "schema", validate=True, cache_dir=kernel.settings.data_dir / "cache"
        )
        own.append(InteractionService(FileInteractionStore(kept, SystemClock(), random_hex)))
        folders.append(Folder(str(root), own[0]))
    center = Center(
        Parts(
            approvals=services.approvals,
            decisions=stores.decisions,
            runs=services.runs,
            memories=services.memories,
            audit=stores.audit,
            policy=kernel.policy,
            registry=services.registry,
            clock=SystemClock(),
            redactor=Redactor(kernel.settings.secrets()),
            context=kernel.local_context,
            stamp=stores.stamp,
            folder_problem=kernel.mirror.problem,
            folders=folders,
            approver=kernel.principal.key,
            worker=worker,
            copyable=services.copyable,
        )
    )
    listed = frozenset(origins)
    access = Access(center.parts.clock, random_hex)
    site = CenterSite(center, access, lambda origin: origin.lower().rstrip("/") in listed)
    center.warm_up()
    try:
        yield OpenCenter(site)
    finally:
        await center.close()
        for service in own:
            await service.close()

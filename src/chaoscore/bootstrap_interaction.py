"""The human-decision runtime, built from settings: the folder, the service over it, its MCP server.

Beside ``bootstrap`` and below it, because the two servers start as processes of their own and neither should pay for
the other's parts. Names concrete adapters; nothing else of the product does, but ``bootstrap``.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chaoscore import __version__
from chaoscore.adapters.files.interaction import FileInteractionStore, FolderSettings, schemas
from chaoscore.adapters.files.interaction.fileops import FileOps
from chaoscore.adapters.files.interaction.watch import FolderFeed
from chaoscore.adapters.system import RandomIds, SystemClock
from chaoscore.app.copyable import PLAIN, Copyable
from chaoscore.app.interaction_surface import INSTRUCTIONS, InOrder, InteractionResources, InteractionTools
from chaoscore.app.interactions import InteractionService
from chaoscore.app.tools import Connection
from chaoscore.domain.errors import ConfigurationInvalid
from chaoscore.domain.interaction.limits import InteractionLimits
from chaoscore.domain.interaction.spelling import pretty_text
from chaoscore.domain.principal import Principal
from chaoscore.settings.interaction import InteractionSettings

if TYPE_CHECKING:
    from chaoscore.adapters.mcp.definition import ServerDefinition
    from chaoscore.adapters.mcp.stdio_fds import WireFds
    from chaoscore.app.interaction_doctor import Report
    from chaoscore.settings.doctor import DoctorSettings


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Interactions:
    """The runtime of one process over one folder."""

    settings: InteractionSettings
    service: InteractionService
    tools: InteractionTools
    resources: InteractionResources


@asynccontextmanager
async def open_interactions(settings: InteractionSettings, *, start: bool = True) -> AsyncIterator[Interactions]:
    """The runtime, ready, and closed again. Makes no folder; with ``start`` it does what every peer does when it
    starts: seed schemas into a folder that has none, sweep abandoned temporary files.

    Raises ``ConfigurationInvalid`` when the interactions root cannot be a folder.
    """
    require_usable_root(settings)
    clock, limits, order = SystemClock(), InteractionLimits(), InOrder()
    folder = FolderSettings(
        settings.root, settings.repository, settings.schema_dir, settings.validate, settings.cache_dir, limits=limits
    )
    store = FileInteractionStore(folder, clock, random_hex)
    service = InteractionService(store, limits, settings.answer_bridge)
    resources = InteractionResources(service, FolderFeed(settings.root, clock, limits.document_bytes_max), order)
    warnings = store.start() if start else ()
    for warning in (*settings.warnings, *warnings) if start else ():
        log.warning("%s", warning)
    try:
        yield Interactions(settings, service, InteractionTools(service, order), resources)
    finally:
        await resources.close()
        await service.close()


def folder_store(root: Path, cache_dir: Path) -> FileInteractionStore:
    """The store of a folder that another part of the program keeps questions in. Makes nothing until it is written;
    ``cache_dir`` holds its rebuildable index."""
    folder = FolderSettings(root, root.parent, root / "schema", validate=True, cache_dir=cache_dir)
    return FileInteractionStore(folder, SystemClock(), random_hex)


def interaction_definition(runtime: Interactions) -> ServerDefinition:
    """What MCP clients see, on every transport. The text of a result is the whole envelope as JSON, as in the
    original server, whose clients parse it."""
    from chaoscore.adapters.mcp.definition import ServerDefinition

    return ServerDefinition(
        name="chaos-interaction",
        title="Chaos Core: human decisions",
        version=__version__,
        instructions=INSTRUCTIONS,
        tools=runtime.tools,
        resources=runtime.resources,
        result_text=pretty_text,
        lone_surrogates=True,
        tools_change=True,  # announced and never sent, as the original does
        fixed_resources=True,
    )


async def serve_interaction_stdio(settings: InteractionSettings, fds: WireFds | None = None) -> None:
    """Serve one client over standard input and output until it goes; ``fds`` when they were moved away already."""
    from chaoscore.adapters.mcp import stdio

    async with open_interactions(settings) as runtime:
        log.info(
            "serving %s, schemas in %s, workspace schemas %s",
            settings.root,
            settings.schema_dir,
            "checked" if settings.validate else "not checked",
        )
        connection = Connection(RandomIds().label("c"))
        await stdio.serve_stdio(interaction_definition(runtime), principal=local_user(), connection=connection, fds=fds)


def doctor_report(
    settings: InteractionSettings,
    wanted: DoctorSettings,
    *,
    todos: bool,
    validate: bool,
    commands: bool,
    copyable: Copyable = PLAIN,
) -> Report:
    """Examine the folder. Blocking; writes nothing."""
    from chaoscore.adapters.files.interaction.evidence import FolderEvidence
    from chaoscore.app.interaction_doctor import DoctorOptions, examine

    clock = SystemClock()
    folder = FolderSettings(settings.root, settings.repository, settings.schema_dir, settings.validate)
    options = DoctorOptions(
        wanted.stale_decision_hours,
        wanted.stale_lock_hours,
        wanted.lease_grace_ms,
        todos,
        validate,
        wanted.commands_enabled and commands,
        copyable,
    )
    return examine(FolderEvidence(folder, clock.now), options, int(clock.now() * 1000))


def seed_schemas(settings: InteractionSettings, force: bool) -> tuple[list[str], list[str]]:
    """Write the schema files that are missing, or all; which were written, which skipped. Raises ``StorageError``."""
    return schemas.seed(settings.schema_dir, FileOps(), force)


def require_usable_root(settings: InteractionSettings) -> None:
    """Raises ``ConfigurationInvalid`` when something that is no folder stands where the root or the schemas belong."""
    for path, name in ((settings.root, "the interactions root"), (settings.schema_dir, "the schema directory")):
        if os.path.lexists(path) and not path.is_dir():
            raise ConfigurationInvalid(f"{name} {str(path)!r} is not a folder; name another one or remove it")


def random_hex(digits: int) -> str:
    """Lower-case hex from the operating system's randomness."""
    return secrets.token_hex((digits + 1) // 2)[:digits]


def local_user() -> Principal:
    """``local:<uid>``."""
    return Principal("local", str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user"))

"""Which catalog serves: the indexed one while its cache directory works, looking through the folder otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from chaoscore.adapters.files.interaction import facts as f
from chaoscore.adapters.files.interaction.folder import Folder
from chaoscore.adapters.files.interaction.scan_catalog import ScanCatalog
from chaoscore.adapters.files.interaction.sqlite_catalog import SqliteCatalog
from chaoscore.app.interaction_ports import SessionFilter
from chaoscore.domain.errors import StorageError


class FallbackCatalog:
    """Implements ``Catalog``. A cache that fails is given up for the life of the process, and health says so."""

    def __init__(self, folder: Folder, cache_dir: Path | None) -> None:
        self._folder = folder
        self._use: f.Catalog = SqliteCatalog(folder, cache_dir) if cache_dir is not None else ScanCatalog(folder)
        self._given_up: str | None = None

    def notes(self) -> list[str]:
        return [self._given_up] if self._given_up is not None else []

    def _try(self, work: Callable[[f.Catalog], None]) -> None:
        try:
            work(self._use)
        except StorageError as error:
            if isinstance(self._use, ScanCatalog):
                raise
            self._given_up = f"working without an index, so calls get slower with finished work: {error.message}"
            self._use = ScanCatalog(self._folder)
            self._use.refresh()

    def prepare(self) -> None:
        self._try(lambda catalog: catalog.prepare())

    def refresh(self) -> None:
        self._try(lambda catalog: catalog.refresh())

    def refresh_unfinished(self) -> None:
        self._try(lambda catalog: catalog.refresh_unfinished())

    def settle(self, appended_bytes: int) -> None:
        self._try(lambda catalog: catalog.settle(appended_bytes))

    def wrote(self, facts: f.Facts, version: f.Version | None) -> None:
        self._use.wrote(facts, version)

    def doubt(self) -> None:
        self._use.doubt()

    def warnings(self, kind: f.Kind) -> Sequence[str]:
        return self._use.warnings(kind)

    def unfinished_runs(self) -> Sequence[str]:
        return self._use.unfinished_runs()

    def unsettled_runs(self) -> Sequence[str]:
        return self._use.unsettled_runs()

    def waiting_decisions(self) -> Sequence[str]:
        return self._use.waiting_decisions()

    def pending_decisions(self) -> Sequence[str]:
        return self._use.pending_decisions()

    def ready_runs(self) -> Sequence[str]:
        return self._use.ready_runs()

    def decisions_of(self, run: str) -> Sequence[str]:
        return self._use.decisions_of(run)

    def find_sessions(self, wanted: SessionFilter, limit: int, cursor: str | None) -> f.Found:
        return self._use.find_sessions(wanted, limit, cursor)

    def find_capsules(self, change_id: str | None, limit: int) -> Sequence[str]:
        return self._use.find_capsules(change_id, limit)

    def contents(self, entries_max: int) -> tuple[Sequence[f.SessionFacts], Sequence[f.DecisionFacts]] | None:
        return self._use.contents(entries_max)

    def close(self) -> None:
        self._use.close()

"""Agents' questions in interactions folders, read again only when somebody changed the folder.

Questions of the kernel's own runs are mirrored into such folders too; they are left out here, because the database
says what is true of them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from chaoscore.app.interactions import InteractionService
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction.names import instant_ms, is_kernel_run
from chaoscore.domain.json import JsonObject, is_array, is_object

KEY_CHARS = 8
PATIENCE_SECONDS = 0.06
"""How long a page waits for a folder to be read again before it shows what is known."""


@dataclass(frozen=True, slots=True)
class FolderQuestion:
    """One waiting question of a folder. ``created_at`` and ``expires_at`` are seconds since the epoch."""

    folder: str
    id: str
    document: JsonObject
    created_at: float
    expires_at: float | None

    @property
    def place(self) -> tuple[float, str, str]:
        return (self.created_at, self.folder, self.id)


class Folder:
    """One interactions root. ``key`` names it in addresses, without telling its path.

    A list that is known is shown at once, even while a changed folder is read again; ``on_load`` is told when such a
    reading came later than somebody waited for it.
    """

    def __init__(self, root: str, service: InteractionService) -> None:
        self.root = root
        self.service = service
        self.key = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:KEY_CHARS]
        self.on_load: Callable[[], None] = lambda: None
        self._token: str | None = None
        self._questions: tuple[FolderQuestion, ...] = ()
        self._warnings: tuple[str, ...] = ()
        self._loading: asyncio.Task[None] | None = None
        self._late = False

    async def waiting(self) -> tuple[tuple[FolderQuestion, ...], tuple[str, ...]]:
        """What waits there, oldest first, and what is wrong with the folder."""
        try:
            token = await self.service.change_token()
        except ChaosError as error:
            return self._questions, (f"{self.root}: {error.message}",)
        if token != self._token:
            if self._loading is None or self._loading.done():
                self._loading = asyncio.create_task(self._load(token))
            patience = PATIENCE_SECONDS if self._token is not None else None
            _, late = await asyncio.wait({self._loading}, timeout=patience)
            self._late = self._late or bool(late)
        return self._questions, self._warnings

    def forget(self, decision: str) -> None:
        """It was answered here and waits no more."""
        self._questions = tuple(question for question in self._questions if question.id != decision)

    async def close(self) -> None:
        if self._loading is not None:
            await asyncio.gather(self._loading, return_exceptions=True)

    async def _load(self, token: str) -> None:
        envelope = await self.service.active_decision()
        if envelope.ok:
            one, several = envelope.data.get("decision"), envelope.data.get("decisions")
            documents = [one] if is_object(one) else [d for d in several if is_object(d)] if is_array(several) else []
            found = [self._question(document) for document in documents]
            self._questions = tuple(sorted((q for q in found if q is not None), key=lambda q: q.place))
            self._warnings = tuple(f"{self.root}: {warning}" for warning in envelope.warnings)
            self._token = token
        else:
            self._questions, self._warnings = (), (f"{self.root}: {envelope.message}",)
        if self._late:
            self._late = False
            self.on_load()

    async def find(self, decision: str) -> tuple[JsonObject, JsonObject | None] | None:
        """A decision's document in whatever state, and its response; ``None`` when there is none."""
        await self.service.decision_response(decision)  # adopts an answer that lies in the folder
        body = await self.service.read_resource(f"chaos://interactions/decisions/{decision}")
        found = body.get("decision") if body is not None else None
        if body is None or not is_object(found):
            return None
        response = body.get("response")
        return found, response if is_object(response) else None

    def _question(self, document: JsonObject) -> FolderQuestion | None:
        name, run = document.get("decisionId"), document.get("commandRunId")
        if not isinstance(name, str) or not isinstance(run, str) or is_kernel_run(run):
            return None
        return FolderQuestion(
            self.key, name, document, seconds(document.get("createdAt")) or 0.0, seconds(document.get("expiresAt"))
        )


def seconds(instant: object) -> float | None:
    """An instant of a shared document as seconds since the epoch."""
    at = instant_ms(instant) if isinstance(instant, str) else None
    return None if at is None else at / 1000

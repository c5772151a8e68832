"""Runs and their questions as resources: read by URI, watched by whoever subscribed.

What changed is read from the audit, which knows it whichever process it was: one task looks at the store's stamp while
somebody watches, and at the events since the last look when it differs.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from chaoscore.app.approvals import Approvals
from chaoscore.app.copyable import PLAIN, Copyable
from chaoscore.app.kernel.inspect import summary_json
from chaoscore.app.kernel.report import decision_json, run_json
from chaoscore.app.ports import AuditStore, RunStore
from chaoscore.app.resources import Resource, ResourceContent, ResourceTemplate, Watcher
from chaoscore.app.runs.book import ExecuteRequest
from chaoscore.app.runs.service import RunService
from chaoscore.app.tools import CallContext
from chaoscore.app.watchers import Watchers
from chaoscore.domain.errors import ChaosError, NotFound
from chaoscore.domain.json import Json, is_object
from chaoscore.domain.redaction import Redactor

log = logging.getLogger(__name__)

BASE = "chaos://"
RUNS, DECISIONS = f"{BASE}runs", f"{BASE}decisions"
MIME_TYPE = "application/json"
POLL_SECONDS = 0.25
EVENTS_MAX = 500
LISTED_MAX = 50


class KernelResources:
    """A ``ResourceProvider``. ``changed`` differs after a write by any process and costs next to nothing."""

    def __init__(
        self,
        runs: RunService,
        approvals: Approvals,
        run_store: RunStore,
        audit: AuditStore,
        redactor: Redactor,
        changed: Callable[[], object],
        copyable: Copyable = PLAIN,
    ) -> None:
        self._runs = runs
        self._approvals = approvals
        self._run_store = run_store
        self._audit = audit
        self._redactor = redactor
        self._changed = changed
        self._copyable = copyable
        self._watchers = Watchers(self._poll)

    async def resources(self, context: CallContext) -> Sequence[Resource]:
        return [
            Resource(RUNS, "chaos-runs", "Your runs, newest first", MIME_TYPE),
            Resource(DECISIONS, "chaos-decisions", "What waits for a person in your runs, oldest first", MIME_TYPE),
        ]

    async def templates(self, context: CallContext) -> Sequence[ResourceTemplate]:
        return [
            ResourceTemplate(
                f"{RUNS}/{{run_id}}", "chaos-run", "One run: its steps, what waits, how it went", MIME_TYPE
            ),
            ResourceTemplate(
                f"{DECISIONS}/{{decision}}", "chaos-decision", "One question of a run and its answer", MIME_TYPE
            ),
        ]

    async def read(self, uri: str, context: CallContext) -> ResourceContent:
        """Raises ``NotFound`` for what is not there and for what is somebody else's, alike."""
        try:
            body = self._redactor.json(await self._body(uri, context))
        except NotFound:
            shown = self._redactor.text(uri)[:200]
            raise NotFound(f"there is nothing at {shown!r}; resources/list shows what there is", key="uri") from None
        return ResourceContent(MIME_TYPE, json.dumps(body, ensure_ascii=False, indent=2), uri)

    async def _body(self, uri: str, context: CallContext) -> Json:
        if uri == RUNS:
            found, cursor = await self._runs.list(context.principal, LISTED_MAX, None)
            return {"runs": [summary_json(run) for run in found], "more": cursor is not None}
        if uri == DECISIONS:
            waiting, following = await self._approvals.waiting(context.principal, LISTED_MAX)
            return {"decisions": [decision_json(one) for one in waiting], "more": following is not None}
        kind, _, name = uri.removeprefix(BASE).partition("/")
        if kind == "runs" and name:
            request = ExecuteRequest(run=name) if name.startswith("run_") else ExecuteRequest(label=name)
            return run_json(await self._runs.look(request, context), copyable=self._copyable)
        if kind == "decisions" and name:
            decision = await self._approvals.find(name)
            run = await self._run_store.load_run(decision.run)
            # An anonymous caller's credential is the run's id; a decision's is not one.
            if run is not None and run.owner == context.principal.key and not context.principal.is_anonymous:
                return decision_json(decision)
        raise NotFound("there is nothing at this uri", key="uri")

    # -- watching --------------------------------------------------------------------------------------------

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        return self._watchers.add(watcher)

    async def close(self) -> None:
        await self._watchers.close()

    async def _poll(self) -> None:
        """Until nobody watches."""
        stamp, newest = self._changed(), await self._newest()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            current = self._changed()
            if current == stamp:
                continue
            stamp = current
            try:
                newest = await self._tell(newest)
            except ChaosError as error:
                log.warning("changes of runs cannot be seen: %s", error.message)
            except Exception:
                log.exception("looking for changes of runs failed unexpectedly")

    async def _newest(self) -> int:
        with suppress(ChaosError):
            found = await self._audit.tail(None, None, 1, None)
            return found[0][0] if found else 0
        return 0

    async def _tell(self, newest: int) -> int:
        found = await self._audit.tail(None, None, EVENTS_MAX, None)
        fresh = [event for seq, event in found if seq > newest]
        labels = {str(event["run"]) for event in fresh if event.get("run") is not None}
        uris = [RUNS, DECISIONS] if labels else []
        for label in sorted(labels):
            uris.append(f"{RUNS}/{label}")
            run = await self._run_store.load_run(label)
            if run is not None and run.handle is not None:
                uris.append(f"{RUNS}/{run.handle}")
        for event in fresh:
            data = event.get("data")
            if is_object(data) and isinstance(data.get("decision"), str):
                uris.append(f"{DECISIONS}/{data['decision']}")
        self._watchers.tell(dict.fromkeys(uris))
        return max([newest, *(seq for seq, _ in found)])

"""Pages of the past: answered decisions, agents' sessions, the audit and its chain."""

from __future__ import annotations

from starlette.responses import Response

from chaoscore.adapters.web.forms import BadForm
from chaoscore.adapters.web.visit import Visit

PER_PAGE = 25
EVENTS_PER_PAGE = 50


async def index(visit: Visit) -> Response:
    folders = visit.center.parts.folders
    wanted, after = visit.query("folder"), visit.query("after") or None
    if wanted:
        sessions, cursor = await visit.center.sessions(wanted, after, PER_PAGE)
        root = next(folder.root for folder in folders if folder.key == wanted)
        return visit.page("sessions.html", sessions=sessions, cursor=cursor, folder=wanted, root=root, folders=folders)
    past, cursor = await visit.center.past(after, PER_PAGE)
    return visit.page("history.html", past=past, cursor=cursor, first=after is None, folders=folders)


async def audit(visit: Visit) -> Response:
    run, kind, before = visit.query("run").strip(), visit.query("kind").strip(), visit.query("before")
    if before and not (before.isascii() and before.isdigit() and len(before) < 19):
        raise BadForm(400, "this page's address is not one of ours; begin at the first page")
    events, following = await visit.center.audit(
        run or None, kind or None, int(before) if before else None, EVENTS_PER_PAGE
    )
    chain = visit.center.chain.status
    return visit.page(
        "audit.html", events=events, following=following, run=run, kind_wanted=kind, chain=chain, first=not before
    )


async def verify(visit: Visit) -> Response:
    await visit.center.chain.start()
    return visit.to("/audit")

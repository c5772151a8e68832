"""Pages of runs: the list, one as a timeline, cancelling, and what is ready to go on."""

from __future__ import annotations

from starlette.responses import Response

from chaoscore.adapters.web.visit import Visit

PER_PAGE = 25
ANSWERED_MAX = 100


async def index(visit: Visit) -> Response:
    runs, cursor = await visit.center.runs(visit.query("after") or None, PER_PAGE)
    return visit.page("runs.html", runs=runs, cursor=cursor, first=not visit.query("after"))


async def one(visit: Visit) -> Response:
    run = await visit.center.run(visit.path("label"))
    return visit.page("run.html", run=run, note=None)


async def cancel(visit: Visit) -> Response:
    """Ends the run when the box was ticked: a slip must not end anything."""
    label = visit.path("label")
    if visit.form.get("sure") != "yes":
        run = await visit.center.run(label)
        return visit.page("run.html", 422, run=run, note="nothing was cancelled: tick the box first")
    run = await visit.center.cancel(label)
    if run.notes:
        return visit.page("run.html", 409, run=run, note="; ".join(run.notes))
    return visit.to(f"/runs/{label}")


async def resume(visit: Visit) -> Response:
    folders = await visit.center.folder_states()
    answered = await visit.center.answered_runs(ANSWERED_MAX)
    return visit.page("resume.html", folders=folders, answered=answered)

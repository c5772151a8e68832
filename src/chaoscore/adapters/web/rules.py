"""Pages of what holds: the policy with a question to it, and the memory."""

from __future__ import annotations

from starlette.responses import Response

from chaoscore.adapters.web.visit import Visit
from chaoscore.domain.errors import NotFound

PER_PAGE = 25
HISTORY_MAX = 50


async def policy(visit: Visit) -> Response:
    name, url = visit.query("capability").strip(), visit.query("url").strip()
    answer, problem = None, None
    if name:
        try:
            answer = visit.center.explain(name, [url] if url else [])
        except NotFound as error:
            problem = error.message
    return visit.page(
        "policy.html",
        told=visit.center.policy(),
        capabilities=visit.center.capabilities(),
        name=name,
        url=url,
        answer=answer,
        problem=problem,
    )


async def memory(visit: Visit) -> Response:
    text, after = visit.query("q").strip(), visit.query("after")
    page = await visit.center.memories(text or None, after or None, PER_PAGE)
    return visit.page("memory.html", page=page, text=text, first=not after)


async def one_memory(visit: Visit) -> Response:
    key = visit.query("key")
    found, earlier = await visit.center.memory(key, HISTORY_MAX)
    if found is None and not earlier:
        raise NotFound(f"there is no memory {key[:200]!r}")
    return visit.page("memory_one.html", key=key, memory=found, earlier=earlier)

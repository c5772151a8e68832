"""``json.query``: a JMESPath query over data from earlier steps; the only way to reshape data between steps.

The gate stands above it, ``interpreter`` below. It touches nothing and computes the same result every time.
"""

from __future__ import annotations

import asyncio
import json

from chaoscore.adapters.capabilities.query.options import QueryOptions
from chaoscore.app.ports import HandlerContext, Provided
from chaoscore.domain.capability import Annotations, Capability
from chaoscore.domain.errors import NotPerformed
from chaoscore.domain.json import Json, JsonObject, brief, pointer_join, unfit_parts

NAME = "json.query"
DATA_INVALID = "QUERY_DATA_INVALID"
NESTING_MAX = 64


def provide(options: QueryOptions | None = None) -> Provided:
    chosen = options or QueryOptions()

    async def query(arguments: JsonObject, _: HandlerContext) -> Json:
        # A step budget ends it, not a time-out: a thread cannot be stopped from outside.
        return await asyncio.to_thread(_run, str(arguments["query"]), arguments["data"], chosen)

    return Provided(_capability(chosen), query)


def _capability(options: QueryOptions) -> Capability:
    return Capability(
        name=NAME,
        description=(
            "Select, reshape, count and join JSON with a JMESPath query. Besides JMESPath's own functions: lines, "
            "split, replace, trim, trim_left, trim_right, lower, upper, pad_left, pad_right, from_json, zip, items, "
            "from_items, group_by. A line break in the query's quotes is a line break: join('\\n', lines)."
        ),
        risk="low",
        input_schema={
            "type": "object",
            "required": ["data", "query"],
            "additionalProperties": False,
            "properties": {
                "data": {"description": "any JSON; usually references to outputs of earlier steps"},
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": options.query_chars_max,
                    "description": "a JMESPath expression, for example entries[?bytes > `1000`].path",
                },
            },
        },
        output_schema={
            "type": "object",
            "required": ["result"],
            "additionalProperties": False,
            "properties": {"result": {"description": "what the query selects; null when there is no such thing"}},
        },
        annotations=Annotations(read_only=True, idempotent=True, destructive=False, open_world=False),
        # What it returns is as trusted as its data, and where that comes from is known from the plan.
        untrusted_output=False,
        builtin=True,
    )


def _run(query: str, data: Json, options: QueryOptions) -> dict[str, Json]:
    from chaoscore.adapters.capabilities.query.interpreter import evaluate

    result = evaluate(query, _plain(data, options.data_bytes_max), options.steps_max)
    unfit = next(unfit_parts(result, nesting_max=NESTING_MAX, bytes_max=options.result_bytes_max), None)
    if unfit is not None:
        where = f"at {brief(pointer_join(*unfit.tokens))}: " if unfit.tokens else ""
        raise NotPerformed(f"the result cannot be kept: {where}{unfit.reason}", code=DATA_INVALID)
    return {"result": result}


def _plain(data: Json, bytes_max: int) -> Json:
    """A copy of plain lists and dicts: the interpreter tells types by their exact class."""
    try:
        text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        raise NotPerformed("the data is not JSON, or nested too deeply", code=DATA_INVALID) from None
    if len(text) > bytes_max:
        raise NotPerformed(f"the data has more than {bytes_max} bytes; query less of it", code=DATA_INVALID)
    plain: Json = json.loads(text)
    return plain

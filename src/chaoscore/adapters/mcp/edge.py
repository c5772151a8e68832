"""Where errors become MCP's: the outermost layer around every message, on every transport.

Two kinds of answer. A call that names a tool wrongly, or whose arguments are no object, is answered in our envelope
like any other argument error, because a model reads results and rarely sees protocol errors. Everything else that goes
wrong becomes a JSON-RPC error that names the key and never carries a value, a stack trace or another library's words.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from chaoscore.adapters.mcp.definition import RequestContext
from chaoscore.adapters.mcp.wire import Wire
from chaoscore.domain.errors import ChaosError, InvalidInput, NotFound
from chaoscore.domain.json import Json, type_name

log = logging.getLogger(__name__)

RESOURCE_NOT_FOUND_2025 = -32002
"""Retired by 2026-07-28, where a URI that leads nowhere is ``INVALID_PARAMS``."""


class Edge:
    """SDK middleware; one per server. ``refuse`` makes a tool result of an error."""

    def __init__(self, server: Server[Any], refuse: Callable[[ChaosError], Wire]) -> None:
        self._server = server
        self._refuse = refuse

    async def __call__(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:
            return await call_next(ctx)
        if ctx.method == "tools/call":
            problem = call_problem(ctx.params)
            if problem is not None:
                return self._complete(ctx, self._refuse(problem))
        try:
            return await call_next(ctx)
        except MCPError:
            raise
        except ValidationError as error:
            raise invalid_params(error) from None
        except ChaosError as error:
            raise protocol_error(error, ctx.protocol_version) from None
        except Exception:
            log.exception("%s failed unexpectedly", ctx.method)
            raise MCPError(INTERNAL_ERROR, f"{ctx.method} failed unexpectedly; the server's log tells why") from None

    def _complete(self, ctx: RequestContext, result: Wire) -> Wire:
        """What the SDK adds to the results it shapes itself."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            del result["resultType"]
        else:
            result["_meta"] = {SERVER_INFO_META_KEY: self._server.server_info_stamp}
        return result


def call_problem(params: Mapping[str, Any] | None) -> InvalidInput | None:
    """What is wrong with the parameters of ``tools/call`` before any tool can be found."""
    name = (params or {}).get("name")
    if not isinstance(name, str):
        found = "missing" if name is None else type_name(name)
        return InvalidInput(f"name: must be the name of a tool, not {found}", key="name")
    arguments = (params or {}).get("arguments")
    if arguments is not None and not isinstance(arguments, Mapping):
        return InvalidInput(f"arguments: must be object, not {type_name(arguments)}", key="arguments")
    return None


def invalid_params(error: ValidationError) -> MCPError:
    """``INVALID_PARAMS`` naming the first key that does not fit."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    path = [str(part) for part in first["loc"]]
    key = ".".join(path[1:] if path[:1] == ["params"] else path) or "params"
    return MCPError(INVALID_PARAMS, f"invalid params: {key}: {first['msg'].lower()}", {"key": key})


def protocol_error(error: ChaosError, protocol_version: str) -> MCPError:
    """An error of our own tree, outside a tool."""
    data: dict[str, Json] = {"code": error.code, "details": error.details}
    if "uri" in error.details:
        data["uri"] = error.details["uri"]  # where 2026-07-28 wants it
    if isinstance(error, NotFound) and protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return MCPError(RESOURCE_NOT_FOUND_2025, error.message, data)
    if isinstance(error, InvalidInput | NotFound):
        return MCPError(INVALID_PARAMS, error.message, data)
    return MCPError(INTERNAL_ERROR, error.message, data)

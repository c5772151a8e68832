"""``http.request``: one GET, its redirects followed by hand so that each passes every guard the first one passed.

The gate stands above it (it has asked the policy about the URL that was planned); ``resolve`` and ``connect`` below. A
hop is: read the URL strictly, ask the policy through ``HandlerContext.authorize``, check every address, connect to a
checked one, read within bounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from chaoscore import __version__
from chaoscore.adapters.capabilities.http.options import HttpOptions
from chaoscore.adapters.capabilities.http.resolve import Resolver, check_addresses, checked_addresses, system_resolver
from chaoscore.adapters.capabilities.http.target import URL_CHARS_MAX, Target, parse_target, redirect_target
from chaoscore.adapters.capabilities.strict_json import parse_json
from chaoscore.app.ports import HandlerContext, Provided
from chaoscore.domain.capability import Annotations, Capability, Sink
from chaoscore.domain.errors import CapabilityError, NotPerformed
from chaoscore.domain.evaluation import Check
from chaoscore.domain.json import Json, JsonObject

NAME = "http.request"
TIMEOUT = "HTTP_TIMEOUT"
REDIRECTS = "HTTP_REDIRECTS"
_REDIRECT_STATUSES = (301, 302, 303, 307, 308)
# A session that a server opens belongs to nobody here: it is not sent back, and not kept in results.
_HEADERS_DROPPED = frozenset({"set-cookie", "set-cookie2"})


def provide(options: HttpOptions | None = None, resolver: Resolver = system_resolver) -> Provided:
    chosen = options or HttpOptions()
    return Provided(_capability(chosen), HttpRequest(chosen, resolver))


def _capability(options: HttpOptions) -> Capability:
    return Capability(
        name=NAME,
        description=(
            "Fetch an http or https URL with GET and return status, headers and body as text. Only domains in the "
            "policy's httpAllowedDomains; no private addresses, no credentials, no cookies. A status of 400 or more "
            "fails unless the step checks /status itself."
        ),
        risk="medium",
        input_schema={
            "type": "object",
            "required": ["url"],
            "additionalProperties": False,
            "properties": {
                "url": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": URL_CHARS_MAX,
                    "description": "absolute http or https URL, without user name or password",
                },
                "headers": {
                    "type": "object",
                    "additionalProperties": False,
                    "description": "the request headers a plan may set; none that carries a credential is among them",
                    "properties": {
                        "accept": {
                            "type": "string",
                            "maxLength": 200,
                            "pattern": "^[ -~]*$",
                            "description": "media types wanted, for example application/json",
                        },
                        "accept-language": {
                            "type": "string",
                            "maxLength": 100,
                            "pattern": "^[A-Za-z0-9,;=.* -]*$",
                            "description": "languages wanted, for example de, en;q=0.5",
                        },
                    },
                },
            },
        },
        output_schema={
            "type": "object",
            "required": ["status", "url", "headers", "body", "bytes", "charset", "exact", "json", "redirects"],
            "additionalProperties": False,
            "properties": {
                "status": {"type": "integer", "description": "HTTP status of the last answer"},
                "url": {"type": "string", "description": "where the answer came from, after redirects"},
                "headers": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "names in lower case; repeated ones joined by ', '; cookies left out",
                },
                "body": {"type": "string", "description": "the body as text"},
                "bytes": {"type": "integer", "description": "length of the body after decompression"},
                "charset": {"type": "string", "description": "how the body was read"},
                "exact": {
                    "type": "boolean",
                    "description": "false when the body is not text in that charset and was read with losses",
                },
                "json": {"description": "the parsed body when the server calls it JSON and it is; null otherwise"},
                "redirects": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "the URLs that led here, in order; empty when the first one answered",
                },
            },
        },
        annotations=Annotations(read_only=True, idempotent=True, destructive=False, open_world=True),
        untrusted_output=True,
        sinks=(Sink("/url", "url"),),
        default_expect=(Check("/status", "lt", 400),),
        builtin=True,
        timeout_seconds=options.total_seconds + 5.0,
    )


@dataclass(slots=True)
class _Journey:
    """How far a request got: whether anything of it has left, and the URLs that redirected."""

    sent: bool
    redirects: list[str]


class HttpRequest:
    """The handler. Raises ``NotPerformed`` while nothing has been sent, ``CapabilityError`` after."""

    def __init__(self, options: HttpOptions, resolver: Resolver) -> None:
        self._options = options
        self._resolver = resolver

    async def __call__(self, arguments: JsonObject, context: HandlerContext) -> Json:
        journey = _Journey(False, [])
        seconds = min(self._options.total_seconds, context.deadline_seconds)
        try:
            # One deadline for everything: a server that sends one byte now and then is late as a whole.
            async with asyncio.timeout(seconds):
                await asyncio.to_thread(_prepare, self._options.ca_file)
                return await self._follow(arguments, context, journey)
        except TimeoutError:
            kind = CapabilityError if journey.sent else NotPerformed
            raise kind(f"no complete answer within {seconds:g} s", code=TIMEOUT) from None

    async def _follow(self, arguments: JsonObject, context: HandlerContext, journey: _Journey) -> Json:
        target = parse_target(str(arguments["url"]))
        headers = _request_headers(arguments)
        while True:
            # The policy is asked about the URL as it was read here, so that nothing depends on two readers agreeing.
            context.authorize({"url": target.url})
            found = await self._one_hop(target, headers, context, journey)
            if isinstance(found, dict):
                return found
            if len(journey.redirects) >= self._options.redirects_max:
                raise CapabilityError(f"more than {self._options.redirects_max} redirects", code=REDIRECTS)
            journey.redirects.append(target.url)
            target = found

    async def _one_hop(
        self, target: Target, headers: dict[str, str], context: HandlerContext, journey: _Journey
    ) -> dict[str, Json] | Target:
        from chaoscore.adapters.capabilities.http.body import decode_text, read_body
        from chaoscore.adapters.capabilities.http.connect import Wire, exchange

        wire = Wire(await self._addresses(target, context.private_hosts), self._options.connect_seconds)
        try:
            async with exchange(target, wire, headers, self._options) as answer:
                location = answer.header("location")
                if answer.status in _REDIRECT_STATUSES and location is not None:
                    return redirect_target(target, location)
                body = await read_body(answer, self._options.body_bytes_max)
        finally:
            journey.sent = journey.sent or wire.sent
        content_type = answer.header("content-type") or ""
        # A megabyte takes milliseconds to read and parse: not on the event loop.
        text = await asyncio.to_thread(decode_text, body, content_type)
        parsed = await asyncio.to_thread(_json_of, text.text, content_type)
        return {
            "status": answer.status,
            "url": target.url,
            "headers": _response_headers(answer.headers),
            "body": text.text,
            "bytes": len(body),
            "charset": text.charset,
            "exact": text.exact,
            "json": parsed,
            "redirects": list(journey.redirects),
        }

    async def _addresses(self, target: Target, private_hosts: Sequence[str]) -> Sequence[str] | None:
        if self._options.proxy is None:
            return await checked_addresses(target, self._resolver, private_hosts)
        if target.address is not None:
            check_addresses(target, (target.address,), private_hosts)
            if ":" in target.address:
                raise NotPerformed("IPv6 addresses are not requested through a proxy; use a host name")
        return None


def _prepare(ca_file: str | None) -> None:
    """What the first request needs and takes a tenth of a second: too long for the event loop."""
    from chaoscore.adapters.capabilities.http.connect import tls_context

    try:
        tls_context(ca_file)
    except OSError:
        raise NotPerformed(
            f"the certificate file {ca_file!r} cannot be used; the operator has to mend CHAOS_CORE_CA_FILE"
        ) from None


def _request_headers(arguments: JsonObject) -> dict[str, str]:
    from chaoscore.adapters.capabilities.http.body import ACCEPT_ENCODING

    headers = {
        "Accept": "*/*",
        "Accept-Encoding": ACCEPT_ENCODING,
        "User-Agent": f"chaos-core/{__version__}",
        "Connection": "close",
    }
    given = arguments.get("headers")
    if isinstance(given, dict):
        headers.update({name.title(): str(value) for name, value in given.items()})
    return headers


def _response_headers(headers: Sequence[tuple[str, str]]) -> dict[str, Json]:
    out: dict[str, str] = {}
    for name, value in headers:
        if name not in _HEADERS_DROPPED:
            out[name] = f"{out[name]}, {value}" if name in out else value
    return dict(out)


def _json_of(text: str, content_type: str) -> Json:
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        return None
    try:
        return parse_json(text)
    except ValueError:
        return None

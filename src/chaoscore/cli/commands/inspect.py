"""``chaoscore inspect``: what is there, through the same tool that clients use."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.exits import Exit
from chaoscore.cli.options import add_common, add_provider, add_roots, examples, whole

if TYPE_CHECKING:
    from chaoscore.bootstrap import Kernel
    from chaoscore.domain.json import Json, JsonObject

TOPICS = (
    "health",
    "capabilities",
    "policy",
    "providers",
    "session",
    "plan",
    "run",
    "runs",
    "decisions",
    "audit",
    "memory",
)
EXAMPLES = examples(
    ("chaoscore inspect", "health: policy, provider, store"),
    ("chaoscore inspect capabilities", "what can be done, how risky it is, and what policy says"),
    ("chaoscore inspect capabilities http.request --json", "one of them with its schemas"),
    ("chaoscore inspect providers --probe", "which model plans, and whether its server enforces a schema"),
    ("chaoscore inspect run last", "a run as clients see it"),
)
_NAMED_BY = {"plan": "plan_id", "run": "run_id", "audit": "run_id", "capabilities": "name", "memory": "key"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("what", nargs="?", default="health", choices=TOPICS, metavar="TOPIC", help=", ".join(TOPICS))
    parser.add_argument("name", nargs="?", metavar="NAME", help="which run, plan, capability or memory")
    parser.add_argument("--step", metavar="STEP", help="with run: this step's output in full")
    parser.add_argument(
        "--probe", action="store_true", help="with providers: ask the model once whether it follows a schema"
    )
    parser.add_argument("--limit", type=whole(1, 100), default=20, metavar="N", help="1 to 100 (20)")
    parser.add_argument("--cursor", metavar="CURSOR", help="continue where an earlier answer ended")
    add_roots(parser)
    add_provider(parser)
    add_common(parser)


def work(call: Call) -> int:
    from chaoscore.domain.errors import InvalidInput

    if call.args.name is not None and call.args.what not in _NAMED_BY:
        raise InvalidInput(f"{call.args.what!r} takes no name", key="name")
    if call.args.probe and call.args.what != "providers":
        raise InvalidInput(f"{call.args.what!r} has nothing to probe", key="probe")
    return call.run(lambda kernel: _inspect(kernel, call))


async def _probe(kernel: Kernel, call: Call) -> None:
    """One request to the model; what it tells is among the provider's facts from then on."""
    from chaoscore.bootstrap import probe_provider
    from chaoscore.cli.views.words import plain

    usage = await probe_provider(kernel)
    call.terminal.tell(plain(f"one request was sent to the model: {usage.tokens} tokens", "dim"))


async def _inspect(kernel: Kernel, call: Call) -> int:
    from chaoscore.cli.find import run_id
    from chaoscore.cli.views.topics import topic_view
    from chaoscore.domain.errors import ChaosError

    what: str = call.args.what
    arguments: dict[str, Json] = {"what": what, "limit": call.args.limit}
    name: str | None = call.args.name
    if name is not None:
        arguments[_NAMED_BY[what]] = await run_id(kernel, name) if _NAMED_BY[what] == "run_id" else name
    for key in ("step", "cursor"):
        if getattr(call.args, key) is not None:
            arguments[key] = getattr(call.args, key)
    if call.args.probe:
        await _probe(kernel, call)
    envelope = await kernel.tools.call("chaoscore_inspect", arguments, kernel.local_context())
    if not envelope.ok:
        details = envelope.error_details
        raise ChaosError(
            envelope.message, code=envelope.error_code, **(dict(details) if isinstance(details, dict) else {})
        )
    data: JsonObject = envelope.data
    call.terminal.show(*topic_view(what, envelope.message, data))
    if call.terminal.as_json:
        call.terminal.answer(envelope.to_json())
    return Exit.OK

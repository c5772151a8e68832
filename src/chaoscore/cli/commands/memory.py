"""``chaoscore memory``: what is remembered, shared with every local client."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.exits import Exit
from chaoscore.cli.options import Subcommands, add_common, examples, whole

if TYPE_CHECKING:
    from chaoscore.bootstrap import Kernel
    from chaoscore.domain.json import Json
    from chaoscore.domain.memory import Memory, RecallQuery, Recollection

EXAMPLES = examples(
    ('chaoscore memory set team.language "Python 3.11" --tag project', "keep a text"),
    ("chaoscore memory set limits '{\"rpm\": 60}' --as-json --ttl 86400", "keep JSON for a day"),
    ("chaoscore memory search deployment checklist", "find by words, best first"),
    ("chaoscore memory get team.language --history", "a value and what it was before"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    commands = Subcommands(parser)
    listing = commands.add("list", "everything, newest first", _list)
    getting = commands.add("get", "the value of one key", _get)
    getting.add_argument("key", metavar="KEY")
    getting.add_argument("--history", action="store_true", help="earlier versions too, newest first")
    setting = commands.add("set", "keep a value under a key", _set)
    setting.add_argument("key", metavar="KEY")
    setting.add_argument("value", metavar="VALUE", help="the text; - reads standard input")
    setting.add_argument("--as-json", action="store_true", help="VALUE is JSON, not text")
    setting.add_argument("--tag", action="append", default=[], metavar="TAG", help="a tag to find it by (repeat)")
    setting.add_argument("--ttl", type=float, metavar="SECONDS", help="forget it after this long")
    setting.add_argument(
        "--expect-version", type=whole(0, 10**9), metavar="N", help="only if this is its version (0: only if new)"
    )
    searching = commands.add("search", "find by words, best first", _search)
    searching.add_argument("words", nargs="+", metavar="WORD")
    forgetting = commands.add("forget", "remove a key and its history for good", _forget)
    forgetting.add_argument("key", metavar="KEY")
    for command in (listing, searching):
        command.add_argument("--tag", action="append", default=[], metavar="TAG", help="only with this tag (repeat)")
        command.add_argument("--limit", type=whole(1, 100), default=20, metavar="N", help="1 to 100 (20)")
        command.add_argument("--cursor", metavar="CURSOR", help="continue where an earlier answer ended")
    for command in (listing, getting, setting, searching, forgetting):
        add_common(command)


def _list(call: Call) -> int:
    from chaoscore.domain.memory import RecallQuery

    args = call.args
    return call.run(
        lambda kernel: _recall(kernel, call, RecallQuery(None, None, tuple(args.tag), args.limit, args.cursor))
    )


def _search(call: Call) -> int:
    from chaoscore.domain.memory import RecallQuery

    args = call.args
    query = RecallQuery(None, " ".join(args.words), tuple(args.tag), args.limit, args.cursor)
    return call.run(lambda kernel: _recall(kernel, call, query))


async def _recall(kernel: Kernel, call: Call, query: RecallQuery) -> int:
    from chaoscore.cli.views.words import one_line, plain, rows, when

    page: Recollection = await kernel.services.memories.recall(query, kernel.local_context())
    if call.terminal.as_json:
        call.terminal.answer({"memories": [memory.to_json() for memory in page.memories], "cursor": page.cursor})
    if not page.memories:
        call.terminal.show(plain("nothing is remembered" + (" that fits" if query.text or query.tags else "")))
    else:
        lines = [
            (
                memory.key,
                one_line(memory.value, 60),
                ", ".join(memory.tags),
                str(memory.version),
                when(memory.updated_at),
            )
            for memory in page.memories
        ]
        call.terminal.show(rows(("key", "value", "tags", "version", "written"), lines))
    if page.cursor is not None:
        call.terminal.show(plain(f"more: add --cursor {page.cursor}", "dim"))
    return Exit.OK


def _get(call: Call) -> int:
    async def work(kernel: Kernel) -> int:
        from chaoscore.cli.views.words import in_full, one_line, plain, rows, when
        from chaoscore.domain.errors import NotFound
        from chaoscore.domain.memory import LIMIT_MAX, RecallQuery

        key: str = call.args.key
        context = kernel.local_context()
        page = await kernel.services.memories.recall(RecallQuery(key=key, limit=1), context)
        if not page.memories:
            raise NotFound(f"nothing is remembered under {key!r}", key="key")
        memory = page.memories[0]
        earlier: tuple[Memory, ...] = ()
        if call.args.history:
            earlier = await kernel.services.memories.history(key, LIMIT_MAX, context)
        if call.terminal.as_json:
            call.terminal.answer({"memory": memory.to_json(), "history": [old.to_json() for old in earlier]})
        call.terminal.show(*(plain(line) for line in in_full(memory.value)))
        if earlier:
            lines = [(str(old.version), when(old.updated_at), one_line(old.value)) for old in earlier]
            call.terminal.show(plain(""), rows(("version", "written", "value"), lines))
        return Exit.OK

    return call.run(work)


def _set(call: Call) -> int:
    async def work(kernel: Kernel) -> int:
        from chaoscore.cli.views.words import plain
        from chaoscore.domain.memory import NewMemory

        args = call.args
        memory = NewMemory(args.key, _value(args), tuple(args.tag), args.ttl, args.expect_version)
        kept = await kernel.services.memories.remember(memory, kernel.local_context())
        call.terminal.show(plain(f"{kept.key} is kept as version {kept.version}"))
        if call.terminal.as_json:
            call.terminal.answer({"memory": kept.to_json()})
        return Exit.OK

    return call.run(work)


def _forget(call: Call) -> int:
    async def work(kernel: Kernel) -> int:
        from chaoscore.cli.views.words import plain

        gone = await kernel.services.memories.forget(call.args.key, kernel.local_context())
        call.terminal.show(plain(f"{call.args.key} is gone for good" if gone else f"there is no {call.args.key}"))
        if call.terminal.as_json:
            call.terminal.answer({"forgotten": gone})
        return Exit.OK if gone else Exit.FAILED

    return call.run(work)


def _value(args: argparse.Namespace) -> Json:
    from chaoscore.cli.json_text import parse_json
    from chaoscore.domain.memory import VALUE_BYTES_MAX

    text: str = args.value
    if text == "-":
        text = sys.stdin.read(VALUE_BYTES_MAX + 1)
    return parse_json(text, "the value") if args.as_json else text

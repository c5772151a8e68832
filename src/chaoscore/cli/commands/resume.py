"""``chaoscore resume``: which command runs were answered and can go on, and going on with one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.interactions import add_interaction_options, told, with_interactions
from chaoscore.cli.options import examples

if TYPE_CHECKING:
    from chaoscore.bootstrap_interaction import Interactions

EXAMPLES = examples(
    ("chaoscore resume", "the runs whose human has answered"),
    ("chaoscore resume RUN-2026-… --show", "what is needed to go on with one"),
    ("chaoscore resume RUN-2026-…", "take it up: it is running again, and its capsule says what comes next"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("run", nargs="?", metavar="RUN", help="the run to go on with (default: a list)")
    parser.add_argument("--show", action="store_true", help="only show its capsule")
    parser.add_argument("--change", metavar="CHANGE", help="only runs on this change")
    parser.add_argument("--command", dest="source_command", metavar="COMMAND", help="only runs of this command")
    add_interaction_options(parser)


def work(call: Call) -> int:
    if call.args.run is None:
        return with_interactions(call, lambda runtime: _list(runtime, call))
    return with_interactions(call, lambda runtime: _resume(runtime, call))


async def _list(runtime: Interactions, call: Call) -> int:
    from chaoscore.cli.views.words import one_line, plain, rows
    from chaoscore.domain.json import is_array, is_object

    envelope = await runtime.service.resume_candidates(call.args.change, None, call.args.source_command)
    found = envelope.data.get("candidates")
    candidates = [item for item in found if is_object(item)] if is_array(found) else []
    if envelope.ok and candidates:
        lines = [
            (
                str(item.get("commandRunId")),
                one_line(item.get("sourceCommand"), 40),
                str(item.get("changeId") or "–"),
                one_line(item.get("nextStep") or "–", 60),
                str(item.get("updatedAt")),
            )
            for item in candidates
        ]
        call.terminal.show(rows(("run", "command", "change", "next step", "since"), lines))
    elif envelope.ok:
        call.terminal.show(plain("no command run can be resumed"))
    return told(call, envelope)


async def _resume(runtime: Interactions, call: Call) -> int:
    from chaoscore.cli.views.decision import capsule_view
    from chaoscore.cli.views.words import plain
    from chaoscore.domain.json import is_object

    run: str = call.args.run
    resumed = None if call.args.show else await runtime.service.resume(run)
    if resumed is not None and not resumed.ok:
        return told(call, resumed)
    found = await runtime.service.resume_capsule(run)
    capsule = found.data.get("capsule")
    call.terminal.show(*(capsule_view(capsule) if is_object(capsule) else [plain(found.message)]))
    if resumed is None:
        return told(call, found)
    for warning in found.warnings:
        call.terminal.warn(warning)
    call.terminal.show(plain(f"{run} is running", "green"))
    return told(call, resumed)

"""``chaoscore doctor``: is the human-decision folder sound, and what to do where it is not. Changes nothing."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.exits import Exit
from chaoscore.cli.interactions import add_interaction_options, settings_of
from chaoscore.cli.options import examples
from chaoscore.cli.suggesting import copyable

if TYPE_CHECKING:
    from chaoscore.app.interaction_doctor import Report

STATUS_EXITS = {"healthy": Exit.OK, "degraded": Exit.FAILED, "blocked": Exit.ATTENTION}
EXAMPLES = examples(
    ("chaoscore doctor", "what is wrong and what to do; exit 0 healthy, 1 degraded, 4 blocked"),
    ("chaoscore doctor --status", "a few lines for a prompt or a commit hook"),
    ("chaoscore doctor --json", "the whole report for programs"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("--status", action="store_true", help="only the summary")
    parser.add_argument("--all", action="store_true", help="what is in order too")
    parser.add_argument(
        "--stale-decision-age-hours", metavar="HOURS", help="a decision that waits longer is stale (24)"
    )
    parser.add_argument("--stale-lock-age-hours", metavar="HOURS", help="a lock that is held longer is stale (24)")
    parser.add_argument(
        "--expired-runner-lease-grace-ms", metavar="MS", help="how long a runner may be silent after its lease (30000)"
    )
    parser.add_argument("--no-todo-candidates", action="store_true", help="leave out suggested work")
    parser.add_argument("--no-validate", action="store_true", help="do not check documents against schemas")
    parser.add_argument("--no-commands", action="store_true", help="do not look at .claude/commands")
    add_interaction_options(parser)


def work(call: Call) -> int:
    from chaoscore.bootstrap_interaction import doctor_report
    from chaoscore.settings.doctor import load_doctor_settings

    args = call.args
    flags = {
        name: getattr(args, name.replace("-", "_"))
        for name in ("stale-decision-age-hours", "stale-lock-age-hours", "expired-runner-lease-grace-ms")
    }
    settings = settings_of(call)
    report = doctor_report(
        settings,
        load_doctor_settings(flags, call.environ),
        todos=not args.no_todo_candidates,
        validate=not args.no_validate,
        commands=not args.no_commands,
        copyable=copyable(),
    )
    if call.terminal.as_json:
        call.terminal.answer(report.to_json())
    else:
        _show(call, report)
    return STATUS_EXITS[report.status]


def _show(call: Call, report: Report) -> None:
    from chaoscore.cli.views.doctor import findings_view, summary_view, todos_view

    call.terminal.show(*summary_view(report))
    if not call.args.status:
        call.terminal.show(*findings_view(report, with_sound=call.args.all), *todos_view(report))

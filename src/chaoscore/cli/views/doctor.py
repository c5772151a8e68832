"""The doctor's report for a person: the summary, findings with the worst first, and suggested work."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from chaoscore.app.interaction_doctor import Report
from chaoscore.cli.views.words import count, plain, rows, title

_STYLES = {"BLOCKER": "bold red", "ERROR": "red", "WARN": "yellow", "INFO": "dim", "OK": "green"}
_STATUS = {"healthy": "bold green", "degraded": "bold yellow", "blocked": "bold red"}


def summary_view(report: Report) -> list[RenderableType]:
    summary = report.summary
    numbers = (
        ("pending decisions", summary.pending_decisions),
        ("ready to resume", summary.ready_sessions),
        ("stale locks", summary.stale_locks),
        ("expired runner leases", summary.expired_leases),
        ("malformed artifacts", summary.malformed),
        ("blocking findings", sum(1 for finding in report.findings if finding.severity == "BLOCKER")),
    )
    shown: list[RenderableType] = [
        Text.assemble(title("interaction runtime  "), (report.status, _STATUS[report.status])),
        plain(f"  {report.root}", "dim"),
    ]
    shown += [plain(f"  {label:<22} {number}", "" if number else "dim") for label, number in numbers]
    return shown


def findings_view(report: Report, with_sound: bool) -> list[RenderableType]:
    found = sorted(report.findings, key=lambda finding: -finding.rank)
    shown: list[RenderableType] = []
    for finding in found:
        if finding.severity == "OK" and not with_sound:
            continue
        shown += [
            Text(),
            Text.assemble((f"{finding.severity:<8}", _STYLES[finding.severity]), title(finding.title)),
            plain(f"        {finding.message}"),
        ]
        shown += [plain(f"        → {action}", "cyan") for action in finding.actions]
        shown.append(plain(f"        {finding.id}", "dim"))
    sound = sum(1 for finding in found if finding.severity == "OK")
    if sound and not with_sound:
        shown += [Text(), plain(f"{count(sound, 'check')} in order (--all shows them)", "dim")]
    return shown


def todos_view(report: Report) -> list[RenderableType]:
    if not report.todos:
        return []
    lines = [(todo.title, todo.priority, todo.next_action, ", ".join(todo.source_ids)) for todo in report.todos]
    return [Text(), title("suggested work"), rows(("what", "priority", "next", "about"), lines)]

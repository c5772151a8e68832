"""What the audit proves, in a line."""

from __future__ import annotations

from rich.text import Text

from chaoscore.cli.views.words import count, plain
from chaoscore.domain.mediation import MediationReport


def accounted_for(report: MediationReport, *, whole: bool) -> Text:
    """``whole`` is false where the chain broke and nothing beyond that was looked at."""
    reach = "" if whole else " before that"
    where, what = count(report.runs, "run"), count(report.effects, "effect")
    approvals = f"{report.approvals} of them approved" if report.approvals else "none of which needed approval"
    tail = f", {approvals}" if report.effects else ""
    return plain(f"everything{reach} is accounted for: {where}, {what}{tail}", "green" if whole else "dim")

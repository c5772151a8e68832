"""The examination: the survey, then every probe; a probe that fails is a finding and the others go on."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from chaoscore.app.interaction_doctor import probes_folder, probes_records, probes_repository
from chaoscore.app.interaction_doctor.context import Context, DoctorOptions
from chaoscore.app.interaction_doctor.evidence import Evidence
from chaoscore.app.interaction_doctor.report import SEVERITIES, Finding, Report, Summary
from chaoscore.app.interaction_doctor.survey import Survey, survey
from chaoscore.domain.interaction.names import instant_text

__all__ = ["DoctorOptions", "examine"]

log = logging.getLogger(__name__)
FINDINGS_PER_PROBE_MAX = 500

Probe = Callable[[Context], Iterator[Finding]]

PROBES: Final[tuple[tuple[str, Probe], ...]] = (
    ("runtime-root", probes_folder.runtime_root),
    ("schema", probes_folder.schema),
    ("artifact-validation", probes_folder.artifacts),
    ("decision", probes_records.decisions),
    ("session", probes_records.sessions),
    ("lock", probes_records.locks),
    ("capsule", probes_records.capsules),
    ("runner", probes_records.runners),
    ("write-lock", probes_folder.write_lock),
    ("derived", probes_folder.derived),
    ("audit", probes_folder.audit),
    ("mcp", probes_repository.mcp),
    ("decision-center", probes_repository.decision_center),
    ("hook", probes_repository.hooks),
    ("command-contract", probes_repository.commands),
)


def examine(evidence: Evidence, options: DoctorOptions, now_ms: int) -> Report:
    """Everything there is to say. Blocking, and linear in the size of the folder; writes nothing."""
    findings: list[Finding] = []
    summary = Summary()
    probes = PROBES
    if evidence.entry("") != "folder":
        found, probes = Survey(), PROBES[:1]
    else:
        try:
            found = survey(evidence, now_ms, options.validate)
        except Exception as error:
            found = Survey()
            findings.append(_crash("survey", error))
    context = Context(evidence, found, summary, options, now_ms)
    for name, probe in probes:
        try:
            _add(findings, name, probe(context))
        except Exception as error:
            findings.append(_crash(name, error))
    summary.malformed = found.malformed
    return Report(instant_text(now_ms), evidence.repository, evidence.root, tuple(findings), summary, options.todos)


def _add(findings: list[Finding], name: str, found: Iterator[Finding]) -> None:
    """What a probe found, as far as it came; beyond the bound only how much more there is."""
    findings.extend(islice(found, FINDINGS_PER_PROBE_MAX))
    rest = Counter(finding.severity for finding in found)
    if rest:
        worst = max(rest, key=SEVERITIES.index)
        counts = ", ".join(f"{rest[severity]} {severity}" for severity in SEVERITIES if rest[severity])
        words = f"further findings of this kind are not listed: {counts}"
        findings.append(Finding(f"IR-MORE-{name}", worst, name, "there is more", words))


def _crash(name: str, error: Exception) -> Finding:
    log.debug("probe %s failed", name, exc_info=error)
    return Finding(
        f"IR-PROBE-CRASH-{name}",
        "ERROR",
        "runtime-root",
        "a check could not be made",
        f"the check of {name} failed ({type(error).__name__}); report it",
        confidence="LOW",
    )

"""Probes of what surrounds the folder in a repository that uses the original's tools, hooks and commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from chaoscore.app.interaction_doctor.context import Context
from chaoscore.app.interaction_doctor.report import Finding, Severity, Todo
from chaoscore.domain.json import is_object

HOOK_POLICY = ".claude/hooks/reference/hook-runtime-policy.md"
VIOLATIONS = ".chaos/runtime/hook-violations.jsonl"
GUARD = "chaos-interaction-runtime-guard"
COMMANDS = ("chaos-apply", "chaos-verify", "chaos-archive")
KEYWORDS = ("interaction runtime", "muststop", "pending decision", "chaos:resume", "decision center")
_BYPASS = re.compile(
    r"(?:ignore|skip|bypass|continue (?:past|despite|without))[^.\n]{0,60}"
    r"(?:muststop|pending decision|interaction runtime|decision gate)",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"(?:never|do not|don't|must not|not allowed to|cannot)\s+(?:\w+\s+){0,3}$", re.IGNORECASE)


def mcp(context: Context) -> Iterator[Finding]:
    yield from _package(
        context, "MCP", "mcp", "tools/chaos-interaction-mcp",
        (
            ("packagejson", "package.json", "WARN"),
            ("READMEmd", "README.md", "INFO"),
            ("CLIentry", "src/cli.ts", "WARN"),
            ("configexample", "config.example.json", "INFO"),
        ),
    )  # fmt: skip


def decision_center(context: Context) -> Iterator[Finding]:
    yield from _package(
        context, "DC", "decision-center", "tools/chaos-decision-center",
        (
            ("packagejson", "package.json", "WARN"),
            ("READMEmd", "README.md", "INFO"),
            ("MANUALSMOKETESTmd", "MANUAL_SMOKE_TEST.md", "INFO"),
        ),
    )  # fmt: skip


def _package(
    context: Context, name: str, category: str, folder: str, wanted: tuple[tuple[str, str, Severity], ...]
) -> Iterator[Finding]:
    evidence = context.evidence
    if evidence.repository_entry(folder) != "folder":
        yield Finding(
            f"IR-{name}-ABSENT", "INFO", category, f"{folder} is not part of this repository",
            f"{folder} is not there; an installed server or extension needs nothing in the repository",
        )  # fmt: skip
        return
    sound = True
    for label, file, severity in wanted:
        if evidence.repository_entry(f"{folder}/{file}") != "file":
            sound = False
            yield Finding(
                f"IR-{name}-MISSING-{label}", severity, category, f"{file} is missing",
                f"{folder}/{file} is not there", (folder,), (f"{folder}/{file}",),
            )  # fmt: skip
    if sound:
        yield Finding(f"IR-{name}-OK", "OK", category, f"{folder} is complete", f"{folder} is complete")


def hooks(context: Context) -> Iterator[Finding]:
    evidence = context.evidence
    sound = True
    if evidence.repository_text(HOOK_POLICY) is None:
        sound = False
        yield Finding("IR-HOOK-POLICY-ABSENT", "INFO", "hook", "there is no hook policy", f"{HOOK_POLICY} is not there")
    if evidence.repository_entry(VIOLATIONS) != "file":
        yield Finding("IR-HOOK-NOSTREAM", "INFO", "hook", "no violation was recorded", f"{VIOLATIONS} is not there")
        return
    broken = recent = 0
    for line in evidence.repository_lines(VIOLATIONS):
        if line.problem is not None or not is_object(line.value):
            broken += 1
            continue
        guard = line.value.get("hook") == GUARD or "violationType" in line.value
        at = line.value.get("timestamp")
        if guard and isinstance(at, str) and context.hours_since(at) < context.options.stale_decision_hours:
            recent += 1
    if broken:
        sound = False
        yield Finding(
            "IR-HOOK-UNPARSEABLE", "WARN", "hook", "recorded violations cannot be read",
            f"{VIOLATIONS}: {broken} lines cannot be read", (VIOLATIONS,), (VIOLATIONS,),
        )  # fmt: skip
    if recent:
        sound = False
        yield Finding(
            "IR-HOOK-RECENT-VIOLATIONS", "WARN", "hook", "the runtime was bypassed lately",
            f"{VIOLATIONS}: {recent} violations in the last {context.options.stale_decision_hours:g} hours",
            (VIOLATIONS,), (VIOLATIONS,), ("read them; an agent went on where it had to stop",),
        )  # fmt: skip
    if sound:
        yield Finding("IR-HOOK-OK", "OK", "hook", "hooks are in order", "no violation in the last hours")


def commands(context: Context) -> Iterator[Finding]:
    evidence = context.evidence
    if not context.options.commands_enabled:
        yield Finding(
            "IR-CMD-INTEGRATION-DISABLED", "INFO", "command-contract", "commands were not looked at",
            "the check of commands is switched off",
        )  # fmt: skip
        return
    resume = ".claude/commands/chaos-resume.md"
    if evidence.repository_entry(resume) != "file":
        yield Finding(
            "IR-CMD-RESUME-MISSING", "WARN", "command-contract", "there is no chaos:resume command",
            f"{resume} is not there; resume with chaos_resume_command or chaoscore resume instead", (resume,),
        )  # fmt: skip
    texts = {name: evidence.repository_text(f".claude/commands/{name}.md") for name in COMMANDS}
    present = {name: text for name, text in texts.items() if text is not None}
    integrated = [name for name, text in present.items() if any(word in text.lower() for word in KEYWORDS)]
    if present and len(integrated) < len(present):
        missing = ", ".join(name for name in present if name not in integrated)
        yield Finding(
            "IR-CMD-INTEGRATION-PARTIAL", "INFO", "command-contract", "not every command knows the runtime",
            f"these commands do not mention the interaction runtime: {missing}",
            tuple(f".claude/commands/{name}.md" for name in present),
            todo=None if integrated else Todo(
                "Teach the commands to stop for decisions", ".claude/commands", tuple(present), "command", "MEDIUM",
                "say in each command that mustStop means stop", ("every command mentions the runtime",),
            ),
        )  # fmt: skip
    elif present:
        yield Finding(
            "IR-CMD-INTEGRATION-OK", "OK", "command-contract", "the commands know the runtime",
            f"{len(present)} commands mention the interaction runtime",
        )  # fmt: skip
    for name, text in present.items():
        found = next((hit for hit in _BYPASS.finditer(text) if not _NEGATED.search(text[: hit.start()][-40:])), None)
        if found is not None:
            path = f".claude/commands/{name}.md"
            number = text.count("\n", 0, found.start()) + 1
            yield Finding(
                f"IR-CMD-BYPASS-{name}.md", "ERROR", "command-contract", "a command tells agents to go on",
                f"{path}, line {number} seems to tell agents to pass over a decision",
                (path,), (path,), ("mend the wording: mustStop means stop",), confidence="MEDIUM",
            )  # fmt: skip

"""Probes of the folder itself: is it there, do the schemas stand, do the files hold together, can anybody write."""

from __future__ import annotations

from collections.abc import Iterator

from chaoscore.app.interaction_doctor.context import Context
from chaoscore.app.interaction_doctor.report import Finding
from chaoscore.domain.interaction.derived import active_pointer
from chaoscore.domain.interaction.event import EVENT_TYPES
from chaoscore.domain.interaction.names import ACTIVE_PATH, AUDIT_PATH, INDEX_PATH, LOCKS_PATH
from chaoscore.domain.json import Json, is_object

DIRECTORIES = ("sessions", "decisions", "capsules", "runners")
LINES_NAMED_MAX = 10


def runtime_root(context: Context) -> Iterator[Finding]:
    evidence = context.evidence
    if evidence.entry("") != "folder":
        yield Finding(
            "IR-ROOT-MISSING-001",
            "BLOCKER",
            "runtime-root",
            "there is no interactions folder",
            f"{evidence.root} is not there or is no folder; nothing was ever asked here, or the root is another one",
            (evidence.root,),
            actions=("begin a command, or name the folder with --root or --repo-root",),
        )
        return
    sound = True
    for name in DIRECTORIES:
        kind = evidence.entry(name)
        if kind == "folder":
            continue
        sound = False
        if kind == "absent":
            yield Finding(
                f"IR-ROOT-DIR-{name.upper()}",
                "INFO",
                "runtime-root",
                f"{name}/ is not there",
                f"{evidence.shown(name)} is not there; it is made when it is first needed",
                (evidence.shown(name),),
            )
        else:
            yield Finding(
                f"IR-ROOT-DIR-{name.upper()}",
                "ERROR",
                "runtime-root",
                f"{name}/ is no folder of this store",
                f"{evidence.shown(name)} is {_WORDS[kind]}; nothing in it is read or written",
                (evidence.shown(name),),
                (evidence.shown(name),),
                ("put a real folder in its place",),
            )
    for path in (ACTIVE_PATH, INDEX_PATH, LOCKS_PATH):
        document = evidence.document(path)
        if document is not None and document.problem is not None:
            sound = False
            if path != LOCKS_PATH:
                context.survey.malformed += 1
            yield Finding(
                f"IR-ROOT-POINTER-{path.replace('.', '').upper()}",
                "ERROR",
                "runtime-root",
                f"{path} cannot be understood",
                f"{evidence.shown(path)}: {document.problem}",
                (evidence.shown(path),),
                (evidence.shown(path),),
                ("repair or remove it; active.json and index.json are written anew by the next change",)
                if path != LOCKS_PATH
                else ("repair it by hand or restore it from version control",),
            )
    leftovers = evidence.leftovers()
    if leftovers:
        yield Finding(
            "IR-ROOT-LEFTOVERS",
            "INFO",
            "runtime-root",
            "temporary files were left behind",
            f"{len(leftovers)} temporary files are older than any writer; a server removes them when it starts",
            tuple(evidence.shown(path) for path in leftovers[:LINES_NAMED_MAX]),
        )
    for number, sentence in enumerate(evidence.restrictions()):
        yield Finding(f"IR-ROOT-FS-{number}", "WARN", "runtime-root", "the file system is restricted", sentence)
    if sound:
        yield _ok("ROOT", "runtime-root", f"{evidence.root} is in order")


_WORDS = {"file": "a file", "other": "neither file nor folder", "leads-out": "a link that leads out of the root"}


def schema(context: Context) -> Iterator[Finding]:
    evidence = context.evidence
    problems = {kind: evidence.schema_problem(kind) for kind in evidence.schema_kinds()}
    if all(problem == "missing" for problem in problems.values()):
        yield Finding(
            "IR-SCHEMA-DIR-MISSING",
            "BLOCKER",
            "schema",
            "there are no schemas",
            f"{evidence.schema_dir} has no schema; the VS Code panel cannot check what it writes",
            (evidence.schema_dir,),
            actions=("chaos-interaction-mcp --seed-schemas",),
        )
        return
    sound = True
    for kind, problem in problems.items():
        name = f"{kind}.schema.json"
        if problem is None or (problem == "missing" and kind == "runner-lease"):
            continue
        sound = False
        missing = problem == "missing"
        yield Finding(
            f"IR-SCHEMA-{'MISSING' if missing else 'INVALID'}-{name}",
            "ERROR",
            "schema",
            f"{name} {'is missing' if missing else 'cannot be used'}",
            f"{evidence.schema_dir}/{name} {'is not there' if missing else f'cannot be used: {problem}'}",
            (f"{evidence.schema_dir}/{name}",),
            (f"{evidence.schema_dir}/{name}",),
            ("chaos-interaction-mcp --seed-schemas" if missing else "repair it, or --seed-schemas --force",),
        )
    if sound:
        yield _ok("SCHEMA", "schema", "every schema is there and can be used")


def artifacts(context: Context) -> Iterator[Finding]:
    yield from context.survey.faults
    if not context.survey.faults:
        yield _ok("ARTIFACT", "artifact-validation", f"{context.survey.checked} documents are well-formed")


def write_lock(context: Context) -> Iterator[Finding]:
    facts = context.evidence.write_lock()
    path = context.evidence.shown(".runtime.lock")
    if facts.state == "free":
        yield _ok("WRITELOCK", "write-lock", "nobody holds the write lock")
    elif facts.state == "held":
        yield Finding(
            "IR-WRITELOCK-HELD",
            "WARN" if facts.seconds > 30 else "INFO",
            "write-lock",
            "somebody writes at this moment",
            f"{facts.holder} has held the write lock for {facts.seconds:.1f} seconds",
            (path,),
            (path,),
            ("wait; if it does not end, look at that process",) if facts.seconds > 30 else (),
        )
    elif facts.state == "dead":
        yield Finding(
            "IR-WRITELOCK-DEAD",
            "INFO",
            "write-lock",
            "a dead process left the write lock",
            f"{facts.holder} is gone; the next writer takes the lock over",
            (path,),
            (path,),
        )
    else:
        blocks = facts.state == "directory"
        yield Finding(
            f"IR-WRITELOCK-{'BLOCKED' if blocks else 'UNREADABLE'}",
            "BLOCKER" if blocks else "WARN",
            "write-lock",
            "nobody can take the write lock" if blocks else "the write lock cannot be read",
            f"{path} is a directory, so nothing can be written"
            if blocks
            else f"{path} says nothing that can be understood; the next writer takes it over after a moment",
            (path,),
            (path,),
            ("remove it",) if blocks else (),
        )


def derived(context: Context) -> Iterator[Finding]:
    """Whether ``active.json`` says what the documents say: a stop hook reads it and nothing else."""
    evidence, found = context.evidence, context.survey
    document = evidence.document(ACTIVE_PATH)
    if document is None or document.problem is not None:
        return
    waiting = [facts.name for facts in found.decisions.values() if facts.state == "waiting"]
    ready = [facts.run for facts in found.sessions.values() if facts.state == "ready-to-resume"]
    state = active_pointer((), ready, "")["state"] if not waiting else "waiting-for-user-decision"
    stored = document.value if is_object(document.value) else {}
    if (
        stored.get("state") != state
        or _listed(stored.get("pendingDecisionIds")) != waiting
        or _listed(stored.get("readyToResumeCommandRunIds")) != ready
    ):
        yield Finding(
            "IR-ACTIVE-DRIFT",
            "WARN",
            "runtime-root",
            "active.json is out of date",
            f"{evidence.shown(ACTIVE_PATH)} says {stored.get('state')!r}; the documents say {state!r} with "
            f"{len(waiting)} waiting and {len(ready)} ready",
            (evidence.shown(ACTIVE_PATH),),
            (evidence.shown(ACTIVE_PATH),),
            ("any call that writes brings it up to date, e.g. chaos_get_active_decision",),
        )


def audit(context: Context) -> Iterator[Finding]:
    """Every line readable, no event twice, no answer without its event."""
    evidence, found = context.evidence, context.survey
    shown = evidence.shown(AUDIT_PATH)
    broken: list[int] = []
    invalid: list[int] = []
    twice: list[int] = []
    seen: set[str] = set()
    answered: set[str] = set()
    torn = None
    total = 0
    for line in evidence.lines(AUDIT_PATH):
        total += 1
        if not line.whole:
            torn = line.number
        event = line.value
        if line.problem is not None or not is_object(event):
            broken.append(line.number)
            continue
        name, kind, decision = event.get("eventId"), event.get("eventType"), event.get("decisionId")
        if not isinstance(name, str) or kind not in EVENT_TYPES:
            invalid.append(line.number)
        elif name in seen:
            twice.append(line.number)
        else:
            seen.add(name)
        if kind == "decision-answered" and isinstance(decision, str):
            answered.add(decision)
    for numbers, what, title in (
        (broken, "MALFORMED", "cannot be read"),
        (invalid, "INVALID", "are no audit events"),
        (twice, "DUPLICATE", "repeat the id of an earlier event"),
    ):
        if numbers:
            named = ", ".join(map(str, numbers[:LINES_NAMED_MAX])) + (" …" if len(numbers) > LINES_NAMED_MAX else "")
            yield Finding(
                f"IR-AUDIT-{what}",
                "WARN",
                "audit",
                f"audit lines {title}",
                f"{shown}: {len(numbers)} lines {title}: {named}",
                (shown,),
                (shown,),
                ("keep the file as it is; find out what wrote these lines",),
            )
    if torn is not None:
        yield Finding(
            "IR-AUDIT-TORN",
            "INFO",
            "audit",
            "the last audit line has no end",
            f"{shown}: line {torn} was cut off by a crash; the next writer fences it off",
            (shown,),
            (shown,),
        )
    for facts in found.decisions.values():
        if facts.state in ("answered", "consumed") and facts.name not in answered:
            yield Finding(
                f"IR-AUDIT-MISSING-{facts.name}",
                "WARN",
                "audit",
                "an answer is not in the audit",
                f"decision {facts.name} is {facts.state}, and {shown} has no decision-answered event of it",
                (shown, evidence.shown(facts.path)),
                (shown,),
                ("find out who answered; the answer itself stands",),
            )
    if not (broken or invalid or twice):
        yield _ok("AUDIT", "audit", f"{total} audit events are in order")


def _ok(name: str, category: str, message: str) -> Finding:
    return Finding(f"IR-{name}-OK", "OK", category, message, message)


def _listed(value: Json) -> list[Json]:
    return list(value) if isinstance(value, list | tuple) else []

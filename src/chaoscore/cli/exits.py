"""Exit codes, and the one table that maps the error tree to them. docs/cli.md names each; a test compares."""

from __future__ import annotations

import re
from enum import IntEnum

from chaoscore.cli.suggesting import command
from chaoscore.domain.errors import (
    Busy,
    ChaosError,
    ConfigurationInvalid,
    InvalidInput,
    NotConfigured,
    StorageError,
)


class Exit(IntEnum):
    """What a script may rely on. The words are the ones of docs/cli.md."""

    OK = 0
    FAILED = 1
    USAGE = 2
    WAITING = 3
    ATTENTION = 4
    CONFIGURATION = 5
    NEEDS_PLAN = 6
    RUNNING = 7
    STORAGE = 8
    INTERNAL = 70
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANINGS: dict[Exit, str] = {
    Exit.OK: "done; for a goal: achieved",
    Exit.FAILED: "it did not succeed: a run that is partial, failed or blocked, something not found, a broken audit",
    Exit.USAGE: "the command or its input is wrong: an unknown option, a plan with faults",
    Exit.WAITING: "an action waits for approval",
    Exit.ATTENTION: "an action's outcome is unknown and a person must say what happened",
    Exit.CONFIGURATION: "a setting or the policy file is refused",
    Exit.NEEDS_PLAN: "there is no plan for the goal and no model to make one",
    Exit.RUNNING: "the run goes on or stands still with steps left, or another process drives it",
    Exit.STORAGE: "the data directory cannot be read or written",
    Exit.INTERNAL: "a fault of the program itself",
    Exit.INTERRUPTED: "stopped with Ctrl-C",
    Exit.BROKEN_PIPE: "whoever read the output went away",
}

_BY_CLASS: tuple[tuple[type[ChaosError], Exit], ...] = (
    (ConfigurationInvalid, Exit.CONFIGURATION),
    (InvalidInput, Exit.USAGE),
    (Busy, Exit.RUNNING),
    (StorageError, Exit.STORAGE),
    (NotConfigured, Exit.NEEDS_PLAN),
)

_HELP: dict[str, str] = {
    "CONFIG_INVALID": "mend the setting that is named; docs/settings.md lists them all",
    "POLICY_INVALID": "mend the policy file; '{policy check}' lists every fault in it",
    "PLAN_INVALID": "mend every fault that is listed; docs/capabilities.md says what each capability takes",
    "NOT_FOUND": "'{run list}' and '{inspect capabilities}' show what there is",
    "RUN_BUSY": "another process works on this run; look at it with '{run show}'",
    "PIN_REFUSED": "give the approver's PIN; '{pin set}' sets one at a terminal",
    "ILLEGAL_TRANSITION": "it is not in a state where that can be done; look at it with '{run show}'",
    "NOT_CONFIGURED": "give a plan with --plan FILE, or set OPENAI_API_KEY (OPENAI_BASE_URL for a local model)",
    "PROVIDER_AUTH": "check the key of the provider",
    "LIMIT_EXCEEDED": "docs/settings.md tells which limit this is and how to raise it",
    "STORE_CORRUPT": "nothing was overwritten; docs/operating.md tells how to go on from a backup",
    "NO_SPACE": "make room on the disk of the data directory and run it again",
    "READ_ONLY": "the data directory must be writable; name another one with --data-dir",
    "PERMISSION": "the data directory belongs to somebody else; name another one with --data-dir",
    "STORE_BUSY": "other processes are writing; run it again",
}


_COMMAND = re.compile(r"\{([a-z ]+)\}")
"""A command among the words of ``_HELP``."""


def exit_of(error: ChaosError) -> Exit:
    """The exit code of an error of our own tree."""
    for kind, code in _BY_CLASS:
        if isinstance(error, kind):
            return code
    return Exit.FAILED


def help_of(error: ChaosError) -> str:
    """What to do about it, in one line."""
    text = _HELP.get(error.code, f"docs/errors.md explains {error.code}")
    return _COMMAND.sub(lambda found: command(*found[1].split()), text)

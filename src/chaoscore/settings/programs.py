"""Settings that name a program to run."""

from __future__ import annotations

import os
from collections.abc import Mapping

from chaoscore.settings.paths import home
from chaoscore.settings.sources import Found

COMMAND_CHARS_MAX = 4_096
_FORM = "write an absolute path or a name found in PATH, then its arguments, quoted as in a shell"


def command(found: Found, environ: Mapping[str, str]) -> tuple[str, ...]:
    """A command line split as a shell would, with the program as an absolute path. It is run without a shell.

    A relative path is refused: it would be another program in each working directory. Arguments are not repeated in
    an error, because one of them can be a secret.
    """
    import shlex  # these two cost more than all other settings, and few people set a command
    from shutil import which

    if len(found.text) > COMMAND_CHARS_MAX or "\0" in found.text:
        raise found.wrong(f"the value is not a command line of at most {COMMAND_CHARS_MAX:,} characters; {_FORM}")
    try:
        words = shlex.split(found.text)
    except ValueError:
        raise found.wrong(f"a quotation mark or a backslash in the value is left open; {_FORM}") from None
    if not words or not words[0]:
        raise found.wrong(f"the value names no program; {_FORM}")
    name = words[0]
    if name.startswith("~/"):
        name = f"{home(environ)}{name[1:]}"
    if os.sep in name and not os.path.isabs(name):
        raise found.wrong(f"the program {name[:200]!r} is a relative path; {_FORM}")
    program = which(name, path=environ.get("PATH") or os.defpath)
    if program is None or not os.path.isabs(program):
        raise found.wrong(f"the program {name[:200]!r} was not found or cannot be run; {_FORM}")
    return (program, *words[1:])

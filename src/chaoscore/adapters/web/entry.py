"""What the door needs: which page somebody wanted, and what they call themselves."""

from __future__ import annotations

from starlette.requests import Request

from chaoscore.adapters.web.access import NAME_CHARS_MAX
from chaoscore.adapters.web.forms import BadForm, Form

PATH_CHARS_MAX = 1_000


def following(request: Request, base: str) -> str:
    """The page that was asked for, to be shown after signing in."""
    query = request.url.query
    return own_path(request.url.path + (f"?{query}" if query else ""), base)


def own_path(path: str, base: str) -> str:
    """``path`` when it is an address of this site, else nothing: a form must lead nowhere else."""
    clean = path.isascii() and path.isprintable() and not any(char in path for char in "\\\"'<> ")
    ours = path.startswith(f"{base}/") and "//" not in path and len(path) <= PATH_CHARS_MAX
    return path if clean and ours else ""


def name_of(form: Form) -> str | None:
    """Raises ``BadForm`` for a name that could be taken for something else."""
    name = " ".join(form.get("name").split())
    if not name:
        return None
    if len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise BadForm(400, f"a name has at most {NAME_CHARS_MAX} characters, all of them visible")
    return name

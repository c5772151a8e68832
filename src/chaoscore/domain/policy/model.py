"""What a policy says, what is asked of it, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from chaoscore.domain.json import Json, JsonObject

Effect = Literal["ALLOW", "DENY", "REQUIRE_APPROVAL"]
ApprovalMode = Literal["caller", "human"]
Door = Literal["web", "terminal", "folder", "bridge", "elicitation"]
DOORS: tuple[Door, ...] = ("web", "terminal", "folder", "bridge", "elicitation")
DEFAULT_DOORS: tuple[Door, ...] = ("web", "terminal")

DEFAULT_POLICY: dict[str, Json] = {
    "allowedCapabilities": [],
    "deniedCapabilities": [],
    "requireConfirmationFor": ["http.request", "fs.write_text"],
    "httpAllowedDomains": [],
}


@dataclass(frozen=True, slots=True)
class Policy:
    """``policy.json`` as fully understood. Lists keep the file's order; ``digest`` covers the whole content."""

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    confirm: tuple[str, ...] = ()
    http_allowed_domains: tuple[str, ...] = ()
    http_allow_private: tuple[str, ...] = ()
    approval_mode: ApprovalMode = "caller"
    approval_doors: tuple[Door, ...] = DEFAULT_DOORS
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One action put to the policy.

    ``urls`` are the values of the capability's ``url`` sinks, ``None`` while an argument is not known yet.
    ``scope`` is what the operator confined the capability to; it becomes part of the verdict.
    """

    capability: str
    builtin: bool = False
    urls: tuple[str | None, ...] = ()
    scope: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """``rule`` is the one that decided, ``reasons`` every rule that spoke. ``pending`` names what is not known yet."""

    effect: Effect
    rule: str
    reasons: tuple[str, ...]
    mode: ApprovalMode = "caller"
    doors: tuple[Door, ...] = DEFAULT_DOORS
    scope: JsonObject = field(default_factory=dict)
    pending: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        out: dict[str, Json] = {"effect": self.effect, "rule": self.rule, "reasons": list(self.reasons)}
        if self.effect == "REQUIRE_APPROVAL":
            out["mode"] = self.mode
            out["doors"] = list(self.doors)
        if self.scope:
            out["scope"] = self.scope
        if self.pending:
            out["pending"] = list(self.pending)
        return out

    def bound(self) -> dict[str, Json]:
        """What an approval is bound to (law 4): the deciding rule, the mode and the doors, not the whole policy."""
        return {
            "effect": self.effect,
            "rule": self.rule,
            "mode": self.mode,
            "doors": list(self.doors),
            "scope": self.scope,
        }

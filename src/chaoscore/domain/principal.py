"""Who asks. An id that grants access is owned by exactly one principal (DESIGN §3, ownership)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Principal:
    """``local:<uid>`` (stdio and CLI), ``oauth:<subject>``, or ``anonymous``.

    For an anonymous principal the id it was handed is its only credential, so such ids are stored hashed.
    """

    kind: Literal["local", "oauth", "anonymous"]
    name: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind

    @property
    def is_anonymous(self) -> bool:
        return self.kind == "anonymous"

    @property
    def memory_namespace(self) -> str:
        """Local and unauthenticated callers share one namespace; OAuth principals have their own."""
        return self.key if self.kind == "oauth" else "shared"


ANONYMOUS = Principal("anonymous")

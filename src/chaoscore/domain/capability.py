"""What the registry says about a capability: facts, never the handler (that is behind the gate alone).

What a capability does not declare is taken at its worst: untrusted output, not idempotent, not read-only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from chaoscore.domain.evaluation import Check
from chaoscore.domain.json import Json, JsonObject, digest

Risk = Literal["low", "medium", "high"]
SinkKind = Literal["url", "path", "recipient"]

NAME = re.compile(r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+\Z")


@dataclass(frozen=True, slots=True)
class Annotations:
    """MCP's four hints, each at its worst until declared."""

    read_only: bool = False
    idempotent: bool = False
    destructive: bool = True
    open_world: bool = True

    @property
    def may_repeat(self) -> bool:
        """Running it twice does no harm: after a crash it may be retried without asking."""
        return self.read_only or self.idempotent


@dataclass(frozen=True, slots=True)
class Sink:
    """An argument that decides *where* something goes. ``argument`` is a JSON Pointer into the arguments."""

    argument: str
    kind: SinkKind


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing the system can do.

    ``default_expect`` are checks that apply unless the plan checks the same path itself.
    ``builtin`` tells shipped capabilities from those of installed entry points, which load only when named.
    ``scope`` is what the operator confined it to (the roots in force), part of every verdict and digest.
    """

    name: str
    description: str
    risk: Risk
    input_schema: JsonObject
    output_schema: JsonObject
    annotations: Annotations = Annotations()
    untrusted_output: bool = True
    sinks: tuple[Sink, ...] = ()
    default_expect: tuple[Check, ...] = ()
    builtin: bool = False
    scope: JsonObject = field(default_factory=dict)
    timeout_seconds: float | None = None

    def definition(self) -> dict[str, Json]:
        """Everything a person approved when they approved an action of this capability."""
        return {
            "name": self.name,
            "description": self.description,
            "risk": self.risk,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "annotations": {
                "read_only": self.annotations.read_only,
                "idempotent": self.annotations.idempotent,
                "destructive": self.annotations.destructive,
                "open_world": self.annotations.open_world,
            },
            "untrusted_output": self.untrusted_output,
            "sinks": [{"argument": sink.argument, "kind": sink.kind} for sink in self.sinks],
            "scope": self.scope,
        }

    def definition_digest(self) -> str:
        return digest(self.definition())

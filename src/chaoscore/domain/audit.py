"""Audit events and their chain: append-only, each bound to the one before by a keyed hash (spec §9).

The key lives outside the database and the newest head is checkpointed outside it, so that altered, missing,
reordered, recomputed and cut-off events are all found.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from chaoscore.domain.json import Json, JsonObject, canonical_text, is_object
from chaoscore.domain.mediation import Mediation, MediationReport
from chaoscore.domain.redaction import Redactor

GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """A fact in the past tense, before it has its place in the chain. ``data`` is redacted JSON.

    ``run``, ``plan`` are public labels; ``at`` is seconds since the epoch.
    """

    kind: str
    at: float
    principal: str
    connection: str | None = None
    plan: str | None = None
    run: str | None = None
    step: str | None = None
    item: int | None = None
    data: JsonObject = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        return {
            "kind": self.kind,
            "at": self.at,
            "principal": self.principal,
            "connection": self.connection,
            "plan": self.plan,
            "run": self.run,
            "step": self.step,
            "item": self.item,
            "data": self.data,
        }


def redacted(event: AuditEvent, redactor: Redactor) -> AuditEvent:
    """The event without secrets, whoever put them in: a key or a tag of a memory, an error's message, a step's name."""
    data = redactor.json(event.data)
    step = None if event.step is None else redactor.text(event.step)
    return replace(event, step=step, data=data if is_object(data) else {})


@dataclass(frozen=True, slots=True)
class ChainedEvent:
    """An event in its place. ``seq`` counts from 1 without gaps; ``body`` is the event's canonical text.

    ``said`` is the same as a value, where whoever reads the events has it at hand.
    """

    seq: int
    body: str
    mac: str
    said: JsonObject | None = field(default=None, compare=False, repr=False)


def chain_mac(key: bytes, seq: int, previous_mac: str, body: str) -> str:
    """HMAC-SHA256 over {previous mac, seq, body}, as 64 hex digits. Total: a body that somebody altered may hold any
    text, and must not verify."""
    text = f"{previous_mac}\n{seq}\n{body}".encode("utf-8", "surrogatepass")
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def _same(left: str, right: str) -> bool:
    return hmac.compare_digest(left.encode("utf-8", "surrogatepass"), right.encode("utf-8", "surrogatepass"))


def event_body(event: AuditEvent) -> str:
    return canonical_text(event.to_json())


def keyed_digest(key: bytes, value: Json) -> str:
    """Names a value in the audit without telling it: equal values answer alike, guessing needs the key."""
    return hmac.new(key, canonical_text(value).encode("ascii"), hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The newest head known outside the database."""

    seq: int
    mac: str


@dataclass(frozen=True, slots=True)
class ChainReport:
    """``fault`` is the first thing wrong, ``None`` for a whole chain; ``at`` the sequence number it was found at.

    ``mediation`` is what the events say as far as the chain holds, ``None`` where nobody could look at them.
    """

    events: int
    head: Checkpoint
    fault: str | None = None
    at: int | None = None
    mediation: MediationReport | None = None

    @property
    def problem(self) -> str | None:
        """What is wrong with the chain, or else with what its events say; ``None`` when nothing is."""
        if self.fault is not None or self.mediation is None or self.mediation.fault is None:
            return self.fault
        return str(self.mediation.fault)


def verify_chain(key: bytes, events: Iterable[ChainedEvent], checkpoint: Checkpoint | None) -> ChainReport:
    """Walk the chain from the beginning and stop at the first fault. What the events say is proved along the way, up to
    its own first fault. Memory is bounded by the runs that are open at one time."""
    previous, count = GENESIS, 0
    seen_checkpoint = checkpoint is None or checkpoint.seq == 0
    mediation = Mediation()

    def report(fault: str | None = None, at: int | None = None) -> ChainReport:
        return ChainReport(count, Checkpoint(count, previous), fault, at, mediation.report())

    for event in events:
        expected = count + 1
        if event.seq != expected:
            return report(f"event {expected} is missing: the next one is {event.seq}", expected)
        if not _same(chain_mac(key, event.seq, previous, event.body), event.mac):
            return report(f"event {event.seq} was altered, moved or written without the key", event.seq)
        previous, count = event.mac, event.seq
        if mediation.is_sound and (said := event.said or _said(event.body)) is not None:
            mediation.step(event.seq, said)
        if checkpoint is not None and count == checkpoint.seq:
            if not _same(previous, checkpoint.mac):
                return report(f"event {count} differs from the checkpoint kept outside the database", count)
            seen_checkpoint = True
    if not seen_checkpoint and checkpoint is not None:
        return report(f"the chain was cut off: it ends at {count}, the checkpoint knows {checkpoint.seq}", count + 1)
    return report()


def _said(body: str) -> JsonObject | None:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return said if is_object(said) else None

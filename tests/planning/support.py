"""The registry of the shipped capabilities, a model behind a scripted server, and ids that count."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import TypeVar

from chaoscore.adapters.capabilities.builtin import builtin_capabilities
from chaoscore.adapters.providers.conversation import ModelProvider
from chaoscore.app.capabilities import Registry
from chaoscore.app.planning import Planner
from chaoscore.app.ports import AIProvider
from chaoscore.domain.json import Json
from chaoscore.domain.limits import Limits
from tests.providers.server import Answer, ScriptedServer
from tests.providers.vendors import CHAT

T = TypeVar("T")


class CountingIds:
    """``Ids`` that anybody can foresee, so that tests know the mark of a fence."""

    def __init__(self) -> None:
        self._count = 0

    def credential(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}_{self._count}"

    def label(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}-{self._count}"


REGISTRY = Registry(provided.capability for provided in builtin_capabilities(ids=CountingIds()))


def run(work: Coroutine[object, object, T]) -> T:
    return asyncio.run(work)


def planner(provider: AIProvider | None = None, limits: Limits | None = None) -> Planner:
    return Planner(REGISTRY, provider, limits or Limits(), CountingIds())


def model(server: ScriptedServer) -> ModelProvider:
    return CHAT.make(server.url)


def strict_step(step_id: str, capability: str, arguments: Json, **more: Json) -> Json:
    """A step as a strict schema makes a model write it: every key there, ``null`` for what is left out."""
    return {
        "id": step_id,
        "capability": capability,
        "arguments": arguments,
        "after": None,
        "why": None,
        "expect": None,
        "on_error": None,
        "for_each": None,
        **more,
    }


def plan_answer(*steps: Json) -> Answer:
    return CHAT.ok(json.dumps({"steps": list(steps)}))

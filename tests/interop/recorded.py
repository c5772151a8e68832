"""Runs a recorded case through the harness and says where ours differs from theirs, pointer by pointer."""

from __future__ import annotations

import argparse
import asyncio
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import cast

from chaoscore import __version__
from chaoscore.domain.json import Json, JsonObject, is_array, is_object, pointer_join

HERE = Path(__file__).resolve().parent
CASES = HERE / "cases"
REPOSITORY = HERE.parent.parent
ABSENT: JsonObject = {"absent": True}


def shared() -> Path | None:
    """The published cases, where a checkout has them beside it."""
    named = os.environ.get("CHAOS_SHARED_DIR")
    found = Path(named) if named else REPOSITORY.parent / "shared"
    return found / "interop" if (found / "interop").is_dir() else None


def harness() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("diff_harness", str(CASES / "diff_harness.py.data"))
    spec = importlib.util.spec_from_loader("diff_harness", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def server_command() -> str:
    return os.environ.get("CHAOS_INTEROP_SERVER", f"{sys.executable} -m chaoscore.cli.interaction_server")


def names() -> list[str]:
    return sorted(path.stem for path in (CASES / "scenarios").glob("*.json"))


def run_case(name: str) -> Json:
    """Our transcript, masked like the recording."""
    module = harness()
    scenario = json.loads((CASES / "scenarios" / f"{name}.json").read_text("utf-8"))
    scenario.setdefault("name", name)
    os.environ["PYTHONPATH"] = str(REPOSITORY)
    options = argparse.Namespace(lenient_rejections=True)
    result = module.clip_long(asyncio.run(module.Runner(scenario, server_command()).run()))
    return _unversioned(cast("Json", module.post(json.loads(json.dumps(result)), options, "shape")))


def _unversioned(value: Json) -> Json:
    """Our version and the prose of our instructions change with every release."""
    if is_array(value):
        return [_unversioned(item) for item in value]
    if not is_object(value):
        return value
    out = {key: _unversioned(item) for key, item in value.items()}
    info = value.get("serverInfo")
    if is_object(info) and isinstance(value.get("instructions"), str):
        version = "{VERSION}" if info.get("version") == __version__ else info.get("version")
        out |= {"instructions": "<text>", "serverInfo": {**info, "version": version}}
    return out


def golden(name: str) -> Json:
    recorded = json.loads((CASES / "golden" / f"{name}.json").read_text("utf-8"))
    return cast("Json", harness().lenient_rejections(recorded))


def differences(theirs: Json, ours: Json, *at: str | int) -> Iterator[tuple[str, Json, Json]]:
    """(pointer, theirs, ours); a missing value is ``{"absent": true}``."""
    if is_object(theirs) and is_object(ours):
        for key in [*theirs, *(key for key in ours if key not in theirs)]:
            if key not in theirs or key not in ours:
                yield pointer_join(*at, key), theirs.get(key, ABSENT), ours.get(key, ABSENT)
            else:
                yield from differences(theirs[key], ours[key], *at, key)
    elif is_array(theirs) and is_array(ours):
        for position in range(max(len(theirs), len(ours))):
            if position >= len(theirs) or position >= len(ours):
                mine = ours[position] if position < len(ours) else ABSENT
                yield pointer_join(*at, position), theirs[position] if position < len(theirs) else ABSENT, mine
            else:
                yield from differences(theirs[position], ours[position], *at, position)
    elif theirs != ours:
        yield pointer_join(*at), theirs, ours


def case_differences(name: str) -> list[dict[str, Json]]:
    """One entry per difference: case, step, pointer, theirs, ours."""
    theirs, ours = cast("JsonObject", golden(name)), cast("JsonObject", run_case(name))
    out: list[dict[str, Json]] = []
    before = {cast("int", step["i"]): step for step in cast("list[JsonObject]", theirs["steps"])}
    after = {cast("int", step["i"]): step for step in cast("list[JsonObject]", ours["steps"])}
    for step in sorted({*before, *after}):
        for pointer, left, right in differences(before.get(step, {}), after.get(step, {})):
            if pointer.startswith("/do"):
                continue
            out.append({"case": name, "step": step, "pointer": pointer, "theirs": left, "ours": right})
    return out

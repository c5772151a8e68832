"""docs/decisions.md says what is so."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import fields
from pathlib import Path

from chaoscore.app.interaction_surface import schemas
from chaoscore.app.interactions.resources import RESOURCES
from chaoscore.cli.commands.doctor import STATUS_EXITS
from chaoscore.cli.interaction_server import HELP, parse
from chaoscore.domain.interaction.limits import InteractionLimits

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "decisions.md").read_text("utf-8")


def test_the_clients_configuration_starts_the_server_with_flags_it_knows() -> None:
    block = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    server = json.loads(block[1])["mcpServers"]["chaos-interaction"]
    assert server["command"] == "uvx"
    script = server["args"].index("chaos-interaction-mcp")
    assert parse(server["args"][script + 1 :]) == {"repo-root": ".", "log-level": "error"}


def test_every_tool_resource_flag_and_variable_is_there() -> None:
    for name in schemas.inputs(InteractionLimits()):
        assert f"| `{name}` |" in PAGE, name
    for resource in RESOURCES:
        assert f"| `{resource.uri}` |" in PAGE, resource.uri
    for word in {*re.findall(r"CHAOS_[A-Z_]+", HELP), *re.findall(r"--[a-z]+(?:-[a-z]+)*", HELP)}:
        assert word in PAGE or word in ("--version", "--help", "--key"), word


def test_every_limit_of_an_input_is_there_with_its_value() -> None:
    shown = dict(re.findall(r"^\| `([a-z_]+)` \| ([\d,]+) \|$", PAGE, re.MULTILINE))
    inner = {"index_bytes_max", "locks_bytes_max"}
    limits = {item.name: f"{getattr(InteractionLimits(), item.name):,}" for item in fields(InteractionLimits)}
    assert shown == {name: value for name, value in limits.items() if name not in inner}


def test_every_status_of_the_doctor_is_there_with_its_exit_code() -> None:
    for status, code in STATUS_EXITS.items():
        assert f"| {status} | {int(code)} |" in PAGE


def test_every_error_code_has_its_heading_and_every_heading_its_code() -> None:
    tree = ast.parse((ROOT / "src/chaoscore/domain/interaction/errors.py").read_text("utf-8"))
    own = {
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    inherited = {"VALIDATION_ERROR", "NOT_FOUND", "INVALID_STATE_TRANSITION", "INTERNAL_ERROR"}
    storage = {"NO_SPACE", "READ_ONLY", "PERMISSION", "IO_ERROR"}
    headings = set(re.findall(r"^### ([A-Z_]+)$", PAGE, re.MULTILINE))
    assert headings == own | inherited | storage

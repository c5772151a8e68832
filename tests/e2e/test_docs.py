"""The documents say what is true: links resolve, commands are understood, examples are valid, settings match."""

from __future__ import annotations

import ast
import json
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from chaoscore.adapters.capabilities import builtin_capabilities
from chaoscore.adapters.system import RandomIds
from chaoscore.app.capabilities import Registry
from chaoscore.cli.exits import MEANINGS
from chaoscore.cli.parser import chaoscore_parser, server_parser
from chaoscore.domain.limits import Limits
from chaoscore.domain.lint import check_steps
from chaoscore.domain.policy.parse import parse_policy_bytes
from chaoscore.settings import load_settings
from chaoscore.settings.model import LIMIT_BOUNDS, VARIABLES, limit_variable
from chaoscore.settings.sources import KNOWN_NAMES
from tests.e2e.conftest import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")], key=lambda path: path.relative_to(ROOT).as_posix())
PAGES = [page for page in PAGES if page.name != "DOCS.md"]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, kind: str) -> list[str]:
    return [body for found, body in _FENCE.findall(page.read_text("utf-8")) if found == kind]


def anchors(page: Path) -> set[str]:
    text = _FENCE.sub("", page.read_text("utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = _FENCE.sub("", page.read_text("utf-8"))
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} in {name_of(page)}"
        assert not anchor or anchor in anchors(target), f"{link} in {name_of(page)}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_that_is_shown_is_understood(page: Path) -> None:
    for body in blocks(page, "console"):
        for line in body.splitlines():
            if not line.startswith("$ "):
                continue
            words = shlex.split(line[2:])
            if words[0] == "chaoscore":
                chaoscore_parser().parse_args(words[1:])
            elif words[0] == "chaos-core-mcp":
                server_parser().parse_args(words[1:])
            else:
                assert words[0] in ("bash", "."), line
                assert words[0] == "." or (ROOT / words[1]).is_file(), line


# -- examples --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def registry() -> Registry:
    provided = builtin_capabilities(ids=RandomIds(), roots=[], protected=[], provider=None)
    return Registry(item.capability for item in provided)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_json_example_is_json_and_policies_and_plans_are_valid(page: Path, registry: Registry) -> None:
    for body in blocks(page, "json"):
        value = json.loads(body)
        if "allowedCapabilities" in value:
            parse_policy_bytes(body.encode(), set(registry) | {"acme.count_words"}, name_of(page))
        if "steps" in value:
            check_steps(value["steps"], registry, Limits()).require()


def test_the_example_plans_are_valid(registry: Registry) -> None:
    found = sorted((ROOT / "examples").glob("*.json"))
    assert found
    for path in found:
        plan = json.loads(path.read_text("utf-8"))
        check_steps(plan["steps"], registry, Limits()).require()


def test_the_example_of_a_dotenv_is_accepted_and_names_only_settings(tmp_path: Path) -> None:
    text = (ROOT / ".env.example").read_text("utf-8")
    (tmp_path / ".env").write_text(text)
    load_settings({"data_dir": str(tmp_path / "data")}, {"HOME": str(tmp_path)}, tmp_path)
    known = {variable.name: variable for variable in VARIABLES}
    for name in re.findall(r"^#?([A-Z][A-Z_]+)=", text, re.MULTILINE):
        assert name in KNOWN_NAMES and (name not in known or known[name].dotenv), name


# -- reference -------------------------------------------------------------------------------------------------------


def rows(page: str) -> dict[str, list[str]]:
    """The rows of every table of a page, by the first cell's code or text."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "docs" / page).read_text("utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("|---"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            found[cells[0].strip("| `")] = cells
    return found


def test_every_setting_is_documented_with_its_flag() -> None:
    documented = rows("settings.md")
    for variable in VARIABLES:
        cells = documented[variable.name]
        if variable.flag is not None:
            assert variable.flag in cells[1], variable.name
        if variable.old is not None:
            assert f"`{variable.old}`" in (ROOT / "docs" / "settings.md").read_text("utf-8")


def test_every_variable_of_our_prefix_that_is_named_anywhere_is_a_setting() -> None:
    """The program refuses any other, so whoever exports one for a script could no longer start it."""
    files = [*PAGES, ROOT / ".env.example"]
    files += [path for part in ("scripts", "benchmarks", "examples", "src") for path in (ROOT / part).rglob("*")]
    named = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in files
        if path.is_file() and path.suffix in ("", ".md", ".py", ".json", ".example")
        for name in re.findall(r"CHAOS_CORE_[A-Z_]*[A-Z]", path.read_text("utf-8"))
    }
    assert named
    assert {(place, name) for place, name in named if name not in KNOWN_NAMES} == set()


def test_every_limit_is_documented_with_its_default_and_bounds() -> None:
    documented = rows("settings.md")
    for item in fields(Limits):
        cells = documented[limit_variable(item.name)]
        low, high = LIMIT_BOUNDS[item.name]
        shown = [f"{value:,.10g}" for value in (getattr(Limits(), item.name), low, high)]
        assert cells[1:4] == shown, item.name


def test_every_exit_code_is_documented_with_its_meaning() -> None:
    documented = rows("cli.md")
    for code, meaning in MEANINGS.items():
        assert documented[str(int(code))][1].strip("| ") == meaning, code


def error_codes() -> set[str]:
    """Every code that an error or a step can carry: class attributes, ``code=…``, and ``ActionError``'s first word."""
    found: set[str] = set()
    shape = re.compile(r"[A-Z]+(_[A-Z]+)*")
    for package in ("app", "domain", "adapters/sqlite", "adapters/files/policy_file.py"):
        place = ROOT / "src" / "chaoscore" / package
        for path in [place] if place.is_file() else place.rglob("*.py"):
            if "interaction" in path.as_posix():
                continue
            tree = ast.parse(path.read_text("utf-8"))
            named = {
                target.id: node.value.value
                for node in tree.body
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
                for target in node.targets
                if isinstance(target, ast.Name) and isinstance(node.value.value, str)
            }

            if package != "adapters/sqlite":
                found.update(name for name, value in named.items() if name == value)

            def values(node: ast.expr, named: dict[str, str] = named) -> list[str]:
                if isinstance(node, ast.Constant):
                    return [str(node.value)]
                if isinstance(node, ast.IfExp):
                    return values(node.body) + values(node.orelse)
                return [named[node.id]] if isinstance(node, ast.Name) and node.id in named else []

            for node in ast.walk(tree):
                told: list[str] = []
                if isinstance(node, ast.Call):
                    told = [v for word in node.keywords if word.arg == "code" for v in values(word.value)]
                    if isinstance(node.func, ast.Name) and node.func.id == "ActionError" and node.args:
                        told += values(node.args[0])
                elif isinstance(node, ast.ClassDef):
                    for item in node.body:
                        if isinstance(item, ast.Assign) and any(
                            isinstance(target, ast.Name) and target.id == "code" for target in item.targets
                        ):
                            told += values(item.value)
                found.update(code for code in told if shape.fullmatch(code))
    return found


def test_every_error_code_has_its_heading_and_every_heading_its_code() -> None:
    text = (ROOT / "docs" / "errors.md").read_text("utf-8")
    headings = set(re.findall(r"^### ([A-Z_]+)$", text, re.MULTILINE))
    assert headings == error_codes() | {"NO_SPACE", "READ_ONLY", "PERMISSION", "STORE_BUSY"}


def test_every_storage_code_of_the_error_tree_has_its_heading() -> None:
    from chaoscore.domain import errors

    text = (ROOT / "docs" / "errors.md").read_text("utf-8")
    for code in re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", errors.__doc__ or ""):
        assert f"### {code}\n" in text, code


# -- decisions -------------------------------------------------------------------------------------------------------


def test_every_decision_is_in_the_index_and_has_every_part() -> None:
    index = (ROOT / "docs" / "adr" / "README.md").read_text("utf-8")
    records = [path for path in (ROOT / "docs" / "adr").glob("*.md") if path.name != "README.md"]
    for path in records:
        text = path.read_text("utf-8")
        title = text.splitlines()[0].split(". ", 1)[1]
        assert f"({path.name}) | {title} |" in index, path.name
        for part in ("\nStatus: ", "\n## Context\n", "\n## Decision\n", "\n## Consequences\n", "\n## Rejected\n"):
            assert part in text, f"{part!r} in {path.name}"


def test_every_dependency_has_its_line() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    text = (ROOT / "docs" / "adr" / "0002-dependencies.md").read_text("utf-8")
    extras = [name for names in project["project"]["optional-dependencies"].values() for name in names]
    for requirement in (*project["project"]["dependencies"], *extras, *project["dependency-groups"]["dev"]):
        name = re.split(r"[<>=;\[ ]", requirement)[0]
        assert f"`{name}`" in text, name

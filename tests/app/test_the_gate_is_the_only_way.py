"""Law 1, shown on the code itself: no module but the gate can reach a capability handler."""

from __future__ import annotations

import ast
from pathlib import Path

import grimp

import chaoscore

SOURCE = Path(chaoscore.__file__).parent
GATE = "chaoscore.app.gate"


def test_only_bootstrap_imports_the_modules_that_hold_handlers() -> None:
    graph = grimp.build_graph("chaoscore")
    package = "chaoscore.adapters.capabilities"
    holders = {package} | graph.find_descendants(package)
    importers = {
        importer for holder in holders for importer in graph.find_modules_that_directly_import(holder)
    } - holders
    assert importers <= {"chaoscore.bootstrap"}


def test_only_the_run_service_is_handed_the_gates_power_to_perform() -> None:
    callers = {
        module.relative_to(SOURCE).as_posix()
        for module in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "perform"
    }
    assert callers == {"app/runs/driver.py"}


def test_handlers_are_called_in_one_place() -> None:
    """The mapping of handlers is a private attribute of the gate, indexed once."""
    uses = [
        (module.relative_to(SOURCE).as_posix(), node.lineno)
        for module in (SOURCE / "app").rglob("*.py")
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr.endswith("__handlers")
    ]
    assert {name for name, _ in uses} == {"app/gate.py"}
    assert len(uses) == 2  # where it is stored and where it is called


def test_no_module_above_the_gate_mentions_the_type_of_a_handler() -> None:
    graph = grimp.build_graph("chaoscore")
    for module in SOURCE.rglob("*.py"):
        name = module.relative_to(SOURCE).as_posix()
        if name in ("app/gate.py", "app/ports.py", "bootstrap.py") or name.startswith("adapters/capabilities/"):
            continue
        tree = ast.parse(module.read_text("utf-8"))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert not imported & {"Handler", "Handlers", "HandlerContext"}, name
    assert GATE in graph.modules

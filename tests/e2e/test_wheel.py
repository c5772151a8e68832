"""The wheel as it ships, installed where the source tree is out of reach."""

from __future__ import annotations

import json
import subprocess
import zipfile
from email.parser import Parser
from pathlib import Path

from tests.e2e.conftest import ROOT, Installed


def run(
    installed: Installed,
    home: Path,
    *arguments: str,
    program: str = "chaoscore",
    stdin: str = "",
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(installed.bin / program), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env=installed.environ(home),
        cwd=cwd or home,
        timeout=120,
        check=False,
    )


def test_the_wheel_holds_the_package_its_types_and_its_licence_and_no_tests(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        (points,) = (name for name in names if name.endswith(".dist-info/entry_points.txt"))
        told = Parser().parsestr(archive.read(metadata).decode())
        scripts = archive.read(points).decode()
    assert "chaoscore/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert all(name.startswith(("chaoscore/", "chaos_core-")) for name in names)
    assert told["Name"] == "chaos-core" and told["License-Expression"] == "MIT"
    assert "chaoscore = chaoscore.cli.main:run" in scripts
    assert "chaos-core-mcp = chaoscore.cli.main:run_kernel_server" in scripts


def test_what_is_installed_is_the_wheel(installed: Installed, tmp_path: Path) -> None:
    code = "import chaoscore, pathlib; print(pathlib.Path(chaoscore.__file__).resolve())"
    found = run(installed, tmp_path, "-c", code, program="python").stdout.strip()
    assert Path(found).is_relative_to(installed.folder.resolve())
    assert not Path(found).is_relative_to(ROOT)


def test_the_main_job_runs_from_the_wheel(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# First\nx\n")
    plan = ROOT / "examples" / "index-docs.json"
    done = run(installed, tmp_path, "achieve", "--plan", str(plan), "--root", ".", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "ACHIEVED"
    assert "[First](docs/a.md)" in (tmp_path / "DOCS.md").read_text()
    assert (tmp_path / ".local" / "share" / "chaos-core" / "policy.json").exists()


def test_the_server_of_the_wheel_lists_its_tools(installed: Installed, tmp_path: Path) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    )
    stdin = "".join(json.dumps(line) + "\n" for line in lines)
    done = run(installed, tmp_path, program="chaos-core-mcp", stdin=stdin, cwd=Path("/"))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    tools = {tool["name"] for answer in answers if answer.get("id") == 2 for tool in answer["result"]["tools"]}
    assert {"chaoscore_plan", "chaoscore_execute", "chaoscore_achieve"} <= tools


def test_a_client_is_set_up_with_the_script_of_that_environment(installed: Installed, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "install", "--client", "claude-desktop", "--print")
    entry = json.loads(done.stdout)["mcpServers"]["chaos-core"]
    assert entry["command"] == str(installed.bin / "chaos-core-mcp")

"""The console script: flags, environment, config file, seeding, streams, exit codes, and no network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from chaoscore.cli.interaction_server import HELP, parse
from chaoscore.domain.errors import ConfigurationInvalid
from chaoscore.settings.interaction import load_interaction_settings
from tests.interaction_surface.support import Repository, wire
from tests.mcp.support import message

SCHEMAS = 9


def test_help_goes_to_standard_error_and_names_every_flag_and_variable(repository: Repository) -> None:
    for flag in ("--help", "-h"):
        done = repository.run("--root", "x", flag)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", HELP)
    assert {"--repo-root", "--root", "--schema-dir", "--log-level", "--config", "--seed-schemas", "--force"} <= set(
        re.findall(r"--[a-z-]+", HELP)
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--rot", "x"], "--rot"),
        (["--root"], "--root"),
        (["--root", "--validate"], "--root"),
        (["stray"], "stray"),
        (["--validate=maybe"], "maybe"),
        (["--force=yes"], "--force=yes"),
        (["--log-level", "loud"], "loud"),
        (["--log-level=loud"], "--log-level"),
        (["--config", "missing.json"], "missing.json"),
        (["--root="], "--root"),
    ],
)
def test_a_flag_that_is_not_understood_is_an_error_that_names_it(
    repository: Repository, arguments: list[str], named: str
) -> None:
    done = repository.run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr and "Traceback" not in done.stderr
    assert list(repository.path.iterdir()) == []


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CHAOS_INTERACTION_VALIDATE", "maybe"),
        ("CHAOS_INTERACTION_LOG_LEVEL", "x"),
        ("CHAOS_INTERACTION_ANSWER_BRIDGE", "2"),
    ],
)
def test_a_variable_that_is_not_understood_is_an_error_that_names_it(
    repository: Repository, variable: str, value: str
) -> None:
    repository.extra[variable] = value
    done = repository.run()
    assert done.returncode == 2 and variable in done.stderr


def test_a_flag_beats_the_environment_that_beats_the_file_that_beats_the_default(tmp_path: Path) -> None:
    config = tmp_path / "c.json"
    config.write_text(json.dumps({"root": "file", "logLevel": "warn", "validate": False, "answerBridge": False}))
    flags: dict[str, str | bool] = {"config": "c.json"}
    environ = {"CHAOS_INTERACTIONS_ROOT": "variable", "HOME": "/h"}
    assert load_interaction_settings({}, {}, tmp_path).root == tmp_path / ".chaos/interactions"
    by_file = load_interaction_settings(flags, {}, tmp_path)
    assert (by_file.root, by_file.log_level, by_file.validate) == (tmp_path / "file", "warn", False)
    assert by_file.answer_bridge is False
    by_variable = load_interaction_settings(
        flags, environ | {"CHAOS_INTERACTION_VALIDATE": "yes", "CHAOS_INTERACTION_LOG_LEVEL": "debug"}, tmp_path
    )
    assert (by_variable.root, by_variable.log_level, by_variable.validate) == (tmp_path / "variable", "debug", True)
    by_flag = load_interaction_settings(
        {**flags, "root": "flag", "log-level": "error", "validate": False}, environ, tmp_path
    )
    assert (by_flag.root, by_flag.log_level, by_flag.validate) == (tmp_path / "flag", "error", False)
    # Each setting on its own: a root of the environment beats the default that follows a repository flag.
    mixed = load_interaction_settings({"repo-root": "r"}, environ, tmp_path)
    assert (mixed.repository, mixed.root) == (tmp_path / "r", tmp_path / "variable")
    assert mixed.schema_dir == tmp_path / "variable/schema"


@pytest.mark.parametrize(
    ("text", "named"),
    [("{", "JSON"), ("[]", "object"), ('{"root": 3}', "'root'"), ('{"validate": "no"}', "'validate'"),
     ('{"logLevel": "x"}', "'logLevel'")],
)  # fmt: skip
def test_a_config_file_that_is_not_understood_is_refused(tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(ConfigurationInvalid, match=named):
        load_interaction_settings({"config": "c.json"}, {}, tmp_path)


def test_unknown_keys_of_the_config_file_are_told_and_those_of_its_sisters_are_not(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"runnersDir": "x", "validat": False}))
    settings = load_interaction_settings({"config": "c.json"}, {}, tmp_path)
    assert settings.validate is True
    assert len(settings.warnings) == 1 and "'validat'" in settings.warnings[0]


@pytest.mark.parametrize(
    ("arguments", "validate"),
    [
        ([], None), (["--validate"], True), (["--no-validate"], False), (["--no-validate", "--validate"], False),
        (["--validate", "--no-validate"], False), (["--no-validate", "false"], True), (["--no-validate=true"], False),
        (["--validate", "off"], False), (["--validate=on"], True),
    ],
)  # fmt: skip
def test_switches_are_bare_or_take_a_truth_and_no_wins(arguments: list[str], validate: bool | None) -> None:
    assert parse(arguments).get("validate") is validate
    assert parse([*arguments, "--root=a=b"])["root"] == "a=b"


def test_schemas_are_seeded_by_the_contracts_rules(repository: Repository) -> None:
    folder = repository.root / "schema"
    done = repository.run("--seed-schemas", "--log-level", "silent")
    assert (done.returncode, done.stdout) == (0, "") and "9 written" in done.stderr
    assert len(list(folder.iterdir())) == SCHEMAS
    (folder / "lock.schema.json").write_text("{}")
    (folder / "index.schema.json").unlink()
    assert "1 written, 8 kept" in repository.run("--seed-schemas").stderr
    assert (folder / "lock.schema.json").read_text() == "{}"
    assert "9 written" in repository.run("--seed-schemas", "--force").stderr
    assert (folder / "lock.schema.json").read_text() != "{}"
    elsewhere = repository.run(f"--schema-dir={repository.place / 'elsewhere'}", "--seed-schemas")
    assert elsewhere.returncode == 0 and len(list((repository.place / "elsewhere").iterdir())) == SCHEMAS


def test_a_start_seeds_a_folder_without_schemas_and_no_other(repository: Repository) -> None:
    with wire(repository) as server:
        assert server.finish()[0] == 0
    assert not (repository.path / ".chaos").exists()
    repository.root.mkdir(parents=True)
    with wire(repository) as server:
        server.finish()
    assert len(list((repository.root / "schema").iterdir())) == SCHEMAS
    for name in ("index", "lock"):
        (repository.root / f"schema/{name}.schema.json").unlink()
    with wire(repository) as server:
        server.finish()
    assert len(list((repository.root / "schema").iterdir())) == SCHEMAS - 2, "some are there: the folder's owner chose"
    with wire(repository) as server:
        server.begin()
    assert len(list((repository.root / "schema").iterdir())) == SCHEMAS, "the first write fills in what is missing"


def test_it_cannot_start_where_a_file_stands_in_the_roots_place(repository: Repository) -> None:
    (repository.path / "afile").write_text("x")
    done = repository.run("--root", "afile")
    assert done.returncode == 1 and "afile" in done.stderr and "Traceback" not in done.stderr
    assert repository.run("--seed-schemas", "--schema-dir", "afile").returncode == 1


def test_logs_go_to_standard_error_by_level_and_the_end_of_input_ends_it(repository: Repository) -> None:
    begin = json.dumps(message("tools/list", id=1)) + "\n"
    spoken = repository.run(stdin=begin)
    assert spoken.returncode == 0 and "level=info" in spoken.stderr and str(repository.root) in spoken.stderr
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in spoken.stdout.splitlines())
    for level in ("warn", "error", "silent"):
        assert repository.run("--log-level", level, stdin=begin).stderr == ""


def test_the_stdio_server_opens_no_network_socket(repository: Repository) -> None:
    """C9. The interpreter tells of every socket as it is made, and the kernel of those that are open."""
    program = (
        "import sys\n"
        "opened = []\n"
        "def hook(event, args):\n"
        "    local = event == 'socket.__new__' and args[1] == 1\n"  # the event loop wakes itself through a pair
        "    if event.startswith('socket.') and not local:\n"
        "        opened.append((event, str(args)[:200]))\n"
        "sys.addaudithook(hook)\n"
        "from chaoscore.cli.interaction_server import run\n"
        "code = run(['--log-level', 'error'])\n"
        "print(opened, file=sys.stderr)\n"
        "sys.exit(code or bool(opened))\n"
    )
    with wire(repository, command=[sys.executable, "-c", program]) as server:
        run = server.begin(changeId="c1")
        decision = server.ask(run)
        server.tool("chaos_answer_decision", decisionId=decision, selectedOptionId="full")
        server.request(message("resources/subscribe", {"uri": "chaos://interactions/active"}, 5))
        server.tool("chaos_cancel_command", commandRunId=run)
        assert sockets_of(server.process.pid) == []
        code, log = server.finish()
        assert (code, log.strip()) == (0, "[]")


def sockets_of(pid: int) -> list[str]:
    """The network sockets of a process, by the kernel's own tables."""
    inodes = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(file)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    rows = []
    for table in ("tcp", "tcp6", "udp", "udp6", "raw"):
        path = Path(f"/proc/{pid}/net/{table}")
        if path.exists():
            rows += [line for line in path.read_text().splitlines()[1:] if line.split()[9] in inodes]
    return rows


def test_the_installed_script_is_this_server() -> None:
    script = Path(sys.executable).parent / "chaos-interaction-mcp"
    done = subprocess.run([str(script), "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, HELP)

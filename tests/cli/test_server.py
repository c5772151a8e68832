"""The server's entry point: what goes to which stream, and what it says when it cannot start."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import urllib.request
from io import RawIOBase
from pathlib import Path

import pytest

from chaoscore.cli.logs import LineFormatter, configure_logs
from chaoscore.domain.redaction import Redactor
from chaoscore.settings import Secret, Settings
from tests.cli.harness import CHAOSCORE, SERVER, Desk, at_a_terminal, mounted, needs_mount

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.mark.parametrize(
    "command", [(SERVER,), (SERVER, "--stdio"), (CHAOSCORE, "serve"), (CHAOSCORE, "serve", "--stdio", "--debug")]
)
def test_under_stdio_only_the_protocol_is_written_to_standard_output(command: tuple[str, ...], desk: Desk) -> None:
    desk.extra.update(CHAOS_CORE_LOG_STREAM="stdout", CHAOS_CORE_LOG_LEVEL="debug")
    done = desk.run(*command[1:], program=command[0], stdin=json.dumps(HELLO) + "\n")
    assert done.code == 0
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["id"] for line in lines] == [1]


def test_a_server_that_cannot_start_says_why_on_standard_error_alone(desk: Desk) -> None:
    policy = desk.policy(deniedCapability=[])
    for arguments in ((), ("--http", "--port", "0")):
        done = desk.run(*arguments, "--policy", str(policy), program=SERVER)
        assert (done.code, done.out) == (5, "")
        assert "deniedCapability" in done.err


def test_a_person_who_starts_it_by_hand_is_told_what_it_is(desk: Desk) -> None:
    with at_a_terminal(desk, "serve") as session:
        session.until("MCP server")
        session.type("\x03")
        assert session.end() in (0, 130)


def test_the_way_to_the_server_imports_no_table_and_no_option_parser(desk: Desk) -> None:
    code = (
        "import sys, chaoscore.cli.main, chaoscore.cli.server, chaoscore.bootstrap\n"
        "print(*sorted(m for m in ('rich', 'argparse', 'chaoscore.cli.parser', 'dotenv') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_over_http_the_port_is_told_and_health_answers(desk: Desk) -> None:
    process = subprocess.Popen(
        [SERVER, "--http", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=desk.environ(),
        cwd=desk.work,
        text=True,
    )
    try:
        assert process.stderr is not None
        found = None
        while found is None:
            line = process.stderr.readline()
            assert line, "it ended before it listened"
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/health", timeout=30) as answer:
            assert json.load(answer)["status"] == "ok"
    finally:
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


def fill(file: RawIOBase) -> None:
    """Write until the disk is full, which raises ``OSError``."""
    while file.write(bytes(4096)):
        pass


@needs_mount
def test_health_is_degraded_while_the_disk_is_full_and_nobody_has_to_write_for_it(desk: Desk) -> None:
    disk = desk.place / "disk"
    disk.mkdir()
    server = f'mount -t tmpfs -o size=8m none {disk}; exec "$@"'
    with subprocess.Popen(
        [*mounted(server), SERVER, "--http", "--port", "0", "--data-dir", str(disk / "data")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=desk.environ(),
        cwd=desk.work,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            found = None
            while found is None:
                line = process.stderr.readline()
                assert line, "it ended before it listened"
                found = re.search(r"http://127\.0\.0\.1:(\d+)", line)

            def status() -> str:
                assert found is not None
                with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/health", timeout=60) as answer:
                    return str(json.load(answer)["status"])

            assert status() == "ok"
            ballast = Path(f"/proc/{process.pid}/root{disk}/ballast")
            with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
                fill(file)
            assert status() == "degraded"
            ballast.unlink()
            assert status() == "ok"
        finally:
            process.terminate()
            process.communicate(timeout=60)


# -- logs ------------------------------------------------------------------------------------------------------------


def formatted(record: logging.LogRecord, *secrets: str) -> str:
    return LineFormatter(Redactor(secrets)).format(record)


def test_a_log_record_is_one_line_whatever_it_holds() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        record = logging.LogRecord("chaoscore.x", logging.ERROR, "f.py", 1, "it\nbroke %s", ("a\rb",), sys.exc_info())
    line = formatted(record)
    assert "\n" not in line and "\r" not in line
    assert re.match(r"time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=error logger=chaoscore\.x message=\"", line)
    assert "ValueError" in line and "test_server.py" in line


def test_no_secret_reaches_the_log_in_message_or_exception() -> None:
    try:
        raise RuntimeError("401 for key hunter2-hunter2")
    except RuntimeError:
        record = logging.LogRecord("chaoscore.x", logging.ERROR, "f.py", 1, "key hunter2-hunter2", None, sys.exc_info())
    assert "hunter2" not in formatted(record, "hunter2-hunter2")


def test_other_libraries_stay_silent_below_warning(capsys: pytest.CaptureFixture[str]) -> None:
    root, ours = logging.getLogger(), logging.getLogger("chaoscore")
    before = (list(root.handlers), root.level, ours.level)
    settings = Settings(Path("/x"), Path("/x/p"), log_level="debug", openai_api_key=Secret("sk-1234567890abcdef1234"))
    try:
        configure_logs(settings)
        logging.getLogger("openai").debug("request with sk-1234567890abcdef1234")
        logging.getLogger("chaoscore.test").debug("ours with sk-1234567890abcdef1234")
    finally:
        root.handlers[:], root.level, ours.level = before
    err = capsys.readouterr().err
    assert "request with" not in err and "ours with" in err and "sk-1234567890abcdef1234" not in err

"""Notices through real programs: what they get, what they never get, and that nothing they do holds anybody up."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaoscore.adapters.notify import AT_ONCE_MAX, START_SECONDS_MAX, WAITING_MAX, ProgramNotifier, notifier
from chaoscore.app.approval_ports import Notice, Notifier

PATIENCE_SECONDS = 60.0
COMMAND = "chaoscore decide d-1 --data-dir '/a b'"
URL = "http://127.0.0.1:3000/center/decisions/runs/d-1"
NOTICE = Notice("d-1", "r-1", "approval", "write_text wants to write DOCS.md", COMMAND, URL)
PATH = os.environ["PATH"]
RECORD = """#!/bin/sh
cat > "$1/stdin"
env > "$1/env"
pwd > "$1/cwd"
echo "$#" > "$1/count"
"""


@dataclass(frozen=True)
class Ways:
    notify_command: tuple[str, ...] = ()
    notify_desktop: bool = False


def script(folder: Path, text: str, name: str = "tell") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def told(made: ProgramNotifier, *notices: Notice) -> None:
    """Tell, and wait until everything is done."""

    async def all_of_them() -> None:
        for notice in notices or (NOTICE,):
            await made.tell(notice)

    asyncio.run(all_of_them())
    made.close()


class Pipe:
    """A named pipe that is read and written from the test. Both ends are open, so nobody waits for the other."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        self._file = os.open(path, os.O_RDWR)

    def read(self) -> bytes:
        ready, _, _ = select.select([self._file], [], [], PATIENCE_SECONDS)
        assert ready, "nothing came"
        return os.read(self._file, 65_536)

    def write(self, data: bytes) -> None:
        os.write(self._file, data)

    def close(self) -> None:
        os.close(self._file)


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[Pipe]:
    pipe = Pipe(tmp_path / "starts")
    yield pipe
    pipe.close()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Pipe]:
    pipe = Pipe(tmp_path / "gate")
    yield pipe
    pipe.close()


# -- the operator's command ------------------------------------------------------------------------------------------


def test_a_program_gets_the_notice_as_json_and_in_two_variables(tmp_path: Path) -> None:
    made = notifier(Ways((script(tmp_path, RECORD), str(tmp_path), "two words; $HOME")))
    port: Notifier = made
    assert port is made
    told(made)
    assert (tmp_path / "stdin").read_bytes().count(b"\n") == 1
    assert json.loads((tmp_path / "stdin").read_bytes()) == {
        "decision": "d-1",
        "run": "r-1",
        "kind": "approval",
        "text": "write_text wants to write DOCS.md",
        "command": COMMAND,
        "url": URL,
    }
    environ = (tmp_path / "env").read_text().splitlines()
    assert "CHAOS_NOTICE_TEXT=write_text wants to write DOCS.md" in environ
    assert "CHAOS_NOTICE_DECISION=d-1" in environ
    assert f"CHAOS_NOTICE_URL={URL}" in environ
    assert f"CHAOS_NOTICE_COMMAND={COMMAND}" in environ
    assert (tmp_path / "count").read_text() == "2\n"
    assert (tmp_path / "cwd").read_text() == "/\n"


def test_the_address_is_optional(tmp_path: Path) -> None:
    told(notifier(Ways((script(tmp_path, RECORD), str(tmp_path)))), Notice("d-1", "r-1", "approval", "x", COMMAND))
    told_of = json.loads((tmp_path / "stdin").read_bytes())
    assert (told_of["url"], told_of["command"]) == (None, COMMAND)
    environ = (tmp_path / "env").read_text()
    assert "CHAOS_NOTICE_URL" not in environ and f"CHAOS_NOTICE_COMMAND={COMMAND}\n" in environ


def test_nothing_of_the_environment_that_can_be_a_secret_is_handed_on(tmp_path: Path) -> None:
    environ = {
        "PATH": PATH,
        "HOME": "/home/somebody",
        "LC_ALL": "C.UTF-8",
        "DISPLAY": ":0",
        "OPENAI_API_KEY": "sk-secret",
        "CHAOS_CORE_POLICY_PATH": "/p",
        "LD_PRELOAD": "",
        "ANYTHING": "x",
    }
    told(notifier(Ways((script(tmp_path, RECORD), str(tmp_path))), environ))
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    shells_own = {"PWD", "OLDPWD", "SHLVL", "_"}
    assert names - shells_own == {
        *("PATH", "HOME", "LC_ALL", "DISPLAY", "CHAOS_NOTICE_TEXT", "CHAOS_NOTICE_DECISION"),
        *("CHAOS_NOTICE_COMMAND", "CHAOS_NOTICE_URL"),
    }


@pytest.mark.parametrize("text", ["a\0b", "a\nb\x1b[31m", "a\u202eb", "a\ud800b", "日本語 & <b>", "x" * 100_000, ""])
def test_a_text_of_any_characters_arrives_as_one_bounded_line(text: str, tmp_path: Path) -> None:
    told(notifier(Ways((script(tmp_path, RECORD), str(tmp_path)))), Notice("d-1", "r-1", "approval", text, COMMAND))
    arrived = json.loads((tmp_path / "stdin").read_bytes())["text"]
    assert len(arrived) <= 2_000
    assert arrived.isprintable()
    if text.isprintable() and len(text) < 2_000:
        assert arrived == text
    assert f"CHAOS_NOTICE_TEXT={arrived}\n" in (tmp_path / "env").read_text("utf-8")


def test_a_process_that_tells_and_ends_still_delivers(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from chaoscore.adapters.notify import ProgramNotifier\n"
        "from chaoscore.app.approval_ports import Notice\n"
        "made = ProgramNotifier(sys.argv[1:], environ={'PATH': '/usr/bin:/bin'})\n"
        "asyncio.run(made.tell(Notice('d-1', 'r-1', 'approval', 'x', 'c')))\n"
    )
    command = [sys.executable, "-c", program, script(tmp_path, RECORD), str(tmp_path)]
    done = subprocess.run(command, timeout=PATIENCE_SECONDS, check=False, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "count").read_text() == "1\n"


def test_what_a_program_writes_goes_nowhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told(notifier(Ways((script(tmp_path, "#!/bin/sh\necho out\necho err >&2\n"),))))
    assert capfd.readouterr() == ("", "")


# -- bounds ----------------------------------------------------------------------------------------------------------


def test_telling_does_not_wait_for_the_program(
    tmp_path: Path, starts: Pipe, gate: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    made = notifier(Ways((script(tmp_path, f"#!/bin/sh\necho s > {starts.path}\nread line < {gate.path}\n"),)))
    asyncio.run(made.tell(NOTICE))  # returns although the program waits for the gate, which is opened only now
    assert starts.read() == b"s\n"
    gate.write(b"\n")
    made.close()
    assert caplog.text == "", "it was waited for until it was killed"


def test_a_program_that_hangs_is_killed_with_what_it_started(
    tmp_path: Path, starts: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    text = f"#!/bin/sh\ntrap '' TERM INT HUP\nexec 3> {alive}\nsh -c 'trap \"\" TERM; while :; do sleep 600; done'\n"
    made = ProgramNotifier((script(tmp_path, text),), environ={"PATH": PATH}, seconds_max=0.5)
    asyncio.run(made.tell(NOTICE))
    with open(alive, "rb") as held:  # open in the program and in all it started: it ends when the last of them does
        ready, _, _ = select.select([held], [], [], PATIENCE_SECONDS)
        assert ready and held.read() == b""
    made.close()
    assert "'tell' was killed after 0.5 s" in caplog.text


def test_a_program_that_reads_nothing_is_no_trouble(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told(notifier(Ways((script(tmp_path, "#!/bin/sh\nexit 0\n"),))), *[NOTICE] * 8)
    assert caplog.text == ""


def test_only_a_few_programs_run_at_once_and_every_notice_gets_its_turn(
    tmp_path: Path, starts: Pipe, gate: Pipe
) -> None:
    log, count = tmp_path / "log", AT_ONCE_MAX + 4
    text = f"#!/bin/sh\necho start >> {log}\necho s > {starts.path}\nread line < {gate.path}\necho end >> {log}\n"
    made = notifier(Ways((script(tmp_path, text),)))

    async def tell() -> None:
        for _ in range(count):
            await made.tell(NOTICE)

    asyncio.run(tell())
    begun = 0
    while begun < AT_ONCE_MAX:
        begun += starts.read().count(b"s")
    assert begun == AT_ONCE_MAX
    gate.write(b"\n" * count)
    made.close()
    running, most = 0, 0
    lines = log.read_text().split()
    for line in lines:
        running += 1 if line == "start" else -1
        most = max(most, running)
    assert (lines.count("start"), lines.count("end"), most) == (count, count, AT_ONCE_MAX)


def test_more_than_can_wait_are_dropped_with_a_line_each(
    tmp_path: Path, gate: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "log"
    made = notifier(Ways((script(tmp_path, f"#!/bin/sh\nread line < {gate.path}\necho x >> {log}\n"),)))

    async def tell() -> None:
        for _ in range(WAITING_MAX + 3):
            await made.tell(NOTICE)

    asyncio.run(tell())
    gate.write(b"\n" * WAITING_MAX)
    made.close()
    assert caplog.text.count("dropped") == 3
    assert log.read_text().count("x") == WAITING_MAX


def test_notices_that_waited_too_long_behind_others_are_dropped(
    tmp_path: Path, starts: Pipe, gate: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    text = f"#!/bin/sh\necho s > {starts.path}\nread line < {gate.path}\n"
    made = ProgramNotifier((script(tmp_path, text),), environ={"PATH": PATH}, monotonic=lambda: now[0])

    async def tell() -> None:
        for _ in range(AT_ONCE_MAX + 2):
            await made.tell(NOTICE)

    asyncio.run(tell())
    begun = 0
    while begun < AT_ONCE_MAX:
        begun += starts.read().count(b"s")
    now[0] = START_SECONDS_MAX + 1
    gate.write(b"\n" * AT_ONCE_MAX)
    made.close()
    assert caplog.text.count("took too long") == 2


# -- failures --------------------------------------------------------------------------------------------------------


def test_failures_are_lines_in_the_log_that_show_no_argument(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        told(notifier(Ways((script(tmp_path, "#!/bin/sh\nexit 3\n", "three"), "sk-secret"))))
        told(notifier(Ways((str(tmp_path / "gone"), "sk-secret"))))
        told(notifier(Ways((script(tmp_path, "no program\n", "garbage"), "sk-secret"))))
        told(notifier(Ways((script(tmp_path, "#!/bin/sh\nkill -9 $$\n", "killed"), "sk-secret"))))
    for line in (
        "'three' ended with code 3 for d-1",
        "'gone' could not be started for a notice about d-1: no such file or directory",
        "'garbage' could not be started",
        "'killed' ended with code -9",
    ):
        assert caplog.text.count(line) == 1, line
    assert "sk-secret" not in caplog.text


def test_after_the_end_nothing_is_sent_and_nothing_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = notifier(Ways((script(tmp_path, RECORD), str(tmp_path))))
    made.close()
    told(made)
    assert not (tmp_path / "stdin").exists()
    assert "dropped" in caplog.text


def test_without_any_way_nothing_happens(caplog: pytest.LogCaptureFixture) -> None:
    told(notifier(Ways()))
    assert caplog.text == ""


# -- the desktop -----------------------------------------------------------------------------------------------------

SPEAK = '#!/bin/sh\nprintf "%s\\n" "$@" > {place}/spoken\n'


@pytest.mark.parametrize("url", [URL, None])
@pytest.mark.parametrize(("platform", "name"), [("linux", "notify-send"), ("darwin", "osascript")])
def test_the_desktops_own_program_shows_title_text_and_how_to_answer(
    platform: str, name: str, url: str | None, tmp_path: Path
) -> None:
    script(tmp_path, SPEAK.format(place=tmp_path), name)
    notice = Notice("d-1", "r-1", "approval", "--icon=x <b> & more", COMMAND, url)
    told(ProgramNotifier(desktop=True, environ={"PATH": f"{tmp_path}:{PATH}"}, platform=platform), notice)
    spoken = (tmp_path / "spoken").read_text().splitlines()
    if platform == "linux":
        after = spoken[spoken.index("--") + 1 :]
        assert after == ["Chaos Core", "--icon=x &lt;b&gt; &amp; more", url or COMMAND]
    else:
        assert spoken[0::2][:3] == ["-e", "-e", "-e"]
        assert spoken[6:] == ["Chaos Core", "--icon=x <b> & more", url or COMMAND]


@pytest.mark.parametrize(("platform", "name"), [("linux", "notify-send"), ("darwin", "osascript")])
def test_a_desktop_without_the_program_is_told_about_once(
    platform: str, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = ProgramNotifier(desktop=True, environ={"PATH": str(tmp_path)}, platform=platform)
    told(made, *[NOTICE] * 5)
    assert caplog.text.count(f"'{name}' was not found") == 1


def test_both_ways_are_taken(tmp_path: Path) -> None:
    script(tmp_path, SPEAK.format(place=tmp_path), "notify-send")
    ways = Ways((script(tmp_path, RECORD), str(tmp_path)), notify_desktop=True)
    environ = {"PATH": f"{tmp_path}:{PATH}"}
    told(ProgramNotifier(ways.notify_command, desktop=True, environ=environ, platform="linux"))
    assert (tmp_path / "spoken").exists() and (tmp_path / "stdin").exists()


@pytest.mark.skipif(shutil.which("notify-send") is None, reason="there is no notify-send here")
def test_the_real_program_takes_our_arguments() -> None:
    started = time.monotonic()
    told(ProgramNotifier(desktop=True, environ=os.environ, platform="linux"))
    assert time.monotonic() - started < PATIENCE_SECONDS

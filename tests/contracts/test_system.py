"""The machine's clock, ids and processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from chaoscore.adapters.system import LinuxProcesses, RandomIds, SystemClock


def test_the_clock_tells_the_time_and_never_goes_back_where_it_must_not() -> None:
    clock = SystemClock()
    assert abs(clock.now() - time.time()) < 60
    readings = [clock.monotonic() for _ in range(100)]
    assert readings == sorted(readings)


def test_a_credential_cannot_be_guessed_and_a_label_does_not_repeat() -> None:
    ids = RandomIds()
    credentials = {ids.credential("plan") for _ in range(1_000)}
    labels = {ids.label("p") for _ in range(1_000)}
    assert len(credentials) == len(labels) == 1_000
    for credential in credentials:
        assert re.fullmatch(r"plan_[A-Za-z0-9_-]{22,}", credential)  # 22 characters of base64 carry 132 bits
    for label in labels:
        assert re.fullmatch(r"p-[a-z2-7]{16}", label)


def test_a_process_knows_itself_and_that_it_lives() -> None:
    processes = LinuxProcesses()
    me = processes.current()
    assert me.pid == os.getpid()
    assert me == processes.current()
    assert not processes.is_dead(me)
    assert LinuxProcesses().current().nonce != me.nonce


def test_a_killed_process_is_dead_even_before_its_parent_has_looked() -> None:
    processes = LinuxProcesses()
    code = (
        "import sys; from chaoscore.adapters.system import LinuxProcesses; from dataclasses import astuple;"
        "print(*astuple(LinuxProcesses().current()), sep='\\t', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        boot, namespace, pid, started, nonce = child.stdout.readline().rstrip("\n").split("\t")
        other = replace(processes.current(), boot=boot, namespace=namespace, pid=int(pid), started=started, nonce=nonce)
        assert not processes.is_dead(other)
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead now, and still a zombie
        assert processes.is_dead(other)
        child.wait()
        assert processes.is_dead(other)


def test_a_pid_that_was_given_to_another_process_is_not_the_one_that_died() -> None:
    processes = LinuxProcesses()
    me = processes.current()
    assert processes.is_dead(replace(me, started=str(int(me.started) + 1)))
    assert not processes.is_dead(replace(me, started=""))


def test_nothing_is_certain_about_another_machine_or_another_pid_namespace() -> None:
    processes = LinuxProcesses()
    gone = replace(processes.current(), pid=2**22 + 5)
    assert processes.is_dead(gone)
    assert not processes.is_dead(replace(gone, boot="another"))
    assert not processes.is_dead(replace(gone, namespace="pid:[1]"))
    assert not processes.is_dead(replace(gone, pid=0))
    assert not processes.is_dead(replace(gone, pid=2**80))


def test_without_proc_only_a_free_pid_is_dead(tmp_path: Path) -> None:
    processes = LinuxProcesses(proc=tmp_path)
    me = processes.current()
    assert me.started == "" and me.boot.startswith("host:")
    assert not processes.is_dead(me)
    assert processes.is_dead(replace(me, pid=2**22 + 5))
    assert not processes.is_dead(replace(me, pid=1))

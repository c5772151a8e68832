"""Suggested commands lead to where they were suggested: same data directory, policy, folders."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from chaoscore.app.copyable import PLAIN, Copyable
from chaoscore.settings import load_settings

DATA = ("--data-dir", "/a b")


def test_a_command_is_quoted_for_a_shell_and_carries_what_it_takes() -> None:
    made = Copyable(DATA, ("--root", "/f"), ("/notes",))
    assert made("decide", "d-1") == "chaoscore decide d-1 --data-dir '/a b' --root /f"
    assert made("resume", "RUN-1") == "chaoscore resume RUN-1 --root /f"
    assert made("resolve", "r-1", "s1,2", "WORD") == "chaoscore resolve r-1 s1,2 WORD --data-dir '/a b'"
    assert made.going_on("r-1", ["/x; rm", "/notes"]) == (
        "chaoscore run continue r-1 --root '/x; rm' --root /notes --data-dir '/a b'"
    )
    assert shlex.split(made("decide", "d'1"))[2] == "d'1"


def test_where_every_default_holds_a_command_stays_short() -> None:
    assert PLAIN("decide", "d-1") == "chaoscore decide d-1"
    assert PLAIN.going_on("r-1") == "chaoscore run continue r-1"


@pytest.mark.parametrize(
    ("flags", "environ", "wanted"),
    [
        ({}, {}, ()),
        ({"data_dir": "{home}/.local/share/chaos-core"}, {}, ()),
        ({"data_dir": "{home}/d"}, {}, ("--data-dir", "{home}/d")),
        ({}, {"CHAOS_CORE_DATA_DIR": "{home}/d"}, ("--data-dir", "{home}/d")),
        ({"policy_path": "{home}/p.json"}, {}, ("--policy", "{home}/p.json")),
        (
            {"data_dir": "{home}/d", "policy_path": "{home}/p.json"},
            {},
            ("--data-dir", "{home}/d", "--policy", "{home}/p.json"),
        ),
        ({"data_dir": "{home}/d", "policy_path": "{home}/d/policy.json"}, {}, ("--data-dir", "{home}/d")),
    ],
)
def test_settings_know_which_flags_lead_to_them(
    tmp_path: Path, flags: dict[str, str], environ: dict[str, str], wanted: tuple[str, ...]
) -> None:
    home = str(tmp_path)
    given = {name: text.format(home=home) for name, text in flags.items()}
    around = {"HOME": home} | {name: text.format(home=home) for name, text in environ.items()}
    settings = load_settings(given, around, tmp_path)
    assert settings.copy_flags == tuple(part.format(home=home) for part in wanted)

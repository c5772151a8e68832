"""Settings: where they come from, which beats which, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pytest

from chaoscore.domain.errors import ConfigurationInvalid
from chaoscore.domain.limits import Limits
from chaoscore.settings import Secret, Settings, load_settings
from chaoscore.settings.model import LIMIT_BOUNDS, VARIABLES, limit_variable
from chaoscore.settings.sources import Flags


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


def load(home: Path, flags: Flags | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    return load_settings(flags or {}, {"HOME": str(home), **(environ or {})}, home)


def refusal(home: Path, flags: Flags | None = None, environ: Mapping[str, str] | None = None) -> ConfigurationInvalid:
    with pytest.raises(ConfigurationInvalid) as caught:
        load(home, flags, environ)
    return caught.value


def dotenv(home: Path, text: str) -> None:
    (home / ".env").write_text(text, encoding="utf-8")


# -- precedence ------------------------------------------------------------------------------------------------------

OTHER_VALUES = {
    "provider": "anthropic",
    "openai_api_key": "key-one",
    "openai_model": "model-one",
    "anthropic_api_key": "key-two",
    "anthropic_model": "model-two",
    "client_model": "when-declared",
    "log_level": "debug",
    "log_stream": "stdout",
    "host": "0.0.0.0",
    "port": "8080",
    "allowed_hosts": "a.example,b.example:*",
    "allowed_origins": "https://a.example",
    "notify_desktop": "true",
}
READ_AS = {
    "openai_api_key": Secret("key-one"),
    "anthropic_api_key": Secret("key-two"),
    "port": 8080,
    "allowed_hosts": ("a.example", "b.example:*"),
    "allowed_origins": ("https://a.example",),
    "notify_desktop": True,
}
PLAIN = [variable for variable in VARIABLES if variable.field in OTHER_VALUES]


def test_the_table_of_plain_settings_leaves_none_out() -> None:
    apart = {"data_dir", "policy_path", "fs_roots", "interactions_root", "openai_base_url", "notify_command", "limits"}
    apart |= {"http_proxy", "ca_file"}  # tests/cli/test_outward.py
    apart |= {"copy_flags"}  # derived; tests/cli/test_copyable.py
    covered = {v.field for v in PLAIN} | apart
    assert covered == {f.name for f in fields(Settings)}


@pytest.mark.parametrize("variable", PLAIN, ids=lambda v: v.name)
def test_a_setting_is_read_from_the_environment_and_from_dotenv(variable: object, home: Path) -> None:
    assert hasattr(variable, "field") and hasattr(variable, "name")
    value = OTHER_VALUES[variable.field]
    expected = READ_AS.get(variable.field, value)
    assert getattr(load(home, environ={variable.name: value}), variable.field) == expected
    dotenv(home, f"{variable.name}={value}\n")
    assert getattr(load(home), variable.field) == expected


def test_flags_beat_the_environment_which_beats_dotenv_which_beats_the_default(home: Path) -> None:
    assert load(home).port == 3000
    dotenv(home, "PORT=3001\n")
    assert load(home).port == 3001
    assert load(home, environ={"PORT": "3002"}).port == 3002
    assert load(home, {"port": "3003"}, {"PORT": "3002"}).port == 3003
    assert load(home, {"port": None}, {"PORT": "3002"}).port == 3002


def test_an_empty_value_counts_as_not_set(home: Path) -> None:
    dotenv(home, "PORT=3001\nOPENAI_API_KEY=\nCHAOS_CORE_DATA_DIR=\n")
    settings = load(home, environ={"PORT": ""})
    assert (settings.port, settings.openai_api_key) == (3001, None)


@pytest.mark.parametrize("variable", [v for v in VARIABLES if v.old], ids=lambda v: v.old)
def test_the_old_names_still_work_and_the_new_ones_beat_them(variable: object, home: Path) -> None:
    values = {
        "data_dir": (str(home / "a"), str(home / "b")),
        "policy_path": (str(home / "a.json"), str(home / "b.json")),
        "provider": ("anthropic", "openai"),
        "log_level": ("debug", "error"),
        "log_stream": ("stdout", "stderr"),
    }
    name, new, old = (str(getattr(variable, key)) for key in ("field", "name", "old"))
    first, second = values[name]
    assert str(getattr(load(home, environ={old: first}), name)) == first
    assert str(getattr(load(home, environ={old: first, new: second}), name)) == second


def test_dotenv_values_are_taken_as_written(home: Path) -> None:
    dotenv(home, "export OPENAI_API_KEY='sk-$HOME'\n# OPENAI_MODEL=x\nsomebody else's line\n")
    settings = load(home)
    assert (settings.openai_api_key, settings.openai_model) == (Secret("sk-$HOME"), None)


def test_a_folder_named_dotenv_is_not_a_settings_file(home: Path) -> None:
    (home / ".env").mkdir()
    assert load(home).port == 3000


def test_a_named_pipe_at_dotenv_does_not_hang(home: Path) -> None:
    os.mkfifo(home / ".env")
    assert load(home).port == 3000


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("CHAOS_CORE_PROVIDER", "gemini", "openai, anthropic"),
        ("CHAOS_CORE_LOG_LEVEL", "verbose", "debug, info, warning, error, silent"),
        ("CHAOS_CORE_LOG_STREAM", "file", "stderr, stdout"),
        ("PORT", "80800", "0 to 65,535"),
        ("PORT", "-1", "whole number"),
        ("PORT", "3_000", "whole number"),
        ("PORT", "３０００", "whole number"),
        ("HOST", "http://x", "host name"),
        ("OPENAI_API_KEY", "sk two words", "white space"),
        ("OPENAI_BASE_URL", "ftp://x", "http(s)://"),
        ("OPENAI_BASE_URL", "https://user:pass@x/v1", "without a user name"),
        ("MCP_ALLOWED_HOSTS", "https://x", "host:*"),
        ("MCP_ALLOWED_ORIGINS", "x.example", "http(s)://host"),
        ("CHAOS_CORE_STEPS_MAX", "0", "from 1 to 1,000"),
        ("CHAOS_CORE_STEPS_MAX", "1.5", "whole number"),
        ("CHAOS_CORE_STEP_SECONDS", "nan", "a number"),
        ("CHAOS_CORE_STEP_SECONDS", "inf", "a number"),
        ("CHAOS_CORE_POLICY_PTH", "x", "CHAOS_CORE_POLICY_PATH"),
        ("CHAOS_CORE_FS_ROOTS", "/nowhere/at/all", "existing folder"),
        ("CHAOS_CORE_NOTIFY_DESKTOP", "yes", "true, false"),
        ("CHAOS_CORE_NOTIFY_COMMAND", "sh -c 'x", "left open"),
        ("CHAOS_CORE_NOTIFY_COMMAND", "''", "names no program"),
        ("CHAOS_CORE_NOTIFY_COMMAND", "./tell.sh", "relative path"),
        ("CHAOS_CORE_NOTIFY_COMMAND", "/nowhere/tell", "was not found"),
        ("CHAOS_CORE_NOTIFY_COMMAND", "/etc/passwd", "cannot be run"),
        ("CHAOS_CORE_NOTIFY_COMMAND", "no-such-program-of-ours x", "was not found"),
        ("CHAOS_CORE_NOTIFY_COMMAND", "sh " + "x" * 5000, "4,096 characters"),
        ("CHAOS_CORE_DATA_DIR", "/dev/null/x", "not a folder"),
    ],
)
def test_a_value_that_is_not_understood_is_refused_by_name_with_what_is_valid(
    name: str, value: str, says: str, home: Path
) -> None:
    error = refusal(home, environ={name: value})
    assert name in error.message
    assert says in error.message
    assert error.details["variable"] == name


def test_a_refused_secret_or_address_is_not_repeated(home: Path) -> None:
    for name, value in (("OPENAI_API_KEY", "sk-secret value"), ("OPENAI_BASE_URL", "https://u:sk-secret@x")):
        assert "sk-secret" not in refusal(home, environ={name: value}).message


def test_a_misspelt_setting_in_dotenv_is_refused_with_the_file(home: Path) -> None:
    dotenv(home, "CHAOS_CORE_PROVIDR=openai\n")
    error = refusal(home)
    assert str(home / ".env") in error.message
    assert "CHAOS_CORE_PROVIDER" in error.message


def test_an_unreadable_line_about_a_setting_is_refused_with_its_number(home: Path) -> None:
    dotenv(home, 'A=1\nOPENAI_API_KEY="never closed\n')
    error = refusal(home)
    assert "line 2" in error.message
    assert "never closed" not in error.message


@pytest.mark.parametrize(
    "name",
    [
        "CHAOS_CORE_DATA_DIR",
        "CHAOS_CORE_POLICY_PATH",
        "CHAOS_CORE_FS_ROOTS",
        "CHAOS_CORE_NOTIFY_COMMAND",
        "COGNITION_DATA_DIR",
        "COGNITION_POLICY_PATH",
    ],
)
def test_dotenv_may_not_say_where_policy_data_and_roots_are(name: str, home: Path) -> None:
    dotenv(home, f"{name}={home}\n")
    error = refusal(home)
    assert name in error.message
    assert error.details["variable"] == name


def test_dotenv_may_not_say_it_even_where_the_environment_decides(home: Path) -> None:
    dotenv(home, f"CHAOS_CORE_POLICY_PATH={home / 'theirs.json'}\n")
    refusal(home, environ={"CHAOS_CORE_POLICY_PATH": str(home / "mine.json")})


def test_a_base_url_in_dotenv_needs_its_own_key(home: Path) -> None:
    dotenv(home, "OPENAI_BASE_URL=https://elsewhere.example/v1\n")
    assert "OPENAI_BASE_URL" in refusal(home).message
    refusal(home, environ={"OPENAI_API_KEY": "mine"})


def test_a_base_url_in_dotenv_never_receives_the_key_of_the_environment(home: Path) -> None:
    dotenv(home, "OPENAI_BASE_URL=https://elsewhere.example/v1\nOPENAI_API_KEY=theirs\n")
    assert load(home).openai_api_key == Secret("theirs")
    refusal(home, environ={"OPENAI_API_KEY": "mine"})
    both = load(home, environ={"OPENAI_API_KEY": "mine", "OPENAI_BASE_URL": "http://127.0.0.1:8080/v1"})
    assert (both.openai_api_key, both.openai_base_url) == (Secret("mine"), "http://127.0.0.1:8080/v1")


# -- limits ----------------------------------------------------------------------------------------------------------


def test_every_limit_has_bounds_that_hold_its_default() -> None:
    assert set(LIMIT_BOUNDS) == {item.name for item in fields(Limits)}
    for item in fields(Limits):
        low, high = LIMIT_BOUNDS[item.name]
        assert low <= getattr(Limits(), item.name) <= high


@pytest.mark.parametrize("name", sorted(LIMIT_BOUNDS))
def test_every_limit_can_be_set_within_its_bounds(name: str, home: Path) -> None:
    low, high = LIMIT_BOUNDS[name]
    settings = load(home, environ={limit_variable(name): f"{low:.12g}"})
    assert getattr(settings.limits, name) == low
    assert isinstance(getattr(settings.limits, name), type(getattr(Limits(), name)))
    refusal(home, environ={limit_variable(name): f"{high + 1:.12g}"})


def test_a_default_gives_way_to_a_bound_and_two_settings_may_not_contradict_each_other(home: Path) -> None:
    limits = load(home, environ={"CHAOS_CORE_WAIT_SECONDS_MAX": "10"}).limits
    assert (limits.wait_seconds_default, limits.wait_seconds_max) == (10.0, 10.0)
    error = refusal(home, environ={"CHAOS_CORE_WAIT_SECONDS_MAX": "10", "CHAOS_CORE_WAIT_SECONDS_DEFAULT": "11"})
    assert "CHAOS_CORE_WAIT_SECONDS_DEFAULT" in error.message


# -- folders ---------------------------------------------------------------------------------------------------------


def test_the_data_directory_is_the_users_own_by_default(home: Path) -> None:
    settings = load(home)
    assert settings.data_dir == home / ".local" / "share" / "chaos-core"
    assert settings.policy_path == settings.data_dir / "policy.json"
    assert not settings.data_dir.exists()


def test_xdg_decides_where_it_is_absolute(home: Path) -> None:
    assert load(home, environ={"XDG_DATA_HOME": str(home / "x")}).data_dir == home / "x" / "chaos-core"
    assert load(home, environ={"XDG_DATA_HOME": "x"}).data_dir == home / ".local" / "share" / "chaos-core"


def test_without_home_the_system_is_asked_who_the_user_is(tmp_path: Path) -> None:
    import pwd

    own = Path(pwd.getpwuid(os.getuid()).pw_dir)
    for environ in ({}, {"HOME": ""}):
        assert load_settings({}, environ, tmp_path).data_dir == own / ".local" / "share" / "chaos-core"


def test_a_home_that_is_not_absolute_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match="--data-dir"):
        load_settings({}, {"HOME": "somewhere"}, tmp_path)


def test_a_home_that_cannot_hold_the_data_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationInvalid, match="--data-dir"):
        load_settings({}, {"HOME": str(tmp_path / "file")}, tmp_path)


def test_the_working_directory_may_be_the_root_folder(home: Path) -> None:
    settings = load_settings({"data_dir": "tmp/x"}, {"HOME": str(home)}, Path("/"))
    assert settings.data_dir == Path("/tmp/x")


def test_paths_are_relative_to_the_working_directory_and_know_the_tilde(home: Path) -> None:
    (home / "docs").mkdir()
    settings = load(home, {"data_dir": "./data", "policy_path": "~/p.json", "fs_roots": [".", "~/docs"]})
    assert settings.data_dir == home / "data"
    assert settings.policy_path == home / "p.json"
    assert settings.fs_roots == (home, home / "docs")


def test_roots_of_the_environment_are_separated_as_path_is_and_flags_add_to_them(home: Path) -> None:
    for name in ("a", "b", "c"):
        (home / name).mkdir()
    environ = {"CHAOS_CORE_FS_ROOTS": os.pathsep.join([str(home / "a"), "", str(home / "b")])}
    assert load(home, environ=environ).fs_roots == (home / "a", home / "b")
    assert load(home, {"fs_roots": ["c", "a"]}, environ).fs_roots == (home / "a", home / "b", home / "c")


def test_a_root_is_the_folder_that_a_link_led_to(home: Path) -> None:
    (home / "real").mkdir()
    (home / "link").symlink_to(home / "real")
    assert load(home, {"fs_roots": ["link"]}).fs_roots == (home / "real",)


def test_a_root_that_is_a_file_is_refused(home: Path) -> None:
    (home / "file").write_text("")
    assert "not a folder" in refusal(home, {"fs_roots": ["file"]}).message


# -- programs --------------------------------------------------------------------------------------------------------


def program(place: Path) -> Path:
    place.parent.mkdir(exist_ok=True)
    place.write_text("#!/bin/sh\n")
    place.chmod(0o755)
    return place


def test_a_command_is_split_as_a_shell_would_and_its_program_found_once(home: Path) -> None:
    tell = program(home / "bin" / "tell")
    for text in ("tell 'two words' $HOME;", f"{tell} 'two words' $HOME;", "~/bin/tell 'two words' $HOME;"):
        settings = load(home, environ={"CHAOS_CORE_NOTIFY_COMMAND": text, "PATH": str(tell.parent)})
        assert settings.notify_command == (str(tell), "two words", "$HOME;")


@pytest.mark.parametrize("path", ["", ".", ":/nowhere"])
def test_a_program_is_not_found_in_the_working_directory(
    path: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(home / "tell")
    monkeypatch.chdir(home)
    assert "'tell'" in refusal(home, environ={"CHAOS_CORE_NOTIFY_COMMAND": "tell", "PATH": path}).message


def test_arguments_of_a_command_are_shown_neither_by_printing_nor_by_a_refusal(home: Path) -> None:
    settings = load(home, environ={"CHAOS_CORE_NOTIFY_COMMAND": "sh -c sk-very-secret", "PATH": os.defpath})
    assert settings.notify_command[2] == "sk-very-secret" and "sk-very-secret" not in repr(settings)
    for value in ("sh -c 'sk-very-secret", "no-such-program-of-ours sk-very-secret", "./x sk-very-secret"):
        assert "sk-very-secret" not in refusal(home, environ={"CHAOS_CORE_NOTIFY_COMMAND": value}).message


# -- secrets ---------------------------------------------------------------------------------------------------------


def test_no_secret_is_shown_by_printing_settings(home: Path) -> None:
    settings = load(home, environ={"OPENAI_API_KEY": "sk-very-secret", "ANTHROPIC_API_KEY": "other-secret"})
    assert "sk-very-secret" not in repr(settings) and "other-secret" not in repr(settings)
    assert "sk-very-secret" not in f"{settings}"
    assert settings.secrets() == ("sk-very-secret", "other-secret")

"""Editing other programs' configuration: one entry changes, not a byte besides."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoscore.cli.clients import jsonc, toml
from chaoscore.cli.clients.file import edit
from chaoscore.cli.clients.known import CLIENTS, Target, stdio_entry, target, url_entry
from chaoscore.cli.clients.members import Unreadable, with_member
from chaoscore.domain.errors import InvalidInput, StorageError
from chaoscore.domain.json import Json, JsonObject

ENTRY: dict[str, Json] = {"command": "/opt/x/chaos-core-mcp", "args": ["--stdio"]}
PATH = ("mcpServers", "chaos-core")


# -- JSON ------------------------------------------------------------------------------------------------------------

DOCUMENTS = {
    "nothing": "",
    "white space": " \n",
    "an empty object": "{}",
    "an empty object over two lines": "{\n}\n",
    "other settings": '{\n  "theme": "dark",\n  "n": 1.10\n}\n',
    "another server": '{\n\t"mcpServers": {\n\t\t"other": {"command": "x"}\n\t},\n\t"z": 1\n}\n',
    "no servers yet": '{"mcpServers": {}}',
    "one line": '{"mcpServers": {"other": {"command": "x"}}, "big": 12345678901234567890}',
    "windows line ends": '{\r\n    "mcpServers": {\r\n        "other": {}\r\n    }\r\n}\r\n',
    "a byte order mark": '\ufeff{\n  "a": "é"\n}',
    "an older entry": '{"mcpServers": {"chaos-core": {"command": "old"}, "other": {}}}',
    "escaped keys": '{"mcp\\u0053ervers": {"chaos-core": {"command": "old"}}}',
}
COMMENTED = {
    "comments everywhere": (
        '// mine\n{\n  // servers\n  "mcpServers": {\n    "other": {"command": "x"}, // keep\n    /* and */\n  },\n}\n'
    ),
    "a comment alone": "{\n  // nothing yet\n}\n",
    "a comment that looks like a member": '{\n  "mcpServers": {\n    // "chaos-core": {}\n    "a": {}\n  }\n}\n',
    "a final comma": '{\n  "mcpServers": {\n    "a": {},\n  },\n}\n',
    "a comment after the last member": '{\n  "mcpServers": {\n    "a": {} // last\n  }\n}\n',
    "slashes inside text": '{"url": "http://x//y", "mcpServers": {"a": {"b": ["//", "/*"]}}}',
}


def plain(text: str, comments: bool) -> Json:
    return dict(jsonc.read(text, comments=comments))


@pytest.mark.parametrize("name", [*DOCUMENTS, *COMMENTED])
def test_setting_an_entry_changes_that_entry_and_nothing_else(name: str) -> None:
    text, comments = (DOCUMENTS | COMMENTED)[name], name in COMMENTED
    before = plain(text, comments)
    after = jsonc.set_member(text, PATH, ENTRY, comments=comments)
    assert plain(after, comments) == with_member(before, PATH, ENTRY)
    for piece in ("// mine", "// servers", "// keep", "/* and */", "1.10", "12345678901234567890", "\ufeff", "// last"):
        assert (piece in after) == (piece in text)
    assert ("\r\n" in after) == ("\r\n" in text)
    assert after.replace("\r\n", "").count("\n") == 0 or "\r\n" not in text


@pytest.mark.parametrize("name", [*DOCUMENTS, *COMMENTED])
def test_setting_an_entry_again_changes_no_byte(name: str) -> None:
    text, comments = (DOCUMENTS | COMMENTED)[name], name in COMMENTED
    once = jsonc.set_member(text, PATH, ENTRY, comments=comments)
    assert jsonc.set_member(once, PATH, ENTRY, comments=comments) == once


@pytest.mark.parametrize("name", [*DOCUMENTS, *COMMENTED])
def test_an_entry_that_was_set_can_be_removed_and_what_was_there_is_there_again(name: str) -> None:
    text, comments = (DOCUMENTS | COMMENTED)[name], name in COMMENTED
    set_once = jsonc.set_member(text, PATH, ENTRY, comments=comments)
    removed = jsonc.remove_member(set_once, PATH, comments=comments)
    assert plain(removed, comments) == with_member(plain(set_once, comments), PATH, None)


def test_an_entry_among_comments_leaves_every_other_line_as_it_was() -> None:
    text = COMMENTED["comments everywhere"]
    after = jsonc.set_member(text, PATH, ENTRY, comments=True)
    assert jsonc.remove_member(after, PATH, comments=True) == text
    assert set(text.splitlines()) <= set(after.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "nul",
        '{"a": 1,}',
        '{"a": 1} x',
        '{"mcpServers": []}',
        '{"mcpServers": null}',
        '{"mcpServers": {}, "mcpServers": {}}',
        '{"mcpServers": {"chaos-core": {}, "chaos-core": {}}}',
        '{"a" 1}',
        "{'a': 1}",
        '{"a": 1 "b": 2}',
        "// comment\n{}",
        '{"a": ' + "[" * 100_000,
    ],
)
def test_a_document_that_its_client_could_not_read_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        jsonc.set_member(text, PATH, ENTRY, comments=False)


keys = st.text('abcé"\\/ \u2028', min_size=1, max_size=4)
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=6) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(keys, values, max_size=4)


@given(objects, st.lists(keys, min_size=1, max_size=3), objects, st.sampled_from([None, 0, 2, "\t"]))
def test_any_document_takes_any_entry_and_gives_it_back(
    document: dict[str, Json], path: list[str], entry: JsonObject, indent: int | str | None
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    way: Json = document
    for key in path[:-1]:
        way = way.get(key, {}) if isinstance(way, dict) else None
    if not isinstance(way, dict):
        with pytest.raises(Unreadable):
            jsonc.set_member(text, path, entry, comments=False)
        return
    after = jsonc.set_member(text, path, entry, comments=False)
    assert json.loads(after) == with_member(document, path, entry)
    assert json.loads(jsonc.remove_member(after, path, comments=False)) == with_member(json.loads(after), path, None)


# -- TOML ------------------------------------------------------------------------------------------------------------

CODEX = ("mcp_servers", "chaos-core")
TOMLS = {
    "nothing": "",
    "other settings": 'model = "gpt"  # mine\n\n[tui]\ntheme = "dark"\n',
    "no line end": 'model = "x"',
    "another server": '[mcp_servers.other]\ncommand = "x"\nargs = ["[a]",\n  "b"]\n# tail\n',
    "an older entry": (
        '[mcp_servers.chaos-core]\n# by hand\ncommand = "old"\nstartup_timeout_sec = 30\n'
        'args = [\n  "--stdio",  # why\n]\n\n[mcp_servers.chaos-core.env]\nA = "1"\n\n[tui]\nx = 1\n'
    ),
    "an older entry, quoted": '[mcp_servers."chaos-core"]\ncommand = "old"\n',
    "windows line ends": 'a = 1\r\n\r\n[mcp_servers.other]\r\ncommand = "x"\r\n',
}
HEADER_INSIDE_TEXT = 'a = """\n[mcp_servers.chaos-core]\ncommand = "no"\n"""\n'


@pytest.mark.parametrize("name", TOMLS)
def test_setting_a_table_changes_that_table_and_nothing_else(name: str) -> None:
    text = TOMLS[name]
    wanted = {**ENTRY, "startup_timeout_sec": 30} if name == "an older entry" else dict(ENTRY)
    if name == "an older entry":
        wanted["env"] = {"A": "1"}
    after = toml.set_table(text, CODEX, wanted)
    assert tomllib.loads(after) == with_member(tomllib.loads(text), CODEX, wanted)
    for piece in ("# mine", "# tail", "# by hand", "# why", "startup_timeout_sec = 30"):
        assert (piece in after) == (piece in text)
    assert toml.set_table(after, CODEX, wanted) == after
    assert "chaos-core" not in tomllib.loads(toml.remove_table(after, CODEX)).get("mcp_servers", {})


def test_a_header_inside_a_text_is_text() -> None:
    after = toml.set_table(HEADER_INSIDE_TEXT, CODEX, ENTRY)
    assert tomllib.loads(after) == with_member(tomllib.loads(HEADER_INSIDE_TEXT), CODEX, ENTRY)
    with pytest.raises(Unreadable):  # rather than cut the text in two
        toml.remove_table(after, CODEX)


def test_environment_below_a_table_is_edited_where_it_stands() -> None:
    wanted: dict[str, Json] = {
        "command": "old",
        "startup_timeout_sec": 30,
        "args": ["--stdio"],
        "env": {"A": "1", "B": 'q"\\'},
    }
    after = toml.set_table(TOMLS["an older entry"], CODEX, wanted)
    assert tomllib.loads(after)["mcp_servers"]["chaos-core"] == wanted
    assert after.count("[mcp_servers.chaos-core.env]") == 1


@pytest.mark.parametrize(
    "text", ["a = ", "[x", 'mcp_servers = { "chaos-core" = { command = "x" } }', "mcp_servers = 1"]
)
def test_a_toml_document_that_cannot_be_edited_safely_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        toml.set_table(text, CODEX, ENTRY)


# -- files -----------------------------------------------------------------------------------------------------------


def test_the_old_file_is_kept_beside_the_new_one_with_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"a": 1}')
    path.chmod(0o640)
    done = edit(path, lambda text: text + "\n")
    assert done.changed and done.backup is not None
    assert done.backup.read_text() == '{"a": 1}'
    assert path.read_text() == '{"a": 1}\n'
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(done.backup.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == sorted([path.name, done.backup.name])


def test_an_edit_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")
    before = path.stat()
    assert edit(path, lambda text: text).backup is None
    assert path.stat().st_mtime_ns == before.st_mtime_ns and os.listdir(tmp_path) == ["config.json"]


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "config.json"
    edit(path, lambda _: "{}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("{}")
    link.symlink_to(real)
    edit(link, lambda _: '{"a": 1}')
    assert link.is_symlink() and real.read_text() == '{"a": 1}'


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe{\x00}\x00", b'{"a": 1,}'])
def test_a_malformed_file_is_refused_and_untouched(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "claude_desktop_config.json"
    path.write_bytes(content)
    where = Target(CLIENTS["claude-desktop"], path, PATH)
    with pytest.raises(InvalidInput, match="claude_desktop_config"):
        edit(path, lambda text: where.installed(text, ENTRY))
    assert path.read_bytes() == content and os.listdir(tmp_path) == [path.name]


def test_a_file_that_somebody_wrote_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")

    def slow(_: str) -> str:
        path.write_text('{"theirs": 1}')
        return '{"mine": 1}'

    from chaoscore.domain.errors import Conflict

    with pytest.raises(Conflict):
        edit(path, slow)
    assert path.read_text() == '{"theirs": 1}'


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        edit(tmp_path / "file" / "config.json", lambda _: "{}")


# -- clients ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "scope", "platform", "path", "keys"),
    [
        ("claude-code", "user", "linux", "h/.claude.json", PATH),
        ("claude-code", "project", "linux", "w/.mcp.json", PATH),
        ("claude-code", "local", "linux", "h/.claude.json", ("projects", "{w}", *PATH)),
        ("claude-desktop", "user", "linux", "h/.config/Claude/claude_desktop_config.json", PATH),
        (
            "claude-desktop",
            "user",
            "darwin",
            "h/Library/Application Support/Claude/claude_desktop_config.json",
            PATH,
        ),
        ("cursor", "user", "linux", "h/.cursor/mcp.json", PATH),
        ("cursor", "project", "linux", "w/.cursor/mcp.json", PATH),
        ("vscode", "user", "linux", "h/.config/Code/User/mcp.json", ("servers", "chaos-core")),
        ("vscode", "user", "darwin", "h/Library/Application Support/Code/User/mcp.json", ("servers", "chaos-core")),
        ("vscode", "project", "linux", "w/.vscode/mcp.json", ("servers", "chaos-core")),
        ("codex", "user", "linux", "h/.codex/config.toml", CODEX),
        ("codex", "project", "linux", "w/.codex/config.toml", CODEX),
    ],
)
def test_each_client_keeps_its_servers_where_it_looks_for_them(
    client: str, scope: str, platform: str, path: str, keys: tuple[str, ...], tmp_path: Path
) -> None:
    home, work = tmp_path / "h", tmp_path / "w"
    found = target(CLIENTS[client], scope, "chaos-core", {"HOME": str(home)}, work, platform)  # type: ignore[arg-type]
    assert found.path == tmp_path / path
    assert found.keys == tuple(key.replace("{w}", str(work)) for key in keys)


def test_a_scope_that_a_client_does_not_have_is_refused_with_those_it_has(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="user"):
        target(CLIENTS["claude-desktop"], "project", "chaos-core", {"HOME": "/h"}, tmp_path)


def test_installing_again_keeps_what_somebody_added_to_the_entry(tmp_path: Path) -> None:
    where = Target(CLIENTS["claude-desktop"], tmp_path / "c.json", PATH)
    text = json.dumps({"mcpServers": {"chaos-core": {"command": "old", "env": {"A": "1"}, "disabled": True}}})
    after = json.loads(where.installed(text, stdio_entry(where.client, "new", ["--stdio"], {"B": "2"})))
    assert after["mcpServers"]["chaos-core"] == {
        "command": "new",
        "args": ["--stdio"],
        "env": {"A": "1", "B": "2"},
        "disabled": True,
    }


def test_an_address_takes_the_place_of_a_command(tmp_path: Path) -> None:
    where = Target(CLIENTS["cursor"], tmp_path / "c.json", PATH)
    text = where.installed("", stdio_entry(where.client, "x", ["--stdio"], {}))
    after = json.loads(where.installed(text, url_entry(where.client, "http://127.0.0.1:3000/mcp")))
    assert after["mcpServers"]["chaos-core"] == {"type": "http", "url": "http://127.0.0.1:3000/mcp"}
    with pytest.raises(InvalidInput):
        url_entry(CLIENTS["claude-desktop"], "http://127.0.0.1:3000/mcp")

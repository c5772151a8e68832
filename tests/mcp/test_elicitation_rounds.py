"""Asking the user by having the client call again (2026-07-28), seen on the wire: the sealed state and its keys."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaoscore.adapters.mcp.asking import REQUESTS_MAX
from chaoscore.adapters.mcp.state_keys import FILE_NAME, KEYS_MAX, StateKeys
from chaoscore.domain.errors import StorageError
from tests.mcp.support import ENVELOPE, ROOT, HttpServer, Message, RawStdio, call, http_server, message, raw_stdio

SERVER = "tests.mcp.elicitation_server"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
YES: Message = {"action": "accept", "content": {"sure": True}}


@contextmanager
def asker(data: Path, **options: object) -> Iterator[RawStdio]:
    data.mkdir(exist_ok=True)
    with raw_stdio({"data": str(data), **options}, handshake=False, module=SERVER) as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("asker")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RawStdio]:
    """One process for all tests that leave its keys alone."""
    with asker(folder) as running:
        yield running


def asking(
    name: str,
    arguments: Message | None = None,
    state: object = None,
    responses: object = None,
    elicitation: Message | None = {},  # noqa: B006  (never changed)
) -> Message:
    """A call by a client that can show forms, the first or a later one."""
    request = call(name, arguments or {}, id=1)
    request["params"]["_meta"] = {**ENVELOPE, CAPABILITIES: {} if elicitation is None else {"elicitation": elicitation}}
    if state is not None:
        request["params"]["requestState"] = state
    if responses is not None:
        request["params"]["inputResponses"] = responses
    return request


def begun(server: RawStdio, name: str = "plain", arguments: Message | None = None) -> str:
    """The state of a call whose user is asked."""
    result = server.request(asking(name, arguments))["result"]
    assert result["resultType"] == "input_required", result
    state: str = result["requestState"]
    return state


def envelope(answer: Message) -> Message:
    found: Message = answer["result"]["structuredContent"]
    return found


def refused(answer: Message) -> str:
    """The reason why a state was refused."""
    found = envelope(answer)
    assert answer["result"]["isError"] is True
    assert found["ok"] is False
    assert found["status"] == found["error"]["code"] == "VALIDATION_ERROR"
    assert found["error"]["details"]["key"] == "requestState"
    assert "call the tool again without requestState" in found["message"]
    reason: str = found["error"]["details"]["reason"]
    return reason


def journal(data: Path) -> list[str]:
    return (data / "journal").read_text().splitlines()


def test_the_call_ends_with_what_is_asked_and_the_next_one_brings_the_answer(server: RawStdio) -> None:
    first = server.request(asking("plain"))["result"]
    assert first["resultType"] == "input_required"
    assert first["inputRequests"] == {
        "go": {
            "method": "elicitation/create",
            "params": {
                "mode": "form",
                "message": "Go on?",
                "requestedSchema": {
                    "type": "object",
                    "properties": {"sure": {"type": "boolean"}},
                    "required": ["sure"],
                },
            },
        }
    }
    second = server.request(asking("plain", state=first["requestState"], responses={"go": YES}))
    assert second["result"]["resultType"] == "complete"
    assert envelope(second)["data"]["answer"] == YES


def test_a_state_tells_its_bearer_nothing(server: RawStdio) -> None:
    import base64

    state = begun(server, arguments={"note": "visible?"})
    raw = base64.urlsafe_b64decode(state.split(".", 1)[1] + "==")
    assert not [word for word in (b"asked", b"given", b"visible", b"plain") if word in raw]


@pytest.mark.parametrize("change", ["flip", "cut", "empty", "words", "longer"])
def test_a_state_that_was_changed_is_refused(server: RawStdio, folder: Path, change: str) -> None:
    state = begun(server)
    done = journal(folder)
    middle = len(state) // 2
    other = {
        "flip": state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :],
        "cut": state[:-6],
        "empty": "",
        "words": "let me in",
        "longer": state + "AAAA",
    }[change]
    assert refused(server.request(asking("plain", state=other, responses={"go": YES}))) == "not-for-this-call"
    assert journal(folder) == done


def test_a_state_is_for_one_tool_and_its_arguments(server: RawStdio, folder: Path) -> None:
    state = begun(server, arguments={"note": {"b": 1, "a": [2]}})
    done = journal(folder)
    for other in (
        asking("deploy", {"note": {"b": 1, "a": [2]}}, state, {"go": YES}),
        asking("plain", {"note": {"b": 1, "a": [2, 3]}}, state, {"go": YES}),
        asking("plain", {}, state, {"go": YES}),
        asking("echo", {"text": "x"}, state),
    ):
        assert refused(server.request(other)) == "not-for-this-call"
    assert journal(folder) == done
    same = server.request(asking("plain", {"note": {"a": [2], "b": 1}}, state, {"go": YES}))
    assert envelope(same)["data"]["answer"] == YES


def test_a_state_expires_when_the_asker_said(server: RawStdio) -> None:
    hour, month = {"expires_in": 3_600}, {"expires_in": 30 * 86_400}
    short, long = begun(server, arguments=hour), begun(server, arguments=month)
    envelope(server.request(asking("advance", {"seconds": 3_601})))
    assert refused(server.request(asking("plain", hour, short, {"go": YES}))) == "expired"
    assert envelope(server.request(asking("plain", month, long, {"go": YES})))["data"]["answer"] == YES


def test_a_question_that_has_expired_is_not_asked(server: RawStdio) -> None:
    found = envelope(server.request(asking("plain", {"expires_in": -1})))
    assert found["data"] == {"answer": None}


def test_another_process_of_the_same_folder_takes_the_answer_and_no_other(tmp_path: Path) -> None:
    with asker(tmp_path / "one") as first:
        state = begun(first)
    with asker(tmp_path / "one") as again:
        answered = again.request(asking("plain", state=state, responses={"go": YES}))
        assert envelope(answered)["data"]["answer"] == YES
    with asker(tmp_path / "two") as other:
        begun(other)
        assert refused(other.request(asking("plain", state=state, responses={"go": YES}))) == "not-for-this-call"
    with asker(tmp_path / "one", name="another-server") as other:
        assert refused(other.request(asking("plain", state=state, responses={"go": YES}))) == "not-for-this-call"


def test_a_state_is_for_one_principal(tmp_path: Path) -> None:
    def modern(web: HttpServer, request: Message, user: str) -> Message:
        answer = web.modern(request, authorization=f"Bearer token-of-{user}")
        assert answer.status == 200
        found: Message = answer.messages()[-1]
        return found

    with http_server({"data": str(tmp_path), "auth": True}, SERVER) as web:
        state = modern(web, asking("plain"), "ada")["result"]["requestState"]
        again = asking("plain", state=state, responses={"go": YES})
        assert refused(modern(web, again, "bob")) == "not-for-this-call"
        assert envelope(modern(web, again, "ada"))["data"]["answer"] == YES


def test_nothing_is_taken_for_an_answer_that_was_not_asked(server: RawStdio) -> None:
    # Without a state nothing was asked.
    assert server.request(asking("plain", responses={"go": YES}))["result"]["resultType"] == "input_required"
    state = begun(server)
    other = server.request(asking("plain", state=state, responses={"stop": YES}))["result"]
    assert other["resultType"] == "input_required"
    # A state alone asks again.
    again = server.request(asking("plain", state=state))["result"]
    assert list(again["inputRequests"]) == ["go"]
    assert envelope(server.request(asking("plain", state=again["requestState"], responses={"go": YES})))["ok"] is True


def test_an_answer_to_another_question_of_the_same_key_is_asked_for_again(server: RawStdio) -> None:
    first = server.request(asking("changing"))["result"]
    second = server.request(asking("changing", state=first["requestState"], responses={"go": YES}))["result"]
    assert second["resultType"] == "input_required"
    third = server.request(asking("changing", state=second["requestState"], responses={"go": YES}))["result"]
    messages = [item["inputRequests"]["go"]["params"]["message"] for item in (first, second, third)]
    assert messages == ["Go on? (1)", "Go on? (2)", "Go on? (3)"]
    last = server.request(asking("changing", state=third["requestState"], responses={"go": YES}))
    assert envelope(last)["data"]["answer"] == YES


@pytest.mark.parametrize("response", [{"roots": []}, {"action": "accept"}, {"action": "accept", "content": {}}])
def test_a_response_that_fits_nothing_is_no_answer_in_every_later_round(server: RawStdio, response: Message) -> None:
    state = begun(server, "one_by_one")
    second = server.request(asking("one_by_one", state=state, responses={"first": response}))["result"]
    assert list(second["inputRequests"]) == ["second"]
    last = server.request(asking("one_by_one", state=second["requestState"], responses={"second": YES}))
    assert envelope(last)["data"] == {"first": None, "second": YES}


@pytest.mark.parametrize("responses", [{"go": "yes"}, {"go": {"action": "perhaps"}}, ["go"], "go"])
def test_responses_that_are_none_are_parameters_that_are_wrong(server: RawStdio, responses: object) -> None:
    state = begun(server)
    answer = server.request(asking("plain", state=state, responses=responses))
    assert answer["error"]["code"] == -32602
    assert answer["error"]["data"]["key"].startswith("inputResponses")
    # The state is still good.
    assert envelope(server.request(asking("plain", state=state, responses={"go": YES})))["ok"] is True


def test_a_state_that_is_no_text_is_a_parameter_that_is_wrong(server: RawStdio) -> None:
    answer = server.request(asking("plain", state={"mine": 1}))
    assert answer["error"]["code"] == -32602
    assert answer["error"]["data"]["key"] == "requestState"


@pytest.mark.parametrize("elicitation", [None, {"url": {}}])
def test_who_cannot_show_forms_is_not_asked(server: RawStdio, folder: Path, elicitation: Message | None) -> None:
    found = envelope(server.request(asking("plain", elicitation=elicitation)))
    assert found["data"] == {"answer": None}
    assert journal(folder)[-2:] == ["begins", "cannot ask"]


def test_one_call_asks_a_bounded_number_of_questions(server: RawStdio) -> None:
    more = {"count": REQUESTS_MAX + 1}
    first = server.request(asking("many", more))["result"]
    assert len(first["inputRequests"]) == REQUESTS_MAX
    responses = dict.fromkeys(first["inputRequests"], YES)
    last = server.request(asking("many", more, first["requestState"], responses))
    assert envelope(last)["data"]["answers"] == [YES] * REQUESTS_MAX + [None]


def test_a_tool_that_finishes_all_the_same_has_finished(server: RawStdio) -> None:
    assert envelope(server.request(asking("stubborn")))["message"] == "did it anyway"


def test_a_server_without_a_seal_asks_nobody_and_takes_no_state(tmp_path: Path) -> None:
    with asker(tmp_path, without_seal=True) as server:
        assert envelope(server.request(asking("plain")))["data"] == {"answer": None}
        found = envelope(server.request(asking("plain", state="x")))
        assert (found["ok"], found["error"]["details"]["key"]) == (False, "requestState")


def test_the_keys_are_the_owners_alone_and_made_only_when_somebody_is_asked(tmp_path: Path) -> None:
    file = tmp_path / FILE_NAME
    with asker(tmp_path) as server:
        server.request(asking("echo", {"text": "x"}))
        assert not file.exists()
        begun(server)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [item.name for item in tmp_path.iterdir() if item.name != "journal"] == [FILE_NAME]


def test_processes_that_ask_first_at_the_same_moment_make_one_file(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from chaoscore.adapters.mcp.state_keys import StateKeys; "
        "sys.stdin.readline(); print(StateKeys(Path(sys.argv[1])).load()[0].hex())"
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / FILE_NAME)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    with ThreadPoolExecutor(len(racers)) as threads:
        keys = {out for out, _ in threads.map(lambda racer: racer.communicate("go\n", 60), racers)}
    assert len(keys) == 1
    assert keys == {(tmp_path / FILE_NAME).read_text()}


def test_after_a_rotation_older_states_still_open_and_new_ones_need_the_new_key(tmp_path: Path) -> None:
    keys = StateKeys(tmp_path / FILE_NAME)
    with asker(tmp_path) as server:
        before = begun(server)
        old = keys.load()
        keys.rotate()
        after = begun(server)
        assert keys.load()[1:] == old
        for state in (before, after):
            assert envelope(server.request(asking("plain", state=state, responses={"go": YES})))["ok"] is True
        (tmp_path / FILE_NAME).write_text(f"{keys.load()[0].hex()}\n")
        assert refused(server.request(asking("plain", state=before, responses={"go": YES}))) == "not-for-this-call"
        assert envelope(server.request(asking("plain", state=after, responses={"go": YES})))["ok"] is True


def test_the_ring_of_keys_is_bounded(tmp_path: Path) -> None:
    keys = StateKeys(tmp_path / FILE_NAME)
    first = keys.load()
    for _ in range(KEYS_MAX):
        keys.rotate()
    assert len(keys.load()) == KEYS_MAX
    assert first[0] not in keys.load()
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "not a key\n", "ab" * 31, ("cd" * 32 + "\n") * (KEYS_MAX + 1), "é"])
def test_a_file_of_keys_that_is_not_understood_is_kept_and_nobody_is_asked(tmp_path: Path, content: str) -> None:
    file = tmp_path / FILE_NAME
    file.write_text(content)
    with asker(tmp_path) as server:
        assert envelope(server.request(asking("plain")))["data"] == {"answer": None}
        found = envelope(server.request(asking("plain", state="v1.AAAA", responses={"go": YES})))
        assert (found["status"], found["error"]["details"]) == ("STORE_CORRUPT", {"path": str(file)})
        server.end_input()
        _, _, log = server.finish()
    assert "does not hold keys" in log
    assert "Traceback" not in log
    assert file.read_text() == content


def test_what_is_no_file_of_keys_is_said_so(tmp_path: Path) -> None:
    keys = StateKeys(tmp_path / FILE_NAME)
    keys.path.mkdir()
    with pytest.raises(StorageError) as failed:
        keys.load()
    assert failed.value.code == "IO_ERROR"
    assert failed.value.details == {"path": str(keys.path)}


def test_keys_that_cannot_be_made_leave_nobody_asked(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be")
    with asker(tmp_path, keys=str(tmp_path / "taken" / FILE_NAME)) as server:
        assert envelope(server.request(asking("plain")))["data"] == {"answer": None}
        server.end_input()
        _, _, log = server.finish()
    assert "nobody can be asked in place" in log


def test_over_http_nothing_is_held_open_while_the_user_thinks(tmp_path: Path) -> None:
    with http_server({"data": str(tmp_path)}, SERVER) as web:
        first = web.modern(asking("plain")).json()["result"]
        assert first["resultType"] == "input_required"
        code, _ = web.terminate()
        assert code == 0
    with http_server({"data": str(tmp_path)}, SERVER) as web:
        again = asking("plain", state=first["requestState"], responses={"go": YES})
        assert envelope(web.modern(again).json())["data"]["answer"] == YES
        assert web.modern(message("tools/list", {}, id=2)).status == 200

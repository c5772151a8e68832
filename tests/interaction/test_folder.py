"""The folder: nothing leads out of it, nothing malformed is overwritten, nothing extra stands in it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from chaoscore.adapters.files.interaction import schemas
from chaoscore.adapters.files.interaction.encoding import NotJson, line, loads, pretty
from chaoscore.app.interaction_ports import SessionFilter
from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.app.interactions.deciding import AnswerRequest, DecisionRequest
from chaoscore.app.interactions.progress import EndRequest
from chaoscore.app.interactions.service import InteractionService
from chaoscore.domain.interaction.limits import InteractionLimits
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.json import Json
from tests.interaction.conftest import Place
from tests.interaction.steps import OPTIONS, answer, ask, begin, document, prepared, text

STRANGE_IDS = ["../../x", "..", ".", "a/b", "a\0b", "-lead", "x" * 161, "a b", "ä"]


@pytest.mark.parametrize("name", STRANGE_IDS)
def test_an_id_that_is_none_never_touches_a_path(place: Place, name: str) -> None:
    async def story(service: InteractionService) -> None:
        await begin(service)
        outside = place.repository / "x"
        outside.mkdir()
        (outside / "decision.json").write_text("{}")
        before = sorted(str(path) for path in place.repository.rglob("*"))
        refused = [
            await service.begin(BeginRequest("chaos:run", command_run_id=name)),
            await ask(service, name),
            await answer(service, name),
            await service.mark_consumed(name),
            await service.decision_response(name),
            await service.resume(name),
            await service.complete(EndRequest(name)),
            await service.cancel(EndRequest(name)),
        ]
        assert {envelope.status for envelope in refused} <= {"NOT_FOUND", "SCHEMA_VALIDATION_ERROR"}
        assert (await service.resume_capsule(name)).status == "NOT_FOUND"
        for kind in ("sessions", "decisions", "capsules"):
            body = await service.read_resource(f"chaos://interactions/{kind}/{name}")
            assert body is None or body["status"] == "NOT_FOUND"
        assert sorted(str(path) for path in place.repository.rglob("*")) == before

    place.tell(story)


@pytest.mark.parametrize("indexed", [False, True], ids=["looked through", "indexed"])
@pytest.mark.parametrize("kind", ["sessions", "decisions", "capsules"])
def test_a_folder_that_is_a_link_to_elsewhere_is_refused(
    place: Place, kind: str, indexed: bool, tmp_path: Path
) -> None:
    place.bench.cache_dir = tmp_path / "cache" if indexed else None

    async def story(service: InteractionService) -> None:
        await prepared(service, "begin", "ask", "answer")
        elsewhere = tmp_path / "elsewhere"
        (place.root / kind).rename(elsewhere)
        (place.root / kind).symlink_to(elsewhere)
        before = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
        body = await service.read_resource(f"chaos://interactions/{kind}/RUN-1")
        assert body is not None and body["status"] in ("ERROR", "NOT_FOUND")
        outcomes = [
            await service.begin(BeginRequest("chaos:other", "c9")),
            await service.resume("RUN-1"),
            await ask(service, "RUN-1", "Other"),
            await service.complete(EndRequest("RUN-1")),
        ]
        said = [text for outcome in outcomes for text in (outcome.message, *outcome.warnings)]
        assert any(f"{kind} cannot be understood" in text for text in said), outcomes
        assert {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()} == before

    place.tell(story)


def test_a_document_that_is_a_link_out_of_the_folder_is_not_read(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await begin(service)
        secret = place.repository / "secret.json"
        secret.write_text(json.dumps({"token": "s3cr3t"}))
        (place.root / "sessions/RUN-x.json").symlink_to(secret)
        body = await service.read_resource("chaos://interactions/sessions/RUN-x")
        assert body is not None and body["status"] == "ERROR" and "s3cr3t" not in str(body)

    place.tell(story)


BROKEN = {
    "empty": b"",
    "half": b'{"schemaVersion": 1, "commandRunId":',
    "object": b"{}",
    "array": b"[]",
    "number": b"NaN",
    "mark": b"\xef\xbb\xbf{}",
    "bytes": b'{"a": "\xff"}',
    "deep": b"[" * 100_000,
    "large": b'{"x": "' + b"y" * 1_000_000 + b'"}',
    "other name": json.dumps({"commandRunId": "RUN-other"}).encode(),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=list(BROKEN))
@pytest.mark.parametrize("kind", ["sessions/RUN-x.json", "decisions/DEC-x/decision.json", "capsules/RUN-x.json"])
def test_a_broken_file_is_named_kept_and_in_nobodys_way(place: Place, kind: str, content: bytes) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        path = place.root / kind
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        assert (await answer(service, decision)).ok
        assert (await service.resume("RUN-1")).ok
        assert (await service.mark_consumed(decision)).ok
        assert (await service.complete(EndRequest("RUN-1"))).ok
        seen = [await service.list_sessions(), await service.active_decision(), await service.resume_capsule()]
        assert all(envelope.ok for envelope in seen)
        assert any(kind in warning for envelope in seen for warning in envelope.warnings)
        assert path.read_bytes() == content

    place.tell(story)


def test_a_broken_document_of_the_operation_itself_is_an_error_that_names_it(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        (place.root / "sessions/RUN-1.json").write_text("{half")
        refused = await service.resume("RUN-1")
        assert refused.status == "MALFORMED_STATE" and "sessions/RUN-1.json" in refused.message
        (place.root / f"decisions/{decision}/decision.json").write_text("{half")
        assert (await service.decision_response(decision)).status == "MALFORMED_STATE"

    place.tell(story)


def test_an_untouched_repository_stays_untouched_by_reads_and_refusals(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        assert (await service.active_decision()).status == "NO_ACTIVE_DECISION"
        assert (await service.list_sessions()).status == "NO_SESSIONS"
        assert (await service.list_locks()).status == "NO_LOCKS"
        assert (await service.resume_candidates()).status == "NOT_FOUND"
        for uri in ("active", "locks", "sessions", "sessions/R", "decisions/D", "capsules/R"):
            assert await service.read_resource(f"chaos://interactions/{uri}") is not None
        assert (await service.begin(BeginRequest("  "))).status == "VALIDATION_ERROR"
        assert (await service.begin(BeginRequest("chaos:run", "x" * 161))).status == "SCHEMA_VALIDATION_ERROR"
        assert (await ask(service)).status == "NOT_FOUND"
        assert list(place.repository.iterdir()) == []

    place.tell(story)


def test_the_folder_holds_nothing_that_a_peer_does_not_know(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask", "answer", "resume", "consume")
        await service.complete(EndRequest("RUN-1"))
        found = {str(path.relative_to(place.root)) for path in place.root.rglob("*") if path.is_file()}
        assert {name for name in found if not name.startswith("schema/")} == {
            "active.json", "audit.jsonl", "capsules/RUN-1.json", f"decisions/{decision}/audit.jsonl",
            f"decisions/{decision}/decision.json", f"decisions/{decision}/response.json", "index.json", "locks.json",
            "sessions/RUN-1.json",
        }  # fmt: skip

    place.tell(story)


def test_a_torn_audit_line_is_fenced_and_reported(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await begin(service)
        log = place.root / "audit.jsonl"
        with log.open("ab") as file:
            file.write(b'{"schemaVersion": 1, "eve')
        done = await ask(service)
        assert any("torn" in warning for warning in done.warnings)
        lines = log.read_bytes().split(b"\n")
        torn = [part for part in lines[:-1] if not part.endswith(b"}")]
        assert torn == [b'{"schemaVersion": 1, "eve'] and lines[-1] == b""

    place.tell(story)


def test_a_large_lock_table_is_pruned_into_the_archive(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        table = document(place.root, "locks.json")
        assert table is not None
        mine = table["locks"][0]  # type: ignore[index]
        old = [
            {**mine, "lockId": f"LOCK-{n}", "lockedByCommandRunId": f"RUN-old-{n}", "state": "released"}  # type: ignore[dict-item]
            for n in range(300)
        ]
        (place.root / "locks.json").write_text(json.dumps({**table, "locks": [*old, mine]}))
        assert (await answer(service, decision)).ok
        kept = document(place.root, "locks.json")["locks"]  # type: ignore[index]
        assert [lock["lockId"] for lock in kept] == [mine["lockId"]]  # type: ignore[union-attr, index, call-overload]
        archived = [json.loads(row) for row in (place.root / "archive/locks.jsonl").read_text().splitlines()]
        assert archived == old

    place.tell(story)


def test_unknown_metadata_and_foreign_keys_survive_a_rewrite(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await begin(service)
        path = place.root / "sessions/RUN-1.json"
        value = {**json.loads(path.read_text()), "metadata": {"theirs": {"deep": [1, 2.5, "\ud800"]}, "n": 2**70}}
        path.write_text(json.dumps(value))
        assert (await ask(service)).ok
        assert json.loads(path.read_text())["metadata"] == value["metadata"]

    place.tell(story)


VALUES: list[Json] = [
    {}, [], {"a": {}}, {"a": []}, [[1, [2]], {"b": None}], "\ud800 \u2028 \x7f /", "\b\t\n\f\r\x00\x1f\"\\",
    [1.0, -0.0, 1e21, 1e-7, 0.00001, 123456789012345680.0, 1e300], 2**70, True, {"é": "ü"},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_what_is_written_reads_back_and_is_valid_utf8(value: Json) -> None:
    for data in (pretty(value), line(value)):
        assert data.endswith(b"\n")
        assert loads(data.rstrip(b"\n")) == value
    assert pretty({"a": [1, {}], "b": []}) == b'{\n  "a": [\n    1,\n    {}\n  ],\n  "b": []\n}\n'
    assert line([1e21, 1e-7, 1.0, -0.0, 0.00001]) == b"[1e+21,1e-7,1,0,0.00001]\n"


@pytest.mark.parametrize("data", [b"NaN", b"\xef\xbb\xbf1", b'"\xff"', b"", b"1" * 5000, b"[" * 100_000], ids=range(6))
def test_what_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(NotJson):
        loads(data)


LARGE = "x" * (2 << 20)


def test_inputs_beyond_their_bounds_are_refused_by_name_before_any_write(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        before = sorted(str(path) for path in place.root.rglob("*"))
        for envelope, key in (
            (await service.begin(BeginRequest(LARGE)), "sourceCommand"),
            (await service.begin(BeginRequest("chaos:run", metadata={"x": LARGE})), "metadata"),
            (await service.create_decision(DecisionRequest("RUN-1", LARGE, "C", OPTIONS)), "title"),
            (await service.create_decision(DecisionRequest("RUN-1", "T", "x" * (50 << 20), OPTIONS)), "context"),
            (await service.create_decision(DecisionRequest("RUN-1", "T", "C", [*OPTIONS] * 60)), "options"),
            (await service.answer(AnswerRequest(decision, Choice("a", rationale=LARGE), "x", "mcp-tool")), "rationale"),
            (await service.complete(EndRequest("RUN-1", LARGE)), "reason"),
        ):
            assert envelope.status == "TOO_LARGE" and envelope.message.startswith(f"{key}:"), envelope
        assert sorted(str(path) for path in place.root.rglob("*")) == before

    place.tell(story)


def test_lists_have_pages(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        for number in range(5):
            place.clock.seconds += 1
            await begin(service, f"RUN-{number}", None)
        first = await service.list_sessions(limit=2)
        assert [s["commandRunId"] for s in first.data["sessions"]] == ["RUN-3", "RUN-4"]  # type: ignore[union-attr, index, call-overload]
        assert first.data["total"] == 5
        second = await service.list_sessions(limit=2, cursor=text(first.data["next"]))
        assert [s["commandRunId"] for s in second.data["sessions"]] == ["RUN-1", "RUN-2"]  # type: ignore[union-attr, index, call-overload]
        body = await service.read_resource("chaos://interactions/sessions?limit=1&cursor=" + text(second.data["next"]))
        assert body is not None and body["next"] is None and body["total"] == 5
        assert (await service.list_sessions(limit=0)).status == "VALIDATION_ERROR"
        assert (await service.list_sessions(cursor="nonsense")).status == "VALIDATION_ERROR"
        assert (await service.list_sessions(SessionFilter(state="bogus"))).status == "NO_SESSIONS"

    place.tell(story)


def test_old_temporary_files_are_swept_when_a_store_starts_and_young_ones_are_not(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await begin(service)

    place.tell(story)
    old, young = place.root / "sessions/.old.json.1.2.abc.tmp", place.root / "decisions/D/.x.tmp"
    young.parent.mkdir(parents=True)
    for path, age in ((old, 31), (young, 29)):
        path.write_text("x")
        os.utime(path, (place.clock.seconds - age,) * 2)
    assert place.bench.store().start() == ()
    assert (old.exists(), young.exists()) == (False, True)


def test_a_large_table_of_contents_lags_until_the_store_is_closed(place: Place) -> None:
    place.bench.limits = InteractionLimits(index_bytes_max=1_000)

    async def story(service: InteractionService) -> None:
        for number in range(20):
            await begin(service, f"RUN-{number:02d}", None)
        index = document(place.root, "index.json")
        assert index is not None and len(index["sessions"]) < 20  # type: ignore[arg-type]

    place.tell(story)
    index = document(place.root, "index.json")
    assert index is not None and len(index["sessions"]) == 20  # type: ignore[arg-type]
    assert schemas.builtin("index").violations(index) == []

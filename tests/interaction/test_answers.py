"""Answers: every kind through every door, bound to the question, given once, adopted when a human left one behind."""

from __future__ import annotations

import json

import pytest

from chaoscore.app.interactions.deciding import AnswerRequest, DecisionRequest
from chaoscore.app.interactions.service import InteractionService
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.json import Json
from tests.interaction.conftest import Place
from tests.interaction.steps import OPTIONS, answer, ask, begin, document, prepared, text


async def asking(service: InteractionService, kind: str, **more: bool) -> str:
    await begin(service)
    options = OPTIONS if kind != "freeform-input" else None
    done = await service.create_decision(DecisionRequest("RUN-1", "Q", "C", options, kind, **more))  # type: ignore[arg-type]
    assert done.ok, done
    return text(done.data["decisionId"])


DOORS = ("mcp-tool", "manual-file", "prompt-fallback", "vscode-decision-center", "unknown")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("kind", "choice", "back"),
    [
        ("single-choice-decision", Choice("b"), ("b", [], None)),
        ("confirmation", Choice("a", rationale="sure"), ("a", [], None)),
        ("multi-choice-decision", Choice(None, ("b", "a", "b")), ("b", ["b", "a"], None)),
        ("multi-choice-decision", Choice("a"), ("a", ["a"], None)),
        ("freeform-input", Choice(None, (), "größer \ud800"), (None, [], "größer \ud800")),
    ],
)
def test_every_kind_of_answer_reads_back_through_every_door(
    place: Place, door: str, kind: str, choice: Choice, back: tuple[str | None, list[str], str | None]
) -> None:
    async def story(service: InteractionService) -> None:
        decision = await asking(service, kind)
        done = await service.answer(AnswerRequest(decision, choice, "alice", door))
        assert done.status == "ANSWERED" and done.data["sessionState"] == "ready-to-resume"
        read = (await service.decision_response(decision)).data
        assert (read["selectedOptionId"], read["selectedOptionIds"], read["freeformValue"]) == back
        assert (read["rationale"], read["selectedBy"], read["source"]) == (choice.rationale, "alice", door)

    place.tell(story)


@pytest.mark.parametrize(
    ("kind", "choice", "key"),
    [
        ("single-choice-decision", Choice("zzz"), "selectedOptionId"),
        ("single-choice-decision", Choice(), "selectedOptionId"),
        ("single-choice-decision", Choice("a", ("a", "b")), "selectedOptionIds"),
        ("multi-choice-decision", Choice(None, ("a", "zzz")), "selectedOptionIds"),
        ("multi-choice-decision", Choice(), "selectedOptionIds"),
        ("freeform-input", Choice("freeform-response"), "freeformValue"),
        ("freeform-input", Choice(None, (), "  "), "freeformValue"),
    ],
)
def test_an_answer_that_does_not_fit_names_the_argument(place: Place, kind: str, choice: Choice, key: str) -> None:
    async def story(service: InteractionService) -> None:
        decision = await asking(service, kind)
        refused = await service.answer(AnswerRequest(decision, choice, "alice", "mcp-tool"))
        assert refused.status == "VALIDATION_ERROR" and refused.message.startswith(f"{key}:")
        assert not (place.root / f"decisions/{decision}/response.json").exists()

    place.tell(story)


def test_a_reason_is_required_where_the_question_says_so(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await asking(service, "confirmation", requires_rationale=True)
        refused = await service.answer(AnswerRequest(decision, Choice("a", rationale=" "), "alice", "mcp-tool"))
        assert refused.message.startswith("rationale:")

    place.tell(story)


def test_the_same_answer_twice_is_answered_twice_and_another_is_refused_by_name(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask", "answer")
        before = (place.root / f"decisions/{decision}/response.json").read_bytes()
        again, other = await answer(service, decision, "a"), await answer(service, decision, "b")
        assert again.status == "ANSWERED"
        assert other.status == "DECISION_NOT_ANSWERABLE" and "'alice'" in other.message
        assert (place.root / f"decisions/{decision}/response.json").read_bytes() == before

    place.tell(story)


def test_the_bridge_says_so_and_can_be_switched_off(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        service.answer_bridge = False
        refused = await answer(service, decision)
        assert refused.status == "ANSWER_BRIDGE_OFF" and refused.must_stop
        by_hand = await service.answer(AnswerRequest(decision, Choice("a"), "alice", "manual-file"))
        assert by_hand.ok and by_hand.warnings == ()

    place.tell(story)


def test_what_a_caller_claims_is_kept_and_marked(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        claims: dict[str, Json] = {"selectedBy": "the boss", "source": "vscode"}
        await service.answer(AnswerRequest(decision, Choice("a"), "the boss", "mcp-tool", claimed=claims))
        response = document(place.root, f"decisions/{decision}/response.json")
        assert response is not None
        assert (response["selectedBy"], response["source"]) == ("the boss", "mcp-tool")
        assert response["metadata"] == {"chaosCore": {"claimed": claims}}

    place.tell(story)


def test_a_caller_cannot_write_our_marks(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await begin(service)
        refused = await service.create_decision(
            DecisionRequest("RUN-1", "Q", "C", OPTIONS, metadata={"chaosCore": {"requiresHash": False}})
        )
        assert refused.status == "VALIDATION_ERROR" and "chaosCore" in refused.message

    place.tell(story)


def left_behind(decision: str, **changes: Json) -> str:
    return json.dumps(
        {
            "schemaVersion": 1, "decisionId": decision, "commandRunId": "RUN-1", "selectedOptionId": "b",
            "selectedOptionIds": [], "freeformValue": None, "rationale": None, "selectedBy": "vscode-user",
            "selectedAt": "2026-01-02T03:04:05.678Z", "source": "vscode-decision-center",
            "validatesAgainstDecisionHash": None, "metadata": {}, **changes,
        }
    )  # fmt: skip


def test_a_response_left_beside_a_waiting_decision_is_adopted(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        path = place.root / f"decisions/{decision}/response.json"
        path.write_text(left_behind(decision))
        before = path.read_bytes()
        read = await service.decision_response(decision)
        assert (read.status, read.data["selectedOptionId"]) == ("ANSWERED", "b")
        assert document(place.root, "sessions/RUN-1.json")["state"] == "ready-to-resume"  # type: ignore[index]
        assert document(place.root, "active.json")["pendingDecisionIds"] == []  # type: ignore[index]
        assert path.read_bytes() == before

    place.tell(story)


@pytest.mark.parametrize(
    "changes",
    [
        {"selectedOptionId": "zzz"},
        {"decisionId": "DEC-other"},
        {"commandRunId": "RUN-9"},
        {"selectedOptionId": None},
        {"selectedBy": ""},
        {"source": "carrier pigeon"},
        {"selectedAt": "yesterday"},
        {"validatesAgainstDecisionHash": "sha256:" + "0" * 64},
    ],
    ids=str,
)
def test_a_response_that_does_not_fit_is_reported_kept_and_replaceable(place: Place, changes: dict[str, Json]) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        path = place.root / f"decisions/{decision}/response.json"
        path.write_text(left_behind(decision, **changes))
        read = await service.decision_response(decision)
        assert read.status == "NO_RESPONSE_YET" and any("response.json" in warning for warning in read.warnings)
        assert (await answer(service, decision)).ok
        kept = list((place.root / "archive").glob("*.response.json"))
        assert [file.read_text() for file in kept] == [left_behind(decision, **changes)]

    place.tell(story)


def test_a_response_with_a_key_twice_is_no_answer_and_is_kept(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        path = place.root / f"decisions/{decision}/response.json"
        left = left_behind(decision)
        twice = left.replace('"selectedOptionId": "b"', '"selectedOptionId": "a", "selectedOptionId": "b"')
        assert twice != left
        path.write_text(twice)
        read = await service.decision_response(decision)
        assert read.status == "NO_RESPONSE_YET"
        assert any("response.json" in warning and "key twice" in warning for warning in read.warnings), read.warnings
        assert document(place.root, "sessions/RUN-1.json")["state"] == "waiting-for-decision"  # type: ignore[index]
        assert path.read_text() == twice

    place.tell(story)


def test_a_question_with_a_key_twice_cannot_be_answered(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        path = place.root / f"decisions/{decision}/decision.json"
        twice = path.read_text().replace('"title": "Pick"', '"title": "Something else", "title": "Pick"')
        path.write_text(twice)
        refused = await answer(service, decision)
        assert refused.status == "MALFORMED_STATE" and "key twice" in refused.message
        assert path.read_text() == twice

    place.tell(story)


def test_an_answer_given_to_another_version_of_the_question_is_refused(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        shown = (await service.active_decision()).data["decision"]
        assert isinstance(shown, dict)
        path = place.root / f"decisions/{decision}/decision.json"
        path.write_text(path.read_text().replace("Because.", "Because of something else."))
        seen = text(shown["decisionHash"])
        refused = await service.answer(AnswerRequest(decision, Choice("a"), "x", "mcp-tool", decision_hash=seen))
        assert refused.status == "VALIDATION_ERROR" and refused.message.startswith("decisionHash:")

    place.tell(story)


def test_a_question_that_permits_something_takes_no_answer_without_its_hash(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await begin(service)
        done = await service.create_decision(DecisionRequest("RUN-1", "Allow?", "C", OPTIONS, requires_hash=True))
        decision = text(done.data["decisionId"])
        (place.root / f"decisions/{decision}/response.json").write_text(left_behind(decision))
        read = await service.decision_response(decision)
        assert read.status == "NO_RESPONSE_YET" and "requires one" in read.warnings[0]
        assert (await answer(service, decision)).status == "VALIDATION_ERROR"
        shown = (await service.active_decision()).data["decision"]
        assert isinstance(shown, dict)
        bound = AnswerRequest(decision, Choice("a"), "x", "manual-file", decision_hash=text(shown["decisionHash"]))
        assert (await service.answer(bound)).ok

    place.tell(story)


def test_an_answer_selected_before_the_expiry_is_adopted_and_a_later_one_is_not(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await begin(service)
        in_time, late = "2031-01-01T00:00:00Z", "2031-06-01T00:00:00Z"
        for title, at, status in (("in time", in_time, "ANSWERED"), ("late", late, "EXPIRED")):
            place.clock.seconds = 1_900_000_000.0
            done = await service.create_decision(
                DecisionRequest("RUN-1", title, "C", OPTIONS, expires_at="2031-03-01T00:00:00+00:00")
            )
            decision = text(done.data["decisionId"])
            (place.root / f"decisions/{decision}/response.json").write_text(left_behind(decision, selectedAt=at))
            place.clock.seconds = 1_940_000_000.0
            assert (await service.decision_response(decision)).status == status
            await service.resume("RUN-1")

    place.tell(story)


def test_option_ids_too_long_for_the_shared_schema_are_refused_when_asked_and_answered_as_a_list(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        long = "o" * 140
        refused = await service.create_decision(DecisionRequest("RUN-1", "Q", "C", [{"id": long, "label": "L"}]))
        assert refused.status == "VALIDATION_ERROR" and refused.message.startswith("options[0].id")
        path = place.root / f"decisions/{decision}/decision.json"
        path.write_text(path.read_text().replace('"id": "a"', f'"id": "{long}"'))
        assert (await answer(service, decision, long)).ok
        response = document(place.root, f"decisions/{decision}/response.json")
        assert response is not None
        assert (response["selectedOptionId"], response["selectedOptionIds"]) == (None, [long])

    place.tell(story)


def test_a_question_can_replace_another_and_a_twin_with_other_options_warns(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        first = await prepared(service, "begin", "ask")
        twin = await service.create_decision(DecisionRequest("RUN-1", "Pick", "Other.", OPTIONS))
        assert twin.status == "PENDING_DECISION_EXISTS" and "supersedes" in twin.warnings[0]
        second = await ask(service, title="Pick", supersedes=first)
        assert second.status == "WAITING_FOR_USER_DECISION"
        assert (await service.decision_response(first)).status == "SUPERSEDED"
        waiting = (await service.active_decision()).data["decision"]
        assert isinstance(waiting, dict) and waiting["decisionId"] == second.data["decisionId"]
        locks = document(place.root, "locks.json")["locks"]  # type: ignore[index]
        assert [lock["blockingDecisionIds"] for lock in locks] == [[second.data["decisionId"]]]  # type: ignore[union-attr, index, call-overload]

    place.tell(story)

"""What waits, one question, answering it, answering several: over real HTTP, with real runs and folders behind."""

from __future__ import annotations

import asyncio
import html
import re
import sqlite3
import sys
from pathlib import Path

from chaoscore.adapters.files.approver_pin import FilePin
from chaoscore.adapters.system import SystemClock
from chaoscore.domain.interaction.names import decision_path
from chaoscore.domain.json import JsonObject
from tests.app.harness import run, step, until, write_policy
from tests.mcp.support import ROOT
from tests.web.harness import ASK, Web, hidden, web

PIN = "velvet-otter-91"


async def form(w: Web, path: str, **fields: str) -> dict[str, str]:
    """The fields of the answer form as the page holds them, and what a person fills in."""
    page = (await w.get(path)).text
    return {"digest": hidden(page, "digest"), **fields}


async def state(w: Web, decision: str) -> str:
    return (await w.bench.kernel.services.approvals.find(decision)).state


def test_everything_that_waits_is_one_list_oldest_first_with_blocking_ones_marked(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            first = await w.waiting_run()
            second = await w.ask(title="Ship it?", independent=False)
            third = await w.waiting_run()
            fourth = await w.ask(title="Tell the list?")
            page = (await w.get("/center/")).text
            places = [page.index(f'/{name}">') for name in (first, second, third, fourth)]
            assert places == sorted(places)
            cards = page.split('<li class="card')[1:]
            assert [">blocking</span>" in card for card in cards] == [True, True, True, False]
            assert "Waiting for a person" in page and '<span class="count">4</span>' in page

    run(work())


def test_a_long_list_is_paged_and_answers_meanwhile_make_no_page_skip_anything(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            names = [
                await (w.waiting_run() if number % 2 else w.ask(title=f"q{number}", command=f"c{number}"))
                for number in range(30)
            ]
            seen: list[str] = []
            path = "/center/"
            while path:
                page = (await w.get(path)).text
                seen += re.findall(r'class="title" href="/center/decisions/\w+/([^"]+)"', page)
                if len(seen) == 25:  # what was seen is answered: the next page must begin where this one ended
                    for name in names[1:9:2]:
                        at = f"/center/decisions/runs/{name}"
                        assert (await w.post(at, await form(w, at, option="deny"))).status_code == 303
                following = re.search(r'href="([^"]+)" rel="next"', page)
                path = html.unescape(following.group(1)) if following else ""
            assert seen == names
            assert (await w.get("/center/?after=nonsense")).status_code == 400

    run(work())


def test_a_question_that_cannot_be_read_is_told_of_and_hides_no_other(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            names = [await w.waiting_run(str(number)) for number in range(28)]
            database = sqlite3.connect(w.bench.kernel.stores.database.path)
            with database:
                database.execute("UPDATE decisions SET body = '{' WHERE id IN (?, ?)", (names[1], names[26]))
            database.close()
            first = (await w.get("/center/")).text
            assert names[1] in first and first.count('<li class="card') == 25
            following = re.search(r'href="([^"]+)" rel="next"', first)
            assert following is not None
            rest = (await w.get(html.unescape(following[1]))).text
            assert rest.count('<li class="card') == 1 and f'/{names[27]}"' in rest
            assert (await w.get(f"/center/decisions/runs/{names[1]}")).status_code == 500

    run(work())


def test_one_question_shows_what_would_run_where_values_came_from_and_the_rule(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            plan = await w.bench.plan(
                step("read", "test.give", {"value": "from afar"}),
                step("keep", ASK, {"text": {"$from": "read", "path": "/value"}}, why="to keep it"),
                step("then", "test.give", {"value": {"$from": "keep", "path": "/text"}}),
            )
            await w.bench.execute(plan)
            (waiting,), _ = await w.bench.kernel.services.approvals.waiting(None)
            page = (await w.get(f"/center/decisions/runs/{waiting.id}")).text
            for words in ("from afar", "to keep it", ASK, "step read, output /value", "untrusted:", "requireConfirm"):
                assert words in page, words
            assert "what depends on it is skipped: then" in page
            assert waiting.actions[0].digest in page

    run(work())


def test_approving_lets_the_run_go_on_and_the_page_says_what_was_answered(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            decision = await w.waiting_run("written")
            path = f"/center/decisions/runs/{decision}"
            answered = await w.post(path, await form(w, path, option="approve", rationale="it is fine"))
            assert answered.status_code == 303
            page = (await w.get(answered.headers["location"])).text
            assert "Your answer is recorded" in page and "it is fine" in page and "local:" in page and "(web)" in page
            assert '<form method="post" class="answer">' not in page
            found = await w.bench.kernel.services.approvals.find(decision)
            await w.bench.call("chaoscore_inspect", what="runs")
            report = await w.bench.kernel.services.runs.go_on(found.run, w.bench.context())
            assert report == "completed" and w.bench.world.effects() == ["written"]

    run(work())


def test_a_name_given_at_the_door_is_recorded_and_cannot_pass_for_another_door(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path, enter=False) as w:
            own = {"origin": w.address}
            fields = {"token": w.center.site.access.token, "name": "local:1000"}
            await w.browser.post(f"{w.address}/center/sign-in", data=fields, headers=own)
            decision = await w.waiting_run()
            path = f"/center/decisions/runs/{decision}"
            await w.post(path, await form(w, path, option="deny"))
            response = (await w.bench.kernel.services.approvals.find(decision)).response
            assert response is not None and (response.approver, response.door) == ("web:local:1000", "web")

    run(work())


def test_the_second_answer_hears_who_gave_the_first(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            decision = await w.waiting_run()
            path = f"/center/decisions/runs/{decision}"
            late = await form(w, path, option="approve")
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.web.answerer", str(tmp_path), decision, "deny", cwd=ROOT
            )
            assert await asyncio.wait_for(child.wait(), 30) == 0
            refused = await w.post(path, late)
            assert refused.status_code == 409
            assert "answered already by ada (terminal)" in refused.text
            found = await w.bench.kernel.services.approvals.find(decision)
            assert found.response is not None and found.response.options == ("deny",)

    run(work())


def test_two_clicks_at_once_are_one_answer(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            decision = await w.waiting_run()
            path = f"/center/decisions/runs/{decision}"
            fields = await form(w, path, option="approve")
            answers = await asyncio.gather(*(w.post(path, fields) for _ in range(5)))
            assert sorted(answer.status_code for answer in answers) == [303, 409, 409, 409, 409]

    run(work())


def test_an_answer_to_another_question_than_the_one_shown_is_refused_and_nothing_stays_chosen(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            for path in (f"/center/decisions/runs/{await w.waiting_run()}", w.question(await w.ask())):
                for digest in ("sha256:" + "0" * 64, "nonsense"):
                    option = "approve" if "/runs/" in path else "yes"
                    stale = await w.post(path, {"option": option, "digest": digest})
                    assert stale.status_code in (400, 422), path
                    assert 'role="alert"' in stale.text and " checked" not in stale.text
                assert ">waiting</span>" in (await w.get(path)).text

    run(work())


def test_wrong_choices_are_explained_and_what_was_typed_is_kept(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            path = f"/center/decisions/runs/{await w.waiting_run()}"
            for option in ("", "approve:s9", "<b>"):
                page = await w.post(path, await form(w, path, option=option, rationale="because & so"))
                assert page.status_code == 422 and "Not done." in page.text
                assert "because &amp; so</textarea>" in page.text
            nowhere = await w.get("/center/decisions/runs/DEC-none")
            assert nowhere.status_code == 404
            assert (await w.get("/center/decisions/zzzzzzzz/DEC-none")).status_code == 404

    run(work())


def test_several_actions_are_ticked_one_by_one_and_the_rest_is_denied(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            plan = await w.bench.plan(step("a", ASK, {"text": "a"}), step("b", ASK, {"text": "b"}))
            await w.bench.execute(plan)
            (waiting,), _ = await w.bench.kernel.services.approvals.waiting(None)
            path = f"/center/decisions/runs/{waiting.id}"
            digest = hidden((await w.get(path)).text, "digest")
            both = await w.post(path, {"digest": digest, "option": ["approve:a", "deny-all"]})
            assert both.status_code == 422 and "stands alone" in html.unescape(both.text)
            assert (await w.post(path, {"digest": digest, "option": ["approve:b"]})).status_code == 303
            await w.bench.execute(plan)
            assert w.bench.world.effects() == ["b"]

    run(work())


def test_what_changed_since_it_was_last_shown_is_shown_before_and_after(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            plan = await w.bench.plan(step("a", "test.explode", {}), step("b", ASK, {"text": "x"}))
            await w.bench.execute(plan)
            # The policy asks by another rule from now on: the question is asked anew.
            write_policy(tmp_path, requireConfirmationFor=["test.*"])
            await w.bench.execute(plan)
            waiting, _ = await w.bench.kernel.services.approvals.waiting(None)
            decision = next(d for d in waiting if d.kind == "approval")
            page = (await w.get(f"/center/decisions/runs/{decision.id}")).text
            assert "What changed since somebody last saw this step" in page
            before = page.index("requireConfirmationFor[0]: test.append", page.index("What changed"))
            assert before < page.index("requireConfirmationFor[0]: test.*", before)

    run(work())


def test_an_unknown_outcome_is_settled_on_the_page(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            await w.bench.execute(await w.bench.plan(step("a", "test.explode", {})))
            (waiting,), _ = await w.bench.kernel.services.approvals.waiting(None)
            path = f"/center/decisions/runs/{waiting.id}"
            page = (await w.get(path)).text
            assert "unknown outcome" in page and "may or may not have happened" in page
            assert (await w.post(path, await form(w, path, option="happened"))).status_code == 303
            assert await w.bench.kernel.services.runs.go_on(waiting.run, w.bench.context()) == "completed"

    run(work())


def test_agents_questions_of_every_kind_are_answered_in_the_folder(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            options: list[JsonObject] = [
                {"id": "a", "label": "Alpha", "description": "first", "consequence": "slow", "risk": "small"},
                {"id": "b", "label": "Beta", "recommended": True},
            ]
            kinds: dict[str, dict[str, object]] = {
                "single-choice-decision": {"option": "a"},
                "multi-choice-decision": {"option": ["a", "b"]},
                "confirmation": {"option": "b"},
                "freeform-input": {"text": "two lines\r\nof text"},
            }
            for number, (kind, fields) in enumerate(kinds.items()):
                name = await w.ask(interaction_type=kind, options=options, title=f"q{number}", command=f"c{number}")
                path = w.question(name)
                page = (await w.get(path)).text
                assert "recommended by the asker" in page or kind == "freeform-input"
                answered = await w.post(path, {"digest": hidden(page, "digest"), **fields})
                assert answered.status_code == 303, kind
                found = await w.runtime.service.decision_response(name)
                assert found.status == "ANSWERED" and str(found.data["selectedBy"]).startswith("local:")
                text = found.data["freeformValue"]
                assert text == ("two lines\nof text" if kind == "freeform-input" else None)
                if kind != "freeform-input":
                    chosen = found.data["selectedOptionIds"] or [found.data["selectedOptionId"]]
                    assert chosen == ([fields["option"]] if isinstance(fields["option"], str) else fields["option"])
                again = await w.post(path, {"digest": hidden(page, "digest"), **fields, "rationale": "changed my mind"})
                assert again.status_code == 409

    run(work())


def test_a_required_reason_is_required(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            path = w.question(await w.ask(requires_rationale=True))
            without = await w.post(path, await form(w, path, option="yes", rationale=" \n"))
            assert without.status_code == 422 and "requires a reason" in html.unescape(without.text)
            assert (await w.post(path, await form(w, path, option="yes", rationale="so"))).status_code == 303

    run(work())


def test_a_question_of_a_run_that_lies_in_a_folder_is_shown_once(tmp_path: Path) -> None:
    async def work() -> None:
        root = tmp_path / "kernel"
        async with web(tmp_path, root=root) as w:
            decision = await w.waiting_run()
            await until((root / decision_path(decision)).exists)
            page = (await w.get("/center/")).text
            assert page.count('<li class="card') == 1 and decision in page
            kernel = w.center.site.center.parts.folders[1].key
            mirrored = (await w.get(f"/center/decisions/{kernel}/{decision}")).text
            assert "answer it there" in mirrored and "answer-section" not in mirrored

    run(work())


def test_in_human_mode_the_page_asks_for_the_pin_and_wrong_ones_answer_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path, approvalMode="human") as w:
            decision = await w.waiting_run()
            path = f"/center/decisions/runs/{decision}"
            assert "No PIN is set" in (await w.get(path)).text
            FilePin(w.bench.kernel.settings.data_dir, SystemClock()).create(PIN)
            assert 'type="password" name="pin"' in (await w.get(path)).text
            for pin in ("", "wrong-pin-77"):
                refused = await w.post(path, await form(w, path, option="approve", pin=pin))
                assert refused.status_code == 403 and await state(w, decision) == "waiting"
                assert "wrong-pin-77" not in refused.text
            assert (await w.post(path, await form(w, path, option="approve", pin=PIN))).status_code == 303

    run(work())


def test_where_the_policy_does_not_list_this_door_there_is_no_form_and_a_forged_one_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path, approvalMode="human", approvalDoors=["terminal"]) as w:
            decision = await w.waiting_run()
            path = f"/center/decisions/runs/{decision}"
            page = (await w.get(path)).text
            assert "approvalDoors are terminal" in page and "answer-section" not in page
            digest = (await w.bench.kernel.services.approvals.find(decision)).question_digest
            forged = await w.post(path, {"option": "approve", "digest": digest})
            assert forged.status_code == 422 and await state(w, decision) == "waiting"

    run(work())


def batch(page: str, *choices: str) -> dict[str, object]:
    """The batch form as its page holds it, with a choice for each question."""
    fields: dict[str, object] = {"d": re.findall(r'name="d" value="([^"]+)"', page)}
    for number, choice in enumerate(choices):
        fields |= {f"digest:{number}": hidden(page, f"digest:{number}")}
        fields |= {f"option:{number}": choice} if choice else {}
    return fields


def test_several_are_answered_together_each_in_its_own_way_with_one_pin(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path, approvalMode="human") as w:
            FilePin(w.bench.kernel.settings.data_dir, SystemClock()).create(PIN)
            one, two, three = [await w.waiting_run(text) for text in ("one", "two", "three")]
            agent = await w.ask()
            keys = [f"runs/{one}", f"runs/{two}", f"runs/{three}", f"{w.folder}/{agent}"]
            page = (await w.get("/center/together", params={"d": keys})).text
            assert page.count('type="password"') == 1
            for text in ("one", "two", "three"):
                assert f">{text}</pre>" in page, "each is seen in full before it is answered"
            fields = batch(page, "approve", "deny", "", "yes")
            wrong = await w.post("/center/together", {**fields, "pin": "wrong-pin-77"})
            assert wrong.status_code == 422 and wrong.text.count("not tried, because the PIN was refused") == 1
            assert [await state(w, name) for name in (one, two, three)] == ["waiting"] * 3
            status = FilePin(w.bench.kernel.settings.data_dir, SystemClock()).status()
            assert status.wrong_tries == 1, "a typing error in one form is one wrong try"
            assert (await w.runtime.service.decision_response(agent)).status == "ANSWERED"
            page = (await w.get("/center/together", params={"d": keys[:3]})).text
            done = await w.post("/center/together", {**batch(page, "approve", "deny", ""), "pin": PIN})
            assert done.status_code == 200 and done.text.count(">recorded</span>") == 2
            assert [await state(w, name) for name in (one, two, three)] == ["answered", "answered", "waiting"]
            assert f'value="runs/{three}"' in done.text, "what was left open can still be answered"

    run(work())


def test_a_batch_tells_of_each_that_failed_and_never_answers_what_was_not_shown(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            one, two = await w.waiting_run("one"), await w.waiting_run("two")
            page = (await w.get("/center/together", params={"d": [f"runs/{one}", f"runs/{two}"]})).text
            fields = {**batch(page, "approve", "approve"), "digest:1": "sha256:" + "0" * 64}
            mixed = await w.post("/center/together", fields)
            assert mixed.status_code == 422
            assert (await state(w, one), await state(w, two)) == ("answered", "waiting")
            assert "asks something else than what was shown" in mixed.text
            many = await w.get("/center/together", params={"d": [f"runs/DEC-{n}" for n in range(25)]})
            assert many.text.count("there is no decision") == 20 and "5 more were ticked" in many.text
            nothing = await w.post("/center/together", {"d": [f"runs/{two}"]})
            assert nothing.status_code == 422 and "nothing was chosen" in nothing.text

    run(work())

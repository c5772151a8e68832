"""People who answer in a real Chromium, before a served process of its own: approval by a person with a PIN."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.browsing import PATIENCE_MS, PIN, WRITE, Desk, chromium, desk, focused, sign_in, tab_to, texts, write

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def shared(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("desk"), browser, pin=True, approvalMode="human") as made:
        yield made


@pytest.fixture
def human(shared: Desk) -> Iterator[Desk]:
    """Nothing that must not happen happened meanwhile."""
    yield shared
    shared.watch.require_peace()


def mark(page: Page) -> None:
    """A page that is loaded again forgets this."""
    page.evaluate("() => { document.documentElement.dataset.marked = 'yes'; }")


def is_marked(page: Page) -> bool:
    return page.locator("html[data-marked=yes]").count() == 1


def answer(page: Page, option: str, pin: str = PIN) -> None:
    page.get_by_label(option).check()
    page.get_by_label("Approver's PIN").fill(pin)
    page.get_by_role("button", name="Record this answer").click()


def holds(path: Path, text: str, page: Page) -> None:
    """Wait for an effect of the server."""
    for _ in range(int(PATIENCE_MS / 20)):
        if path.exists() and path.read_text("utf-8") == text:
            return
        page.evaluate("() => new Promise(requestAnimationFrame)")
        page.wait_for_timeout(20)
    raise AssertionError(f"{path.name} never came")


def test_a_person_answers_by_keyboard_alone_and_open_pages_show_it_without_being_loaded_again(human: Desk) -> None:
    decision, path = human.agent.waiting_run("written by a run", why="the reader asked for it")
    page = human.go("/")
    watching = human.other(name="bob")
    human.go(human.decision(decision), watching)
    watching.get_by_role("definition").get_by_role("link").click()
    expect(watching.locator("#run")).to_contain_text("waiting for decision")
    mark(watching)

    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the content"
    tab_to(page, page.locator(f'a.title[href$="{decision}"]'))
    page.keyboard.press("Enter")
    expect(page.locator(".arguments").first).to_contain_text("written by a run")
    expect(page.locator(".action")).to_contain_text("the reader asked for it")
    tab_to(page, page.locator("input[type=radio]").first)
    page.keyboard.press("Space")
    assert page.get_by_label("Approve: run it once").is_checked()
    tab_to(page, page.get_by_label("Reason"))
    page.keyboard.type("I read every word")
    tab_to(page, page.get_by_label("Approver's PIN"))
    page.keyboard.type(PIN)
    tab_to(page, page.get_by_role("button", name="Record this answer"))
    page.keyboard.press("Enter")

    expect(page.get_by_role("status").filter(has_text="Your answer is recorded")).to_be_visible()
    expect(page.locator("#decision-state")).to_contain_text("I read every word")
    expect(watching.locator("#run")).to_contain_text("completed")
    assert is_marked(watching), "the page was loaded again"
    assert path.read_text("utf-8") == "written by a run"
    tab_to(page, page.get_by_role("link", name="look at it"))
    page.keyboard.press("Enter")
    expect(page.locator("#evaluation").locator("..")).to_contain_text("achieved")
    watching.context.close()


def test_the_list_of_what_waits_grows_and_shrinks_by_itself_and_keeps_ticks(human: Desk) -> None:
    first = human.agent.ask(title="A first question")
    page = human.go("/")
    mark(page)
    page.get_by_label("Answer together with others: A first question").check()
    second, _ = human.agent.waiting_run()
    expect(page.locator(f'a[href$="{second}"]')).to_be_visible()
    assert is_marked(page)
    assert page.get_by_label("Answer together with others: A first question").is_checked()
    helper = human.other()
    for at, option in ((f"/decisions/{human.agent.folder}/{first}", "No"), (human.decision(second), "Deny")):
        human.go(at, helper).get_by_label(option, exact=False).last.check()
        if helper.get_by_label("Approver's PIN").count():
            helper.get_by_label("Approver's PIN").fill(PIN)
        helper.get_by_role("button", name="Record this answer").click()
        expect(helper.locator("#decision-state")).to_contain_text("Your answer is recorded")
    for name in (first, second):
        expect(page.locator(f'a[href$="{name}"]')).to_have_count(0)
    assert is_marked(page)
    helper.context.close()


def test_whoever_answers_second_is_told_who_was_first(human: Desk) -> None:
    decision, path = human.agent.waiting_run("once")
    ada, late = human.other(name="ada"), human.other(name="carl", java_script_enabled=False)
    page = human.go(human.decision(decision))
    for person in (ada, late):
        human.go(human.decision(decision), person)
    answer(ada, "Approve: run it once")
    expect(ada.locator("#decision-state")).to_contain_text("Your answer is recorded")
    # An open page hears of it and takes no answer any more; one without scripts learns it from the server.
    expect(page.locator("#decision-state")).to_contain_text("web:ada (web)")
    expect(page.get_by_role("button", name="Record this answer")).to_be_disabled()
    answer(late, "Deny")
    expect(late.get_by_role("alert")).to_contain_text("answered already by web:ada (web)")
    expect(late.get_by_role("button", name="Record this answer")).to_have_count(0)
    holds(path, "once", page)
    ada.context.close()
    late.context.close()


def test_of_several_actions_only_the_ticked_ones_run(human: Desk) -> None:
    work = human.served.directory / "work"
    label = human.agent.run(*(write(work / f"{name}.md", name, name) for name in ("one", "two", "three")))
    page = human.go(human.decision(human.agent.decision(label)))
    expect(page.locator("article.action")).to_have_count(3)
    boxes = page.locator("fieldset input[type=checkbox]")
    for name in ("one", "three"):
        page.locator(f'fieldset input[value="approve:{name}"]').check()
    assert boxes.count() >= 3
    page.get_by_label("Approver's PIN").fill(PIN)
    page.get_by_role("button", name="Record this answer").click()
    page.get_by_role("link", name="look at it").click()
    expect(page.locator("#run")).to_contain_text("partial")
    assert sorted(path.name for path in work.glob("[ot]*.md")) == ["one.md", "three.md"]


def test_several_questions_are_answered_together_each_seen_in_full_with_one_pin(human: Desk) -> None:
    one, first = human.agent.waiting_run("first text")
    two, second = human.agent.waiting_run("second text")
    agent = human.agent.ask(title="And this?")
    page = human.go("/")
    for name in (one, two, agent):
        page.locator(f'input[value$="/{name}"]').check()
    page.get_by_role("button", name="Look at the ticked ones together").click()
    for text in ("first text", "second text", "Something is to be decided."):
        expect(page.get_by_text(text, exact=True)).to_be_visible()
    sections = page.locator("section.one")
    sections.nth(0).get_by_label("Approve: run it once").check()
    sections.nth(1).get_by_label("Deny").check()
    sections.nth(2).get_by_label("Yes").check()
    sections.nth(0).get_by_label("Reason").fill("the first is fine")
    assert page.get_by_label("Approver's PIN").count() == 1
    page.get_by_label("Approver's PIN").fill(PIN)
    page.get_by_role("button", name="Record these answers").click()
    expect(page.locator(".outcomes li")).to_have_count(3)
    assert all(text.startswith("recorded") for text in texts(page.locator(".outcomes li")))
    holds(first, "first text", page)
    assert not second.exists()


def test_a_wrong_pin_answers_nothing_and_what_was_written_is_kept(human: Desk) -> None:
    decision, path = human.agent.waiting_run("guarded")
    page = human.go(human.decision(decision))
    page.get_by_label("Reason").fill('because <it> is "fine" & so')
    answer(page, "Approve: run it once", "wrong-pin-77")
    expect(page.get_by_role("alert")).to_be_visible()
    assert page.get_by_label("Reason").input_value() == 'because <it> is "fine" & so'
    assert page.get_by_label("Approve: run it once").is_checked()
    assert page.get_by_label("Approver's PIN").input_value() == ""
    assert "wrong-pin-77" not in page.content() and not path.exists()
    page.get_by_label("Approver's PIN").fill(PIN)
    page.get_by_role("button", name="Record this answer").click()
    expect(page.locator("#decision-state")).to_contain_text('because <it> is "fine" & so')
    holds(path, "guarded", page)


def test_a_question_that_changed_is_asked_again_and_shows_what_was_before_and_after(human: Desk) -> None:
    decision, path = human.agent.waiting_run("same text")
    page = human.go(human.decision(decision))
    try:
        human.policy(requireConfirmationFor=["fs.*"], approvalMode="human")
        answer(page, "Approve: run it once")
        expect(page.locator("#decision-state")).to_contain_text("Your answer is recorded")
        page.get_by_role("link", name="look at it").click()
        again = page.locator("#run li").filter(has_text="waiting").get_by_role("link")
        again.click()
        table = page.get_by_role("table", name="What changed since somebody last saw this step")
        row = table.get_by_role("row").filter(has=page.get_by_text("/verdict/rule", exact=True))
        expect(row.locator(".before")).to_contain_text(f"requireConfirmationFor[0]: {WRITE}")
        expect(row.locator(".after")).to_contain_text("requireConfirmationFor[0]: fs.*")
        assert not path.exists()
        answer(page, "Approve: run it once")
        holds(path, "same text", page)
    finally:
        human.policy(requireConfirmationFor=[WRITE], approvalMode="human")


def test_a_form_of_a_question_that_ended_meanwhile_answers_nothing(human: Desk) -> None:
    decision, path = human.agent.waiting_run("too late")
    late = human.other(java_script_enabled=False)
    human.go(human.decision(decision), late)
    page = human.go(human.decision(decision))
    page.get_by_role("definition").get_by_role("link").click()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.get_by_role("alert")).to_contain_text("tick the box first")
    page.get_by_label("Cancel this run for good").check()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator("#run")).to_contain_text("cancelled")
    answer(late, "Approve: run it once")
    expect(late.get_by_role("alert")).to_be_visible()
    assert not path.exists()
    late.context.close()


def test_history_audit_policy_and_memory_answer_questions(human: Desk) -> None:
    decision, _ = human.agent.waiting_run("to be denied")
    remembered = human.agent.call("chaoscore_remember", key="favourite colour", value="green", tags=["taste"])
    assert remembered["ok"], remembered
    human.agent.call("chaoscore_remember", key="favourite colour", value="blue")
    human.agent.call("chaoscore_remember", key="house number", value=12)
    page = human.go(human.decision(decision))
    page.get_by_label("Reason").fill("not today")
    answer(page, "Deny")
    expect(page.locator("#decision-state")).to_contain_text("Your answer is recorded")
    menu = page.get_by_role("navigation", name="Main")

    menu.get_by_role("link", name="History").click()
    expect(page.get_by_role("main")).to_contain_text("not today")
    page.get_by_role("link", name="Agents").click()
    expect(page.get_by_role("heading", name="History")).to_be_visible()

    menu.get_by_role("link", name="Audit").click()
    page.get_by_label("Kind").fill("decision-answered")
    page.keyboard.press("Enter")
    page.wait_for_url("**kind=decision-answered*")
    assert set(texts(page.locator("#events strong"))) == {"decision-answered"}
    page.get_by_role("button", name="Verify every event now").click()
    expect(page.locator("#chain")).to_contain_text("The chain is whole.")

    menu.get_by_role("link", name="Policy").click()
    page.get_by_label("Capability").fill("http.request")
    page.get_by_label("Address").fill("https://elsewhere.example/")
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_contain_text("no domain is allowed")

    menu.get_by_role("link", name="Memory").click()
    page.get_by_role("searchbox").or_(page.get_by_role("textbox")).first.fill("colour")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="favourite colour").click()
    for words in ("blue", "green", "version 2", "version 1"):
        expect(page.get_by_role("main")).to_contain_text(words)


def test_what_a_person_unfolded_stays_unfolded_when_the_page_renews_itself(human: Desk) -> None:
    decision, path = human.agent.waiting_run("unfolded")
    page = human.go(human.decision(decision))
    page.get_by_role("definition").get_by_role("link").click()
    page.get_by_text("Verdict and arguments").click()
    expect(page.locator("#actions-keep")).to_have_attribute("open", "")
    helper = human.other()
    answer(human.go(human.decision(decision), helper), "Approve: run it once")
    expect(page.locator("#run")).to_contain_text("completed")
    expect(page.locator("#actions-keep")).to_have_attribute("open", "")
    expect(page.locator("#actions-keep")).to_contain_text("succeeded")
    holds(path, "unfolded", page)
    helper.context.close()


def test_a_link_that_is_being_pressed_while_the_page_renews_itself_is_followed(human: Desk) -> None:
    first, _ = human.agent.waiting_run("pressed")
    page = human.go("/")
    expect(page.locator("#live-state")).to_have_text("Live.")
    page.locator(f'a.title[href$="{first}"]').hover()
    page.mouse.down()
    with page.expect_response(lambda answer: answer.url.endswith("/center/") and answer.ok):
        human.agent.waiting_run("meanwhile")
    page.mouse.up()
    page.wait_for_url(f"**{first}")


def test_when_the_server_dies_the_page_says_so_and_works_again_after_signing_in(human: Desk) -> None:
    decision, path = human.agent.waiting_run("after the crash")
    page = human.go(human.decision(decision))
    expect(page.locator("#live-state")).to_have_text("Live.")
    human.served.kill()
    expect(page.locator("#live-state")).to_contain_text("Not live at the moment")
    human.served.start()
    expect(page.locator("#live-state")).to_contain_text("You are signed out")
    page.reload()
    expect(page.get_by_label("Token")).to_be_visible()
    sign_in(human.served, page, "ada")
    assert page.url.endswith(human.decision(decision)), "the page that was open is shown again"
    answer(page, "Approve: run it once")
    expect(page.locator("#decision-state")).to_contain_text("web:ada (web)")
    holds(path, "after the crash", page)

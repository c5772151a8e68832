"""Every page can be read and used, in a real Chromium: names, order, landmarks, contrast, focus, narrow windows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.web.browsing import PIN, WRITE, Desk, chromium, desk, write

HERE = Path(__file__).parent
CHECKS = (HERE / "reading.js").read_text("utf-8")
NARROW = {"width": 360, "height": 740}
WIDE = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, dict[str, str]]]:
    directory = tmp_path_factory.mktemp("desk")
    with chromium() as browser, desk(directory, browser, pin=True, approvalMode="human") as made:
        yield made, pages(made)
        made.watch.require_peace()


def pages(k: Desk) -> dict[str, str]:
    """One page of each kind, full of things; what it is and its path."""
    work = k.served.directory / "work"
    long = "a-word-without-any-gap-" * 20
    one, _ = k.agent.waiting_run("a line\n" * 60, why="Because it was asked for, and for " + long)
    several = k.agent.decision(
        k.agent.run(*(write(work / f"{name}-{long[:60]}.md", name, name) for name in ("one", "two")), objective=long)
    )
    done, _ = k.agent.waiting_run()
    changed, _ = k.agent.waiting_run()
    options = [
        {"id": "a", "label": "Alpha", "description": long, "consequence": "slow", "risk": "small", "recommended": True},
        {"id": "b", "label": "Beta"},
    ]
    kinds = ("single-choice-decision", "multi-choice-decision", "confirmation", "freeform-input")
    asked = [
        k.agent.ask(title=f"{kind} {long}", context=long, recommendation=long, interaction_type=kind, options=options)
        for kind in kinds
    ]
    for key, value in (("colour", "green"), ("colour", {"deep": ["blue", long]}), (long[:200], long)):
        assert k.agent.call("chaoscore_remember", key=key, value=value, tags=["taste"])["ok"]
    for name, option in ((done, "approve"), (changed, "approve")):
        if name == changed:
            k.policy(requireConfirmationFor=["fs.*"], approvalMode="human")
        page = k.go(k.decision(name))
        page.locator(f'input[value="{option}"]').check()
        page.get_by_label("Approver's PIN").fill(PIN)
        page.get_by_role("button", name="Record this answer").click()
        page.get_by_role("link", name="look at it").click()
        page.locator("#run", has_text="completed" if name == done else "waiting for decision").wait_for()
    finished = k.go(k.decision(done)).get_by_role("definition").get_by_role("link").get_attribute("href")
    again = k.go(k.decision(changed)).get_by_role("definition").get_by_role("link")
    again.click()
    diff = k.page.locator("#run li", has_text="waiting").get_by_role("link").first.get_attribute("href")
    k.policy(requireConfirmationFor=[WRITE, "no.such.thing-*"], approvalMode="human")
    k.go("/audit").get_by_role("button", name="Verify every event now").click()
    k.page.get_by_text("The chain is whole.").wait_for()
    folder = k.agent.folder
    assert finished is not None and diff is not None
    return {
        "what waits": "/",
        "one question": k.decision(one),
        "several actions": k.decision(several),
        "an answered question": k.decision(done) + "?answered=1",
        "a changed question": diff.removeprefix("/center"),
        **{f"an agent's {kind}": f"/decisions/{folder}/{name}" for kind, name in zip(kinds, asked, strict=True)},
        "several questions": f"/together?d=runs/{one}&d=runs/{several}&d={folder}/{asked[2]}",
        "resume": "/resume",
        "runs": "/runs",
        "a run": finished.removeprefix("/center"),
        "history": "/history",
        "sessions": f"/history?folder={folder}",
        "audit": "/audit",
        "policy": "/policy?capability=http.request&url=https://example.org/",
        "memory": "/memory",
        "one memory": "/memory/one?key=colour",
        "no such page": "/nothing/here",
    }


def opened(k: Desk, path: str) -> Page:
    page = k.go(path)
    page.evaluate("() => { for (const fold of document.querySelectorAll('details')) fold.open = true; }")
    return page


def faults(page: Page) -> list[str]:
    found: list[str] = page.evaluate(CHECKS)
    return found


def test_the_checks_find_what_they_look_for(here: tuple[Desk, dict[str, str]]) -> None:
    k, _ = here
    page = k.go("/resume")
    assert faults(page) == []
    page.evaluate("""() => {
        const main = document.querySelector("main");
        const add = (tag, given) => {
            const made = Object.assign(document.createElement(tag), given);
            main.append(made);
            return made;
        };
        add("input", { id: "q1" });
        add("h5", { textContent: "too deep" });
        add("p", { textContent: "too pale" }).style.color = "#999999";
        add("a", { href: "/" });
        add("p", { id: "q1", textContent: "twice" });
        add("p", { textContent: "x".repeat(500) }).style.overflowWrap = "normal";
        document.body.append("outside of everything");
    }""")
    words = " | ".join(faults(page))
    for part in ("no label", "jumps", "contrast", "no name", "twice", "scrolls sideways", "outside of any landmark"):
        assert part in words, part


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_readable_in_wide_and_narrow_windows(here: tuple[Desk, dict[str, str]], scheme: str) -> None:
    k, found = here
    k.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    problems = []
    for name, path in found.items():
        page = opened(k, path)
        dark = page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 28)"
        assert dark == (scheme == "dark")
        for size in (WIDE, NARROW):
            page.set_viewport_size(size)  # type: ignore[arg-type]
            problems += [f"{name}, {size['width']} px: {fault}" for fault in faults(page)]
    assert problems == []


def test_the_door_is_readable_too(here: tuple[Desk, dict[str, str]]) -> None:
    k, _ = here
    context = k.browser.new_context(color_scheme="dark", viewport=NARROW)  # type: ignore[arg-type]
    page = context.new_page()
    for path in ("/", "/enter?token=wrong"):
        k.go(path, page)
        assert page.get_by_label("Token").is_visible()
        assert faults(page) == []
    context.close()


def test_wherever_the_keyboard_goes_the_focus_is_seen(here: tuple[Desk, dict[str, str]]) -> None:
    k, found = here
    for scheme in ("light", "dark"):
        k.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        for name in ("what waits", "one question", "an agent's freeform-input", "audit", "a run"):
            page = k.go(found[name])
            stops = 0
            while True:
                page.keyboard.press("Tab")
                seen = page.evaluate(FOCUS)
                if seen is None:
                    break
                stops += 1
                assert seen["fault"] == "", f"{name}, {scheme}: {seen}"
                assert stops < 200, f"{name} has no last stop"
            assert stops >= page.evaluate(STOPS), f"{name}: the keyboard does not get everywhere"


FOCUS = """() => {
  const e = document.activeElement;
  if (!e || e === document.body || e.dataset.visited) return null;
  e.dataset.visited = "yes";
  const s = getComputedStyle(e), box = e.getBoundingClientRect();
  const drawn = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2;
  const inside = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  return { what: e.outerHTML.slice(0, 120), fault: (drawn ? "" : "no outline ") + (inside ? "" : "out of sight") };
}"""
STOPS = """() => [...document.querySelectorAll("a[href], button, input, textarea, summary")].filter(
  (e) => e.type !== "hidden" && !e.disabled && e.checkVisibility() && e.type !== "radio").length"""

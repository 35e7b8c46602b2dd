"""Who answers, in a real browser: the card of a question, the inbox of many, and the page of a link."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from tests.browser.lab import Tab, expect_pressable, expect_text
from tests.browser.test_calls_page import GATE
from tests.browser.test_run_page import HOSTILE, Seen, Server, pytestmark, refused

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

__all__ = ["pytestmark", "refused"]
MANY = 200
DESK = f"""\
chartloop: 1
machine: desk
title: Publishing desk
limits: {{patience: 20d}}
vars: {{note: ""}}
states:
  take: {{do: receive, next: approve}}
  approve:
    label: Ask the team
    ask: "Publish {{run.task}}? {HOSTILE}"
    within: limits.patience
    on:
      approve: {{to: done, data: {{by: str}}}}
      revise: {{to: rework, data: {{by: str, note: str, size: int, hard: bool}}}}
      reject: {{to: no, data: {{by: str}}}}
    expired: no
  rework: {{label: Rework it, do: nothing, next: approve}}
  no: {{label: Not published, stop: completed}}
  done: {{label: Published, stop: completed}}
"""
SHOP = '''\
from chartloop import tool


@tool
def buy(item: str, usd: float, details: dict | None = None) -> str:
    """Buy an item."""
    return f"{item} is bought"
'''
CALL = {
    "id": "c1", "name": "buy",
    "arguments": {"item": "Lithium 2026", "usd": 1249.5, "details": {"as": ["pdf", "xlsx"]}},
}  # fmt: skip
EVE = "eve@example.org"


class Desk(Server):
    """A server with many questions."""

    files: ClassVar[dict[str, str]] = {
        "machines/desk.yaml": DESK,
        "machines/gate.yaml": GATE.format(name="gate", approve="by: the boss, within: 1h"),
        "shop.py": SHOP,
        "script.yaml": json.dumps({"replies": [{"tool_calls": [CALL]}, "Done."]}),
    }
    options = ("--tools", "shop.py")

    def asks(self, machine: str = "desk", task: str = "it", **more: Any) -> str:
        """A run that waits."""
        run = self.start(machine, **{"task": task, **more})
        self.waiting(run)
        return run

    def link(self, run: str, to: str = EVE) -> str:
        return self.ask(f"/runs/{run}/question/link", {"to": to})["url"]

    def answered(self, run: str) -> dict[str, Any]:
        """The record of the answer to a run."""
        for _ in range(200):
            records = self.ask(f"/runs/{run}/records")["records"]
            if found := [one for one in records if one["kind"] == "answer"]:
                return found[0]
            time.sleep(0.05)
        raise AssertionError("it was not answered")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    started = Desk(tmp_path_factory.mktemp("served"))
    yield started
    started.kill()


@pytest.fixture
def seen(page: Tab, desk: Desk) -> Iterator[Seen]:
    """The page, as somebody who has not said who they are."""
    yield Seen(page, desk)
    page.page.evaluate("sessionStorage.clear()")


def form(seen: Seen, event: str) -> Locator:
    button = seen.page.get_by_role("button", name=event, exact=True)
    return seen.page.locator("form.cl-answer").filter(has=button)


def test_the_card_says_what_a_stranger_needs(seen: Seen, desk: Desk) -> None:
    run = desk.asks("gate", "Which report?")
    seen.open("/inbox")
    card = seen.opened(run)
    expect_text(seen.page, card.locator(".asked-by"), r"gate asks.*asked .*left")
    expect_text(seen.page, card.locator(".asked-task"), r"^Which report\?$")
    rows = card.locator("dd").all_inner_texts()
    assert rows == ["1,249.50 USD", "Lithium 2026", "as:\n  • pdf\n  • xlsx"]
    small, large = (
        card.locator(which).evaluate("one => parseFloat(getComputedStyle(one).fontSize)")
        for which in ("dd:not(.cl-money) >> nth=0", "dd.cl-money")
    )
    assert large >= 1.5 * small
    assert "{" not in card.inner_text()
    ways = card.locator(".cl-way").all_inner_texts()
    assert [" ".join(way.split()) for way in ways] == [
        "Accept → executes it", "Deny → executes nothing and tells the model, with your note"
    ]  # fmt: skip


def test_answers_differ_by_more_than_their_colour(seen: Seen, desk: Desk) -> None:
    run = desk.asks()
    seen.open(f"/runs/{run}")
    looks = [
        seen.page.get_by_role("button", name=name, exact=True).evaluate(
            "one => [getComputedStyle(one).backgroundColor, getComputedStyle(one, '::before').content]"
        )
        for name in ("approve", "revise", "reject")
    ]
    colours, signs = zip(*looks, strict=True)
    assert len({*colours}) == len({*signs}) == 3
    expect_text(seen.page, form(seen, "approve"), "→ ends with “Published”")
    expect_text(seen.page, form(seen, "revise"), "→ goes on to “Rework it”")


def test_who_answers_is_said_once_a_tab_and_never_left_out(seen: Seen, desk: Desk) -> None:
    run = desk.asks()
    seen.open(f"/runs/{run}")
    seen.banner.locator("[name=by]").wait_for()
    assert seen.banner.locator("[name=by]").evaluate_all("all => all.map(one => one.tagName)") == [
        "INPUT"
    ]
    seen.press("approve", seen.banner)
    expect_text(
        seen.page, seen.banner.locator(".signer .cl-refused"), "`by` is empty: say who answers"
    )
    assert seen.page.evaluate("document.activeElement.name") == "by"
    seen.page.keyboard.type("eve")
    seen.page.keyboard.press("Enter")  # keeps the name, and answers nothing
    expect_text(seen.page, seen.banner.locator(".signer"), "^You answer as eve change")
    assert desk.ask(f"/runs/{run}")["wait"]
    other = desk.asks()
    seen.open("/inbox")
    card = seen.opened(other)
    expect_text(seen.page, card.locator(".signer"), "^You answer as eve change")
    seen.press("change", card.locator(".signer"))
    card.locator("[name=by]").fill("bob")
    seen.press("approve", card)
    card.wait_for(state="detached")
    assert desk.answered(other)["data"]["by"] == "bob"


def test_fields_are_by_their_type(seen: Seen, desk: Desk) -> None:
    run = desk.asks()
    seen.open(f"/runs/{run}")
    seen.sign("eve")
    filled = form(seen, "revise")
    filled.get_by_label("note").fill("two\nlines")
    assert filled.get_by_label("size").get_attribute("inputmode") == "numeric"
    filled.get_by_label("size").fill("7")
    filled.get_by_label("hard").check()
    seen.press("revise", seen.banner)
    expect_text(seen.page, seen.banner.locator(".cl-question"), "Publish")
    seen.page.wait_for_function("() => !document.querySelector('.sent:not([hidden])')")
    given = {"by": "eve", "note": "two\nlines", "size": 7, "hard": True}
    assert desk.answered(run)["data"] == given


def test_the_page_says_labels_first(seen: Seen, desk: Desk) -> None:
    run = desk.asks()
    seen.open(f"/runs/{run}")
    expect_text(seen.page, seen.page.locator(".title .cl-state"), "^Ask the team approve$")
    expect_text(seen.page, seen.page.locator(".steps"), "→ Ask the team")
    idle = desk.start("desk", drive="none")
    seen.open(f"/runs/{idle}")
    expect_text(seen.page, seen.banner, "then otherwise it goes on to “Ask the team”$")


def test_a_link_is_made_on_the_card_and_answers_once(
    seen: Seen, desk: Desk, chromium: Browser
) -> None:
    run = desk.asks()
    seen.open(f"/runs/{run}")
    seen.page.get_by_text("Copy a link to this question").click()
    seen.press("Copy a link", seen.banner)
    expect_text(seen.page, seen.banner.locator(".asklink"), "Say for whom it is")
    seen.banner.get_by_label("For whom the link is").fill(EVE)
    seen.press("Copy a link", seen.banner)
    shown = seen.banner.get_by_label("The link", exact=True)
    shown.wait_for()
    link = shown.input_value()
    assert link.startswith(f"{desk.address}/answer#")
    context = chromium.new_context(
        viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True
    )
    tab = Tab(context)
    asked: list[str] = []
    tab.page.on(
        "request",
        lambda request: asked.append(f"{request.url} {request.headers.get('referer', '')}"),
    )
    tab.page.goto(link)
    expect_text(tab.page, tab.page.locator(".signer"), f"^You answer as {EVE} ")
    assert tab.page.get_by_role("button", name="change").count() == 0
    expect_text(tab.page, tab.page.locator(".asked-by"), "Publishing desk asks")
    told = tab.page.locator("body").inner_text()
    assert run not in told
    assert "window.hit" in told  # the script of the question is text
    assert tab.page.locator("nav, .asklink, [href^='/runs']").count() == 0
    assert desk.ask(f"/runs/{run}")["wait"]  # looking answers nothing
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    button = tab.page.get_by_role("button", name="approve", exact=True)
    assert button.evaluate("one => one.getBoundingClientRect().height") >= 44
    button.tap()
    expect_text(
        tab.page, tab.page.locator(".over"), f"your answer, approve, was recorded for {EVE}"
    )
    answered = desk.answered(run)
    assert (answered["data"], answered["via"]) == ({"by": EVE}, f"link to {EVE}")
    tab.page.reload()
    expect_text(tab.page, tab.page.locator(".over"), f"answered already: approve by {EVE} via link")
    token = link.partition("#")[2]
    assert [one for one in asked if token in one] == []
    assert token not in (desk.folder / "server.log").read_text()
    assert tab.errors == tab.outside == []
    assert tab.page.evaluate("window.hit") is None
    context.close()


def test_a_link_says_when_somebody_else_was_faster_and_when_it_is_none(
    seen: Seen, desk: Desk
) -> None:
    run = desk.asks()
    link = desk.link(run)
    seen.page.goto(link)
    seen.page.get_by_role("button", name="approve", exact=True).wait_for()
    desk.ask(f"/runs/{run}/answer", {"event": "reject", "data": {"by": "bob"}})
    seen.press("approve")
    expect_text(seen.page, seen.page.locator(".over"), "answered already: reject by bob")
    seen.page.goto(link[:-3])
    expect_text(seen.page, seen.page.locator(".over"), "This link is not valid")
    seen.page.goto(f"{desk.address}/answer")
    expect_text(seen.page, seen.page.locator(".over"), "the whole link")


def test_two_hundred_questions_are_lines_of_which_one_is_open(seen: Seen, desk: Desk) -> None:
    for number in range(MANY):
        desk.start(
            "desk", task=f"page {number}", drive="run", **({"agent": "ann"} if number == 7 else {})
        )
    last = desk.asks(task="the last", limits={"patience": "1h"})
    seen.open("/inbox")
    cards = seen.page.locator(".card")
    cards.nth(MANY - 1).wait_for()
    assert seen.page.locator(".question").count() <= 1
    nodes = seen.page.evaluate("document.querySelectorAll('*').length")
    assert nodes < 15 * MANY
    assert seen.fits()
    expect_text(seen.page, cards.first, "the last|May this")  # what expires stands first
    card = seen.opened(last)
    assert seen.page.locator(".question").count() == 1
    sends: list[str] = []
    seen.page.on("request", lambda request: sends.append(request.url))
    cards.nth(5).locator("button.asks").click()
    cards.nth(5).locator(".question").wait_for()
    assert card.locator(".question").count() == 0
    assert len([url for url in sends if url.endswith("/question")]) == 1


def test_the_inbox_is_filtered_and_the_filter_is_a_link(seen: Seen, desk: Desk) -> None:
    for task, more in (("an unusual one", {}), ("one of Ann's", {"agent": "ann-filtered"})):
        desk.asks(task=task, **more)
    seen.open("/inbox")
    cards = seen.page.locator(".card")
    cards.first.wait_for()
    seen.page.get_by_label("Search").fill("unusual")
    expect_text(seen.page, seen.page.locator(".title"), r"1 of \d+")
    assert "search=unusual" in seen.page.url
    seen.page.get_by_label("Search").fill("")
    seen.page.get_by_label("Agent").fill("ann-filtered")
    expect_text(seen.page, seen.page.locator(".title"), "1 wait")
    assert cards.count() == 1
    seen.open("/inbox?due=day")
    expect_text(seen.page, seen.page.locator(".title"), r"\d of \d+")
    seen.open("/inbox?machine=nothing")
    expect_text(seen.page, seen.page.locator(".empty"), "Nothing waits for you")


def test_the_inbox_is_answered_by_keys_question_after_question(seen: Seen, desk: Desk) -> None:
    for number in range(3):
        desk.asks(task=f"sheet {number}")
    seen.open("/inbox?search=sheet")
    cards = seen.page.locator(".card:not(.leaving)")
    cards.nth(0).locator(".question").wait_for()
    first = seen.page.locator(".card").first
    for key in ("Escape", "j", "j", "k", "Enter"):
        seen.page.keyboard.press(key)
    cards.nth(0).locator(".question").wait_for()
    cards.nth(0).locator("[name=by]").fill("eve")
    seen.page.keyboard.press("Enter")
    seen.page.keyboard.press("d")
    assert seen.page.evaluate("document.activeElement.textContent") == "reject"
    seen.page.keyboard.press("a")
    assert seen.page.evaluate("document.activeElement.textContent") == "approve"
    assert first.locator(".sent").is_hidden()  # nothing is sent by a letter
    seen.page.keyboard.press("Enter")
    button = seen.page.get_by_role("button", name="Next question")
    button.wait_for()
    assert seen.page.evaluate("document.activeElement.textContent").startswith("Next question")
    seen.page.keyboard.press("Enter")
    second = seen.page.locator(".card:not(.leaving)").first
    second.locator(".question").wait_for()
    expect_text(seen.page, second.locator(".signer"), "^You answer as eve change")
    seen.page.keyboard.press("?")
    expect_text(
        seen.page, seen.page.locator("#dialog"), "in the inbox: the next, the one before, open it"
    )
    seen.page.keyboard.press("Escape")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_inbox_fits_a_phone(chromium: Browser, desk: Desk, scheme: Any) -> None:
    context = chromium.new_context(
        viewport={"width": 390, "height": 800}, color_scheme=scheme, has_touch=True, is_mobile=True
    )
    seen = Seen(Tab(context), desk)
    run = desk.asks("gate", "x" * 300)
    seen.open("/inbox?machine=gate")
    card = seen.opened(run)
    assert seen.fits()
    seen.sign("eve")
    expect_pressable(card.get_by_role("button", name="deny", exact=True), pressable=True)
    card.get_by_role("button", name="deny", exact=True).tap()
    card.wait_for(state="detached")
    assert desk.answered(run)["data"]["by"] == "eve"
    assert seen.tab.errors == []
    context.close()

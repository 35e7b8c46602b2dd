"""An approval in a real browser: each call is read, decided and changed by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from tests.browser.lab import SLOW, Tab, expect_text
from tests.browser.test_run_page import Seen, Server, pytestmark, refused
from tests.unit.test_shown_calls import TROUBLES, given_by

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

__all__ = ["pytestmark", "refused"]
GATE = """\
chartloop: 1
machine: {name}
model: {{name: scripted}}
tools: [buy]
approve: {{tools: [buy], {approve}}}
limits: {{steps: 20}}
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
  ask: {{do: receive, next: think}}
  think: {{do: infer, next: [{{when: len(last.tool_calls) > 0, to: act}}, {{to: done}}]}}
  act: {{do: call_tools, next: think}}
  done: {{stop: completed}}
"""
SHOP = '''\
from chartloop import tool


@tool
def buy(item: str, usd: float, account: int = 0, express: bool = False) -> str:
    """Buy an item."""
    return f"{account} has bought {item} for {usd} USD, {express}"
'''
HOSTILE = "chair\u202e <img src=x onerror=window.hit=1>"
ACCOUNT = 12345678901234567890
"""More than a number of a page can hold."""
CALLS = [
    {"id": "c1", "name": "buy", "arguments": {"item": HOSTILE, "usd": 490, "account": ACCOUNT}},
    {"id": "c2", "name": "buy", "arguments": {"item": "desk", "usd": 300, "express": True}},
    {"id": "c3", "name": "buy", "arguments": {"item": "pen", "usd": 2}},
]
AGAIN = [{**call, "id": f"{call['id']}-again"} for call in CALLS[1:]]


class Shop(Server):
    """A server of two gates: one with all that `approve` can say, one with nothing of it."""

    files: ClassVar[dict[str, str]] = {
        "machines/gate.yaml": GATE.format(
            name="gate",
            approve="by: the boss, edit: true, remember: true, when: call.arguments.usd > 100",
        ),
        "machines/bare.yaml": GATE.format(name="bare", approve="within: 1h"),
        "shop.py": SHOP,
        "script.yaml": json.dumps(
            {"replies": [{"tool_calls": CALLS}, {"tool_calls": AGAIN}, "Done."]}
        ),
    }
    options = ("--tools", "shop.py")

    def results(self, run: str) -> list[str]:
        """What the model reads as the results of its calls."""
        outcomes = [one.get("outcome", {}) for one in self.ask(f"/runs/{run}/records")["records"]]
        listed = [message for outcome in outcomes for message in outcome.get("messages", [])]
        return [message["content"] for message in listed if message["role"] == "tool"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    started = Shop(tmp_path_factory.mktemp("served"))
    yield started
    started.kill()


@pytest.fixture
def seen(page: Tab, shop: Shop) -> Seen:
    return Seen(page, shop)


def asked(seen: Seen, machine: str = "gate") -> tuple[str, Locator]:
    """A run that asks, on its page; and its calls there."""
    run = seen.server.start(machine)
    seen.server.waiting(run)
    seen.open(f"/runs/{run}")
    calls = seen.banner.locator(".cl-call")
    calls.first.wait_for()
    return run, calls


def asked_again(seen: Seen, inside: str, count: int) -> None:
    """Wait for the next question, which has so many calls."""
    seen.page.wait_for_function(
        """([inside, count]) => {
          const all = [...document.querySelectorAll(inside)].filter(one => !one.matches(".leaving"));
          return all.length > 0 && all.at(-1).querySelectorAll(".cl-call").length === count;
        }""",
        arg=[inside, count], timeout=SLOW,
    )  # fmt: skip


def test_each_call_is_read_and_decided_by_itself(seen: Seen, shop: Shop) -> None:
    run, calls = asked(seen)
    assert calls.count() == 2
    assert calls.nth(0).locator("legend").inner_text() == "1. buy"
    rows = calls.nth(0).locator("dd").all_inner_texts()
    hostile = "chair\\u202e <img src=x onerror=window.hit=1>"
    assert rows == ["490 USD", str(ACCOUNT), "false (default)", hostile]
    money = calls.nth(0).locator("dd.cl-money")
    assert money.all_inner_texts() == ["490 USD"]
    assert "buy {" not in seen.banner.inner_text()
    assert seen.banner.locator("[name=calls]").count() == 0
    calls.nth(0).get_by_label("accept").check()
    seen.sign("eve")
    seen.press("Send the decisions")
    expect_text(seen.page, calls.nth(1).locator(".cl-refused").last, "deny this call as well")
    calls.nth(1).get_by_label("deny").check()
    calls.nth(1).get_by_label("note").fill("too dear")
    seen.press("Send the decisions")
    asked_again(seen, ".banner", 1)  # the model wants the desk again
    first, denied, _ = shop.results(run)[:3]
    assert first.startswith(f"{ACCOUNT} has bought chair")
    assert denied.endswith("it was denied: too dear")


def test_arguments_are_changed_and_the_changed_call_is_asked_about(seen: Seen, shop: Shop) -> None:
    run, calls = asked(seen)
    seen.sign("eve")
    calls.nth(0).get_by_label("change").check()
    calls.nth(0).get_by_label("usd").fill("dear")
    seen.press("Ask again with the changes")
    fault = calls.nth(0).locator("label", has_text="usd").locator(".cl-refused")
    expect_text(seen.page, fault, "is not of type")
    assert seen.page.evaluate("document.activeElement.value") == "dear"
    calls.nth(0).get_by_label("usd").fill("150")
    calls.nth(1).get_by_label("change").check()
    calls.nth(1).get_by_label("express").select_option("false")
    seen.press("Ask again with the changes")
    expect_text(seen.page, calls.nth(1).locator("legend"), "changed by eve")
    calls.nth(0).get_by_label("accept").check()
    calls.nth(1).get_by_label("answer in the tool's place").check()
    calls.nth(1).get_by_label("answer", exact=False).last.fill("We have a desk.")
    seen.press("Send the decisions")
    asked_again(seen, ".banner", 1)
    first, second = shop.results(run)[:2]
    told = json.loads(first.partition("by eve: ")[2].partition("]\n")[0])
    assert told == {"item": HOSTILE, "usd": 150, "account": ACCOUNT}
    assert second == "[not executed: eve answered in the tool's place]\nWe have a desk."


def test_one_press_decides_on_all_and_equal_calls_are_remembered(seen: Seen, shop: Shop) -> None:
    run, _ = asked(seen)
    seen.sign("")
    seen.press("accept all")
    expect_text(seen.page, seen.banner.locator(".cl-refused", has_text="`by`"), "is empty")
    seen.sign("eve")
    seen.banner.locator("[name=remember]").check()
    seen.press("accept all")
    seen.status("done")  # the model asks for the desk again, and no person does
    assert shop.results(run).count("0 has bought desk for 300.0 USD, True") == 2


def test_a_gate_without_more_is_decided_in_the_inbox(seen: Seen, shop: Shop) -> None:
    run = shop.start("bare")
    shop.waiting(run)
    seen.open("/inbox")
    card = seen.opened(run)
    calls = card.locator(".cl-call")
    calls.nth(2).wait_for()
    assert card.get_by_label("change").count() == 0
    calls.nth(0).get_by_label("accept").check()
    seen.press("Undo the choices", card)
    card.get_by_label("note").last.fill("none of it")
    seen.press("deny all", card)
    seen.page.locator(".card.leaving").wait_for()
    seen.opened(run)
    again = seen.page.locator(".card:not(.leaving)", has_text=run).locator(".cl-call")
    again.nth(1).wait_for()
    assert again.count() == 2
    assert {text.rpartition(": ")[2] for text in shop.results(run)} == {"none of it"}


def test_it_is_decided_by_keys(seen: Seen, shop: Shop) -> None:
    run, calls = asked(seen, "bare")
    seen.page.keyboard.press("a")
    for key in ("Space", "Tab", "ArrowRight", "Tab", "Tab", "Space"):
        seen.page.keyboard.press(key)
    choices = calls.locator("input:checked").evaluate_all("all => all.map(one => one.value)")
    assert choices == ["accept", "deny", "accept"]
    seen.banner.get_by_role("button", name="Send the decisions").focus()
    seen.page.keyboard.press("Enter")
    asked_again(seen, ".banner", 2)
    assert ["approved" in text for text in shop.results(run)][:3] == [False, True, False]


def within(seen: Seen, parts: str) -> bool:
    """Whether nothing reaches over the edge of the page, scrolled to or cut off."""
    rights = seen.page.locator(parts).evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().right)"
    )
    return seen.fits() and max(rights) <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(chromium: Browser, shop: Shop, scheme: Any) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    seen = Seen(Tab(context), shop)
    _, calls = asked(seen)
    for call in calls.all():
        call.get_by_label("change").check()
    assert within(seen, ".cl-call *")
    seen.open("/inbox")
    calls = seen.page.locator(".card .cl-call")
    calls.first.wait_for()
    for call in calls.all():
        call.get_by_label("deny").check()
    assert within(seen, ".card *")
    assert seen.tab.errors == []
    context.close()


class Pushing(Shop):
    """A server whose model writes what hides, pushes away or imitates an amount, call by call."""

    files: ClassVar[dict[str, str]] = {
        "machines/bare.yaml": GATE.format(name="bare", approve="within: 1h"),
        "shop.py": SHOP.replace("item: str", "item: object").replace(
            "usd: float", "usd: float = 50"
        ),
        "script.yaml": json.dumps(
            {
                "replies": [
                    {
                        "tool_calls": [
                            {"id": one.id, "name": "buy", "arguments": json.dumps(given)}
                            for one, given in ((one, given_by(one)) for one in TROUBLES)
                            if "note" not in given
                        ]
                    },
                    "Done.",
                ]
            }
        ),
    }


@pytest.fixture(scope="module")
def pushing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pushing]:
    started = Pushing(tmp_path_factory.mktemp("pushing"))
    yield started
    started.kill()


@pytest.mark.parametrize("width", [390, 1100])
@pytest.mark.parametrize("face", ["inbox", "run", "link"])
def test_no_argument_pushes_another_away_or_imitates_it(
    chromium: Browser, pushing: Pushing, face: str, width: int
) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 800})
    seen = Seen(Tab(context), pushing)
    run = pushing.start("bare")
    pushing.waiting(run)
    if face == "link":
        made = pushing.ask(f"/runs/{run}/question/link", {"to": "eve@example.org"})
        seen.page.goto(made["url"])
    else:
        seen.open("/inbox" if face == "inbox" else f"/runs/{run}")
        if face == "inbox":
            seen.opened(run)
    more = seen.page.get_by_role("button", name="characters that follow")
    more.or_(seen.page.locator(".cl-call").first).first.wait_for()
    if more.is_visible():
        more.click()
    calls = seen.page.locator(".cl-call")
    calls.nth(1).wait_for()
    for call in calls.all():
        names = call.locator("dt").all_inner_texts()
        values = call.locator("dd").all_inner_texts()
        assert sorted(names) == ["account", "express", "item", "usd"]
        assert names[0] == "usd"
        assert values[0] in {
            "900,001 USD",
            "900,001.00 USD",
            "50.00 USD (default)",
            "50 USD (default)",
        }
        assert call.locator("dd.cl-money").count() == 1
        boxes = call.bounding_box()
        assert boxes is not None
        assert boxes["height"] < 500
        for block in call.locator(".cl-block").all():
            assert block.evaluate("one => one.clientHeight < 140 && one.tabIndex === 0")
            assert block.get_attribute("role") == "region"
    assert calls.locator(".cl-block").count() >= 4
    assert seen.fits() if face != "link" else True
    assert seen.tab.errors == []
    context.close()

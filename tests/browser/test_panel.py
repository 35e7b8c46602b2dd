"""The panel in a real JupyterLab: what a person presses, and what they see."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.browser.lab import NEEDS, Lab, Open, Tab, expect_pressable, expect_text, notebook

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = NEEDS

START = '''
import threading
from chartloop import load, panel, tool

go = threading.Event()

@tool(effect="pure")
def hold() -> str:
    """Wait."""
    assert go.wait(30)
    return "held"

run = load("""
chartloop: 1
machine: asking
title: "Ask <b>first</b>"
tools: [hold]
limits: {steps: 9}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  look: {label: Look, do: nothing, next: agree}
  agree:
    ask: "Agreed?"
    on:
      yes: work
      no: {to: refused, data: {why: str, sure: bool}}
  work: {label: Work, do: tool, with: {name: hold}, next: tidy}
  tidy: {label: Tidy up, do: nothing, next: done}
  refused: {label: Refused, stop: user_requested}
  done: {label: Done, stop: completed}
""", tools=[hold]).start()
shown = panel(run)
shown
'''


class Shown:
    """The panel, as somebody who looks at it."""

    def __init__(self, opened: Open) -> None:
        self.page, self.opened = opened.page, opened
        opened.clear()
        opened.run(0)
        self.root = self.page.locator(".cl-panel")
        self.root.locator(".cl-picture svg").wait_for()
        self.at("look", "not begun")

    def button(self, name: str) -> Locator:
        return self.root.get_by_role("button", name=name, exact=True)

    def press(self, name: str) -> None:
        self.button(name).click()

    def at(self, state: str, status: str) -> None:
        """Wait until the run rests there, and every order was answered."""
        expect_text(self.page, self.root.locator(".cl-state"), f"^{state}$")
        expect_text(self.page, self.root.locator(".cl-status"), f"^{status}$")
        expect_text(self.page, self.root.locator(".cl-busy"), "^$")

    def drawn(self) -> dict[str, str]:
        """What stands in the picture beside the labels, by the state whose box it stands in."""
        found = self.root.locator(".cl-picture g.node").evaluate_all(
            """nodes => nodes.map(node => [node.id.replace(/.*node-/, ""),
               [...node.querySelectorAll("tspan")].map(part => part.textContent).join("")])"""
        )
        return {name: said for name, said in found if said}


@pytest.fixture(scope="module")
def opened(lab: Lab, page: Tab) -> Open:
    """A notebook that starts a run and opens its panel in its first cell."""
    made = notebook(START, "run.advance()")
    opened = Open(lab, page, lab.add("panel.ipynb", made, trusted=False))
    opened.wait_for_kernel()
    return opened


@pytest.fixture
def shown(opened: Open) -> Shown:
    """The panel of a new run."""
    return Shown(opened)


def test_a_step_is_seen_in_the_picture_and_in_the_facts(shown: Shown) -> None:
    assert shown.drawn() == {"look": "● NOW"}
    shown.press("Step")
    shown.at("agree", "waits for someone")
    assert shown.drawn() == {"agree": "● NOW"}
    changed = shown.root.locator(".cl-changed")
    expect_text(shown.page, changed.first, "run.steps0 → 1")
    expect_text(shown.page, shown.root.locator(".cl-chosen"), "1step.*agree")


def test_a_question_is_answered_in_the_panel(shown: Shown) -> None:
    shown.press("Run")
    shown.at("agree", "waits for someone")
    expect_text(shown.page, shown.root.locator(".cl-question"), "Agreed?")
    expect_pressable(shown.button("Step"), False)
    shown.root.get_by_label("why").fill("too <i>dear</i>")
    shown.root.get_by_label("sure").check()
    shown.press("no")
    shown.at("refused", "stopped by a person")
    expect_text(shown.page, shown.root.locator(".cl-ending"), "user_requested")
    shown.root.get_by_label("Filter facts").fill("last.answer")
    expect_text(shown.page, shown.root.locator(".cl-facts tbody"), "too <i>dear</i>.*true")


def test_an_answer_keeps_its_lines(shown: Shown) -> None:
    shown.press("Run")
    shown.at("agree", "waits for someone")
    why = shown.root.get_by_label("why")
    why.fill("too dear\nfar too dear")
    why.press("Shift+Enter")
    why.press_sequentially("by half")
    why.press("Enter")
    shown.at("refused", "stopped by a person")
    shown.root.get_by_label("Filter facts").fill("last.answer")
    facts = shown.root.locator(".cl-facts tbody")
    expect_text(shown.page, facts, r"too dear\\nfar too dear\\nby half")


def test_back_takes_a_record_back(shown: Shown) -> None:
    shown.press("Run")
    shown.at("agree", "waits for someone")
    before = shown.root.locator(".cl-run").inner_text()
    shown.press("Back")
    shown.at("look", "running")
    assert shown.root.locator(".cl-run").inner_text() != before
    shown.press("Step")
    shown.at("agree", "waits for someone")


def test_an_error_is_shown_and_goes_away(shown: Shown) -> None:
    fault = shown.root.get_by_role("alert")
    assert not fault.is_visible()
    shown.root.get_by_label("Its new value").fill("many")
    shown.press("Set")
    expect_text(shown.page, fault, "limit `steps` is int: `many` is not")
    shown.root.get_by_label("Its new value").fill("1")
    shown.press("Set")
    fault.wait_for(state="hidden")
    shown.press("Run")
    shown.at("look", "stopped by a limit")
    expect_text(shown.page, shown.root.locator(".cl-ending"), "steps_limit")


def test_a_long_action_is_shown_and_can_be_paused(shown: Shown) -> None:
    shown.press("Run")
    shown.at("agree", "waits for someone")
    shown.press("yes")
    shown.at("work", "running")
    shown.press("Run")
    expect_text(shown.page, shown.root.locator(".cl-busy"), "running…")
    expect_pressable(shown.button("Back"), False)
    shown.press("Pause")
    expect_text(shown.page, shown.root.locator(".cl-busy"), "pausing after this action…")
    shown.opened.page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".cm-content").fill(
        "go.set()"
    )
    shown.opened.run(1)
    shown.at("tidy", "paused")


def test_a_run_is_cancelled_when_it_is_asked_for_twice(shown: Shown) -> None:
    shown.press("Cancel")
    shown.button("Really cancel?").wait_for()
    shown.press("Step")
    shown.at("agree", "waits for someone")
    shown.button("Cancel").focus()
    shown.page.keyboard.press("c")
    shown.button("Really cancel?").wait_for()
    shown.page.keyboard.press("c")
    shown.at("refused", "stopped by a person")
    expect_text(shown.page, shown.root.locator(".cl-ending"), "user_requested")
    expect_pressable(shown.button("Cancel"), False)


def test_what_a_cell_does_is_seen_in_the_panel(shown: Shown) -> None:
    shown.opened.run(1, "run.run()")
    shown.at("agree", "waits for someone")
    shown.opened.run(1, "run.back()")
    shown.at("look", "running")


def test_it_is_driven_by_keys_alone(shown: Shown) -> None:
    shown.button("Step").focus()
    shown.page.keyboard.press("Enter")
    shown.at("agree", "waits for someone")
    shown.page.keyboard.press("b")
    shown.at("look", "running")
    shown.page.keyboard.press("s")
    shown.at("agree", "waits for someone")
    shown.page.keyboard.press("s")
    expect_text(shown.page, shown.root.get_by_role("alert"), "waits for an answer")
    shown.page.keyboard.press("b")
    shown.at("look", "running")
    goal = shown.root.get_by_label("Run to this state or guard")
    goal.focus()
    shown.page.keyboard.type("agree")
    shown.page.keyboard.press("Enter")
    shown.at("agree", "waits for someone")


def test_no_text_becomes_markup(shown: Shown) -> None:
    expect_text(shown.page, shown.root.locator(".cl-title"), "Ask <b>first</b>")
    assert shown.root.locator("b, i, script").count() == 0


def test_a_picture_that_could_act_cannot(shown: Shown) -> None:
    """Were there anything in the SVG that runs or loads, it would not be put into the page."""
    hostile = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        ' onload="window.hit = 1"><script>window.hit = 2</script>'
        '<image href="http://192.0.2.1/x.png"/><a xlink:href="javascript:window.hit = 3"/>'
        '<foreignObject><img xmlns="http://www.w3.org/1999/xhtml" src="x"'
        ' onerror="window.hit = 4"/></foreignObject><g id="kept"/></svg>'
    )
    sheet: dict[str, object] = {"picture": hostile, "boxes": {}, "outline": ""}
    shown.opened.run(1, f"shown.sheet = {sheet!r}")
    shown.root.locator("#kept").wait_for(state="attached")
    markup = shown.root.locator(".cl-picture").inner_html()
    assert not [
        part
        for part in ("script", "image", "foreignObject", "javascript", "onload")
        if part in markup
    ]
    assert shown.page.evaluate("window.hit") is None


def test_it_fits_dark_pages_and_narrow_ones(shown: Shown) -> None:
    assert shown.root.evaluate("panel => getComputedStyle(panel).colorScheme") == "light"
    paper = "() => getComputedStyle(document.querySelector('.cl-picture svg polygon')).fill"
    for theme, fill in {"dark": "rgb(15, 23, 42)", "light": "rgb(255, 255, 255)"}.items():
        light = json.dumps(theme == "light")
        shown.page.evaluate(f"document.body.dataset.jpThemeLight = '{light}'")
        shown.page.wait_for_function(
            "theme => getComputedStyle(document.querySelector('.cl-panel')).colorScheme === theme",
            arg=theme,
        )
        assert shown.page.evaluate(paper) == fill
        shown.press("Step" if theme == "dark" else "Back")  # the next moment is painted so, too
        shown.root.locator(".cl-busy", has_text=re.compile("^$")).wait_for(state="attached")
        assert shown.page.evaluate(paper) == fill
    shown.press("Step")
    shown.page.set_viewport_size({"width": 700, "height": 1000})
    for part in ("facts", "why", "records"):
        room = "found => found.scrollWidth - found.clientWidth"
        assert shown.root.locator(f".cl-{part}").evaluate(room) <= 0, part
    columns = json.loads(
        shown.root.evaluate(
            "panel => JSON.stringify([panel.scrollWidth <= panel.clientWidth,"
            " getComputedStyle(panel.querySelector('.cl-columns')).gridTemplateColumns.split(' ').length])"
        )
    )
    assert columns == [True, 1]


STORED = """
from chartloop import load, panel
from chartloop.adapters.journal.sqlite import SqliteJournal

journal = SqliteJournal("runs.db")
machine = load('''
chartloop: 1
machine: stored
states:
  look: {label: Look, do: nothing, next: agree}
  agree: {ask: "Agreed?", on: {yes: work}}
  work: {label: Work, do: nothing, next: done}
  done: {label: Done, stop: completed}
''')
"""


def test_a_run_outlives_the_kernel(lab: Lab, page: Tab) -> None:
    start = f"{STORED}run = machine.start(journal=journal, run_id='mine')\npanel(run)"
    again = f"{STORED}panel(machine.open('mine', journal=journal))"
    opened = Open(lab, page, lab.add("stored.ipynb", notebook(start), trusted=False))
    opened.wait_for_kernel()
    shown = Shown(opened)
    shown.press("Run")
    shown.at("agree", "waits for someone")
    opened.restart()
    shown.press("yes")
    expect_text(shown.page, shown.root.get_by_role("alert"), "No answer from the kernel yet")
    opened.clear()
    opened.run(0, again)
    shown.at("agree", "waits for someone")
    shown.press("yes")
    shown.at("work", "running")
    assert shown.drawn() == {"work": "● NOW"}


def a_notebook(lab: Lab, page: Tab, name: str, cell: str) -> Shown:
    """The panel that the cell of a notebook of its own shows."""
    opened = Open(lab, page, lab.add(name, notebook(cell, ""), trusted=False))
    opened.wait_for_kernel()
    return Shown(opened)


def test_a_long_question_is_opened_before_it_is_answered(lab: Lab, page: Tab) -> None:
    letter = "Dear customer,\\n" + "A line of the letter.\\n" * 600 + "The end"
    cell = f'''
from chartloop import load, panel

panel(load("""
chartloop: 1
machine: letters
model: {{name: scripted}}
states:
  look: {{do: infer, next: agree}}
  agree: {{ask: "Send it?", on: {{yes: work}}}}
  work: {{do: nothing, next: done}}
  done: {{stop: completed}}
""").start(script=["{letter}"]))
'''
    shown = a_notebook(lab, page, "letters.ipynb", cell)
    shown.press("Run")
    shown.at("agree", "waits for someone")
    assert shown.root.locator(".cl-decided").inner_text().startswith("Dear customer,\nA line")
    expect_pressable(shown.button("yes"), False)
    assert shown.button("yes").get_attribute("title") == "Read all of it first"
    shown.root.get_by_role("button", name="characters that follow").click()
    expect_text(shown.page, shown.root.locator(".cl-decided"), "The end$")
    expect_pressable(shown.button("yes"), True)
    shown.press("yes")
    shown.at("work", "running")


def test_each_call_of_an_approval_is_changed_and_decided(lab: Lab, page: Tab) -> None:
    cell = '''
from chartloop import load, panel, tool

@tool
def buy(item: str, usd: float) -> str:
    """Buy an item."""
    return f"{item} is bought for {usd} USD"

calls = [{"name": "buy", "arguments": {"item": i, "usd": 300}} for i in ("chair", "desk")]
run = load("""
chartloop: 1
machine: gate
model: {name: scripted}
tools: [buy]
approve: {tools: [buy], by: the boss, edit: true, remember: true}
states:
  look: {do: infer, next: act}
  act: {do: call_tools, next: done}
  done: {stop: completed}
""", tools=[buy]).start(script=[{"tool_calls": calls}])
panel(run)
'''
    shown = a_notebook(lab, page, "gate.ipynb", cell)
    shown.press("Run")
    shown.at("approve", "waits for someone")
    calls = shown.root.locator(".cl-call")
    assert calls.nth(1).locator("legend").inner_text() == "2. buy"
    assert shown.root.locator("[name=calls]").count() == 0
    name = calls.nth(0).locator("dt").first  # in one line, whatever styles the notebook has
    assert name.evaluate("one => one.getClientRects()[0].height") < 30
    shown.root.locator("[name=by]").fill("eve")
    calls.nth(0).get_by_label("change").check()
    calls.nth(0).get_by_label("usd").fill("dear")
    shown.press("Ask again with the changes")
    expect_text(shown.page, calls.nth(0).locator("label .cl-refused:not(:empty)"), "not of type")
    assert shown.root.locator(".cl-fault").is_hidden()
    calls.nth(0).get_by_label("usd").fill("80")
    shown.press("Ask again with the changes")
    shown.at("act_edited", "running")
    shown.press("Run")
    shown.at("approve", "waits for someone")
    expect_text(shown.page, calls.nth(0), "changed by eve.*usd80")
    shown.root.locator("[name=by]").fill("bob")
    calls.nth(0).get_by_label("accept").check()
    calls.nth(1).get_by_label("deny").check()
    shown.press("Send the decisions")
    shown.at("act_approved", "running")
    shown.press("Run")
    shown.at("done", "done")
    shown.opened.run(1, 'print([m["content"] for m in run.messages if m["role"] == "tool"])')
    told = r"chair is bought for 80\.0 USD.*not approved: it was denied"
    expect_text(shown.page, shown.opened.output(1), told)

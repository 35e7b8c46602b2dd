"""The controller of a panel: what comes of each order, and what a page is told, whatever it sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chartloop import Machine, Run, load, tool
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.run.journal import MemoryJournal
from chartloop.ui.notebook.panel.controller import Controller
from tests.unit.test_view_orders import MESSAGES

ASKING = """
chartloop: 1
machine: asking
title: Asking
limits: {steps: 9, patience: 30m, share: 50%}
vars: {note: "", sure: false, count: 0}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: errors.rate > limits.share, stop: error_rate}
states:
  look: {label: Look, do: nothing, next: agree}
  agree:
    ask: "Agreed?"
    on:
      yes: work
      no: {to: refused, data: {why: str, sure: bool, count: int}}
    within: limits.patience
    expired: refused
  work: {label: Work, do: nothing, next: done}
  refused: {label: Refused, stop: user_requested}
  done: {label: Done, stop: completed}
"""

WAITING = """
chartloop: 1
machine: waiting
tools: [hold]
states:
  first: {do: tool, with: {name: hold}, next: second}
  second: {do: tool, with: {name: hold}, next: done}
  done: {stop: completed}
"""


@pytest.fixture(scope="module")
def asking() -> Machine:
    return load(ASKING)


class Page:
    """What a page would show: everything that was published, laid over each other."""

    def __init__(self, run: Run) -> None:
        self.shows: dict[str, Any] = {}
        self.run = run
        self.controller = Controller(run, self.shows.update)
        self.wait()

    def wait(self) -> None:
        assert self.controller.settle(20), "the controller has not come to rest"

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        """Send an order, and wait until it is done."""
        self.controller.take({"do": do, "id": 7, **more})
        self.wait()
        assert self.shows["heard"] == 7
        return self.shows

    @property
    def fault(self) -> str:
        fault = self.shows["fault"]
        return "" if fault is None else f"{fault['message']} | {fault['hint']}"


Opened = Callable[[Run], Page]


@pytest.fixture
def opened() -> Iterator[Opened]:
    pages: list[Page] = []

    def open_page(run: Run) -> Page:
        pages.append(Page(run))
        return pages[-1]

    yield open_page
    for page in pages:
        page.controller.close()


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


# orders -------------------------------------------------------------------------------------


def test_a_page_shows_a_run_that_has_not_begun(asking: Machine, opened: Opened) -> None:
    shows = opened(asking.start()).shows
    assert (shows["state"], shows["status"], shows["records"]) == ("look", "idle", [])
    assert shows["why"] is None
    assert shows["cannot"] == {"back": "There is nothing to take back"}
    assert shows["picture"].startswith("<svg")
    assert set(shows["boxes"].values()) >= {"look", "agree", "work"}


def test_steps_are_shown_with_what_they_changed(asking: Machine, opened: Opened) -> None:
    page = opened(asking.start())
    shows = page.ask("step")
    assert (page.fault, [record["kind"] for record in shows["records"]]) == ("", ["start", "step"])
    assert (shows["state"], shows["status"]) == ("agree", "paused")
    assert [record["path"] for record in shows["records"]] == ["look", "agree"]
    changed = {
        fact["name"]: (fact["was"], fact["value"]) for fact in shows["facts"] if fact["changed"]
    }
    assert changed["run.steps"] == ("0", "1")
    assert changed["last.action"] == ('""', '"nothing"')
    assert not {"run.elapsed", "run.visits.agree"} & changed.keys(), "is not news"
    visits = next(fact for fact in shows["facts"] if fact["name"] == "run.visits.agree")
    assert visits["value"] == "1"
    assert names(shows["facts"])[0] == "run.steps", (
        "what changed and is read by a guard comes first"
    )
    assert shows["why"]["title"] == "step at look"
    assert shows["question"] == "Agreed?"


LETTER = "Dear customer,\n" + "word " * 3_000


def test_a_question_that_is_cut_is_opened_before_it_is_answered(opened: Opened) -> None:
    wait = ASKING.replace("do: nothing, next: agree", "do: infer, next: agree")
    page = opened(load(wait).start(script=[LETTER]))
    shows = page.ask("step")
    assert (shows["rest"] > 0, shows["shown"], len(shows["about"]) < 10_000) == (True, "", True)
    page.ask("answer", event="yes", data={}, wait=shows["wait"], shown="")
    assert "were not shown" in page.fault
    shows = page.ask("show", whole=True)
    assert (shows["rest"], shows["about"]) == (0, LETTER.strip())
    page.ask("answer", event="yes", data={}, wait=shows["wait"], shown=shows["shown"])
    assert (page.fault, page.shows["state"]) == ("", "work")


def test_calls_are_shown_with_their_arguments_and_decided_as_typed(opened: Opened) -> None:
    @tool
    def buy(item: str, usd: float) -> str:
        """Buy an item."""
        return f"{item} for {usd}"

    gate = """
chartloop: 1
machine: gate
tools: [buy]
approve: {tools: [buy], edit: true}
states:
  think: {do: infer, next: act}
  act: {do: call_tools, next: done}
  done: {stop: completed}
"""
    calls = [{"id": n, "name": "buy", "arguments": {"item": n, "usd": 300}} for n in ("a", "b")]
    page = opened(load(gate, tools=[buy]).start(script=[{"tool_calls": calls}]))
    shows = page.ask("run")
    assert [call["shown"] for call in shows["calls"]] == [
        [['"item"', f'"{n}"'], ['"usd"', "300"]] for n in ("a", "b")
    ]
    assert {field["name"] for one in shows["answers"] for field in one["fields"]} == {"note"}
    page.ask("answer", event="edit", data={"calls": '{"a": {"arguments": {"usd": "dear"}}}'})
    assert "do not fit its tool" in page.fault
    data = {"calls": '{"a": "accept", "b": {"decision": "deny", "note": "too dear"}}'}
    page.ask("answer", event="accept", data=data, wait=shows["wait"])
    page.ask("run")
    results = [one["content"] for one in page.run.messages if one["role"] == "tool"]
    assert results == ["a for 300.0", "error: `buy` was not approved: it was denied: too dear"]


def test_the_picture_is_painted_and_not_laid_out_again(asking: Machine, opened: Opened) -> None:
    page = opened(asking.start())
    first, before = page.shows["picture"], page.shows["paint"]
    page.ask("step")
    assert page.shows["picture"] is first
    assert page.shows["paint"] != before
    assert "● NOW" in page.shows["paint"]["texts"].values()


def test_a_limit_on_a_label_is_laid_out_again(asking: Machine, opened: Opened) -> None:
    page = opened(asking.start())
    shows = page.ask("set", name="limits.steps", value=" 4 ")
    assert page.fault == ""
    assert "(4)" in shows["picture"]
    assert page.run.facts.limits["steps"] == 4


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("limits.patience", "1h30m", 5400.0),
        ("limits.share", "75%", 0.75),
        ("vars.note", "5", "5"),
        ("vars.sure", "true", True),
        ("vars.count", "1_000", 1000),
    ],
)
def test_values_are_read_by_their_type(
    asking: Machine, opened: Opened, name: str, value: str, found: object
) -> None:
    page = opened(asking.start())
    shows = page.ask("set", name=name, value=value)
    root, _, field = name.partition(".")
    assert getattr(page.run.facts, root)[field] == found
    shown = {one["name"]: one["value"] for one in shows["editable"]}
    again = page.ask("set", name=name, value=shown[name])
    assert again["fault"] is None, "what is shown can be typed"
    assert getattr(page.run.facts, root)[field] == found


def test_an_answer_is_read_by_the_types_of_its_fields(asking: Machine, opened: Opened) -> None:
    page = opened(asking.start())
    shows = page.ask("run")
    no = next(one for one in shows["answers"] if one["event"] == "no")
    assert [(f["name"], f["kind"]) for f in no["fields"]] == [
        ("why", "str"), ("sure", "bool"), ("count", "int"),
    ]  # fmt: skip
    page.ask("answer", event="no", data={"why": "7", "sure": True, "count": "7"})
    assert page.run.records[-1].input.data == {"why": "7", "sure": True, "count": 7}
    assert page.shows["ended"]
    assert "user_requested" in page.shows["explanation"]


def test_a_wrong_answer_is_told_and_changes_nothing(asking: Machine, opened: Opened) -> None:
    page = opened(asking.start())
    page.ask("run")
    before = page.run.records
    page.ask("answer", event="no", data={"why": "x", "sure": True, "count": "many"})
    assert page.fault.startswith("`count` of `no` is int: `many` is not")
    page.ask("answer", event="perhaps")
    assert "does not take `perhaps` | it takes `yes`, `no`" in page.fault
    assert page.run.records == before
    page.ask("answer", event="yes")
    assert page.fault == ""


def test_run_to_a_state_and_to_a_guard(asking: Machine, opened: Opened) -> None:
    page = opened(asking.start())
    page.ask("run", until="look")
    assert (page.run.state, page.run.facts.run.steps) == ("look", 0)
    page.ask("run", until="run.steps >= 1")
    assert page.run.facts.run.steps == 1
    page.ask("run", until="lok")
    assert page.fault == "there is no state `lok` | did you mean `look`?"


def test_back_takes_records_back(asking: Machine, opened: Opened) -> None:
    page = opened(asking.start())
    page.ask("run")
    page.ask("answer", event="yes")
    page.ask("run")
    old, count = page.run.id, len(page.run.records)
    shows = page.ask("back", records=2)
    assert page.run.id != old
    assert len(page.run.records) == count - 2 == len(shows["records"])
    page.ask("back", records=99)
    assert "99 records cannot be taken back" in page.fault
    page.ask("answer", event="yes")
    assert (page.fault, page.run.state) == ("", "work")


def test_the_decision_of_another_record(asking: Machine, opened: Opened) -> None:
    page = opened(asking.start())
    page.ask("run")
    assert page.ask("why", seq=0)["why"]["title"] == "start at look"
    assert page.ask("show")["why"]["seq"] == 0, "it stays chosen"
    assert page.ask("step")["why"]["seq"] == page.run.records[-1].seq
    page.ask("why", seq=99)
    assert "there is no record 99" in page.fault


def test_what_cannot_be_done_is_said(asking: Machine, opened: Opened) -> None:
    page = opened(asking.start())
    page.ask("pause")
    assert page.fault.startswith("the run rests already")
    page.ask("run")
    page.ask("step")
    assert page.fault.startswith("the run waits")
    page.ask("answer", event="yes")
    page.ask("run")
    page.ask("step")
    assert page.fault.startswith("the run has ended")
    assert "step" in page.shows["cannot"]


# driving ------------------------------------------------------------------------------------


class Held:
    """A machine whose tool waits until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)

        @tool(effect="pure")
        def hold() -> str:
            """Wait."""
            self.begun.release()
            assert self.let_go.acquire(timeout=20)
            return "held"

        self.machine = load(WAITING, tools=[hold])


def test_a_long_action_blocks_nobody_and_can_be_paused(opened: Opened) -> None:
    held = Held()
    page = opened(held.machine.start())
    page.controller.take({"do": "run", "id": 1})
    assert held.begun.acquire(timeout=20)
    page.controller.take({"do": "step", "id": 2})
    page.controller.take({"do": "pause", "id": 3})
    while page.shows.get("heard") != 3:
        threading.Event().wait(0.01)
    assert page.shows["busy"] == "pausing after this action"
    held.let_go.release()
    page.wait()
    assert (page.run.state, page.run.status, page.shows["busy"]) == ("second", "paused", "")
    held.let_go.release()
    page.ask("step")
    assert page.run.ended, "a step ends the pause and does the action"


@pytest.mark.parametrize("before", [(), ("step",), ("run",)], ids=["fresh", "at-rest", "waiting"])
def test_a_run_that_rests_is_cancelled(
    before: tuple[str, ...], asking: Machine, opened: Opened
) -> None:
    page = opened(asking.start())
    for order in before:
        page.ask(order)
    page.ask("cancel")
    assert page.fault == ""
    assert page.run.result.reason == "user_requested"
    assert page.shows["ended"] is True
    assert page.shows["cannot"]["cancel"] == "The run has ended"
    page.ask("cancel")
    assert page.fault.startswith("the run has ended")
    page.ask("back")
    assert not page.run.ended


@pytest.mark.parametrize("order", ["step", "run"])
def test_a_run_that_is_driven_is_cancelled_after_its_action(order: str, opened: Opened) -> None:
    held = Held()
    page = opened(held.machine.start())
    page.controller.take({"do": order, "id": 1})
    assert held.begun.acquire(timeout=20)
    page.controller.take({"do": "cancel", "id": 2})
    while page.shows.get("heard") != 2:
        threading.Event().wait(0.01)
    assert page.shows["busy"] == "cancelling after this action"
    held.let_go.release()
    page.wait()
    assert page.run.result.reason == "user_requested"
    assert (page.shows["ended"], page.shows["busy"], page.fault) == (True, "", "")


def test_meanwhile_other_orders_are_refused(opened: Opened) -> None:
    held = Held()
    page = opened(held.machine.start())
    page.controller.take({"do": "run", "id": 1})
    assert held.begun.acquire(timeout=20)
    page.controller.take({"do": "back", "id": 2})
    while page.shows.get("heard") != 2:
        threading.Event().wait(0.01)
    assert page.fault == "the run is being driven at this moment | pause it first"
    held.let_go.release(2)
    page.wait()
    assert page.run.ended
    assert page.fault == ""


def test_what_a_cell_does_is_shown(asking: Machine, opened: Opened) -> None:
    run = asking.start()
    page = opened(run)
    run.advance()
    run.advance()
    page.wait()
    assert page.shows["state"] == "agree"
    run.back()
    run.advance()
    page.wait()
    assert (page.shows["run"], page.shows["state"]) == (run.id, "agree")


def test_a_run_taken_back_in_a_cell_is_shown_when_the_cell_ends(
    asking: Machine, opened: Opened
) -> None:
    run = asking.start()
    page = opened(run)
    page.ask("run")
    run.back()
    page.controller.flush()
    page.wait()
    assert (page.shows["run"], page.shows["state"]) == (run.id, "look")


def test_a_journal_in_a_file_is_driven_from_the_panel_and_from_a_cell(
    asking: Machine, opened: Opened, tmp_path: Path
) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    run = asking.start(journal=journal)
    page = opened(run)
    page.ask("step")
    assert run.step() is None
    page.wait()
    page.ask("answer", event="yes")
    assert (page.fault, run.state) == ("", "work")
    again = opened(asking.open(run.id, journal=journal))
    assert again.shows["records"] == page.shows["records"]


class Leaving(MemoryJournal):
    """A journal whose library once ends the thread that it is called on."""

    left = False

    async def append(self, *args: Any, **options: Any) -> int:
        if not self.left:
            self.left = True
            raise SystemExit(3)
        return await super().append(*args, **options)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_ends_its_thread_leaves_the_controller_open(asking: Machine, opened: Opened) -> None:
    page = opened(asking.start(journal=Leaving()))
    page.ask("step")
    assert page.fault == "the action was broken off | Step starts it again"
    assert page.shows["busy"] == ""
    page.ask("step")
    assert (page.fault, page.shows["status"]) == ("", "paused")


def test_a_page_that_comes_later_does_not_hide_that_the_run_is_driven(opened: Opened) -> None:
    held = Held()
    page = opened(held.machine.start())
    page.controller.take({"do": "run", "id": 1})
    assert held.begun.acquire(timeout=20)
    page.controller.take({"do": "show", "id": 2})
    while page.shows.get("heard") != 2:
        threading.Event().wait(0.01)
    assert page.shows["busy"] == "running"
    held.let_go.release(2)
    page.wait()
    assert page.run.ended


def test_an_action_that_breaks_is_told(opened: Opened) -> None:
    machine = load("chartloop: 1\nmachine: m\nmodel: {name: scripted}\nstates:\n"
                   "  a: {do: infer, next: z}\n  z: {stop: completed}\n")  # fmt: skip
    page = opened(machine.start(script=[]))
    page.ask("run")
    assert "script" in page.fault
    assert page.shows["busy"] == ""


def test_a_page_that_breaks_does_not_break_the_controller(
    asking: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    def gone(_: object) -> None:
        raise ConnectionError("the page has gone")

    run = asking.start()
    controller = Controller(run, gone)
    controller.take({"do": "step"})
    assert controller.settle(20)
    assert run.state == "agree"
    assert len(run.records) == 2
    assert "could not show" in caplog.text
    controller.close()


# laws ---------------------------------------------------------------------------------------


@pytest.mark.slow("tries hundreds of examples for seconds")
@settings(max_examples=40)
@given(messages=st.lists(MESSAGES | st.sampled_from(
    [{"do": "step"}, {"do": "run"}, {"do": "back"}, {"do": "answer", "event": "yes"},
     {"do": "set", "name": "limits.steps", "value": "3"}, {"do": "why", "seq": 0}]), max_size=8))  # fmt: skip
def test_whatever_is_sent_the_run_is_sound_and_the_page_is_told(
    messages: list[Any], asking: Machine
) -> None:
    page = Page(asking.start())
    try:
        for number, message in enumerate(messages, 1):
            known = isinstance(message, dict)
            sent: Any = message
            if known:
                sent["id"] = number
            page.controller.take(sent)
            page.wait()
            assert page.shows["heard"] == (number if known else 0)
            fault = page.shows["fault"]
            assert fault is None or fault["message"]
        assert page.run.replay().same
        assert page.shows["busy"] == ""
        assert page.shows["state"] == page.run.state
        assert len(page.shows["records"]) == len(page.run.records)
    finally:
        page.controller.close()


def test_half_a_character_can_be_sent_to_a_page(asking: Machine, opened: Opened) -> None:
    page = opened(asking.start())
    shows = page.ask("set", name="vars.note", value="half \ud83d")
    shown = {one["name"]: one["value"] for one in shows["editable"]}
    assert shown["vars.note"] == "half \ufffd"
    page.ask("answer", event="\udc9b")
    assert "does not take" in page.fault or "waits for nothing" in page.fault
    assert json.dumps(page.shows, ensure_ascii=False).encode()


def test_nothing_of_a_label_becomes_markup(opened: Opened) -> None:
    hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    machine = load(
        "chartloop: 1\nmachine: m\n"
        f"title: '{hostile}'\nstates:\n"
        f"  a: {{label: '{hostile}', do: nothing, next: z}}\n"
        f"  z: {{label: '{hostile}', stop: completed}}\n"
    )
    page = opened(machine.start(hostile))
    shows = page.ask("run")
    for markup in (shows["picture"], *shows["paint"]["texts"].values()):
        assert "<script" not in markup
        assert "<img" not in markup

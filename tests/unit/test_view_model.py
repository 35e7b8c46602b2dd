"""What every face shows of a run, and what each may ask of one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from chartloop import Machine, Run, guard, load
from chartloop.core.errors import ChartloopError, RunError, StatusError
from chartloop.ui.view_model.build import standing_of, view_run
from chartloop.ui.view_model.orders import (
    Answer,
    Back,
    Break,
    Cancel,
    Enqueue,
    Fork,
    Order,
    Resume,
    Set,
    Step,
    order_of,
)
from chartloop.ui.view_model.perform import perform
from chartloop.ui.view_model.run_view import ChildView
from chartloop.ui.view_model.text import changes, standing_lines
from tests.unit.test_panel_controller import ASKING


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load(ASKING)


def at_start(machine: Machine) -> Run:
    return machine.start()


def at_work(machine: Machine) -> Run:
    run = machine.start()
    run.advance()
    return run


def at_wait(machine: Machine) -> Run:
    run = machine.start()
    run.run()
    return run


def at_end(machine: Machine) -> Run:
    return perform(at_wait(machine), Answer("no", {"why": "late", "sure": True, "count": "3"}))


class Moment(NamedTuple):
    id: str
    run: Callable[[Machine], Run]
    refused: set[str]


MOMENTS = [
    Moment("start", at_start, {"answer", "resume", "back", "fork"}),
    Moment("work", at_work, {"answer", "resume"}),
    Moment("wait", at_wait, {"step", "run", "resume"}),
    Moment("end", at_end, {"step", "run", "set", "cancel", "pause", "enqueue", "answer", "resume"}),
]


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.id)
def test_a_view_is_plain_data_in_a_fixed_order(moment: Moment, machine: Machine) -> None:
    run = moment.run(machine)
    sent = json.dumps(view_run(run).to_dict())
    assert sent == json.dumps(view_run(run).to_dict())
    assert list(json.loads(sent)) == [
        "machine", "title", "run", "state", "status", "step", "spent", "phase", "at", "task",
        "ended", "kind", "explanation", "output", "output_kind", "output_rest", "cure",
        "question", "about", "rest", "wait", "due", "since", "calls", "answers", "next", "limits",
        "facts", "records", "left_out", "why", "signals", "warnings", "errors", "children",
        "editable", "states", "labels", "breakpoints", "cannot",
    ]  # fmt: skip


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.id)
def test_an_order_is_refused_with_a_reason(moment: Moment, machine: Machine) -> None:
    refused = view_run(moment.run(machine)).refusals
    assert {name for name in refused if name != "back"} == moment.refused - {"back"}
    assert all(refused.values())


ORDERS: dict[str, Order] = {
    "step": Step(), "resume": Resume(), "set": Set("limits.steps", "7"),
}  # fmt: skip


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.id)
@pytest.mark.parametrize("name", ORDERS)
def test_what_is_refused_cannot_be_done_and_the_rest_can(
    moment: Moment, name: str, machine: Machine
) -> None:
    run = moment.run(machine)
    if name in view_run(run).refusals:
        with pytest.raises(ChartloopError):
            perform(run, ORDERS[name])
    else:
        assert perform(run, ORDERS[name]) is run


def test_a_question_has_its_fields_and_its_deadline(machine: Machine) -> None:
    view = standing_of(at_wait(machine))
    asked = view.question
    assert asked is not None
    assert asked.due is not None
    assert view.next is None
    assert (asked.text, [answer.event for answer in asked.answers]) == ("Agreed?", ["yes", "no"])
    fields = [(field.name, field.type) for field in asked.answers[1].fields]
    assert fields == [("why", "str"), ("sure", "bool"), ("count", "int")]
    assert asked.answers[1].target == "refused"


def test_what_comes_next_is_shown_with_the_limits(machine: Machine) -> None:
    view = standing_of(at_work(machine))
    assert view.question is None
    assert view.next is not None
    assert (view.next.action, view.next.rules) == ("nothing", 2)
    assert [edge.target for edge in view.next.edges] == ["agree"]
    assert [limit.fact for limit in view.limits] == ["run.steps", "errors.rate"]
    assert view.limits[0].text == "0 of 9"


def test_a_guard_of_the_callers_own_is_not_asked_for_a_view() -> None:
    @guard
    def enough() -> bool:
        """Whether it is enough."""
        raise AssertionError("a view asks nobody")

    machine = load(
        "chartloop: 1\nmachine: m\nlimits: {a: 10}\nstates:\n  a: {do: nothing, next: q}\n"
        "  q: {ask: Q, when: enough() or run.steps >= limits.a, then: z, else: a}\n  z: {stop: completed}\n",
        guards=[enough],
    )
    assert [limit.text for limit in standing_of(machine.start("x")).limits] == ["0 of 10"]


def test_the_facts_that_the_newest_record_changed(machine: Machine) -> None:
    run = machine.start()
    run.step()
    changed = {name for name, _, _ in changes(view_run(run))}
    assert "run.steps" in changed
    assert changes(view_run(run, before=run.facts)) == []


def test_a_fork_is_another_run_with_the_same_breakpoints(machine: Machine) -> None:
    run = perform(at_work(machine), Break("work"))
    made = perform(run, Fork())
    assert made.id != run.id
    assert view_run(made).breakpoints == ("work",)
    assert view_run(perform(made, Break("work"))).breakpoints == ()


def test_a_pause_is_taken_back(machine: Machine) -> None:
    run = machine.start()
    run.advance()
    run.pause()
    run.advance()
    assert run.status == "paused"
    assert "resume" not in view_run(run).refusals
    perform(run, Resume())
    with pytest.raises(StatusError):
        perform(perform(run, Step()), Resume())


def test_records_are_taken_back(machine: Machine) -> None:
    run = at_wait(machine)
    count = len(run.records)
    assert len(perform(run, Back(1)).records) == count - 1


class Message(NamedTuple):
    id: str
    sent: dict[str, Any]
    order: Order


@pytest.mark.parametrize(
    "case",
    [
        Message("resume", {"do": "resume"}, Resume()),
        Message("enqueue", {"do": "enqueue", "tasks": ["a", "b"]}, Enqueue(("a", "b"))),
        Message("cancel", {"do": "cancel", "reason": "x"}, Cancel("x")),
        Message("fork", {"do": "fork"}, Fork(None)),
        Message("fork-at", {"do": "fork", "at": 3}, Fork(3)),
        Message("break", {"do": "break", "at": " work "}, Break("work")),
    ],
    ids=lambda case: case.id,
)
def test_an_order_of_a_page_is_read(case: Message) -> None:
    assert order_of(case.sent) == case.order


@pytest.mark.parametrize("tasks", [None, [], "a", ["a", 1]])
def test_tasks_are_a_list_of_texts(tasks: Any) -> None:
    with pytest.raises(RunError):
        order_of({"do": "enqueue", "tasks": tasks})


def test_tasks_are_put_into_the_queue() -> None:
    run = load(ASKING).start()
    run.advance()
    perform(run, Enqueue(("Write the tests.",)))
    run.advance()
    assert run.facts.queue.size == 1


def test_a_breakpoint_without_a_place_is_refused() -> None:
    with pytest.raises(RunError, match="required field `at`"):
        order_of({"do": "break"})


def test_children_come_from_whoever_has_the_journal(machine: Machine) -> None:
    child = ChildView("r/agree/1", "helper", "completed", "completed", "done")
    view = view_run(machine.start(), children=[child])
    assert view.to_dict()["children"] == [child.to_dict()]


def test_where_it_stands_is_said_without_its_records(machine: Machine) -> None:
    run = at_wait(machine)
    lines = [line.text for line in standing_lines(standing_of(run), 80)]
    assert lines == [line.text for line in standing_lines(view_run(run), 80)]
    assert any("answer no why=STR" in line for line in lines)


def test_a_run_that_waits_is_not_run_on(machine: Machine) -> None:
    run = at_wait(machine)
    with pytest.raises(StatusError, match="the run waits for an answer"):
        perform(run, order_of({"do": "run"}))

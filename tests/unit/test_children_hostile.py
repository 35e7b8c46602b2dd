"""Child machines that are forked, stopped, answered, pickled and crashed at the wrong moment."""

from __future__ import annotations

import pickle
import textwrap
from pathlib import Path

import pytest

from chartloop.adapters.cancel import Cancellation
from chartloop.api import Machine, Run, find_faults, load
from chartloop.core.errors import MachineChangedError, WaitError
from chartloop.core.records import Record
from chartloop.run.journal import MemoryJournal
from chartloop.run.sync import by_hand
from chartloop.testing import ManualClock
from chartloop.testing.crash import CrashAt, Crashed

HEAD = "chartloop: 1\nmachine: boss\n"
ASKS = """
machines:
  asks:
    states:
      q: {ask: "Really?", on: {yes: done, no: lost}}
      done: {stop: completed}
      lost: {stop: error}
"""
WAY_OUT = """
machines:
  asks:
    on_stop: sure
    states:
      q: {ask: "Really?", on: {yes: done}}
      done: {stop: completed}
      sure: {ask: "Stop for sure?", on: {ok: out}}
      out: {stop: highest}
"""
GO = """
states:
  go: {do: run_machine, with: {machine: asks%s}, failed: next, next: done}
  done: {stop: completed}
"""
WORK = """
states:
  go: {do: work, failed: next, next: done}
  done: {stop: completed}
"""


def waiting(text: str) -> Run:
    """A run whose child waits for an answer."""
    run = load(HEAD + text).start(clock=ManualClock())
    assert run.run().events
    return run


def family(run: Run) -> dict[str, str]:
    """The run and its children: how each stands, by what its id has after the run's."""
    rows = by_hand(run.session.journal.rows(prefix=run.id))
    return {row.run_id.removeprefix(run.id): row.reason or row.status for row in rows}


def child_of(run: Run, run_id: str) -> Run:
    """A child of a run that waits, in hand as any other run."""
    machine = Machine(run.machine.chart.child("asks"))
    return machine.open(run_id, journal=run.session.journal, clock=run.session.ports.clock)


def few(run: Run) -> list[Record]:
    """The records until the run ends or waits: not many."""
    found: list[Record] = []
    while (record := run.advance()) is not None:
        found.append(record)
        assert len(found) < 20, "it goes round and round"
    return found


# whose child it is ----------------------------------------------------------------------------


def test_an_answer_to_a_fork_is_not_one_to_the_child_of_the_other_run() -> None:
    run = waiting(ASKS + GO % "")
    forked = run.fork()
    with pytest.raises(WaitError, match="waits for nothing"):  # its own child asks nothing yet
        forked.send("yes")
    assert forked.run().question == "Really?"
    forked.send("yes")
    assert forked.run().reason == "completed"
    assert family(forked) == {"": "completed", "/go/0": "completed"}
    assert run.run().question == "Really?"
    assert by_hand(run.session.journal.inbox(f"{run.id}/go/0")) == []


def test_a_run_that_is_pickled_takes_its_children_along() -> None:
    run = waiting(ASKS + GO % "")
    again = load(HEAD + ASKS + GO % "").attach(pickle.loads(pickle.dumps(run)), clock=ManualClock())  # noqa: S301  # our own
    again.send("yes")
    assert again.run().reason == "completed"
    assert family(again) == {"": "completed", "/go/0": "completed"}


@pytest.mark.parametrize("driven", [True, False])
def test_a_child_that_was_answered_itself_is_not_waited_for(driven: bool) -> None:
    run = waiting(ASKS + GO % "")
    child = child_of(run, f"{run.id}/go/0")
    child.send("yes")
    if driven:
        assert child.run().reason == "completed"
    assert run.run().reason == "completed"


@pytest.mark.parametrize("name", ["a", "b"])
def test_any_of_several_children_may_be_answered_itself(name: str) -> None:
    fields = "children: {a: {machine: asks}, b: {machine: asks}}, wait_for: any"
    run = waiting(
        ASKS + (GO % "").replace("run_machine", "run_machines").replace("machine: asks", fields)
    )
    child = child_of(run, f"{run.id}/go/0/{name}")
    child.send("yes")
    assert child.run().reason == "completed"
    assert run.run().reason == "completed"
    assert sorted(family(run).values()) == ["completed", "completed", "user_requested"]


def test_a_child_that_was_removed_begins_anew_and_asks_again() -> None:
    run = waiting(ASKS + GO % "")
    by_hand(run.session.journal.remove([f"{run.id}/go/0"]))
    with pytest.raises(WaitError, match="moved on since"):
        run.send("yes")
    assert run.run().question == "Really?"
    run.send("yes")
    assert run.run().reason == "completed"


def test_a_changed_file_that_has_no_such_child_is_refused_while_the_child_waits() -> None:
    run = waiting(ASKS + GO % "")
    text = "states:\n  go: {do: nothing, failed: next, next: done}\n  done: {stop: completed}\n"
    changed = load(HEAD + text)
    with pytest.raises(MachineChangedError, match="`go` does not run it any more") as caught:
        changed.open(run.id, journal=run.session.journal, changed=True, clock=ManualClock())
    assert "until the child has ended" in caught.value.hint


# stopping -------------------------------------------------------------------------------------


def test_a_pause_and_its_end_leave_the_question_as_it_was() -> None:
    run = waiting(ASKS + GO % "")
    run.pause()
    run.run()
    run.resume()
    assert run.run().question == "Really?"
    assert tuple(run.answers) == ("yes", "no")


def test_a_cancel_of_a_paused_run_reaches_its_child() -> None:
    run = waiting(ASKS + GO % "")
    run.pause()
    run.run()
    run.cancel()
    run.run()
    assert family(run) == {"": "user_requested", "/go/0": "user_requested"}


@pytest.mark.parametrize(("write", "status"), [(7, "idle"), (9, "paused")])
def test_a_cancel_after_a_crash_reaches_the_child_that_had_begun(write: int, status: str) -> None:
    journal = MemoryJournal()
    machine = load(HEAD + ASKS + GO % "")
    run = machine.start(clock=ManualClock(), journal=CrashAt(journal, write))
    with pytest.raises(Crashed):
        run.run()
    again = machine.open(run.id, journal=journal, clock=ManualClock())
    assert family(again) == {"": "running", "/go/0": status}
    again.cancel()
    again.run()
    assert family(again) == {"": "user_requested", "/go/0": "user_requested"}


def test_a_child_that_asks_on_its_way_out_is_asked_to_stop_once() -> None:
    run = waiting(WAY_OUT + GO % "")
    run.cancel()
    few(run)
    assert run.result.question == "Stop for sure?"
    run.send("ok")
    few(run)
    assert family(run) == {"": "user_requested", "/go/0": "user_requested"}
    assert run.replay().same


def test_a_child_that_asks_on_its_way_out_is_late_once() -> None:
    run = waiting(WAY_OUT + GO % ", }, within: 30s, expired: done, save: {".replace(", }", "}"))
    few(run)
    assert run.result.question == "Stop for sure?"
    assert run.facts.run.elapsed == 30.0
    run.send("ok")
    few(run)
    assert family(run) == {"": "completed", "/go/0": "time_limit"}


BOUNDS = {
    "within": ("", "within: 30s, "),
    "time-rule": (
        "limits: {time: 30s}\nrules: [{when: run.elapsed >= limits.time, stop: time_limit}]", ""
    ),
}  # fmt: skip
INNER = textwrap.indent(ASKS + (GO % "").replace("failed: next, ", ""), "    ")
HOWS = {
    "run-machine": ASKS + GO % "",
    "run-machines": ASKS
    + (GO % "")
    .replace("run_machine, with: {machine", "run_machines, with: {children: {a: {machine")
    .replace("asks}", "asks}}}"),
    "work": f"\ntasks: [{{text: x, by: {{machine: asks}}}}]{ASKS}{WORK}",
    "two-below": f"\nmachines:\n  above:\n{INNER}{(GO % '').replace('asks', 'above')}",
}


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("how", HOWS)
def test_a_child_that_waits_too_long_is_stopped_before_its_parent_goes_on(
    bound: str, how: str
) -> None:
    head, field = BOUNDS[bound]
    text = HOWS[how].replace("failed: next,", f"{field}failed: next,")
    run = load(f"{HEAD}{head}{text}").start(clock=ManualClock())
    few(run)
    assert run.ended
    below = family(run)
    assert below.pop("") == ("completed" if bound == "within" else "time_limit")
    assert list(below.values()) == ["time_limit"] * (2 if how == "two-below" else 1)
    assert run.facts.run.elapsed == 30.0
    assert run.replay().same


def test_a_pause_does_not_leave_an_answered_child_to_a_time_rule() -> None:
    text = f"{HEAD}{BOUNDS['time-rule'][0]}{ASKS}{GO % ''}"
    clock = ManualClock()
    run = load(text).start(clock=clock)
    while run.advance() is not None and run.status != "paused":
        pass
    run.send("yes")
    run.advance()
    pause(run, clock)
    assert family(run) == {"": "time_limit", "/go/0": "completed"}


def test_a_pause_does_not_leave_the_child_of_a_crashed_run_to_a_time_rule() -> None:
    clock, journal = ManualClock(), MemoryJournal()
    machine = load(f"{HEAD}{BOUNDS['time-rule'][0]}{ASKS}{GO % ''}")
    run = machine.start(clock=clock, journal=CrashAt(journal, 9))
    with pytest.raises(Crashed):
        run.run()
    run = machine.open(run.id, journal=journal, clock=clock)
    pause(run, clock)
    assert family(run) == {"": "time_limit", "/go/0": "time_limit"}


def pause(run: Run, clock: ManualClock) -> None:
    """A pause of a minute, and on."""
    run.pause()
    run.advance()
    assert run.status == "paused"
    clock.advance(60)
    run.resume()
    few(run)


def test_a_long_back_off_on_the_way_out_of_a_cancelled_run() -> None:
    class Quick(ManualClock):
        """Moves as it is slept on, in the small pieces of a real clock."""

        suspends = True

    text = """
on_stop: pause
states:
  q: {ask: "Well?", on: {ok: out}}
  pause: {do: back_off, with: {base: 2h}, next: out}
  out: {stop: highest}
"""
    cancel = Cancellation()
    run = load(HEAD + text).start(clock=Quick(), cancel=cancel)
    run.run()
    cancel.request()
    assert run.run().reason == "user_requested"


@pytest.mark.parametrize("by_message", [True, False])
def test_a_child_on_the_way_out_of_a_cancelled_run_comes_to_its_end(by_message: bool) -> None:
    text = """
on_stop: report
machines:
  writer:
    states:
      a: {do: nothing, next: b}
      b: {do: nothing, next: done}
      done: {stop: completed}
states:
  q: {ask: "Well?", on: {ok: done}}
  done: {stop: completed}
  report: {do: run_machine, with: {machine: writer}, next: out}
  out: {stop: highest}
"""
    cancel = Cancellation()
    run = load(HEAD + text).start(clock=ManualClock(), cancel=cancel)
    run.run()
    if by_message:
        run.cancel()
    else:
        cancel.request()
    run.run()
    assert family(run) == {"": "user_requested", "/report/0": "completed"}


def test_a_child_that_was_late_after_a_wait_says_how_long_it_took() -> None:
    text = HEAD + ASKS + (GO % "").replace("failed:", "within: 30s, failed:")
    last = load(text).run(clock=ManualClock()).facts.errors.last
    assert last is not None
    assert last.message == "go took too long: stopped after 30.0 s"


def test_the_first_stops_the_others_though_a_crash_came_between() -> None:
    text = f"""{HEAD}{ASKS}
  quick: {{states: {{a: {{do: nothing, next: z}}, z: {{stop: completed}}}}}}
states:
  go: {{do: run_machines, with: {{%s, wait_for: any}}, next: done}}
  done: {{stop: completed}}
"""
    machine = load(text % "children: {a: {machine: quick}, b: {machine: asks}}")
    whole = CrashAt(MemoryJournal())
    machine.run(clock=ManualClock(), journal=whole)
    for write in range(5, whole.writes + 1):  # the first four begin the run
        journal = MemoryJournal()
        run = machine.start(clock=ManualClock(), journal=CrashAt(journal, write))
        with pytest.raises(Crashed):
            run.run()
        again = machine.open(run.id, journal=journal, clock=ManualClock())
        assert again.run().reason == "completed", f"killed at write {write}"
        assert family(again)["/go/0/b"] == "user_requested"


# the queue ------------------------------------------------------------------------------------


def test_a_task_that_came_while_a_child_had_the_queue_is_not_lost() -> None:
    run = waiting(f"tasks: [{{text: one}}]{ASKS}{GO % ', share: [queue]'}")
    run.enqueue("late")
    run.run()
    run.send("yes")
    run.run()
    assert [task.text for task in run.session.position.queue] == ["one", "late"]


def test_what_a_child_did_is_not_the_doing_of_a_task_that_came_meanwhile() -> None:
    tasks = "tasks: [{id: better, text: x, kind: improvement, by: {machine: asks}}]"
    run = waiting(tasks + ASKS + WORK)
    run.enqueue({"id": "first", "text": "y", "by": {"machine": "asks"}})
    run.run()
    run.send("yes")
    result = run.run()
    assert result.facts.last.result["task"] == "better"
    assert [task.id for task in run.session.position.queue] == ["first"]
    assert family(run) == {"": "completed", "/go/0/better": "completed"}


# what is wrong with a call ----------------------------------------------------------------------

EACH = f"""{HEAD}vars: {{items: {{type: "list[any]", value: []}}}}
{ASKS}
states:
  go: {{do: run_machines, with: {{machine: asks, each: vars.items}}, failed: next, next: done}}
  done: {{stop: completed}}
"""


@pytest.mark.parametrize("item", [{"task": 5}, {"task": None}, {"vars": "x"}, {"vars": [1]}])
def test_an_item_of_another_shape_fails_the_action(item: object) -> None:
    last = load(EACH).run(vars={"items": ["fine", item]}).facts.errors.last
    assert last is not None
    assert (last.category, last.kind) == ("CRITICAL", "with")
    assert "item 2 of `each`" in last.message


@pytest.mark.parametrize("name", ["1", "a/b", "Left", ""])
def test_a_childs_name_is_a_name(name: str) -> None:
    said = f"children: {{'{name}': {{machine: asks}}}}"
    _, found = find_faults(EACH.replace("machine: asks, each: vars.items", said))
    assert [f.code for f in found if f.is_error] == ["CL204"]


# files ------------------------------------------------------------------------------------------


def test_the_tasks_of_a_child_are_found_by_a_machine_that_was_stored(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "more.yaml").write_text("[x, y]")
    (tmp_path / "sub" / "kid.yaml").write_text(
        "chartloop: 1\nmachine: kid\ntasks: {file: more.yaml}\noutput: queue.size\n"
        "states: {a: {do: nothing, next: z}, z: {stop: completed}}\n"
    )
    (tmp_path / "boss.yaml").write_text(
        f"{HEAD}machines: {{asks: sub/kid.yaml}}\nvars: {{got: 0}}\noutput: vars.got\n"
        + (GO % "").replace("failed:", "save: {vars.got: result.output}, failed:")
    )
    machine = load(tmp_path / "boss.yaml")
    again = pickle.loads(pickle.dumps(machine))  # noqa: S301  # our own
    assert again.hash == machine.hash
    assert [m.run().output for m in (machine, again)] == [2, 2]

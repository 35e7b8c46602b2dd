"""Child machines: what they are given, what comes back, and what happens when they do not end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop.actions.run_machines import MOST
from chartloop.adapters.cancel import Cancellation
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.analysis.checker.trust import needs_trust
from chartloop.api import Machine, Run, find_faults, load
from chartloop.core.errors import AnswerError, SpecError, StatusError
from chartloop.language.dump import canonical
from chartloop.run.events import Delta, Event, FromChild, Started
from chartloop.run.journal import MemoryJournal
from chartloop.run.sync import by_hand
from chartloop.testing import ManualClock

HEAD = "chartloop: 1\nmachine: boss\n"
WORKER = """
  worker:
    model: {name: scripted}
    limits: {tokens: 500, steps: 9, time: 1h}
    vars: {tone: plain, count: 0}
    memory: {persona: Nobody.}
    rules:
      - {when: usage.total_tokens >= limits.tokens, stop: token_limit}
      - {when: run.steps >= limits.steps, stop: steps_limit}
      - {when: run.elapsed >= limits.time, stop: time_limit}
    output: {tone: vars.tone, task: run.task, persona: memory.persona, count: vars.count}
    states:
      hear: {do: nothing, next: [{when: vars.count > 5, to: aside}, think]}
      think: {do: infer, next: done}
      aside: {set: {vars.count: vars.count + 10}, next: done}
      done: {stop: completed}
"""
ONE = """
vars: {got: {type: any, value: 0}}
output: vars.got
states:
  go: {do: run_machine, with: {%s}, save: {vars.got: result}, failed: next, next: done}
  done: {stop: completed}
"""


def boss(fields: str, head: str = "", children: str = WORKER) -> Machine:
    """A machine that runs a child with these fields, and gives its result as output."""
    return load(f"{HEAD}{head}machines:{children}{ONE % fields}")


def family(run: Run) -> list[str]:
    """The ids of the runs of a journal in memory."""
    return [row.run_id for row in by_hand(run.session.journal.rows())]


# what a child is given ------------------------------------------------------------------------


class Gives(NamedTuple):
    """Fields of `run_machine`, and a part of the child's output."""

    id: str
    fields: str
    output: Mapping[str, Any]


GIVES = [
    Gives("its-own-values", "machine: worker", {"tone": "plain", "persona": "Nobody.", "task": ""}),
    Gives("a-task", 'machine: worker, task: "Do {{ run.task }}."', {"task": "Do sums."}),
    Gives("variables", "machine: worker, vars: {tone: '\"loud\"', count: run.steps + 2}", {"tone": "loud", "count": 2}),
    Gives("memory", "machine: worker, memory: {persona: 'You do {{ run.task }}.'}", {"persona": "You do sums."}),
    Gives("another-start", "machine: worker, start: aside", {"count": 10}),
]  # fmt: skip


@pytest.mark.parametrize("case", GIVES, ids=lambda case: case.id)
def test_a_child_has_what_it_is_given(case: Gives) -> None:
    result = boss(case.fields).run("sums", script=[] if "start" in case.fields else ["Done."])
    assert result.output["output"].items() >= case.output.items()


def test_a_child_is_a_step_of_its_parent_and_a_run_of_its_own() -> None:
    journal = MemoryJournal()
    run = boss("machine: worker, task: x").start(script=["Done."], journal=journal)
    result = run.run()
    child = result.output
    assert result.steps == 1
    assert (child["run"], child["machine"], child["reason"]) == (
        f"{run.id}/go/0",
        "worker",
        "completed",
    )
    assert (child["success"], child["steps"], child["text"]) == (True, 2, "Done.")
    row = by_hand(journal.row(child["run"]))
    assert row is not None
    assert (row.parent, row.status, row.reason) == (run.id, "completed", "completed")
    assert by_hand(journal.blob(row.machine_hash)) == canonical(run.machine.spec.machines["worker"])
    assert run.replay().same
    assert {r.run_id for r in by_hand(journal.rows(children=False))} == {run.id}


def test_what_a_child_spends_is_its_parents_spending() -> None:
    reply = {"text": "Done.", "usage": {"prompt_tokens": 100, "completion_tokens": 7, "cost": 0.5}}
    usage = boss("machine: worker").run(script=[reply]).facts.usage
    assert (usage.llm_calls, usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (
        1,
        100,
        7,
        107,
    )
    assert usage.cost == 0.5


class Budget(NamedTuple):
    """Limits of a parent and of a `with`, and what the child's limit `tokens` comes to."""

    id: str
    parent: str
    given: str
    tokens: Any


BUDGETS = [
    Budget("its-own", "", "", 500),
    Budget("given", "", "tokens: 50", 50),
    Budget("what-the-parent-has", "tokens: 80", "", 80),
    Budget("at-most-what-the-parent-has", "tokens: 80", "tokens: 200", 80),
    Budget("less-than-the-parent-has", "tokens: 80", "tokens: 20", 20),
    Budget("the-parents-is-off", "tokens: null", "", 500),
    Budget("an-expression", "tokens: 80", "tokens: limits.tokens // 4", 20),
]


@pytest.mark.parametrize("case", BUDGETS, ids=lambda case: case.id)
def test_a_child_gets_at_most_what_its_parent_has_left(case: Budget) -> None:
    head = f"limits: {{{case.parent}}}\n" if case.parent else ""
    given = f", limits: {{{case.given}}}" if case.given else ""
    run = boss(f"machine: worker{given}", head).start(script=["x"])
    run.run()
    log = by_hand(run.session.journal.events(f"{run.id}/go/0"))
    begun = log[0].record
    assert begun is not None
    limits = begun.input.data.get("limits", {})
    assert limits.get("tokens", 500) == case.tokens


def test_of_what_was_spent_before_nothing_is_left() -> None:
    text = f"""{HEAD}model: {{name: scripted}}
limits: {{tokens: 100}}
rules: [{{when: usage.total_tokens >= limits.tokens, stop: token_limit}}]
machines:{WORKER}
states:
  think: {{do: infer, next: go}}
  go: {{do: run_machine, with: {{machine: worker}}, next: done}}
  done: {{stop: completed}}
"""
    spent = {"prompt_tokens": 70, "completion_tokens": 0}
    run = load(text).start(script=[{"text": "a", "usage": spent}, {"text": "b", "usage": spent}])
    assert run.run().reason == "token_limit"
    begun = by_hand(run.session.journal.events(f"{run.id}/go/1"))[0].record
    assert begun is not None
    assert begun.input.data["limits"]["tokens"] == 30


def test_children_at_once_share_what_is_spent_and_each_has_all_the_time() -> None:
    text = f"""{HEAD}limits: {{tokens: 90, time: 10m, steps: 6}}
rules:
  - {{when: usage.total_tokens >= limits.tokens, stop: token_limit}}
  - {{when: run.elapsed >= limits.time, stop: time_limit}}
  - {{when: run.steps >= limits.steps, stop: steps_limit}}
machines:{WORKER}
states:
  go: {{do: run_machines, with: {{machine: worker, each: '["a", "b", "c"]'}}, next: done}}
  done: {{stop: completed}}
"""
    run = load(text).start(script=["1", "2", "3"], clock=ManualClock())
    run.run()
    for name in "123":
        begun = by_hand(run.session.journal.events(f"{run.id}/go/0/{name}"))[0].record
        assert begun is not None
        assert begun.input.data["limits"] == {"tokens": 30, "time": 600.0, "steps": 6}


SHARING = f"""{HEAD}model: {{name: scripted}}
memory: {{persona: Somebody., other: kept}}
tasks: [{{text: one}}, {{text: two}}]
machines:
  worker:
    model: {{name: scripted}}
    memory: {{persona: Nobody.}}
    states:
      think: {{do: infer, next: learn}}
      learn: {{do: update_memory, with: {{block: persona, append: " And more."}}, next: work}}
      work: {{do: work, next: done}}
      done: {{stop: completed}}
states:
  hear: {{do: receive, next: go}}
  go: {{do: run_machine, with: {{machine: worker%s}}, next: done}}
  done: {{stop: completed}}
"""


def test_what_is_shared_comes_back() -> None:
    text = SHARING % ", share: [messages, memory, queue]"
    result = load(text).run("Hello.", script=["Hi.", "One is done."])
    said = [m["content"] for m in result.messages]
    assert said == ["Hello.", "Hi.", "one", "One is done."]
    assert result.facts.memory == {"persona": "Somebody.\n And more.", "other": "kept"} or (
        result.facts.memory["persona"].startswith("Somebody.")
        and result.facts.memory["other"] == "kept"
    )
    assert (result.facts.queue.size, result.facts.queue.done) == (1, 1)


def test_what_is_not_shared_stays_the_childs() -> None:
    own = SHARING.replace("      work: {do: work, next: done}\n", "").replace(
        "next: work}", "next: done}"
    )
    result = load(own % "").run("Hello.", script=["Hi."])
    assert [m["content"] for m in result.messages] == ["Hello."]
    assert result.facts.memory == {"persona": "Somebody.", "other": "kept"}
    assert result.facts.queue.size == 2


# how a child ends -----------------------------------------------------------------------------


def test_a_child_that_ends_in_an_error_fails_the_action() -> None:
    reply = {"error": {"category": "CRITICAL", "message": "no such model"}}
    result = boss("machine: worker").run(script=[reply])
    assert result.facts.errors.total == 1
    last = result.facts.errors.last
    assert last is not None
    assert (last.category, last.kind) == ("CRITICAL", "child")
    assert "`worker` stopped for `error`" in last.message
    assert "no such model" in last.message


def test_a_child_that_reaches_its_limit_is_no_failure() -> None:
    reply = {"text": "x", "usage": {"prompt_tokens": 600, "completion_tokens": 0}}
    result = boss("machine: worker").run(script=[reply])
    child = result.output
    assert (child["reason"], child["kind"], child["success"]) == ("token_limit", "limit", False)
    assert result.facts.errors.total == 0


LATE = f"""{HEAD}%s
machines:{WORKER}
states:
  go: {{do: run_machine, with: {{machine: worker}}, %s next: done}}
  done: {{stop: completed}}
  late: {{stop: custom}}
"""


class Late(NamedTuple):
    """What bounds the action, and what the run stops for."""

    id: str
    rules: str
    state: str
    reason: str


LATES = [
    Late("within", "", "within: 30s, expired: late,", "custom"),
    Late("time-rule", "limits: {time: 1m}\nrules: [{when: run.elapsed >= limits.time, stop: time_limit}, {when: run.steps > 99, stop: custom}]", "", "time_limit"),
]  # fmt: skip


@pytest.mark.parametrize("case", LATES, ids=lambda case: case.id)
def test_a_child_that_never_ends_is_stopped_in_time(case: Late) -> None:
    clock = ManualClock()
    machine = load(LATE % (case.rules, case.state))
    run = machine.start(script=[{"text": "x", "delay": "2h"}], clock=clock)
    assert run.run().reason == case.reason
    row = by_hand(run.session.journal.row(f"{run.id}/go/0"))
    assert row is not None
    assert (row.status, row.reason) == ("completed", "time_limit")
    assert run.facts.run.elapsed == (30.0 if case.id == "within" else 60.0)


def test_a_child_that_backs_off_is_stopped_in_time() -> None:
    child = """
  worker:
    states:
      wait: {do: back_off, with: {base: 1h}, next: done}
      done: {stop: completed}
"""
    text = (LATE % (LATES[0].rules, LATES[0].state)).replace(WORKER, child)
    clock = ManualClock()
    before = clock.now()
    run = load(text).start(clock=clock)
    assert run.run().reason == "custom"
    assert clock.now() - before == 30.0


# a child that waits ---------------------------------------------------------------------------

ASKS = """
  worker:
    machines:
      deep:
        states:
          q: {ask: "Really?", on: {yes: {to: done, data: {note: str}}, no: lost}, within: 5m, expired: lost}
          done: {stop: completed}
          lost: {stop: error}
    states:
      go: {do: run_machine, with: {machine: deep}, next: done}
      done: {stop: completed}
"""


@pytest.fixture
def asking() -> Run:
    """A run whose child's child waits for somebody."""
    run = boss("machine: worker", children=ASKS).start(clock=ManualClock())
    while run.advance() is not None and run.status != "paused":
        pass
    return run


def test_a_parent_asks_what_its_child_asks(asking: Run) -> None:
    result = asking.result
    assert (result.kind, result.question, result.events) == ("waiting", "Really?", ("yes", "no"))
    assert {event: list(fields) for event, fields in asking.answers.items()} == {
        "yes": ["note"],
        "no": [],
    }


def test_an_answer_to_the_parent_is_an_answer_to_the_child(asking: Run) -> None:
    with pytest.raises(AnswerError, match="needs `note`"):
        asking.send("yes")
    with pytest.raises(AnswerError, match="does not take `maybe`"):
        asking.send("maybe")
    with pytest.raises(StatusError, match="waits for an answer"):
        asking.resume()
    asking.send("yes", {"note": "n"})
    assert asking.run().reason == "completed"
    assert asking.replay().same


def test_an_answer_to_the_child_is_seen_by_the_parent_when_it_goes_on(asking: Run) -> None:
    asked = asking.session.position.child_question
    assert asked is not None
    deepest = f"{asked.run}/go/0"
    journal = asking.session.journal
    worker = asking.machine.chart.spec.machines["worker"].machines["deep"]
    child = Machine(asking.machine.chart.child("worker").child("deep"))
    assert worker is child.spec
    opened = child.open(deepest, journal=journal, clock=asking.session.ports.clock)
    opened.send("yes", {"note": "n"})
    assert opened.run().reason == "completed"
    assert asking.run().reason == "completed"


def test_nobody_answers_and_the_childs_wait_expires(asking: Run) -> None:
    result = asking.run()
    assert result.output == 0  # the child failed, so nothing was saved
    assert result.facts.errors.total == 1
    assert result.elapsed == 300.0


@pytest.mark.parametrize("by_message", [True, False])
def test_a_cancel_reaches_every_child(by_message: bool) -> None:
    class Asked:
        now = False

        def is_requested(self, run: object) -> bool:
            return self.now

    cancel = Asked()
    machine = boss("machine: worker", children=ASKS)
    run = machine.start(clock=ManualClock(), cancel=cancel)
    while run.advance() is not None and run.status != "paused":
        pass
    if by_message:
        run.cancel("stop_requested", "enough")
    else:
        cancel.now = True
    result = run.run()
    reason = "stop_requested" if by_message else "user_requested"
    assert result.reason == reason
    rows = by_hand(run.session.journal.rows())
    assert {row.reason for row in rows} == {reason}
    assert len(rows) == 3
    assert result.signals[0].message == ("enough" if by_message else "")


def test_a_cancel_while_the_child_works_reaches_it_before_its_next_action() -> None:
    cancel = Cancellation()
    run = boss("machine: worker").start(script=["never asked for"], cancel=cancel)

    def cancel_it(event: Event) -> None:
        inner = event.event if isinstance(event, FromChild) else None
        if isinstance(inner, Started) and inner.action == "nothing":
            cancel.request()

    run.listen(cancel_it)
    result = run.run()
    assert result.reason == "user_requested"
    assert result.facts.usage.llm_calls == 0


def test_a_waiting_family_is_opened_from_a_file(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    machine = boss("machine: worker", children=ASKS)
    run = machine.start(journal=journal)
    assert run.run().question == "Really?"
    again = machine.open(run.id, journal=journal)
    again.send("yes", {"note": "n"})
    assert again.run().reason == "completed"


# several at once ------------------------------------------------------------------------------

SEVERAL = f"""{HEAD}vars: {{got: {{type: any, value: 0}}, items: {{type: "list[any]", value: []}}}}
machines:{WORKER}
output: vars.got
states:
  go: {{do: run_machines, with: {{%s}}, save: {{vars.got: result}}, failed: next, next: done}}
  done: {{stop: completed}}
"""


def test_several_children_have_their_names() -> None:
    fields = "children: {left: {machine: worker, task: l}, right: {machine: worker, task: r}}"
    output = load(SEVERAL % fields).run(script=["L", "R"], clock=ManualClock()).output
    assert [child["name"] for child in output["children"]] == ["left", "right"]
    assert [child["text"] for child in output["children"]] == ["L", "R"]
    assert output["outputs"]["left"]["task"] == "l"


def test_a_child_for_each_item() -> None:
    items = ["a", {"task": "b", "vars": {"tone": "loud"}}]
    machine = load(SEVERAL % "machine: worker, each: vars.items")
    output = machine.run(script=["1", "2"], vars={"items": items}, clock=ManualClock()).output
    found = [output["outputs"][name] for name in ("1", "2")]
    assert [(f["task"], f["tone"]) for f in found] == [("a", "plain"), ("b", "loud")]


@pytest.mark.parametrize("items", [[1], [{"job": "x"}], ["x"] * (MOST + 1), [{"vars": {"no": 1}}]])
def test_items_that_are_no_children_fail_the_action(items: list[Any]) -> None:
    result = load(SEVERAL % "machine: worker, each: vars.items").run(
        script=[], vars={"items": items}
    )
    last = result.facts.errors.last
    assert last is not None
    assert (last.category, last.kind) == ("CRITICAL", "with")


def test_the_first_that_ends_well_stops_the_others() -> None:
    fields = (
        "children: {slow: {machine: worker}, quick: {machine: worker, start: aside}}, wait_for: any"
    )
    result = load(SEVERAL % fields).run(script=["never"], clock=ManualClock())
    reasons = {child["name"]: child["reason"] for child in result.output["children"]}
    assert reasons == {"slow": "user_requested", "quick": "completed"}
    assert result.facts.usage.llm_calls == 0


def test_one_of_several_fails_and_the_others_are_done() -> None:
    fields = "children: {a: {machine: worker}, b: {machine: worker}}"
    replies: list[Any] = [{"error": {"category": "RECOVERABLE", "message": "no"}}, "B"]
    result = load(SEVERAL % fields).run(script=replies, clock=ManualClock())
    assert result.facts.errors.total == 1
    children = result.facts.last.result["children"]
    assert [child["kind"] for child in children] == ["error", "natural"]
    enough = load(SEVERAL % f"{fields}, wait_for: any").run(script=replies, clock=ManualClock())
    assert enough.facts.errors.total == 0


def test_children_on_a_real_clock_wait_at_the_same_time() -> None:
    fields = "children: {a: {machine: worker}, b: {machine: worker}, c: {machine: worker}}"
    replies = [{"text": str(n), "delay": 0.3} for n in range(3)]
    result = load(SEVERAL % fields).run(script=replies)
    assert sorted(child["text"] for child in result.output["children"]) == ["0", "1", "2"]
    assert result.elapsed < 0.8  # one after the other it would be 0.9 and more


# tasks, streams, scripts ----------------------------------------------------------------------


def test_a_task_is_done_by_a_machine() -> None:
    text = f"""{HEAD}tasks: [{{id: t, text: Add., acceptance: it is added, by: {{machine: worker}}}}]
machines:{WORKER}
states:
  go: {{do: work, next: done}}
  done: {{stop: completed}}
"""
    run = load(text).start(script=["Added."])
    result = run.run()
    assert result.facts.queue.done == 1
    assert result.facts.last.result["result"]["task"] == "Add.\n\nIt is done when: it is added"
    assert result.facts.usage.llm_calls == 1
    assert f"{run.id}/go/0/t" in family(run)


def test_a_task_by_a_machine_that_is_not_there_fails() -> None:
    text = f"""{HEAD}states:
  add: {{do: enqueue, with: {{tasks: '{{"text": "x", "by": {{"machine": "nobody"}}}}'}}, next: go}}
  go: {{do: work, failed: next, next: done}}
  done: {{stop: completed}}
"""
    last = load(text).run().facts.errors.last
    assert last is not None
    assert "there is no child machine `nobody`" in last.message


def test_what_a_child_says_is_heard() -> None:
    run = boss("machine: worker").start(script=["Well done."])
    heard = [e for e in run.stream() if isinstance(e, FromChild)]
    text = "".join(e.event.text for e in heard if isinstance(e.event, Delta))
    assert text == "Well done."
    assert {e.run for e in heard} == {f"{run.id}/go/0"}
    assert json.loads(json.dumps(heard[0].to_dict()))["event"] == "child"


def test_a_fork_has_children_of_its_own() -> None:
    run = boss("machine: worker").start(script=["x"])
    run.run()
    forked = run.fork(at=1)
    forked.run()
    assert {f"{run.id}/go/0", f"{forked.id}/go/0"} <= set(family(run))


def test_a_removed_run_takes_its_children_along(tmp_path: Path) -> None:
    for journal in (MemoryJournal(), SqliteJournal(tmp_path / "j.db")):
        run = boss("machine: worker").start(script=["x"], journal=journal)
        run.run()
        assert by_hand(journal.remove([run.id])) == 1
        assert by_hand(journal.rows()) == []


# what is wrong with a file --------------------------------------------------------------------


class Wrong(NamedTuple):
    """Fields of `run_machine`, and what is said about them."""

    id: str
    fields: str
    code: str
    says: str


WRONG = [
    Wrong("unknown-machine", "machine: nobody", "CL409", "there is no child machine `nobody`"),
    Wrong("path-as-a-name", "machine: a/b.yaml", "CL409", "there is no child machine `a/b.yaml`"),
    Wrong("no-machine", "task: x", "CL403", "needs `machine`"),
    Wrong("unknown-state", "machine: worker, start: nowhere", "CL301", "`worker` has no state `nowhere`"),
    Wrong("unknown-variable", "machine: worker, vars: {tune: 1}", "CL103", "no variable `tune`"),
    Wrong("unknown-limit", "machine: worker, limits: {token: 1}", "CL103", "no limit `token`"),
    Wrong("unknown-block", "machine: worker, memory: {human: x}", "CL103", "no memory block `human`"),
    Wrong("variable-of-another-type", "machine: worker, vars: {count: '\"x\"'}", "CL404", "`count`"),
    Wrong("limit-of-another-type", "machine: worker, limits: {tokens: 95%}", "CL404", "`tokens`"),
    Wrong("expression-of-another-type", "machine: worker, limits: {tokens: run.elapsed}", "CL404", "`tokens` of `worker` is int"),
    Wrong("shared-nonsense", "machine: worker, share: [money]", "CL404", "`share` takes"),
]  # fmt: skip


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.id)
def test_what_a_child_cannot_be_given_is_found_before_the_run(case: Wrong) -> None:
    _, found = find_faults(f"{HEAD}machines:{WORKER}{ONE % case.fields}")
    said = [(f.code, f.message) for f in found if f.is_error]
    assert any(code == case.code and case.says in message for code, message in said), said
    assert all(f.place.line for f in found)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("wait_for: all", "has nothing to run"),
        ("machine: worker", "`machine` also needs `each`"),
        ("each: '[]'", "`each` also needs `machine`"),
        ("children: {a: {task: x}}", "`a` needs `machine`"),
        ("children: {a: {machine: worker, share: [queue]}}", "there is no field `share` here"),
        ("children: {a: worker}", "`a` takes a mapping"),
        ("children: {}", "takes a mapping of names"),
    ],
)
def test_several_children_that_cannot_be_run_are_found_too(fields: str, says: str) -> None:
    _, found = find_faults(SEVERAL % fields)
    assert any(says in f.message for f in found if f.is_error), [f.message for f in found]


def test_a_machine_of_another_file_becomes_part_of_this_one(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    child = (
        "chartloop: 1\nmachine: kid\nstates:\n  a: {do: nothing, next: z}\n  z: {stop: completed}\n"
    )
    (tmp_path / "sub" / "kid.yaml").write_text(child)
    text = f"{HEAD}machines: {{helper: sub/kid.yaml}}\n{ONE % 'machine: helper'}"
    (tmp_path / "boss.yaml").write_text(text)
    machine = load(tmp_path / "boss.yaml")
    assert machine.run().output["machine"] == "kid"
    assert load(machine.canonical()).hash == machine.hash
    before = machine.hash
    (tmp_path / "sub" / "kid.yaml").write_text(child.replace("nothing", "save_run"))
    assert load(tmp_path / "boss.yaml").hash != before


def test_a_machine_that_would_run_itself_is_refused(tmp_path: Path) -> None:
    text = f"{HEAD}machines: {{again: boss.yaml}}\n{ONE % 'machine: again'}"
    (tmp_path / "boss.yaml").write_text(text)
    with pytest.raises(SpecError, match="would run itself"):
        load(tmp_path / "boss.yaml")


def test_a_faulty_child_is_shown_in_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "kid.yaml").write_text(
        "chartloop: 1\nmachine: kid\nstates:\n  a: {next: nowhere}\n"
    )
    (tmp_path / "boss.yaml").write_text(
        f"{HEAD}machines: {{kid: kid.yaml}}\n{ONE % 'machine: kid'}"
    )
    _, found = find_faults(tmp_path / "boss.yaml")
    assert [(f.code, Path(f.place.file).name) for f in found] == [("CL301", "kid.yaml")]


def test_a_child_that_is_not_there_says_where_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boss.yaml").write_text(
        f"{HEAD}machines: {{kid: kid.yaml}}\n{ONE % 'machine: kid'}"
    )
    _, found = find_faults(tmp_path / "boss.yaml")
    (one,) = found
    assert one.message == f"there is no file `kid.yaml`: looked in `{tmp_path}`"
    (tmp_path / "kit.yaml").touch()
    monkeypatch.chdir(tmp_path)
    _, found = find_faults("boss.yaml")
    assert [(f.message, f.hint) for f in found] == [
        ("there is no file `kid.yaml`: looked in this folder", "did you mean `kit.yaml`?")
    ]


def test_a_child_outside_the_folder_needs_trust(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "kid.yaml").write_text(
        "chartloop: 1\nmachine: kid\nstates:\n  a: {stop: completed}\n"
    )
    (tmp_path / "in" / "boss.yaml").write_text(
        f"{HEAD}machines: {{kid: ../kid.yaml}}\n{ONE % 'machine: kid'}"
    )
    machine = load(tmp_path / "in" / "boss.yaml")
    assert [f.code for f in machine.findings] == ["CL324"]
    assert "outside its folder" in needs_trust(machine.spec)[0]
    assert needs_trust(load("team").spec) == []

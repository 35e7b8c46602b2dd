"""Verdicts on recorded runs under a changed file: each kind, its reason, its place, its cure."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from chartloop import upgrade
from chartloop.analysis.versions.migration.judge import Upgrade
from chartloop.analysis.versions.migration.renames import block
from chartloop.analysis.versions.migration.verdict import Verdict
from chartloop.api import Machine, Run
from chartloop.core.errors import MachineChangedError, SetupError
from chartloop.core.outcome import Blocked
from chartloop.core.records import Record
from chartloop.run.journal import InboxMessage, MemoryJournal
from chartloop.run.migrate import ORIGIN
from chartloop.run.recorded import RecordedRun, Unread, read_run
from chartloop.run.renaming import Names, as_now
from chartloop.run.sync import by_hand
from chartloop.studies.upgrade import Upgraded
from chartloop.testing.clock import ManualClock
from tests.support import failure, machine

OLD = """\
limits: {tries: 3, budget: 50, patience: 1d}
vars: {n: 0, word: a}
memory: {human: Ann}
rules:
  - {when: run.steps >= limits.budget, stop: steps_limit}
states:
  plan: {do: act, next: more}
  more: {ask: "More?", when: vars.n < 1, then: work, else: person}
  work: {do: act, set: {vars.n: vars.n + 1}, retry: {times: 2, base: 5s}, next: more}
  person: {ask: Well?, on: {yes: late, no: over}, within: limits.patience, expired: over}
  late: {do: act, next: done}
  over: {stop: user_requested, next: bye}
  bye: {end: by_reason}
  done: {stop: completed}
"""


def recorded(
    body: str = OLD, *, until: str = "person", said: Any = None, **options: Any
) -> tuple[Machine, RecordedRun]:
    """A run that has come to a state."""
    made, journal = machine(body, said), MemoryJournal()
    run = made.start("t", clock=ManualClock(), journal=journal, run_id="r", **options)
    while run.state != until or not run.session.head:
        assert run.advance() is not None
    return made, read(journal)


def read(journal: MemoryJournal, run_id: str = "r") -> RecordedRun:
    row = by_hand(journal.row(run_id))
    assert row is not None
    found = by_hand(read_run(journal, row))
    assert isinstance(found, RecordedRun)
    return found


def judged(new: str, **options: Any) -> Verdict:
    now = options.pop("now", None)
    old, run = recorded(**options)
    return Upgrade(old.chart, machine(new).chart).judge(run, now=now)


class Case(NamedTuple):
    """An edit of the old file, and what is said of the run that waits at `person`."""

    id: str
    edit: tuple[str, str]
    kind: str
    says: str
    ahead: tuple[str, ...] = ()


CASES = (
    Case("the-same", ("", ""), "unchanged", "it is the same machine"),
    Case("words", ("Well?", "Now?"), "unchanged", "it differs in words only: 1 difference"),
    Case("written-otherwise", ("1d}", "24h}"), "unchanged", "it is the same machine"),
    Case("behind-it", ("base: 5s", "base: 9s"), "safe", "every record is decided as it was"),
    Case("ahead-of-it", ("yes: late", "yes: done"), "safe", "every record", ("edge `person.on.yes` leads to `done` instead of `late` (m.yaml:12)",)),
    Case("a-limit", ("budget: 50", "budget: 9"), "safe", "every record", ("limit `budget`: `50` → `9`: `steps_limit` stops sooner (m.yaml:3)",)),
    Case("a-way-before-others", ("next: more}\n  more", "next: [{when: vars.n > 5, to: done}, more]}\n  more"), "safe", "every record"),
    Case("a-rule-before-others", ("rules:\n", "rules:\n  - {when: vars.n > 9, stop: custom}\n"), "safe", "every record", ("rule `custom` added: when vars.n > 9: stop custom (m.yaml:7)",)),
    Case("a-limit-that-is-spent", ("budget: 50", "budget: 2"), "unsafe", "record 2 at work: it went to `person` by `work.next.0`, `more.else`; in this file it goes to `bye` by `rules.0`, raising `steps_limit`: `run.steps >= limits.budget` holds (2 against 2) (m.yaml:7:12)"),
    Case("another-guard", ("vars.n < 1", "vars.n < 0"), "unsafe", "record 1 at plan: it went to `work` by `plan.next.0`, `more.then`; in this file it goes to `person` by `plan.next.0`, `more.else`: `otherwise`"),
    Case("another-way", ("plan: {do: act, next: more}", "plan: {do: act, next: person}"), "unsafe", "record 1 at plan: it went to `work` by `plan.next.0`, `more.then`; in this file it goes to `person` by `plan.next.0` (m.yaml:9:25)"),
    Case("another-type", ("word: a}", "word: 3}"), "safe", "every record", ()),
    Case("a-state-that-waits-no-more", ("person: {ask: Well?, on: {yes: late, no: over}, within: limits.patience, expired: over}", "person: {do: act, next: done}"), "unsafe", "record 2 at work: it went to `person` by `work.next.0`, `more.else`, paused; in this file it goes to `person` by `work.next.0`, `more.else`, running"),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_an_edit_of_a_file_whose_run_waits(case: Case) -> None:
    verdict = judged(OLD.replace(*case.edit) if case.edit[0] else OLD)
    assert verdict.kind == case.kind, verdict.text()
    if case.id != "another-guard":
        assert case.says in str(verdict)
    assert tuple(map(str, verdict.ahead)) == case.ahead
    assert verdict.goes_on == (case.kind in ("unchanged", "safe"))


def test_a_guard_that_leads_elsewhere_is_named_with_its_values() -> None:
    verdict = judged(OLD.replace("vars.n < 1", "vars.n < 0"))
    assert verdict.cause is not None
    assert "`vars.n < 0` does not hold (0 against 0)" in verdict.cause.what
    assert (verdict.cause.record, verdict.cause.place.line) == (1, 10)
    assert "fork at record 1" in verdict.cause.cure


# names ----------------------------------------------------------------------------------------


RENAMED = (
    OLD.replace("work", "labour").replace("more", "again").replace("bye", "gone")
    .replace("person", "human").replace('"More?"', '"Again?"')
)  # fmt: skip


def test_the_lines_that_are_missing_are_those_that_the_run_needs() -> None:
    verdict = judged(RENAMED)
    assert verdict.kind == "map"
    assert verdict.renamed == {"more": "again", "work": "labour", "person": "human"}
    assert block(verdict.renamed) == "renamed:\n  more: again\n  work: labour\n  person: human\n"
    told = judged(RENAMED + block(verdict.renamed))
    assert (told.kind, told.renamed, told.ahead) == ("safe", {}, ())


def test_a_state_that_says_nothing_is_known_by_where_it_stands() -> None:
    verdict = ended_at_bye(RENAMED)
    assert (verdict.kind, verdict.ahead) == ("map", ())
    assert verdict.renamed == {"more": "again", "work": "labour", "person": "human", "bye": "gone"}


def ended_at_bye(new: str) -> Verdict:
    made, journal = machine(OLD), MemoryJournal()
    run = made.start("t", clock=ManualClock(), journal=journal, run_id="r")
    at_person(run).send("no")
    assert run.run().reason == "user_requested"
    assert run.state == "bye"
    return Upgrade(made.chart, machine(new).chart).judge(read(journal))


def test_half_a_map_asks_for_the_other_half() -> None:
    verdict = judged(RENAMED + "renamed: {more: again, person: human}\n")
    assert (verdict.kind, verdict.renamed) == ("map", {"work": "labour"})


def test_a_state_that_is_gone_is_said() -> None:
    work = "  work: {do: act, set: {vars.n: vars.n + 1}, retry: {times: 2, base: 5s}, next: more}\n"
    verdict = judged(
        OLD.replace(work, "  other: {do: keep, next: done}\n").replace("then: work", "then: other")
    )
    assert verdict.kind == "unsafe"
    assert "record 1 at plan: state `work` is gone: it went to `work`" in verdict.why


def test_a_record_with_the_names_of_now() -> None:
    """Its states and edges, what raised its signals, and where a child began."""
    _, run = recorded(until="work")
    begun = run.records[0].replace(input=run.records[0].input.replace(data={"start": "work"}))
    names = Names({"work": "labour"}, {"more.then": "more.next.0"})
    assert as_now(begun, *names).input.data == {"start": "labour"}
    now = as_now(run.records[1], *names)
    assert (now.next, now.taken) == ("labour", ("plan.next.0", "more.next.0"))
    assert (names.edge("work.retry"), names.edge("raised.work")) == (
        "labour.retry",
        "raised.labour",
    )
    assert as_now(run.records[1], {}) is run.records[1]


def test_names_of_two_renames_ago() -> None:
    """Runs that were moved before records were written anew hold names of the first file."""
    first, run = recorded()
    second = machine(RENAMED + "renamed: {more: again, work: labour, person: human, bye: gone}\n")
    third = OLD.replace("work", "toil")
    verdict = Upgrade(second.chart, machine(third).chart).judge(run)
    assert (verdict.kind, verdict.renamed) == ("map", {"work": "toil"})
    told = machine(third + "renamed: {work: toil, labour: toil}\n")
    assert Upgrade(second.chart, told.chart).judge(run).kind == "safe"
    assert first.name == second.name


# what the run holds ---------------------------------------------------------------------------


def test_a_value_from_outside_that_fits_no_more() -> None:
    new = OLD.replace("word: a}", "word: 3}")
    verdict = judged(new, vars={"word": "b"})
    assert verdict.kind == "unsafe"
    assert verdict.why == '`vars.word` is int now, and the run holds "b" (m.yaml:4:20)'
    assert judged(new).notes == ('`vars.word` is 3 under this file, and was "a"',)


def test_a_limit_of_the_run_is_no_change_of_the_file() -> None:
    new = OLD.replace("budget: 50", "budget: 9")
    assert judged(new, limits={"budget": 30}).ahead == ()
    gone = OLD.replace(", budget: 50", "").replace("limits.budget", "50")
    notes = judged(gone, limits={"budget": 50}).notes
    assert notes == ("`limits.budget` was given at the start, and this file has none",)


def test_memory_that_is_too_long() -> None:
    verdict = judged(
        OLD.replace("human: Ann", "human: {value: Ann, limit: 2}").replace("Ann,", "An,")
    )
    assert verdict.kind == "safe"
    verdict = judged(
        OLD.replace("human: Ann", "human: {value: An, limit: 2}"), memory={"human": "Annabel"}
    )
    assert "memory block `human` may hold 2 characters now, and the run holds 7" in verdict.why


def test_a_limit_that_is_spent_by_now_stops_it_at_once() -> None:
    new = OLD.replace(
        "rules:\n", "rules:\n  - {when: run.elapsed >= limits.patience, stop: time_limit}\n"
    )
    soon, late = (judged(new, now=ManualClock().now() + hours * 3600) for hours in (1, 30))
    assert (soon.kind, soon.stops) == ("safe", "")
    assert (late.kind, late.stops) == ("safe", "time_limit")
    assert "run.elapsed >= limits.patience" in late.notes[0]
    assert Upgrade(machine(new).chart, machine(new.replace("late: {do: act", "late: {do: keep")).chart
                   ).judge(recorded(new)[1], now=ManualClock().now() + 1e6).stops == ""  # fmt: skip


def test_a_retry_that_the_new_file_does_not_make() -> None:
    said = {"work": [failure()]}
    waits = recorded(said=said, until="work")[0]
    made, journal = machine(OLD, said), MemoryJournal()
    run = made.start("t", clock=ManualClock(), journal=journal, run_id="r")
    for _ in range(3):
        run.advance()
    assert (run.status, run.session.position.blocked_on) == ("paused", "retry")
    new = machine(OLD.replace(" retry: {times: 2, base: 5s},", ""))
    verdict = Upgrade(made.chart, new.chart).judge(read(journal))
    assert "record 2 at work: it went to `work` by `work.retry`" in verdict.why
    assert waits.name == "m"


def test_a_detour_comes_back_under_the_names_of_now() -> None:
    body = OLD.replace("rules:\n", "rules:\n  - {when: vars.n == 1, to: tidy, at: [work]}\n") + (
        "  tidy: {do: act, next: return}\n"
    )
    old, run = recorded(body, until="tidy")
    new = body.replace("tidy", "clean").replace("work", "labour").replace("more", "again")
    new += "renamed: {tidy: clean, work: labour, more: again}\n"
    assert Upgrade(old.chart, machine(new).chart).judge(run).kind == "safe"
    gone = machine(body.replace("  - {when: vars.n == 1, to: tidy, at: [work]}\n", ""))
    assert "by `rules.0`, which is gone" in Upgrade(old.chart, gone.chart).judge(run).why


def test_an_action_that_was_begun_and_has_no_record() -> None:
    made, journal = machine(OLD), MemoryJournal()
    run = made.start("t", clock=ManualClock(), journal=journal, run_id="r")
    run.advance()
    run.advance()
    by_hand(run.session.note("intent", "r/work/1", {"state": "work", "action": "act"}, 1.0))
    run.pause()
    run.session.calls.intents["x"] = {}
    run.advance()  # a pause does not settle it
    new = machine(OLD.replace("base: 5s", "base: 9s"))
    verdict = Upgrade(made.chart, new.chart).judge(read(journal))
    assert verdict.why == "the action of `work` is in doubt: it was started and has no record"


def test_records_that_no_run_has() -> None:
    old, run = recorded()
    bad = run.records[0].replace(input=run.records[0].input.replace(data={"vars": 5}))
    new = machine(OLD.replace("base: 5s", "base: 9s"))
    verdict = Upgrade(old.chart, new.chart).judge(run._replace(records=(bad, *run.records[1:])))
    assert verdict.kind == "unsafe"
    assert verdict.why.startswith("its records cannot be decided: TypeError")


def test_without_the_old_machine_nothing_is_known_of_renames() -> None:
    _, run = recorded()
    assert (
        Upgrade(None, machine(OLD.replace("base: 5s", "base: 9s")).chart).judge(run).kind == "safe"
    )
    assert Upgrade(None, machine(RENAMED).chart).judge(run).kind == "unsafe"


# going on -------------------------------------------------------------------------------------


def opened(body: str, journal: MemoryJournal, **options: Any) -> Run:
    return machine(body).open("r", journal=journal, clock=ManualClock(), **options)


def waiting(body: str = OLD) -> MemoryJournal:
    """A journal with the run `r`, which waits at `person`."""
    journal = MemoryJournal()
    at_person(machine(body).start("t", clock=ManualClock(), journal=journal, run_id="r"))
    return journal


def at_person(run: Run) -> Run:
    """Driven by hand: a simulated clock would let the wait pass."""
    while run.state != "person":
        run.advance()
    return run


def test_the_refusal_carries_the_verdict() -> None:
    with pytest.raises(MachineChangedError, match="safe: every record") as caught:
        opened(OLD.replace("base: 5s", "base: 9s"), waiting())
    assert caught.value.verdict.kind == "safe"
    assert "changed=True" in caught.value.hint
    with pytest.raises(MachineChangedError, match="unsafe: record 2 at work") as caught:
        opened(OLD.replace("budget: 50", "budget: 2"), waiting(), changed=True)
    assert caught.value.verdict.cause.record == 2
    assert "fork(at=2)" in caught.value.hint


def test_the_records_of_the_fork_are_the_new_machines() -> None:
    journal, told = waiting(), RENAMED + "renamed: {more: again, work: labour, person: human}\n"
    run = opened(told, journal)
    assert [(r.state, r.next) for r in run.records][1:] == [("plan", "labour"), ("labour", "human")]
    run.send("yes")
    run.run()
    raw = read(journal, run.id)
    assert [r.next for r in raw.records] == ["plan", "labour", "human", "late", "done"]
    assert raw.records[1].taken == ("plan.next.0", "again.then")
    origin = raw.records[0].input.data[ORIGIN]
    assert (origin["run"], origin["verdict"]) == ("r", "safe")
    bare = machine(RENAMED).open(run.id, journal=journal, changed=True, clock=ManualClock())
    assert bare.replay().same  # and the file needs no `renamed` for it any more


def test_a_way_that_stands_elsewhere_is_the_same_way() -> None:
    new = OLD.replace("next: more}\n  more", "next: [{when: vars.n > 5, to: done}, more]}\n  more")
    journal = waiting()
    run = opened(new, journal, changed=True)
    assert run.records[1].taken == ("plan.next.1", "more.then")
    assert run.replay().same
    run.send("no")
    assert run.run().reason == "user_requested"
    assert run.replay().same


# many runs ------------------------------------------------------------------------------------


def test_many_runs_of_several_machines() -> None:
    journal, old = waiting(), machine(OLD)
    old.start("t", clock=ManualClock(), journal=journal, run_id="s", limits={"budget": 1}).run()
    asked = machine(OLD.replace("vars.n < 1", "vars.n < 2"))
    at_person(asked.start("t", clock=ManualClock(), journal=journal, run_id="x"))
    machine("states: {a: {do: act, next: z}, z: {stop: completed}}\n").start(
        clock=ManualClock(), journal=journal, run_id="other"
    ).run()
    new = machine(RENAMED)
    result = upgrade(new, old, journal)
    assert {v.run_id: v.kind for v in result.verdicts} == {"r": "map", "s": "map"}
    assert {one.run_id for one in result.passed_over} == {"x", "other"}
    assert result.summary == "m: 2 runs, 2 need a state map"
    assert (result.all_go_on, dict(result.missing_renames)["work"]) == (False, "labour")
    own = upgrade(new, None, [journal, Unread("broken", "it has no record yet")])
    assert {v.run_id: v.kind for v in own.verdicts} == {
        "r": "map",
        "s": "map",
        "x": "unsafe",
        "other": "unsafe",
    }
    assert str(own.passed_over[0]).startswith("run `broken` is skipped")
    assert own.by_severity[0].kind == "unsafe"


def test_a_result_shows_itself() -> None:
    old, run = recorded()
    result = upgrade(machine(RENAMED), old, [run, run._replace(row=run.row.replace(run_id="<b>"))])
    text, shown = str(result), result._repr_mimebundle_()["text/html"]  # pyright: ignore[reportPrivateUsage]
    assert text.startswith("m: 2 runs, 2 need a state map")
    assert "needs a state map: r, <b>" in text
    assert "work: labour" in text
    assert "<b>" not in shown
    assert "&lt;b&gt;" in shown
    assert repr(result) == "<Upgraded m: 2 runs, 2 need a state map>"
    assert result.to_dict()["counts"] == {"unchanged": 0, "safe": 0, "map": 2, "unsafe": 0}
    shown = result.verdicts[0]._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
    assert "work: labour" in shown["text/plain"]
    assert result.map_block() == block(result.missing_renames)


def test_two_old_files_that_disagree_are_said() -> None:
    verdicts = (
        Verdict("a", "map", "", renamed={"x": "y"}),
        Verdict("b", "map", "", renamed={"x": "z"}),
    )
    result = Upgraded("m", verdicts)
    assert (dict(result.missing_renames), result.torn) == ({"x": "y"}, ("x",))
    assert "`x` is one state for some runs and another for others" in str(result)


@pytest.mark.extra("pandas", install="pip install pandas")  # noqa: S610 - no Django
def test_a_result_as_pandas() -> None:
    old, run = recorded()
    frame = upgrade(machine(OLD.replace("base: 5s", "base: 9s")), old, run).frame()
    assert list(frame.index) == ["r"]
    assert frame.loc["r", "verdict"] == "safe"


def test_what_holds_no_runs_is_refused() -> None:
    with pytest.raises(SetupError, match="holds no recorded runs"):
        upgrade(machine(OLD), None, 5)  # pyright: ignore[reportArgumentType]


# what the laws of edits found ---------------------------------------------------------------------


WORK = """\
limits: {n: 0}
rules:
  - {when: run.steps >= limits.n, signal: custom}
states:
  go: {do: act, next: go}
  out: {stop: custom}
"""


def after(edit: tuple[str, str]) -> Verdict:
    """What an edit means for a run that has begun, and done nothing."""
    old, run = recorded(WORK, until="go")
    return Upgrade(old.chart, machine(WORK.replace(*edit)).chart).judge(run)


@pytest.mark.parametrize(
    ("edit", "says", "line"),
    [
        (("n: 0", "n: 9"), "it began at `go`, raising `custom`; in this file it begins at `go`: `run.steps >= limits.n` does not hold (0 against 9)", 5),
        (("rules:\n  - {when: run.steps >= limits.n, signal: custom}\n", "rules: []\n"), "it began at `go`, raising `custom`; in this file it begins at `go`: it was raised by `rules.0`, which is gone", 6),
        (("states:", "start: out\nstates:"), "the run was at `go`, and in this file it is at `out`", 6),
    ],
    ids=["a-signal-that-holds-no-more", "a-signal-that-is-gone", "another-start"],
)  # fmt: skip
def test_what_begins_otherwise_has_its_place(edit: tuple[str, str], says: str, line: int) -> None:
    cause = after(edit).cause
    assert cause is not None
    assert says in cause.what
    assert cause.place.line == line


def test_where_failures_go_is_ahead_of_whoever_acts() -> None:
    verdict = after(("states:", "on_error: out\nstates:"))
    assert [str(one) for one in verdict.ahead] == ["edge `on_error` added: to out (m.yaml:6)"]


def test_another_state_for_the_same_reason_leads_stops_elsewhere() -> None:
    """Of two that stop for a reason neither is the one that a rule's stop goes to."""
    verdict = after(("  out:", "  too: {stop: custom}\n  out:"))
    said = "a stop for `custom` leads to `end-completed` instead of `out`"
    assert said in [one.words for one in verdict.ahead], verdict.text()


# children -------------------------------------------------------------------------------------


PARENT = """machines:
  asks: {states: {q: {ask: Really?, on: {yes: z}}, z: {stop: completed}}}
states:
  go: {do: run_machine, with: {machine: asks}, next: done}
  done: {stop: completed}
"""


@pytest.mark.parametrize(
    ("edit", "kind"),
    [
        (("next: done}", "failed: next, next: done}"), "safe"),
        (("yes: z", "yes: z, no: z"), "unsafe"),
        (("asks", "wants"), "unsafe"),
    ],
    ids=["its-parent-changed", "it-changed", "it-is-gone"],
)
def test_a_child_that_waits(edit: tuple[str, str], kind: str) -> None:
    journal, made = MemoryJournal(), machine(PARENT)
    made.start("t", clock=ManualClock(), journal=journal, run_id="r").run()
    verdict = Upgrade(made.chart, machine(PARENT.replace(*edit)).chart).judge(read(journal))
    assert verdict.kind == kind, verdict.text()
    if kind == "safe":
        assert verdict.notes == ()
    else:
        assert "its child `r/go/0` waits at `q`" in verdict.why


FAMILY = """\
machines:
  asks:
    machines: {deep: {states: {d: {ask: Deep?, on: {yes: z}}, z: {stop: completed}}}}
    states: {b: {do: nothing, next: q}, q: {do: run_machine, with: {machine: deep}, next: z}, z: {stop: completed}}
states:
  begin: {do: nothing, next: go}
  go: {do: run_machine, with: {machine: asks}, next: done}
  done: {stop: completed}
"""


@pytest.mark.parametrize("asked", ["the-parent", "the-child"])
def test_a_child_that_waits_comes_along(asked: str) -> None:
    """Under its parent's new name, with all that it has done, and its own child with it."""
    journal = MemoryJournal()
    old = machine(FAMILY)
    old.start("t", clock=ManualClock(), journal=journal, run_id="r").run()
    new = machine(FAMILY.replace("go", "went") + "renamed: {go: went}\n")
    run = new.open("r", journal=journal, clock=ManualClock(ManualClock().now() + 500))
    if asked == "the-parent":
        run.send("yes")
    else:
        answer: dict[str, Any] = {"kind": "answer", "event": "yes", "data": {}, "wait": "0"}
        by_hand(journal.send("r/go/1/q/1", InboxMessage("x", ManualClock().now(), answer)))
    assert run.run().reason == "completed"
    ids = {
        row.run_id.removeprefix(run.id): row.status for row in by_hand(journal.rows(prefix=run.id))
    }
    assert ids == {"": "completed", "/went/1": "completed", "/went/1/q/1": "completed"}
    child = read(journal, f"{run.id}/went/1")
    assert [r.kind for r in child.records] == ["start", "step", "blocked", "resume", "step"]
    assert child.row.parent == run.id
    assert child.records[0].input.at == ManualClock().now()  # it was not begun anew
    assert run.replay().same
    old_child = by_hand(journal.row("r/go/1"))
    assert old_child is not None
    assert (old_child.status, old_child.moved_to) == ("moved", f"{run.id}/went/1")


def test_a_fork_of_earlier_records_has_no_child() -> None:
    journal = MemoryJournal()
    machine(FAMILY).start("t", clock=ManualClock(), journal=journal, run_id="r").run()
    new = machine(FAMILY.replace("go", "went") + "renamed: {go: went}\n")
    run = new.open("r", journal=journal, clock=ManualClock()).fork(at=1)
    assert [row.run_id for row in by_hand(journal.rows(prefix=run.id))] == [run.id]


def test_blocked_is_no_child() -> None:
    made, run = recorded(said={"plan": [Blocked(None, "somebody")]}, until="plan")
    assert (
        Upgrade(made.chart, machine(OLD.replace("base: 5s", "base: 9s")).chart).judge(run).kind
        == "safe"
    )
    assert isinstance(run.records[-1], Record)

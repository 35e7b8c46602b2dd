"""Children that an action has begun, under a changed file: every one is held against it."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop.analysis.versions.migration.judge import Upgrade
from chartloop.analysis.versions.migration.verdict import Verdict
from chartloop.api import Machine
from chartloop.run.journal import MemoryJournal
from chartloop.run.recorded import RecordedRun, read_run
from chartloop.run.sync import by_hand
from chartloop.testing import CrashAt, Crashed, ManualClock
from tests.support import machine

BOTH = """\
tasks: [{id: t, text: Do it., by: {machine: first}}]
machines:
  first: {states: {a: {ask: First?, on: {yes: z}}, z: {stop: completed}}}
  second: {states: {b: {do: nothing, next: c}, c: {ask: Second?, on: {yes: z}}, z: {stop: completed}}}
  third: {states: {b: {do: nothing, next: z}, z: {stop: completed}}}
states:
  begin: {do: nothing, next: go}
  go: {do: run_machines, with: {children: {x: {machine: first}, y: {machine: second}, z: {machine: third}}}, next: done}
  done: {stop: completed}
"""
EACH = BOTH.replace(
    "children: {x: {machine: first}, y: {machine: second}, z: {machine: third}}",
    'machine: second, each: \'["one", "two"]\'',
)
ONE = BOTH.replace(
    "run_machines, with: {children: {x: {machine: first}, y: {machine: second}, z: {machine: third}}}",
    "run_machine, with: {machine: second}",
)
TASK = ONE.replace("do: run_machine, with: {machine: second}", "do: work")


def judged(old: Machine, new: str, journal: MemoryJournal) -> Verdict:
    row = by_hand(journal.row("r"))
    assert row is not None
    run = by_hand(read_run(journal, row))
    assert isinstance(run, RecordedRun)
    return Upgrade(old.chart, machine(new).chart).judge(run)


def begun(body: str) -> tuple[Machine, MemoryJournal]:
    """A run whose children have come as far as they can without anybody."""
    journal, made = MemoryJournal(), machine(body)
    made.start("t", clock=ManualClock(), journal=journal, run_id="r").run()
    return made, journal


class Case(NamedTuple):
    """An edit, and what is said of the run whose children wait."""

    id: str
    old: str
    edit: tuple[str, str]
    says: str
    """Empty: it is safe."""
    line: int = 0


CASES = (
    Case("nothing-of-theirs", BOTH, ("next: done}", "failed: next, next: done}"), ""),
    Case("another-task", ONE, ("{machine: second}", "{machine: second, task: other}"), ""),
    Case("the-first-that-asks", BOTH, ("First?, on: {yes: z", "First?, on: {yes: z, no: z"), "its child `r/go/1/x` waits at `a`, and machine `first` has changed", 5),
    Case("the-second-that-asks", BOTH, ("Second?, on: {yes: z", "Second?, on: {yes: z, no: z"), "its child `r/go/1/y` waits at `c`, and machine `second` has changed", 6),
    Case("one-that-has-ended", BOTH, ("third: {states: {b: {do: nothing, next: z}", "third: {states: {b: {do: act, next: z}"), "its child `r/go/1/z` has ended at `z`, and machine `third` has changed", 7),
    Case("a-child-is-run-no-more", BOTH, ("y: {machine: second}, ", ""), "its child `r/go/1/y` waits at `c`, and `go` does not run it any more", 10),
    Case("a-child-is-another-machine", BOTH, ("y: {machine: second}", "y: {machine: first}"), "its child `r/go/1/y` waits at `c`, and machine `first` has changed", 5),
    Case("the-only-one-is-another-machine", ONE, ("{machine: second}", "{machine: first}"), "its child `r/go/1` waits at `c`, and machine `first` has changed", 5),
    Case("its-action-is-another", ONE, ("do: run_machine, with: {machine: second}", "do: nothing"), "its child `r/go/1` waits at `c`, and `go` does not run it any more", 10),
    Case("of-a-list", EACH, ("Second?, on: {yes: z", "Second?, on: {yes: z, no: z"), "its child `r/go/1/1` waits at `c`, and machine `second` has changed", 6),
    Case("another-list", EACH, ('"one"', '"none"'), "`each` of `go` is another now, and its children were started by the old one", 10),
    Case("of-a-task", TASK, ("First?, on: {yes: z", "First?, on: {yes: z, no: z"), "its child `r/go/1/t` waits at `a`, and machine `first` has changed", 5),
    Case("a-task-as-it-was", TASK, ("Second?, on: {yes: z", "Second?, on: {yes: z, no: z"), ""),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_child_is_held_against_the_new_file(case: Case) -> None:
    old, journal = begun(case.old)
    assert case.edit[0] in case.old
    verdict = judged(old, case.old.replace(*case.edit), journal)
    if not case.says:
        assert (verdict.kind, verdict.notes) == ("safe", ()), verdict.text()
        return
    assert verdict.kind == "unsafe", verdict.text()
    cause = verdict.cause
    assert cause is not None
    assert (cause.what, cause.place.line) == (case.says, case.line)


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize("body", [BOTH, EACH, ONE, TASK], ids=["both", "each", "one", "task"])
def test_a_child_of_which_no_record_tells(body: str) -> None:
    """The process dies between the child's first record and the one in which its parent waits."""
    old, whole = begun(body)
    before = len(by_hand(whole.events("r")))
    new = body.replace("First?, on: {yes: z", "First?, on: {yes: z, no: z").replace(
        "Second?, on: {yes: z", "Second?, on: {yes: z, no: z"
    )
    seen = 0
    for n in range(1, 60):
        journal = MemoryJournal()
        try:
            clock = ManualClock()
            old.start("t", clock=clock, journal=CrashAt(journal, n), run_id="r").run()
            break
        except Crashed:
            pass
        rows = [row for row in by_hand(journal.rows(prefix="r/")) if row.head]
        if not rows or len(by_hand(journal.events("r"))) == before:
            continue
        seen += 1
        verdict = judged(old, new, journal)
        assert verdict.kind == "unsafe", verdict.text()
        assert "its child `r/go/1" in verdict.why
        assert "was started, at `" in verdict.why or "waits at `" in verdict.why
        # of a file that leaves the children alone they come along, and are not begun anew
        same = machine(body.replace("go", "went") + "renamed: {go: went}\n")
        run = same.open("r", journal=journal, clock=ManualClock(ManualClock().now() + 500))
        run.run()
        for row in rows:
            now = by_hand(journal.events(row.run_id.replace("r/go", f"{run.id}/went")))
            then = [e for e in by_hand(journal.events(row.run_id)) if e.type != "moved"]
            assert [e.at for e in now[: len(then)]] == [e.at for e in then]
        assert run.replay().same
    assert seen

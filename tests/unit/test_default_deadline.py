"""The deadline that `python` has where the file gives none: shown, recorded, compared, taken away."""

from __future__ import annotations

import pytest

from chartloop import Machine, load
from chartloop.run.journal import MemoryJournal
from chartloop.run.ports import SandboxResult
from chartloop.studies.upgrade import upgrade
from chartloop.testing import ManualClock

BODY = """chartloop: 1
machine: coder
vars: {code: "while True: pass"}
states:
  run: {do: python, with: {code: vars.code},%s next: wait}
  wait: {ask: Go on?, on: {yes: again}}
  again: {do: python, with: {code: vars.code}, within: 5s, next: done}
  done: {stop: completed}
"""


def coder(within: str = "") -> Machine:
    return load(BODY % (f" within: {within}," if within else ""))


class Box:
    """A sandbox that only says how long code may take."""

    suspends = False

    def __init__(self) -> None:
        self.timeouts: list[float | None] = []

    async def run(
        self, code: str, *, session: bytes | None, timeout: float | None
    ) -> SandboxResult:
        """Take no time."""
        self.timeouts.append(timeout)
        return SandboxResult(True)


@pytest.mark.parametrize(
    ("within", "timeout"), [("", 59.75), ("none", None), ("10s", 9.75)], ids=["usual", "none", "own"]
)  # fmt: skip
def test_code_is_stopped_at_its_deadline(within: str, timeout: float | None) -> None:
    box = Box()
    coder(within).start(sandbox=box, clock=ManualClock()).run()
    assert box.timeouts == [timeout]


def test_check_says_which_deadline_the_file_does_not_give() -> None:
    (note,) = (n for n in coder().check().notes if n.kind == "deadlines")
    assert (note.text, note.names) == (
        "`run`: `python` is stopped after 60 s, unless `within` differs", ("run",),
    )  # fmt: skip
    assert not [n for n in coder("none").check().notes if n.kind == "deadlines"]


@pytest.mark.parametrize("within", ["", "none", "10s"])
def test_what_is_recorded_names_the_deadline(within: str) -> None:
    machine = coder(within)
    again = load(machine.canonical() + "\n")
    assert (again.hash, again.spec.states["run"].within) == (
        machine.hash, machine.spec.states["run"].within,
    )  # fmt: skip
    assert f'"within":"{within or "1m"}"' in machine.canonical()


def test_an_upgrade_lists_a_deadline_that_changes() -> None:
    journal, waits = MemoryJournal(), "states:\n  first: {ask: Begin?, on: {yes: run}}\n"
    old, new = (load(BODY.replace("states:\n", waits) % w) for w in ("", " within: none,"))
    old.start(sandbox=Box(), clock=ManualClock(), journal=journal).run()
    assert "longest time of state `run` removed: `1m`" in str(upgrade(new, old, journal))


def test_only_an_action_with_a_deadline_of_its_own_can_lose_it() -> None:
    with pytest.raises(Exception, match="CL"):
        load(BODY.replace("within: 5s", "within: none").replace("do: python", "do: infer") % "")

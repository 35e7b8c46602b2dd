"""What holds for every exported machine: libraries read the transitions that the live one has.

They are compared as the library lists them, in order, and by driving both with forced guards.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.api import Machine, lifecycle
from chartloop.interchange.scxml import to_scxml
from chartloop.interchange.xstate import to_xstate
from chartloop.language.load import load
from chartloop.machine.build import Chart
from tests.exporting import Happening, Live, Oracle, Statemachine, resting, told
from tests.strategies import machines
from tests.support import actions

REGISTRY = with_own(specs_of(actions({})))
EVENTS = ("check", "advance", "advance", "expired", "yes", "no")


def machine_of(data: dict[str, Any]) -> Machine:
    """The machine of generated data; JSON is YAML."""
    loaded = load(json.dumps(data), "generated.yaml", REGISTRY)
    assert loaded.spec is not None
    return Machine(Chart(loaded.spec, lifecycle()))


happening = st.tuples(st.sampled_from(EVENTS), st.frozensets(st.integers(0, 40)))
drives = st.lists(happening, max_size=12)


def forced(live: Live, drive: Sequence[tuple[str, frozenset[int]]]) -> list[Happening]:
    """A drive with the names of the guards that hold at each event."""
    names = sorted(live.names.values())
    return [
        Happening(event, frozenset(names[n] for n in held if n < len(names)))
        for event, held in [("start", frozenset[int]()), *drive]
    ]


@pytest.mark.slow("asks other libraries")
@pytest.mark.node("xstate")
@given(machines(), drives, st.booleans())
def test_xstate_reads_the_live_machine(xstate: Oracle, data: Any, drive: Any, all: bool) -> None:
    machine = machine_of(data)
    live = Live(machine, all=all)
    happenings = forced(live, drive)
    said = xstate.ask({"config": json.loads(to_xstate(machine, all=all))}, happenings)
    assert resting(told(said), machine.chart) == live.ways()
    path = [[state] for state in live.path(happenings)]
    assert said["path"][: len(path)] == path


@pytest.mark.slow("asks other libraries")
@pytest.mark.node("@scion-scxml/scxml")
@given(machines(), drives, st.booleans())
def test_scion_reads_the_live_machine(scion: Oracle, data: Any, drive: Any, all: bool) -> None:
    machine = machine_of(data)
    live = Live(machine, all=all)
    happenings = forced(live, drive)
    waits = machine.spec.start not in machine.chart.resting
    said = scion.ask({"document": to_scxml(machine, all=all)}, happenings[0 if waits else 1 :])
    assert resting(told(said), machine.chart) == live.ways()
    path = [["before-start"]] * waits + [[state] for state in live.path(happenings)]
    assert said["path"][: len(path)] == path


@pytest.mark.slow("asks other libraries")
@pytest.mark.extra("statemachine", install='pip install -e ".[test-all]"')  # noqa: S610 - no Django
@given(machines(), drives, st.booleans())
def test_python_statemachine_reads_the_live_machine(data: Any, drive: Any, all: bool) -> None:
    machine = machine_of(data)
    live = Live(machine, all=all)
    happenings = forced(live, drive)
    read = Statemachine(to_scxml(machine, all=all))
    assert resting(read.ways(), machine.chart) == live.ways()
    waits = machine.spec.start not in machine.chart.resting
    path = ["before-start"] * waits + live.path(happenings)
    assert read.path(happenings[0 if waits else 1 :])[: len(path)] == path

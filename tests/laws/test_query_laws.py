"""No run does what a query says that none does.

Real runs of generated machines under adversaries, as in `test_bound_laws`, are held against answers
about everything that a query may name: states, events, actions, tools, reasons, edges and rules.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chartloop.analysis.proofs.query import Answer, Questions
from chartloop.analysis.proofs.query.query_text import names_of
from chartloop.api import Machine
from chartloop.run.events import Recorded
from tests.exploring import adversaries, built, playing
from tests.pending import competing_machines
from tests.strategies import costly_machines

slowly = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
FORMS = (
    "reach {a}", "avoid {a}", "never {a} before {b}", "never {a} after {b}", "always {b} after {a}",
)  # fmt: skip


class Moment(NamedTuple):
    """When something happened: not before `first` and not after `last`."""

    first: float
    last: float


Happened = Mapping[str, Sequence[Moment]]
"""By what a query calls it: when it happened in a run, in order."""


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(st.one_of(costly_machines(), competing_machines()), st.integers(0, 10_000), st.data())
def test_no_run_does_what_a_query_says_that_none_does(data: Any, seed: int, pick: Any) -> None:
    machine = built(json.dumps(data))
    own = {name: limit.value for name, limit in machine.spec.limits.items()}
    questions = Questions(machine.chart, pick.draw(st.sampled_from([None, own])))
    names = [f"{sort}:{name}" for sort, all_ in names_of(machine.chart).items() for name in all_]
    some = st.sampled_from(names)
    asked = [
        pick.draw(st.sampled_from(FORMS)).format(a=pick.draw(some), b=pick.draw(some))
        for _ in range(8)
    ] + [f"reach {name}" for name in names]
    rules = [f"edge:{rule.id}" for rule in machine.spec.rules]
    asked += [f"never state:{n} after {rule}" for rule in rules for n in machine.spec.states]
    asyncio.run(_asked(machine, [questions.ask(text) for text in asked], seed))


async def _asked(machine: Machine, answers: list[Answer], seed: int) -> None:
    for choices in adversaries(seed, 4):
        heard: list[Recorded] = []
        run, _ = await playing(machine, choices, heard=heard)
        went = happened(machine, heard)
        for answer in answers:
            assert agrees(answer, went, ended=run.ended), (str(answer), answer.query, went)


def happened(machine: Machine, heard: list[Recorded]) -> Happened:
    """Everything that happened in a run.

    A record tells in which order edges were taken and states entered. A rule raises its signal before
    them; of other signals it tells only that they were raised at some moment.
    """
    out: dict[str, list[Moment]] = {}
    calls: Mapping[str, int] = {}
    rules = {rule.id: rule for rule in machine.spec.rules}
    for number, (record, decision, position) in enumerate(heard):
        begun = float(number)
        spec = machine.spec.states.get(record.state)
        if record.kind == "step" and spec is not None and spec.action is not None:
            out.setdefault(f"action:{spec.action.name}", []).append(Moment(begun, begun))
        if record.kind == "answer":
            out.setdefault(f"event:{record.input.event}", []).append(Moment(begun, begun))
        for tool, count in position.facts.usage.calls.items():
            if count > calls.get(tool, 0):
                out.setdefault(f"tool:{tool}", []).append(Moment(begun, begun))
        calls = position.facts.usage.calls
        for signal in decision.signals:
            rule = rules.get(signal.source)
            when = _some_time(begun) if rule is None or rule.before else _before_edges(begun)
            out.setdefault(f"reason:{signal.reason}", []).append(when)
            if rule is not None:
                out.setdefault(f"edge:{signal.source}", []).append(when)
        path = decision.path
        if record.kind == "start":  # no edge leads to where a run starts
            out[f"state:{path[0]}"] = [Moment(begun + 0.01, begun + 0.01)]
            path = path[1:]
        for name, at in _moves(machine, decision.taken, path):
            when = Moment(begun + at, begun + at) if at else _some_time(begun)
            out.setdefault(name, []).append(when)
    return out


def _some_time(begun: float) -> Moment:
    """Within the record that begins then. Each thing has a moment of its own: see `agrees`."""
    return Moment(begun + 0.01, begun + 0.99)


def _before_edges(begun: float) -> Moment:
    """When rules are evaluated: once a run has its first state, and before any edge is taken."""
    return Moment(begun + 0.011, begun + 0.019)


def _moves(
    machine: Machine, taken: Sequence[str], path: Sequence[str]
) -> Iterator[tuple[str, float]]:
    """Edges and states of a record with their moments; 0 where that is not known."""
    left, at = list(path), 0.02
    for origin in taken:
        at += 0.001
        yield f"edge:{origin}", at
        known = machine.chart.by_origin.get(origin)
        if known is not None and left and left[0] == known.dest:
            at += 0.001
            yield f"state:{left.pop(0)}", at
    for name in left:
        yield f"state:{name}", 0.0


def agrees(answer: Answer, went: Happened, *, ended: bool) -> bool:
    """Whether a run is one of those that the answer speaks of."""
    form, *words = answer.query.split()
    names = [w for w in words if ":" in w]
    if form == "reach":
        return bool(answer) or names[0] not in went
    if not answer:
        return True  # that something can happen is not a promise that it does
    if len(names) == 1:
        return names[0] not in went
    if form == "always":
        names.reverse()
    a, b = (went.get(name, ()) for name in names)
    if "before" in words:
        return all(any(two.first <= one.last for two in b) for one in a)
    if form == "never":
        return not any(two.last < one.first for two in b for one in a)
    follows = all(any(two is not one and two.last > one.first for two in b) for one in a)
    return not ended or follows

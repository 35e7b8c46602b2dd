"""Laws of the what-if: what it is sure of is what a real run does."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chartloop import sweep, whatif
from chartloop.api import Machine, Run
from chartloop.core.outcome import Blocked
from chartloop.run.journal import MemoryJournal
from chartloop.run.renaming import Names, as_now
from chartloop.studies.whatif.verdict import RunVerdict, Verdict
from chartloop.testing.clock import ManualClock
from tests.exploring import Choices, built, playing
from tests.laws.test_run_laws import Made, help_on, machine_of, made
from tests.strategies import costly_machines, machines

HELPED = 60
slowly = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
_RULES = (
    {"when": "run.steps >= limits.most", "stop": "steps_limit"},
    {"when": "run.steps >= limits.most", "signal": "steps_limit"},
    {"when": "errors.total >= limits.few", "stop": "error_threshold"},
    {"when": "run.visits.s0 >= limits.few", "signal": "custom"},
    {"when": "usage.llm_calls >= limits.few", "stop": "custom", "to": "stopped"},
    {"when": "run.elapsed >= limits.time", "stop": "time_limit"},
    {"when": "signals.count >= limits.few", "stop": "no_progress"},
)
limits = st.fixed_dictionaries(
    {},
    optional={
        "tokens": st.integers(0, 200),
        "time": st.sampled_from([0.0, 3.0, 10.0, 25.0, 40.0, 100.0]),
        "cost": st.sampled_from([0.0, 0.2, 0.3, 0.5, 2.0]),
        "most": st.integers(0, 14),
        "few": st.integers(0, 4),
    },
)
"""Limits of a run, or of a question."""


@st.composite
def limited(draw: st.DrawFn) -> Any:
    """A generated machine that reads its limits, whose states may take a share of one."""
    data = draw(machines())
    rules = draw(st.lists(st.sampled_from(_RULES), min_size=1, max_size=3, unique_by=str))
    data["rules"] += rules
    data["limits"] |= {"most": 9, "few": 3}
    for state in data["states"].values():
        if "do" in state and draw(st.integers(0, 3)) == 0:
            state["next"] = [
                {"when": "vars.n >= limits.few", "to": "stopped"},
                *_listed(state["next"]),
            ]
        if draw(st.integers(0, 9)) == 0:
            state["set"] = {"vars.n": "limits.most - run.steps"}
    return data


def _listed(edges: Any) -> list[Any]:
    return [*edges] if isinstance(edges, list) else [edges]


def lived(machine: Machine, given: dict[str, Any], helped: int = HELPED) -> Run:
    """A run to its end, helped on where it waits, in a world that is the same for all.

    `helped`: how often; with less it may be left waiting.
    """
    clock = ManualClock(1000)
    run = machine.start("t", clock=clock, journal=MemoryJournal(), run_id="r", limits=given)
    run.run()
    for _ in range(helped):
        if run.ended:
            break
        help_on(run, clock)
        run.run()
    return run


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(limited(), made, limits)
def test_the_same_limits_change_nothing(data: Any, what: list[Made], given: Any) -> None:
    machine = machine_of(data, what)
    run = lived(machine, given)
    for question in (None, given):
        (judged,) = whatif(machine, run, limits=question).runs
        assert judged.verdict is Verdict.SAME, str(judged)
        assert judged.reason == str(run.result.reason or "")


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(limited(), made, limits, limits)
def test_what_is_sure_is_what_a_real_run_does(
    data: Any, what: list[Made], before: Any, now: Any
) -> None:
    if any(isinstance(one, Blocked) for one in what):  # it waits by the clock of its own run
        what = [one for one in what if not isinstance(one, Blocked)] or [None]
    machine = machine_of(data, what)
    recorded, real = lived(machine, before), lived(machine, {**before, **now})
    (judged,) = whatif(machine, recorded, limits=now).runs
    agrees(judged, recorded, real)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(limited(), made, limits, limits, st.integers(0, 3))
def test_what_is_sure_of_a_run_that_waits_is_where_a_real_run_waits(
    data: Any, what: list[Made], before: Any, now: Any, helped: int
) -> None:
    what = [one for one in what if not isinstance(one, Blocked)] or [None]
    machine = machine_of(data, what)
    recorded, real = lived(machine, before, helped), lived(machine, {**before, **now}, helped)
    (judged,) = whatif(machine, recorded, limits=now).runs
    agrees(judged, recorded, real)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(limited(), made, limits, st.sampled_from(["most", "few", "time", "tokens", "cost"]))
def test_a_sweep_says_what_each_question_says(
    data: Any, what: list[Made], before: Any, limit: str
) -> None:
    machine = machine_of(data, what)
    if limit not in machine.spec.limits:
        return
    run = lived(machine, before)
    values = [0.0, 3.0, 25.0, 40.0] if limit == "time" else [0, 1, 2, 3, 5, 9, 14]
    swept = sweep(machine, run, limit, values).points
    assert [p.runs for p in swept] == [whatif(machine, run, limits={limit: v}).runs for v in values]


class Settled(Choices):
    """Choices of a world in which a guard says the same however often it is asked."""

    def of(self, options: int) -> int:
        return self.otherwise % 2 if options == 2 else super().of(options)


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(
    costly_machines(),
    st.lists(st.integers(0, 8), max_size=30),
    st.integers(0, 8),
    st.fixed_dictionaries(
        {}, optional={"steps": st.integers(0, 7), "few": st.integers(0, 4),
                      "tokens": st.integers(0, 15), "cost": st.sampled_from([0.5, 2.0, 9.0])},
    ),
)  # fmt: skip
def test_children_guards_waits_and_retries_are_as_sure(
    data: Any, choices: list[int], otherwise: int, now: Any
) -> None:
    machine = built(json.dumps(data))
    recorded, _ = asyncio.run(playing(machine, Settled(choices, otherwise), run_id="r"))
    real, _ = asyncio.run(playing(machine, Settled(choices, otherwise), run_id="r", limits=now))
    (same,) = whatif(machine, recorded).runs
    assert same.verdict is Verdict.SAME, str(same)
    (judged,) = whatif(machine, recorded, limits=now).runs
    agrees(judged, recorded, real)


def agrees(judged: RunVerdict, recorded: Run, real: Run, names: Names = Names()) -> None:  # noqa: B008
    """What is said of the recorded run is what the real one did. `names` are those of now."""
    at = judged.record
    same = len(recorded.records) if at is None else at
    ours = [as_now(record, *names) for record in recorded.records[:same]]
    said = [(r.state, r.taken, r.next, r.status) for r in ours]
    done = [(r.state, r.taken, r.next, r.status) for r in real.records[:same]]
    assert said == done, str(judged)
    if judged.verdict is Verdict.SAME:
        both = zip(ours, real.records, strict=False)
        raised = any({*one.signals.reasons} != {*other.signals.reasons} for one, other in both)
        assert raised == ("raises `" in judged.note), str(judged)
    if at is None:
        if recorded.ended:
            assert len(real.records) == same
            assert str(real.result.reason) == str(recorded.result.reason)
        elif len(real.records) == same:
            assert real.facts.signals.reasons == recorded.facts.signals.reasons
        return
    match judged.verdict:
        case Verdict.EARLIER | Verdict.OTHERWISE:
            assert real.records[at].next == judged.state
            if not judged.epilogue:
                assert str(real.result.reason) == judged.reason
                assert len(real.records) == at + 1
        case Verdict.ELSEWHERE | Verdict.LATER:
            assert real.records[at].next == judged.state
            assert judged.because
            taken = real.records[at].taken
            assert judged.edge in taken if judged.edge else not taken  # without one it stays
        case _:
            pass

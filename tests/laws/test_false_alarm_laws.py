"""No false alarm: what the checker says of every run is so in every run.

Machines of any actions in any order are drawn, with limits that may be 0, and checked. Then runs of
the real engine are played by an adversary: models, tools, guards and people do whatever is chosen,
tasks are added while a run waits, and a caller may have given other limits, variables, tasks and
messages. `CLAIMS` says for each code what a run must not do for the finding to be true.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from chartloop.analysis.checker import examine
from chartloop.api import Machine, lifecycle
from chartloop.core.errors import Finding
from chartloop.language.load import load
from chartloop.language.spec import MachineSpec
from chartloop.machine.build import Chart
from chartloop.run.events import Recorded
from tests.exploring import REGISTRY, adversaries, playing
from tests.laws.test_check_laws import never_taken
from tests.strategies import mistaken_machines


class Played(NamedTuple):
    """One run, and what its caller gave it."""

    heard: list[Recorded]
    given: dict[str, Any]

    @property
    def is_usual(self) -> bool:
        """Whether the run has the limits, variables and tasks of the file."""
        return self.given.keys() <= {"messages"}

    def steps(self, state: str) -> Iterator[Recorded]:
        """The records of actions of a state before a stop."""
        for before, one in zip(self.heard, self.heard[1:], strict=False):
            if one.record.input.kind == "step" and one.decision.state == state:
                if not before.position.stopping:
                    yield one

    def values(self, fact: str) -> list[Any]:
        """The values of a fact, one after the other."""
        root, _, name = fact.partition(".")
        name, _, key = name.partition(".")
        found = [getattr(getattr(one.position.facts, root), name) for one in self.heard]
        return [value.get(key, 0) for value in found] if key else found


def succeeds(found: Finding, spec: MachineSpec, run: Played) -> bool:
    """An action succeeds that is said to fail."""
    outcomes = (one.record.input.outcome for one in run.steps(found.at.split(".")[1]))
    return any(outcome is not None and outcome.ok for outcome in outcomes)


def succeeds_as_the_file_is(found: Finding, spec: MachineSpec, run: Played) -> bool:
    """An action succeeds that lacks what only a caller could have given."""
    return run.is_usual and succeeds(found, spec, run)


def reaches_an_end(found: Finding, spec: MachineSpec, run: Played) -> bool:
    """A run ends by the file itself, not by a rule, a failure or somebody outside."""
    if not run.is_usual:
        return False
    if "no run does anything" in found.message:
        return any(one.record.input.kind == "step" for one in run.heard)
    for one in run.heard:
        by_rule = any(id.startswith("rules.") for id in one.decision.taken)
        raised = any(s.source.startswith(("rules.", "caller")) for s in one.decision.signals)
        ends = any(spec.states[n].stop for n in one.decision.path if n in spec.states)
        if ends and not by_rule and not raised and one.decision.winner:
            return True
    return False


def changes(found: Finding, spec: MachineSpec, run: Played) -> bool:
    """A fact moves that is said never to."""
    if "never changes" not in found.message:
        return False  # a model may make up a tool
    named = re.match(r"`([\w.]+)`", found.message)
    assert named is not None, found.message
    first, *rest = run.values(named[1])
    return any(value != first for value in rest)


def leaves(found: Finding, spec: MachineSpec, run: Played) -> bool:
    """A run leaves the loop that is said to go on for ever, after a round of it."""
    loop = found.message.partition("the loop ")[2].partition(" once")[0].split(" → ")
    rounds = 0
    for name in (name for one in run.heard for name in one.decision.path):
        if rounds > 1 and name not in loop:
            return True
        rounds = 0 if name not in loop else rounds + (name == found.at.split(".")[1])
    return False


def expires(found: Finding, spec: MachineSpec, run: Played) -> bool:
    """A deadline takes effect that is said not to."""
    edges = {e.id for e in spec.states[found.at.split(".")[1]].edges_of("expired")}
    return run.is_usual and any(edges & {*one.decision.taken} for one in run.heard)


def is_entered(found: Finding, spec: MachineSpec, run: Played) -> bool:
    """A run comes to a state that is said to be out of reach."""
    return any(found.at.split(".")[1] in one.decision.path for one in run.heard)


def is_retried(found: Finding, spec: MachineSpec, run: Played) -> bool:
    """A retry is made more often than it is said to be."""
    said = re.search(r"is retried (\d+) time", found.message)
    row, most = 0, 0
    for one in run.heard:
        row = row + 1 if f"{found.at.split('.')[1]}.retry" in one.decision.taken else 0
        most = max(most, row)
    return run.is_usual and most > (int(said[1]) if said is not None else 0)


def is_taken(found: Finding, spec: MachineSpec, run: Played) -> bool:
    """An edge or rule is taken that is said not to be."""
    if found.code == "CL330" and not run.is_usual:
        return False
    lost = never_taken(spec, [found])
    return any(lost & {*one.decision.taken} for one in run.heard)


def holds_elsewhere(found: Finding, spec: MachineSpec, run: Played) -> bool:
    """What no single run shows; other tests hold it."""
    return False


Claim = Callable[[Finding, MachineSpec, Played], bool]
CLAIMS: dict[str, Claim] = {
    "CL304": is_entered, "CL307": is_taken, "CL326": is_taken, "CL327": is_taken,
    "CL328": is_taken, "CL330": is_taken, "CL338": succeeds, "CL341": succeeds,
    "CL343": holds_elsewhere, "CL344": succeeds_as_the_file_is, "CL345": succeeds, "CL347": reaches_an_end,
    "CL348": holds_elsewhere, "CL349": is_retried, "CL350": leaves, "CL352": changes, "CL354": expires,
}  # fmt: skip
"""For each code: whether a run contradicts its finding."""
OF_THE_LANGUAGE = frozenset(
    "CL301 CL305 CL308 CL309 CL312 CL313 CL314 CL315 CL319 CL321 CL346".split()
)
"""Errors that say how a file is written, not what its runs do."""
SURE = re.compile(r"\b(never|always|certain(ly)?|every run|no run|cannot)\b")


def checked(data: dict[str, Any]) -> tuple[Chart, tuple[Finding, ...]]:
    """A machine and the findings about itself, without those of its child."""
    loaded = load(json.dumps(data), "mistaken.yaml", REGISTRY)
    assert loaded.ok, "\n\n".join(f.render() for f in loaded.findings)
    assert loaded.spec is not None
    chart = Chart(loaded.spec, lifecycle())
    found = examine(chart, loaded.tainted).findings
    return chart, tuple(f for f in found if not f.at.startswith("machines."))


CALLERS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "limits": st.fixed_dictionaries({}, optional={
            "few": st.sampled_from([0, 1, 9]), "most": st.sampled_from([0, 99]),
            "time": st.sampled_from([0, 99]),
        }),
        "vars": st.fixed_dictionaries({"n": st.integers(0, 3)}),
        "tasks": st.sampled_from([[], ["t"], ["t", "u"]]),
        "messages": st.just([{"role": "user", "content": "before"}]),
    },
)  # fmt: skip
"""What a caller may give besides the task."""


ACCUSED: tuple[dict[str, Any], ...] = (
    {
        "chartloop": 1, "machine": "m", "limits": {"t": 3},
        "rules": [{"when": "usage.tool_calls >= limits.t", "stop": "no_progress"}],
        "states": {"w": {"do": "tool", "with": {"name": "poke"}, "failed": "next", "next": "w"}},
    },
    {
        "chartloop": 1, "machine": "m", "model": {"name": "scripted", "context_window": 5},
        "states": {"a": {"ask": "Task?", "on": {"go": "q"}},
                   "q": {"ask": "Any?", "when": "queue.size > 0", "then": "w", "else": "a"},
                   "w": {"do": "work", "next": "done"}, "done": {"stop": "completed"}},
    },
)  # fmt: skip
"""Machines that were accused of what they do not do."""


@pytest.mark.slow("tries hundreds of examples for seconds")
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@example(ACCUSED[0], 0, {})
@example(ACCUSED[1], 0, {})
@given(mistaken_machines(), st.integers(0, 10_000), CALLERS)
def test_what_is_said_of_every_run_is_so(data: Any, seed: int, caller: Any) -> None:
    chart, findings = checked(data)
    said = [f for f in findings if f.is_error or SURE.search(f.message)]
    unjudged = {f.code for f in said} - CLAIMS.keys() - OF_THE_LANGUAGE
    assert not unjudged, [f for f in said if f.code in unjudged]
    judged = [f for f in findings if f.code in CLAIMS]
    if judged:
        asyncio.run(_contradict(Machine(chart), judged, seed, caller))


async def _contradict(machine: Machine, found: list[Finding], seed: int, caller: Any) -> None:
    some = list(adversaries(seed, 8))[seed % 3 :: 3]
    for number, choices in enumerate(some):
        heard: list[Recorded] = []
        given_: dict[str, Any] = caller if number % 2 else {}
        await playing(machine, choices, 25, heard=heard, enqueues=True, **given_)
        run = Played(heard, given_)
        wrong = [f for f in found if CLAIMS[f.code](f, machine.spec, run)]
        path = [name for one in heard for name in one.decision.path]
        assert not wrong, (wrong[0].render(), path, given_)

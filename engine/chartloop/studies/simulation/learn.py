"""A world learnt from recorded runs: their shares, counts and durations.

Each state is counted by itself; dependencies (long replies after failures, say) are not learnt.
`smooth` adds this many samples of the default assumptions, so that with few samples a failure that
never came is still possible.

Belongs here: counting. Never: reading journals (`run.recorded`), or deciding anything again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from chartloop.core.errors import EMPTY_KINDS
from chartloop.core.facts import FleetFacts, ToolCall
from chartloop.core.outcome import Outcome
from chartloop.core.records import Record
from chartloop.core.transcript import estimate_messages
from chartloop.core.units import say_count
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.machine.build import Chart
from chartloop.run.recorded import RecordedRun
from chartloop.studies.simulation.assumptions import Family, default_behaviour, family_of
from chartloop.studies.simulation.dependencies import reads_texts
from chartloop.studies.simulation.distributions import Amount, empirical
from chartloop.studies.simulation.outcomes import prices_of
from chartloop.studies.simulation.play import opaque_guards
from chartloop.studies.simulation.world import NOBODY, Behaviour, Choice, World, choice

MOST_WORDS = 50
"""Maximum number of distinct texts or values of a field; the most frequent are kept."""


@dataclass
class _StateSamples:
    """The counters and samples of one state."""

    count: int = 0
    fails: Counter[str] = field(default_factory=Counter[str])
    seconds: list[float] = field(default_factory=list[float])
    sent: list[float] = field(default_factory=list[float])
    written: list[float] = field(default_factory=list[float])
    usd: list[float] = field(default_factory=list[float])
    asked: list[float] = field(default_factory=list[float])
    tools: Counter[str] = field(default_factory=Counter[str])
    replies_with_calls: int = 0
    repeated: int = 0
    texts: Counter[str] = field(default_factory=Counter[str])
    calls: int = 0
    failed_calls: int = 0
    adds: list[float] = field(default_factory=list[float])
    fields: defaultdict[str, Counter[Hashable]] = field(
        default_factory=lambda: defaultdict[str, Counter[Hashable]](Counter)
    )
    made: list[float] = field(default_factory=list[float])
    reasons: Counter[str] = field(default_factory=Counter[str])
    answers: Counter[str] = field(default_factory=Counter[str])
    delays: list[float] = field(default_factory=list[float])


def learn(chart: Chart, runs: Iterable[RecordedRun], *, smooth: float = 0.0) -> World:
    """Learn the world of a machine from its runs. Runs of other machines are left out."""
    spec = chart.spec
    learning = _Learning(chart)
    for run in runs:
        if run.row.machine == spec.name:
            learning.add(run.records)
    states: dict[str, Behaviour] = {}
    for name, seen in learning.seen.items():
        states[name] = _behaviour(spec, spec.states[name], seen, smooth)
    samples = {name: seen.count for name, seen in learning.seen.items()}
    about = f"Learnt from {say_count(learning.runs, 'recorded run')} of {spec.name}."
    if smooth:
        about += f" Smoothed with {smooth:g} samples of what is assumed without them."
    return World(
        states, guards=learning.guards(), fleet=learning.fleet(), task=learning.task or "a task",
        about=about, samples=samples, runs=learning.runs,
    )  # fmt: skip


class _Learning:
    """The counters of all states so far."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.runs = 0
        self.task = ""
        self.seen: dict[str, _StateSamples] = {}
        self._guard_results: Counter[bool] = Counter()
        self._fleet: list[FleetFacts] = []
        self._texts = reads_texts(chart.spec)
        self._opaque = opaque_guards(chart)

    def add(self, records: Iterable[Record]) -> None:
        """Count a run."""
        self.runs += 1
        asked: tuple[ToolCall, ...] = ()
        before = 0.0
        first = True
        for record in records:
            input, outcome = record.input, record.input.outcome
            self._guard_results.update(input.opaque)
            state = self.chart.spec.states.get(record.state)
            if input.kind == "start":
                self.task = self.task or str(input.data.get("task", ""))
                self._fleet.append(input.fleet or FleetFacts())
            elif state is not None and input.kind in ("answer", "expired"):
                seen = self._of(state)
                seen.answers[input.event or NOBODY] += 1
                if input.kind == "answer":
                    seen.delays.append(max(0.0, input.at - before))
            elif state is not None and outcome is not None and state.action is not None:
                seen = self._of(state)
                seen.seconds.append(max(0.0, input.at - input.started))
                self._outcome(seen, state, outcome, asked, first)
                if outcome.reply is not None:
                    asked, first = outcome.reply.tool_calls, False
            before = input.at

    def _of(self, state: StateSpec) -> _StateSamples:
        seen = self.seen.setdefault(state.name, _StateSamples())
        seen.count += 1
        return seen

    def _outcome(
        self, seen: _StateSamples, state: StateSpec, outcome: Outcome, asked: tuple[ToolCall, ...],
        first: bool,
    ) -> None:  # fmt: skip
        if outcome.error is not None:
            empty = outcome.error.kind in EMPTY_KINDS
            seen.fails["EMPTY" if empty else outcome.error.category] += 1
        family, spent, reply = family_of(state), outcome.spent, outcome.reply
        if spent.llm_calls:
            if first or family != "model":  # later calls send the conversation
                seen.sent.append(spent.prompt_tokens / spent.llm_calls)
            seen.written.append(spent.completion_tokens / spent.llm_calls)
            if spent.cost is not None:
                seen.usd.append(spent.cost / spent.llm_calls)
        if reply is not None:
            seen.asked.append(len(reply.tool_calls))
            seen.tools.update(call.name for call in reply.tool_calls)
            seen.replies_with_calls += bool(reply.tool_calls)
            seen.repeated += bool(reply.tool_calls) and _same(reply.tool_calls, asked)
            if self._texts:
                seen.texts[reply.text] += 1
        if family == "tools" and outcome.ok:
            count = sum(spent.tools.values())
            seen.calls += count
            excess = 0 if state.calls == "first" else len(outcome.dropped)
            refused = len(outcome.messages) - excess - count  # denied, or not offered here
            seen.failed_calls += max(len(outcome.tool_errors) - refused, 0)
            if count:
                seen.adds.append(estimate_messages(outcome.messages) / count)
        if outcome.ok:
            _count_result(seen, family, outcome)

    def fleet(self) -> dict[str, Amount]:
        """What limits across runs left when the runs started; without facts that some lacked."""
        left = {n: [getattr(one, n) for one in self._fleet] for n in FleetFacts.defaults()}
        return {n: empirical(values) for n, values in left.items() if values and None not in values}

    def guards(self) -> dict[str, float]:
        """How often the only Python guard held; with several, records do not tell them apart."""
        count = sum(self._guard_results.values())
        if len(self._opaque) != 1 or not count:
            return {}
        return {self._opaque[0]: self._guard_results[True] / count}


def _same(calls: tuple[ToolCall, ...], others: tuple[ToolCall, ...]) -> bool:
    return [(c.name, c.arguments) for c in calls] == [(c.name, c.arguments) for c in others]


def _count_result(seen: _StateSamples, family: Family, outcome: Outcome) -> None:
    result: Any = outcome.result
    if family == "child":
        seen.made.append(outcome.spent.llm_calls)
        data = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
        if reason := data.get("reason"):
            seen.reasons[str(reason)] += 1
        result = data.get("output")
    elif family == "model":
        data = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
        result = data.get("data")
    elif family != "own":
        return
    if isinstance(result, dict):
        for name, value in cast("dict[str, Any]", result).items():
            if isinstance(value, str | int | float | bool | None):
                seen.fields[str(name)][value] += 1


# figures ------------------------------------------------------------------------------------


def _behaviour(
    spec: MachineSpec, state: StateSpec, seen: _StateSamples, smooth: float
) -> Behaviour:
    family, prior = family_of(state), default_behaviour(spec, state)
    if family == "wait":
        return Behaviour(
            answers=_smooth_choice(seen.answers, prior.answers, smooth),
            delay=empirical(seen.delays) if seen.delays else None,
        )  # fmt: skip
    values: dict[str, Any] = {}
    if seen.seconds and family != "pure":
        values["duration"] = empirical(round(s, 3) for s in seen.seconds)
    if family != "pure":
        values["fails"] = _fails(seen, prior, smooth)
    amounts = {"prompt_tokens": seen.sent, "completion_tokens": seen.written}
    values |= {name: empirical(map(round, some)) for name, some in amounts.items() if some}
    # with prices in the file, cost follows from tokens: an average would not fit the bound
    if seen.usd and not (family == "model" and prices_of(spec)):
        values["usd"] = sum(seen.usd) / len(seen.usd)
    if family == "model":
        values |= _replies(seen)
    elif family == "tools" and seen.calls:
        share = prior.call_fails or 0.0
        values["call_fails"] = (seen.failed_calls + smooth * share) / (seen.calls + smooth)
        values["adds"] = empirical(map(round, seen.adds))
    elif family == "child" and seen.made:
        values["calls"] = empirical(seen.made)
        values["reasons"] = _words(seen.reasons) or None
    if seen.fields and family in ("model", "child", "own"):
        values["results"] = {name: _words(counts) for name, counts in seen.fields.items()}
    return Behaviour(**values)


def _fails(seen: _StateSamples, prior: Behaviour, smooth: float) -> dict[str, float]:
    expected: Mapping[str, float] = prior.fails or {}
    names = sorted({*seen.fails, *(expected if smooth else ())})
    total = seen.count + smooth
    return {n: (seen.fails[n] + smooth * expected.get(n, 0.0)) / total for n in names}


def _replies(seen: _StateSamples) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if seen.asked:
        values["tool_calls"] = empirical(seen.asked)
    if seen.tools:
        values["tools"] = _words(seen.tools)
    if seen.replies_with_calls:
        values["repeats"] = seen.repeated / seen.replies_with_calls
    if seen.texts:
        values["texts"] = _words(seen.texts)
    return values


def _smooth_choice(counts: Counter[str], prior: Choice | None, smooth: float) -> Choice:
    weights: dict[str, float] = dict(counts)
    for word, share in prior or () if smooth else ():
        weights[str(word)] = weights.get(str(word), 0.0) + smooth * share
    return choice(weights)


def _words(counts: Mapping[Any, int]) -> Choice:
    most = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))[:MOST_WORDS]
    return choice(dict(most))

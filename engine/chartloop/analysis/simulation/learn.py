"""A world from recorded runs: how often, how many, how long, as it was in them.

Each state's outcomes are counted by themselves; what depends on what (long replies after failures,
say) is not learnt. `smooth` mixes in what would be assumed, as so many samples more: with few
samples a failure that was not seen is not impossible.

Belongs here: counting. Never: reading journals (`run.recorded`), or deciding anything again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from chartloop.analysis.simulation.assumptions import default_behaviour, family_of
from chartloop.analysis.simulation.dependencies import reads_texts
from chartloop.analysis.simulation.distributions import empirical
from chartloop.analysis.simulation.outcomes import prices_of
from chartloop.analysis.simulation.play import opaque_guards
from chartloop.analysis.simulation.world import NOBODY, Choice, Happens, World, choice
from chartloop.core.facts import ToolCall
from chartloop.core.outcome import Outcome
from chartloop.core.records import Record
from chartloop.core.traits import Family
from chartloop.core.transcript import estimate_messages
from chartloop.core.units import say_count
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.machine.build import Chart
from chartloop.run.recorded import RecordedRun

MOST_WORDS = 50
"""Different texts or values of a field; of more, the most frequent are kept."""


@dataclass
class _Seen:
    """What was seen of one state."""

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
    """The world in which these runs of a machine happened. Runs of other machines are left out."""
    spec = chart.spec
    learning = _Learning(chart)
    for run in runs:
        if run.row.machine == spec.name:
            learning.add(run.records)
    states: dict[str, Happens] = {}
    for name, found in learning.seen.items():
        states[name] = _happens(spec, spec.states[name], found, smooth)
    samples = {name: found.count for name, found in learning.seen.items()}
    message = f"Learnt from {say_count(learning.runs, 'recorded run')} of {spec.name}."
    if smooth:
        message += f" Smoothed with {smooth:g} samples of what is assumed without them."
    return World(
        states, guards=learning.guards(), task=learning.task or "a task", about=message,
        samples=samples, runs=learning.runs,
    )  # fmt: skip


class _Learning:
    """What was seen so far."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.runs = 0
        self.task = ""
        self.seen: dict[str, _Seen] = {}
        self._said: Counter[bool] = Counter()
        self._texts = reads_texts(chart.spec)
        self._opaque = opaque_guards(chart)

    def add(self, records: Iterable[Record]) -> None:
        """One run."""
        self.runs += 1
        asked: tuple[ToolCall, ...] = ()
        before = 0.0
        first = True
        for record in records:
            given, outcome = record.input, record.input.outcome
            self._said.update(given.opaque)
            state = self.chart.spec.states.get(record.state)
            if given.kind == "start":
                self.task = self.task or str(given.data.get("task", ""))
            elif state is not None and given.kind in ("answer", "expired"):
                found = self._of(state)
                found.answers[given.event or NOBODY] += 1
                if given.kind == "answer":
                    found.delays.append(max(0.0, given.at - before))
            elif state is not None and outcome is not None and state.action is not None:
                found = self._of(state)
                found.seconds.append(max(0.0, given.at - given.started))
                self._outcome(found, state, outcome, asked, first)
                if outcome.reply is not None:
                    asked, first = outcome.reply.tool_calls, False
            before = given.at

    def _of(self, state: StateSpec) -> _Seen:
        found = self.seen.setdefault(state.name, _Seen())
        found.count += 1
        return found

    def _outcome(
        self, found: _Seen, state: StateSpec, outcome: Outcome, asked: tuple[ToolCall, ...],
        first: bool,
    ) -> None:  # fmt: skip
        if outcome.error is not None:
            found.fails[outcome.error.category] += 1
        family, spent, reply = family_of(state), outcome.spent, outcome.reply
        if spent.llm_calls:
            if first or family != "model":  # later calls send the conversation
                found.sent.append(spent.prompt_tokens / spent.llm_calls)
            found.written.append(spent.completion_tokens / spent.llm_calls)
            if spent.cost is not None:
                found.usd.append(spent.cost / spent.llm_calls)
        if reply is not None:
            found.asked.append(len(reply.tool_calls))
            found.tools.update(call.name for call in reply.tool_calls)
            found.replies_with_calls += bool(reply.tool_calls)
            found.repeated += bool(reply.tool_calls) and _same(reply.tool_calls, asked)
            if self._texts:
                found.texts[reply.text] += 1
        if family == "tools" and outcome.ok:
            count = sum(spent.tools.values())
            found.calls += count
            found.failed_calls += len(outcome.tool_errors)
            if count:
                found.adds.append(estimate_messages(outcome.messages) / count)
        if outcome.ok:
            _count_result(found, family, outcome)

    def guards(self) -> dict[str, float]:
        """How often the Python guard said yes: of several no one knows whose answers they were."""
        count = sum(self._said.values())
        if len(self._opaque) != 1 or not count:
            return {}
        return {self._opaque[0]: self._said[True] / count}


def _same(calls: tuple[ToolCall, ...], others: tuple[ToolCall, ...]) -> bool:
    return [(c.name, c.arguments) for c in calls] == [(c.name, c.arguments) for c in others]


def _count_result(found: _Seen, family: Family, outcome: Outcome) -> None:
    result: Any = outcome.result
    if family == "child":
        found.made.append(outcome.spent.llm_calls)
        data = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
        if reason := data.get("reason"):
            found.reasons[str(reason)] += 1
        result = data.get("output")
    elif family == "model":
        data = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
        result = data.get("data")
    elif family != "own":
        return
    if isinstance(result, dict):
        for name, value in cast("dict[str, Any]", result).items():
            if isinstance(value, str | int | float | bool | None):
                found.fields[str(name)][value] += 1


# figures ------------------------------------------------------------------------------------


def _happens(spec: MachineSpec, state: StateSpec, found: _Seen, smooth: float) -> Happens:
    family, prior = family_of(state), default_behaviour(spec, state)
    if family == "wait":
        return Happens(
            answers=_smooth_choice(found.answers, prior.answers, smooth),
            delay=empirical(found.delays) if found.delays else None,
        )  # fmt: skip
    values: dict[str, Any] = {}
    if found.seconds and family != "pure":
        values["duration"] = empirical(round(s, 3) for s in found.seconds)
    if family != "pure":
        values["fails"] = _fails(found, prior, smooth)
    amounts = {"prompt_tokens": found.sent, "completion_tokens": found.written}
    values |= {name: empirical(map(round, some)) for name, some in amounts.items() if some}
    # where the file has a price, a call costs by its tokens: an average would not fit the bound
    if found.usd and not (family == "model" and prices_of(spec)):
        values["usd"] = sum(found.usd) / len(found.usd)
    if family == "model":
        values |= _replies(found)
    elif family == "tools" and found.calls:
        share = prior.call_fails or 0.0
        values["call_fails"] = (found.failed_calls + smooth * share) / (found.calls + smooth)
        values["adds"] = empirical(map(round, found.adds))
    elif family == "child" and found.made:
        values["calls"] = empirical(found.made)
        values["reasons"] = _words(found.reasons) or None
    if found.fields and family in ("model", "child", "own"):
        values["results"] = {name: _words(counts) for name, counts in found.fields.items()}
    return Happens(**values)


def _fails(found: _Seen, prior: Happens, smooth: float) -> dict[str, float]:
    expected: Mapping[str, float] = prior.fails or {}
    names = sorted({*found.fails, *(expected if smooth else ())})
    total = found.count + smooth
    return {n: (found.fails[n] + smooth * expected.get(n, 0.0)) / total for n in names}


def _replies(found: _Seen) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if found.asked:
        values["tool_calls"] = empirical(found.asked)
    if found.tools:
        values["tools"] = _words(found.tools)
    if found.replies_with_calls:
        values["repeats"] = found.repeated / found.replies_with_calls
    if found.texts:
        values["texts"] = _words(found.texts)
    return values


def _smooth_choice(counts: Counter[str], prior: Choice | None, smooth: float) -> Choice:
    weights: dict[str, float] = dict(counts)
    for word, share in prior or () if smooth else ():
        weights[str(word)] = weights.get(str(word), 0.0) + smooth * share
    return choice(weights)


def _words(counts: Mapping[Any, int]) -> Choice:
    most = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))[:MOST_WORDS]
    return choice(dict(most))

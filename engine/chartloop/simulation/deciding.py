"""Which facts decide: what tells two positions apart, as far as their future goes.

A position holds everything that happened. Its future depends on little of it: on the state, and on
the facts that guards, `set` and actions read, with what those are computed from. Two positions
that agree in that have the same future, and are one state of the exact chain.

What is left out here is a claim about `evolve` and the simulated outcomes: the laws compare the
chain with simulated runs.

Imported by: simulation.chain
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, cast

from chartloop.core.position import Position
from chartloop.core.reasons import StopSignals
from chartloop.language.expression import Expression
from chartloop.language.spec import Assign, Given, MachineSpec
from chartloop.language.template.template import Template
from chartloop.machine.build import Chart
from chartloop.simulation.assumed import family_of

Part = Callable[[Position], Hashable]
TIMES = ("run.elapsed", "run.working", "run.idle", "progress.stalled_for")
_DIGITS = 6
"""Of seconds and USD: sums in another order differ behind that."""
_COUNTED = "len(last.tool_calls)"
"""Whoever only counts the calls does not look at them."""
_UNTOLD = frozenset({"ask_user", "prompt", "ask_approval"})
"""What is kept between actions and decides nothing."""


def facts_read(spec: MachineSpec) -> frozenset[str]:
    """The facts that decide where a run goes: read by a guard, a `set`, a field of an action."""
    return frozenset(name for part in expressions(spec) for name in part.reads)


def expressions(spec: MachineSpec) -> Iterator[Expression | Template]:
    """What decides where a run goes: guards, assignments, fields of actions that are done."""
    yield from (rule.when for rule in spec.rules)
    for edge in (*spec.edges(), *([spec.on_error] if spec.on_error is not None else ())):
        yield from _in((edge.when, edge.set))
    for state in spec.states.values():
        yield from _in((state.of, state.within, state.set))
        if state.action is not None and family_of(state) in ("pure", "work"):
            yield from _in(state.args)


def _in(value: Any) -> Iterator[Expression | Template]:
    if isinstance(value, Expression | Template):
        yield value
    elif isinstance(value, Assign | Given):
        yield from _in(value.value)
    elif isinstance(value, Mapping):
        for inner in cast("Mapping[str, Any]", value).values():
            yield from _in(inner)
    elif isinstance(value, list | tuple):
        for inner in cast("list[Any]", value):
            yield from _in(inner)


def reads_time(spec: MachineSpec) -> bool:
    """Whether how long things take decides where a run goes."""
    reads = facts_read(spec)
    timed = any(s.within is not None and s.action is not None for s in spec.states.values())
    return timed or any(name in reads or name.partition(".")[0] in reads for name in TIMES)


def reads_texts(spec: MachineSpec) -> bool:
    """Whether what a reply says decides where a run goes."""
    actions = {s.action.name for s in spec.states.values() if s.action is not None}
    return "parse" in actions or "last.text" in facts_read(spec)


def deciding(chart: Chart, *, grows: bool) -> Part:
    """What tells positions of a machine apart. `grows`: model calls send the conversation."""
    parts = [_where, *_of_facts(chart, facts_read(chart.spec), grows)]
    return lambda position: tuple([part(position) for part in parts])


def _where(p: Position) -> Hashable:
    now = p.facts.marks.now
    due = None if p.wake_at is None else round(p.wake_at - now, _DIGITS)
    return (
        p.state, p.status, p.paused_from, _reasons(p.signals), p.soft, _reasons(p.suppressed),
        p.stopping, p.returns, p.skip, p.attempt, due, p.blocked_on, p.waited is not None,
        p.pause_asked, p.prompt is not None, p.facts.run.continuations,
        p.facts.signals.continued,
    )  # fmt: skip


def _reasons(signals: StopSignals) -> tuple[str, ...]:
    return tuple(str(signal.reason) for signal in signals)


_PARTS: tuple[tuple[tuple[str, ...], Part], ...] = (
    (("run.steps",), lambda p: p.facts.run.steps),
    (("run.visits",), lambda p: tuple(p.facts.run.visits.values())),
    (
        ("run.elapsed", "run.working", "run.idle"),
        lambda p: (round(p.facts.run.elapsed, _DIGITS), round(p.facts.run.idle, _DIGITS)),
    ),
    (
        ("progress.stalled_for",),
        lambda p: round(p.facts.marks.now - p.facts.marks.progress_at, _DIGITS),
    ),
    (("usage.llm_calls",), lambda p: p.facts.usage.llm_calls),
    (("usage.tool_calls",), lambda p: p.facts.usage.tool_calls),
    (("usage.calls",), lambda p: tuple(p.facts.usage.calls.values())),
    (("usage.total_tokens",), lambda p: p.facts.usage.total_tokens),
    (("usage.prompt_tokens",), lambda p: p.facts.usage.prompt_tokens),
    (("usage.completion_tokens",), lambda p: p.facts.usage.completion_tokens),
    (("usage.cost",), lambda p: p.facts.usage.cost and round(p.facts.usage.cost, 9)),
    (
        ("usage.messages", "usage.prunable"),
        lambda p: (p.facts.usage.messages, p.facts.usage.prunable),
    ),
    (("usage.context_tokens", "usage.context_ratio"), lambda p: p.facts.usage.context_tokens),
    (
        ("errors.consecutive", "errors.retries"),
        lambda p: (p.facts.errors.consecutive, p.facts.errors.retries),
    ),
    (("errors.total",), lambda p: p.facts.errors.total),
    (
        ("errors.rate",),
        lambda p: (p.facts.marks.work, p.facts.marks.work_failed, p.facts.marks.has_queue),
    ),
    (("errors.last",), lambda p: p.facts.errors.last),
    (("progress.stalled_steps",), lambda p: p.facts.progress.stalled_steps),
    (("progress.repeats",), lambda p: p.facts.progress.repeats),
    (("progress.recent",), lambda p: p.facts.progress.recent),
    (
        ("progress.cycles", "progress.improving", "progress.improvements", "progress.magnitude"),
        lambda p: p.facts.progress[4:],
    ),
    (("queue",), lambda p: _frozen((p.queue, p.facts.queue))),
    (("kept",), lambda p: _frozen({n: v for n, v in p.kept.items() if n not in _UNTOLD})),
)
"""What stands for each fact: with what it is computed from, and without the rest."""

_NEEDS: Mapping[str, tuple[str, ...]] = {
    "back_off": ("errors.retries",),
    "prune_context": ("usage.messages", "usage.context_tokens"),
    **dict.fromkeys(("work", "measure", "checkpoint", "restore"), ("queue", "kept")),
    **dict.fromkeys(("enqueue", "apply_fix"), ("queue",)),
}
"""What actions look at beside their fields."""


def _of_facts(chart: Chart, reads: frozenset[str], grows: bool) -> Iterator[Part]:
    spec = chart.spec
    actions = [s.action.name for s in spec.states.values() if s.action is not None]
    wanted = {*_heads(reads), *(need for action in actions for need in _NEEDS.get(action, ()))}
    if "queue" in {name.partition(".")[0] for name in wanted}:
        wanted.add("queue")
    if grows:
        wanted.add("usage.context_tokens")
    states = sorted(n.split(".")[2] for n in reads if n.startswith("run.visits."))
    if states and "run.visits" not in reads:
        wanted.discard("run.visits")
        yield lambda p: tuple([p.facts.run.visits[name] for name in states])
    for names, part in _PARTS:
        if any(n in wanted or n.partition(".")[0] in reads for n in names):
            yield part
    yield _of_calls(spec, reads)
    for name in sorted(n.split(".")[1] for n in reads if n.startswith("memory.")):
        yield lambda p, name=name: p.facts.memory.get(name)
    # whether a variable changed moves `stalled_steps`: then all of them count
    every = "progress.stalled_steps" in wanted or "vars" in reads
    if known := [name for name in spec.vars if every or f"vars.{name}" in wanted]:
        yield lambda p: _frozen([p.facts.vars.get(name) for name in known])
    for name in ("state", "action", "ok", "error", "result", "answer", "text", "finish_reason"):
        if f"last.{name}" in wanted or "last" in reads:
            yield lambda p, name=name: _frozen(getattr(p.facts.last, name))


def _of_calls(spec: MachineSpec, reads: frozenset[str]) -> Part:
    """The calls of the newest reply: as much of them as anybody looks at."""
    texts = [*(e.text for e in expressions(spec)), *(e.text for e in spec.define.values())]
    looked_at = any("last.tool_calls" in text.replace(_COUNTED, "") for text in texts)
    if any(".arguments" in text for text in texts):
        return lambda p: p.facts.last.tool_calls
    if looked_at or "last" in reads or any(n.startswith("usage.calls") for n in reads):
        return lambda p: tuple([call.name for call in p.facts.last.tool_calls])
    memory = frozenset(n for n, t in spec.registry.tools.items() if t.memory)
    return lambda p: (
        len(p.facts.last.tool_calls), any(c.name in memory for c in p.facts.last.tool_calls),
        p.facts.last.wants_memory,
    )  # fmt: skip


def _heads(reads: frozenset[str]) -> frozenset[str]:
    """The names without what stands behind their second part."""
    return frozenset(".".join(name.split(".")[:2]) for name in reads)


def _frozen(value: Any) -> Hashable:
    """Data that may hold lists and mappings, as something that can be looked up."""
    if isinstance(value, Mapping):
        parts = cast("Mapping[str, Any]", value)
        return tuple([(name, _frozen(inner)) for name, inner in parts.items()])
    if isinstance(value, list | tuple):
        return tuple([_frozen(inner) for inner in cast("list[Any]", value)])
    return cast(Hashable, value)

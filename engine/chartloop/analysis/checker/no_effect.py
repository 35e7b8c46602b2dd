"""Parts without effect: decisions with one outcome, facts that never change, unused values.

They are harmless, but suggest that the author meant something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chartloop.analysis.checker.check_context import CheckContext, guards_of
from chartloop.analysis.checker.effects import FALLS, OF_A_CALL, OF_CALLS, OF_DENIALS, is_part
from chartloop.analysis.checker.knowledge import groups
from chartloop.analysis.checker.limit_guards import reads_of_guards
from chartloop.analysis.checker.structure import epilogue
from chartloop.core.errors import nearest
from chartloop.core.facts import FACTS
from chartloop.core.units import say_elapsed
from chartloop.language.expression.tree import Compare, Const, Fact, walk
from chartloop.language.spec import MachineSpec, Rule, StateSpec
from chartloop.language.yaml.reading import Path
from chartloop.machine.abstract.thresholds import World

_ELAPSED, _IDLE = "run.elapsed", "run.idle"


def check_pointless(context: CheckContext) -> None:
    """Find parts without effect. Skipped if a part of the file could not be read."""
    if context.broken:
        return
    for state in context.spec.states.values():
        _one_outcome(context, state)
        _no_wait(context, state)
        _range(context, state)
    _still(context)
    _unused_children(context)
    _model(context)
    _late(context)
    _words(context)
    _one_item(context)


# decisions ----------------------------------------------------------------------------------


def _one_outcome(context: CheckContext, state: StateSpec) -> None:
    """Report a choice between equal edges, and a fork of one branch."""
    if len(state.all) == 1:
        message = f"`{state.name}` has one branch under `all`: `{state.all[0]}`"
        hint = f"lead there with `next: {state.all[0]}`, or add a branch"
        context.say("CL356", ("states", state.name, "all"), message, hint=hint, key=True)
    edges = [e for g in groups(state) for e in g if e.role not in ("failed", "expired")]
    effects = {(e.target, e.stop, tuple((a.target, str(a.value)) for a in e.set)) for e in edges}
    if len(edges) > 1 and len(effects) == 1 and state.warn_at is None:
        reported = context.has_finding_at(("states", state.name, "next"))
        if reported or any(e.data or context.has_finding_at(e.path) for e in edges):
            return
        what = "every answer to" if state.job == "wait" else "every edge of"
        to = edges[0].target
        message = f"{what} `{state.name}` leads to `{to}`: the question changes nothing"
        context.say_of("CL351", state, message, hint="lead one of them elsewhere, or do not ask")


def _no_wait(context: CheckContext, state: StateSpec) -> None:
    """Report a question that no wait asks."""
    if state.action is None or not state.action.for_wait or state.name not in context.reached:
        return
    states = context.spec.states
    if not any(states[n].job == "wait" for n in context.successors.behind(state.name)):
        message = f"`{state.name}` prepares a question, but no wait that asks it follows"
        hint = "lead to a state with `on`, such as `{ask: ..., on: {yes: ..., no: ...}}`"
        context.say("CL355", ("states", state.name, "do"), message, hint=hint)


# facts --------------------------------------------------------------------------------------


def _still(context: CheckContext) -> None:
    """Report guards on facts that nothing in the file ever changes."""
    spec = context.spec
    if context.own_code:
        return
    reads = [(path, fact) for path, fact in reads_of_guards(spec) if _is_of_actions(fact)]
    if not reads:
        return
    moved = {f for s in spec.states.values() for f, way in context.effects.of(s) if way != FALLS}
    still = {name: why for name in FACTS if (why := _why_still(context, name, moved))}
    for path, fact in reads:
        name = next((n for n in still if fact == n or fact.startswith(f"{n}.")), "")
        if name == "usage.calls" and any(is_part(fact, m) or is_part(m, fact) for m in moved):
            continue
        if name and not context.has_finding_at(path):
            message = f"`{fact}` never changes: {still[name]}"
            if name in OF_CALLS:
                message = f"`{fact}` has nothing to show: {still[name]}"
            context.say("CL352", path, message, hint=_mover(spec, name), of=fact)


def _is_of_actions(fact: str) -> bool:
    """Whether only the file's own actions change a fact."""
    row = FACTS.get(fact) or FACTS.get(".".join(fact.split(".")[:2]))
    return row is not None and row.by_actions


def _why_still(context: CheckContext, name: str, moved: set[str]) -> str:
    """Why no action of the file changes a fact; empty if one does, or anything else may."""
    if not FACTS[name].by_actions:
        return ""
    if name in (*OF_CALLS, *_EXECUTED):
        if context.has_key("tools") and not context.spec.tools:
            return ""  # the application brings them
        by_tasks = any(s.traits.asks == "task" for s in context.spec.states.values())
        if name in OF_CALLS and not (context.spec.tools or by_tasks):
            return "the file lists no tools"
    if any(is_part(name, fact) for fact in moved):
        return ""
    if name in OF_DENIALS:
        return "no call waits for an approval"
    if name in _EXECUTED:
        return "no state executes tool calls" if context.spec.tools else "the file lists no tools"
    if name in OF_A_CALL or name.startswith("last."):
        return "no state calls a model"
    if name.startswith("errors.") and name != "errors.retries":
        work = "work " if name in ("errors.consecutive", "errors.rate") else ""
        return f"no {work}action of the file can fail"
    return "no state has an action that changes it"


_EXECUTED = ("usage.tool_calls", "usage.calls")


def _mover(spec: MachineSpec, name: str) -> str:
    if name in (*OF_CALLS, *_EXECUTED):
        return "list tools under `tools`, or ask something else"
    if name in OF_DENIALS:
        return "hold a tool back with `approve`, or ask something else"
    actions = spec.registry.actions.values()
    known = [a.name for a in actions if {name, f"{name.partition('.')[0]}.*"} & a.changes] or [
        a.name for a in actions if name in OF_A_CALL and a.traits.asks == "reply"
    ]
    return f"{' or '.join(f'`{n}`' for n in known)} changes it" if known else "ask something else"


# children -----------------------------------------------------------------------------------


def _unused_children(context: CheckContext) -> None:
    spec = context.spec
    actions = [s.action for s in spec.states.values() if s.action is not None]
    if context.own_code or any(a.needs == "tasks" for a in actions):
        return  # a later task may name any of them
    used = {name for state in spec.states.values() for name in spec.children_of(state)}
    for name in spec.machines:
        if name not in used:
            message = f"child machine `{name}` is declared, and no state runs it"
            hint = f"run it: `do: run_machine, with: {{machine: {name}}}`, or remove it"
            context.say("CL353", ("machines", name), message, hint=hint, key=True)


# values -------------------------------------------------------------------------------------


def _range(context: CheckContext, state: StateSpec) -> None:
    """Report a field that is below the one that it bounds."""
    for arg in state.action.args if state.action is not None else ():
        if not arg.at_least or not {arg.name, arg.at_least} <= state.args.keys():
            continue
        names = [arg.at_least, arg.name]
        for least, most in context.constant([state.args[name].value for name in names]):
            if most >= least:
                continue
            message = f"`{arg.name}` is below `{arg.at_least}`: `{arg.at_least}` has no effect"
            hint = f"make `{arg.name}` at least {say_elapsed(least)}"
            context.say("CL354", ("states", state.name, "with", arg.name), message, hint=hint)


def _model(context: CheckContext) -> None:
    model: Mapping[str, Any] = context.spec.model
    window, most = model.get("context_window"), model.get("max_tokens")
    if isinstance(window, int) and isinstance(most, int) and most > window:
        message = f"`max_tokens` ({most:,}) is above the window of the model ({window:,})"
        hint = "leave room for what is sent: a reply and its prompt share the window"
        context.say("CL354", ("model", "max_tokens"), message, hint=hint)


def _late(context: CheckContext) -> None:
    """Report deadlines past the moment at which a rule stops every run."""
    if not context.signals_stop:
        return
    behind_stops = epilogue(context)
    for state in context.spec.states.values():
        if state.name in behind_stops:
            continue  # no rule is evaluated there
        within = next(iter(context.constant(state.within)), None)
        for clock in (_ELAPSED, _IDLE) if within is not None else ():
            end, rule = _end_of_time(context, clock)
            if rule is None or within is None or within <= end:
                continue
            message = f"the deadline of `{state.name}` ({say_elapsed(within)}) never comes: "
            message += f"`{rule.when.text}` stops every run at {say_elapsed(end)}"
            if clock == _IDLE:
                if state.job != "wait":
                    continue
                message = f"the deadline of `{state.name}` ({say_elapsed(within)}) is past the "
                message += f"{say_elapsed(end)} of `{rule.when.text}`: the run stops then, "
                message += "and `expired` is never taken"
            hint = "make `within` shorter, or the limit longer"
            context.say("CL354", ("states", state.name, "within"), message, hint=hint)
            break


def _end_of_time(context: CheckContext, clock: str) -> tuple[float, Rule | None]:
    """The least reading of a clock at which a rule stops every run, and the rule."""
    limits = {name: limit.value for name, limit in context.spec.limits.items()}
    world = World(limits, frozenset({clock}), context.counting.fixed)
    general = (r for r in context.spec.rules if r.kind == "stop" and not r.at and not r.before)
    ends = [(world.turns(r.when).true.get(clock), r) for r in general if clock in r.when.reads]
    known = [(at, rule) for at, rule in ends if at is not None]
    return min(known, key=lambda pair: pair[0], default=(0.0, None))


# words --------------------------------------------------------------------------------------


def _words(context: CheckContext) -> None:
    """Report words that a fact is compared with and that the engine never gives it."""
    spec = context.spec
    for path, guard in guards_of(spec):
        for node in walk(guard.root):
            if isinstance(node, Compare):
                sides = (node.first, *(link.right for link in node.links))
                compared = [n for side in sides for n in walk(side) if isinstance(n, Const)]
                for side in sides:
                    if isinstance(side, Fact):
                        _word(context, path, side.path, [n.value for n in compared])
    for state in spec.states.values():
        if state.of is not None and isinstance(state.of.root, Fact):
            for edge in state.edges_of("case"):
                _word(context, edge.path, state.of.root.path, [edge.case])


def _word(context: CheckContext, path: Path, fact: str, compared: Iterable[object]) -> None:
    words = FACTS[fact].words if fact in FACTS else ()
    for word in compared:
        if words and isinstance(word, str) and word not in (*words, ""):
            given = ", ".join(f"`{w}`" for w in words)
            message = f"`{fact}` is compared with `{word}`; its words are {given}"
            context.say("CL372", path, message, hint=nearest(word, words), of=word)


# loops --------------------------------------------------------------------------------------


def _one_item(context: CheckContext) -> None:
    """Report a loop inside another that takes its items into the same variable."""
    spec = context.spec
    items = {
        place[1]: (str(made[1]), str(made[-1]))
        for made, place in spec.made.items() if place[-1] == "for" and len(made) == 5
    }  # fmt: skip
    for outer, (asking, item) in items.items():
        inside = context.own.subgraph(n for n in context.own if n != asking)
        bodies = [e.target for e in spec.states[asking].edges_of("then") if e.target in inside]
        body = inside.onward(*bodies)
        for inner, (deciding, same) in items.items():
            if inner != outer and same == item and deciding in body:
                message = f"`{inner}` takes its items into `{item}`, which holds the item of "
                hint = "write another variable: `for: vars.other`"
                path: Path = ("states", inner, "for")
                if not context.has_finding_at(path):
                    context.say("CL373", path, f"{message}`{outer}`: that is lost", hint=hint)

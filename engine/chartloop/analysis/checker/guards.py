"""Guards: edges and rules that are never taken, and states where all guards may be false."""

from __future__ import annotations

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.analysis.checker.knowledge import Knowledge, Known
from chartloop.analysis.proofs.guards.prover import Claim
from chartloop.language.spec import StateSpec
from chartloop.machine.regions import GuardedTransition

_CONSTANT = {"True": "always holds", "False": "never holds"}


def check_guards(context: CheckContext, knowledge: Knowledge) -> None:
    """Find edges that are never taken, and states where all guards may be false."""
    for state in context.spec.states.values():
        _report_shadowed(context, state)
        _stuck(context, state, knowledge.at(state.name))
    _rules(context)


def _same(text: str) -> str:
    return " ".join(text.split())


def _texts(t: GuardedTransition) -> frozenset[str]:
    return frozenset(_same(g.__name__) for g in t.guards)


def _report_shadowed(context: CheckContext, state: StateSpec) -> None:
    """Report each edge that an earlier one hides, or whose guard never holds."""
    for trigger, event in context.chart.step.triggers.items():
        if trigger == "check":
            continue
        earlier: list[tuple[frozenset[str], GuardedTransition]] = []
        for t in event.at(state.name):
            edge, texts = t.edge, _texts(t)
            first = next((b for before, b in earlier if before - {"True"} <= texts), None)
            where = "" if edge is None else f"the edge of `{state.name}` to `{edge.target}`"
            if edge is not None and first is not None:
                message = f"{where} is never taken: {_why_hidden(first)}, and is evaluated first"
                path = first.edge.path if first.edge is not None else ()
                context.say_behind("CL307", edge.path, message, path)
            elif edge is not None and "False" in texts:
                message = f"{where} is never taken: its guard never holds"
                context.say("CL307", edge.path, message, hint="remove it")
            earlier.append((texts, t))


def _why_hidden(t: GuardedTransition) -> str:
    """The clause about the edge that hides another."""
    texts = sorted(_texts(t) - {"True"})
    if not texts:
        return f"the one to `{t.dest}` has no guard" if not t.guards else "`true` always holds"
    return f"`{' and '.join(texts)}` holds whenever its guard does"


def _rules(context: CheckContext) -> None:
    seen: dict[tuple[object, ...], str] = {}
    for rule in context.spec.rules:
        key = (_same(rule.when.text), rule.at, rule.before, rule.kind, rule.stop or rule.signal)
        if key in seen:
            message = f"this rule says the same as `{seen[key]}`"
            context.say("CL307", rule.path, message, hint="remove one of them")
        seen.setdefault(key, rule.id)
        if rule.when.constant and rule.when.text in _CONSTANT:
            message = f"the guard of this rule {_CONSTANT[rule.when.text]}"
            hint = "compare a fact, or remove the rule"
            context.say("CL307", (*rule.path, "when"), message, hint=hint)
        for n, name in enumerate(rule.at):
            state = context.spec.states[name]
            if state.action is None and state.job != "wait" and name != context.spec.start:
                message = f"`{name}` has no action after which this rule could be evaluated"
                hint = "name a state with `do`, or use `before`"
                context.say("CL307", (*rule.path, "at", n), message, hint=hint)


def _stuck(context: CheckContext, state: StateSpec, known: Known) -> None:
    """Report guarded edges that may all be false."""
    edges = list(state.edges_of("next"))
    guards = [e.when for e in edges if e.when is not None]
    if not edges or len(guards) < len(edges):
        return
    none = [Claim(g.root, False) for g in guards]
    answer = context.prover.ask([*known, *none], values=True)
    if answer.possible is False:
        return
    message = f"every edge of `{state.name}` has a guard, and all of them may be false"
    if len(edges) == 1:
        message = f"the only edge of `{state.name}` has a guard, which may be false"
    if answer.values:
        values = [f"`{name} = {value!r}`" for name, value in answer.values.items()]
        message += f", for example with {' and '.join(values[:4])}"
    hint = "give the last edge no `when`"
    context.say("CL309", ("states", state.name, "next"), message, hint=hint, key=True)

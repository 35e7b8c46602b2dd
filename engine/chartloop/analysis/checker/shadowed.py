"""Rules that never take effect, and limits that are never reached.

All rules that apply at a moment are evaluated, each that holds raises its reason, and the stop with
the lowest priority number wins; ties go to the first in the file. So a rule is hidden if another
applies at all of its moments, holds whenever it does, and always wins.

This is examined twice: for any limits, and with the limits of the file. If only the second hides
the rule, the finding is about the limit: with another value the rule would take effect.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.analysis.checker.knowledge import Knowledge, groups
from chartloop.analysis.proofs.guards.domains import World
from chartloop.analysis.proofs.guards.prover import Claim
from chartloop.language.expression import Expression, ExpressionFault, Scope, parse
from chartloop.language.expression.tree import facts_of
from chartloop.language.spec import Rule
from chartloop.language.yaml.reading import Path
from chartloop.machine.guard_text import say_value

_WRITTEN_OUT = ("True", "False")
PAIRS = 40
"""The most rules that one rule is compared with."""


def check_hidden(context: CheckContext, knowledge: Knowledge) -> None:
    """Check rules, then the guards of edges that compare a fact with a limit."""
    rules = [r for r in context.spec.rules if r.when.text not in _WRITTEN_OUT]
    for rule in rules:
        path: Path = (*rule.path, "when")
        if not context.has_finding_at(rule.path) and not context.has_finding_at(path):
            _ = _alone(context, rule, path) or _hidden(context, rule, rules, path)
    _edges(context, knowledge)


def _ask(
    context: CheckContext, claims: Sequence[Claim], path: Path, world: World | None = None
) -> bool:
    answer = context.prover.ask(claims, at=context.full(path), world=world)
    return answer.possible is not False


def _alone(context: CheckContext, rule: Rule, path: Path) -> bool:
    """Report a rule whose guard has only one answer. True if there is such a finding."""
    node = rule.when.root
    if not _ask(context, [Claim(node)], path):
        message = f"this rule never does anything: `{rule.when.text}` can never hold"
        context.say("CL326", path, message, hint="fix the guard, or remove the rule")
        return True
    if not _ask(context, [Claim(node, False)], path):
        message = f"`{rule.when.text}` always holds: from the start on this rule does"
        context.say("CL327", path, message, hint="compare with something that can still be reached")
        return True
    if _reads_limit(rule.when) and not _ask(context, [Claim(node)], path, context.as_written):
        message = f"`{rule.when.text}` can never hold with {say_limits(context, rule.when)}"
        hint = "set the limit to what its fact can reach, or to null"
        context.say("CL330", path, message, hint=hint)
        return True
    return False


# between rules ------------------------------------------------------------------------------


def _hidden(context: CheckContext, rule: Rule, rules: Sequence[Rule], path: Path) -> bool:
    """Report a stop rule or detour that another stop rule always precedes."""
    if rule.kind == "signal" or not context.signals_stop:
        return False
    compared = 0
    for other in rules:
        if other.kind != "stop" or other is rule or not _covers(other, rule):
            continue
        compared += 1
        if compared > PAIRS:
            context.prover.unsettled[context.full(path)] = None
            return False
        wins = rule.kind == "detour" or _rank(context, other) < _rank(context, rule)
        both = [Claim(rule.when.root), Claim(other.when.root, False)]
        counted = {r for r in other.when.reads if not r.startswith("limits.")} == {"run.steps"}
        if not counted and not rule.when.reads & other.when.reads and not _share_facts(rule, other):
            continue
        if wins and not _ask(context, both, path):
            text = f"this rule never decides: whenever it holds, `{other.id}` does, and comes first"
            hint = "remove it, or let it read something else"
            context.say("CL328", path, text, hint=hint)
            return True
        before, together = False, _counted_together(context, rule.when)
        was = _step_before(context, other) if counted else None
        if was is not None:  # one step before the rule may hold, the other does
            before = not _ask(context, [both[0], was, *together], path, context.as_written)
        both += together
        if before or (wins and not _ask(context, both, path, context.as_written)):
            values = say_limits(context, rule.when, other.when)
            at = f" with {values}" if values else ""
            text = f"`{rule.when.text}` is never reached{at}: `{other.id}` stops the run before"
            if not before:  # both are evaluated at the same moment
                why = f"whenever it holds, `{other.id}` does, and comes first"
                text = f"`{rule.when.text}` never decides{at}: {why}"
            hint = "set the limits so that this one is reached first"
            context.say("CL330", path, text, hint=hint)
            return True
    return False


def _step_before(context: CheckContext, rule: Rule) -> Claim | None:
    """The claim that a rule over steps did not hold one step before; None if its text has names."""
    text = rule.when.text.replace("run.steps", "(run.steps - 1)")
    with contextlib.suppress(ExpressionFault):  # a definition, or a guard of Python
        return None if rule.at else Claim(parse(text, Scope(context.spec.roots)).root, False)
    return None


def _covers(other: Rule, rule: Rule) -> bool:
    """Whether `other` is evaluated whenever `rule` is."""
    if bool(other.before) != bool(rule.before):
        return False
    if other.before:
        return set(rule.before) <= set(other.before)
    return not other.at or (bool(rule.at) and set(rule.at) <= set(other.at))


def _rank(context: CheckContext, rule: Rule) -> tuple[int, int]:
    return context.spec.reason(rule.stop).priority, context.spec.rules.index(rule)


def _share_facts(rule: Rule, other: Rule) -> bool:
    """Whether both read facts of one group, such as prompt tokens and all tokens."""
    usage = {r.partition(".")[0] for r in rule.when.reads} & {
        r.partition(".")[0] for r in other.when.reads
    }
    return bool(usage - {"limits"})


def _counted_together(context: CheckContext, guard: Expression) -> list[Claim]:
    """The claims of the steps about the counters of a guard."""
    scope, acting = Scope(context.spec.roots), context.chart.acting
    most = {f"run.visits.{name}": 1 for name in acting} | dict.fromkeys(_OF_STEPS, 0)
    reads = sorted(guard.reads & most.keys())
    return [Claim(parse(f"{r} <= run.steps + {most[r]}", scope).root) for r in reads]


_OF_STEPS = ("errors.consecutive", "errors.retries", "progress.stalled_steps")
"""The counters to which a step adds at most one."""


# limits -------------------------------------------------------------------------------------


def _edges(context: CheckContext, knowledge: Knowledge) -> None:
    """Report guards of edges that compare a fact with a limit that it does not reach there."""
    for state in context.spec.states.values():
        known = knowledge.at(state.name)
        for edge in (e for group in groups(state) for e in group):
            guard = edge.when
            if guard is None or not _reads_limit(guard):
                continue
            path = edge.guard_path
            if context.has_finding_at(path) or context.has_finding_at(edge.path):
                continue
            mine = (*known, *_counted_together(context, guard)) if edge.role != "failed" else ()
            world, holds = context.as_written, Claim(guard.root)
            if not _ask(context, [holds], path, world):
                message = f"`{guard.text}` can never hold with {say_limits(context, guard)}"
                hint = "set the limit to what its fact can reach, or to null"
                context.say("CL330", path, message, hint=hint)
            elif mine and not _ask(context, [*mine, holds], path, world):
                one = next((c for c in mine if not _ask(context, [c, holds], path, world)), None)
                earlier = f"`{one.node.text}` comes first" if one else "others come first"
                values = say_limits(context, guard, *(one,) if one else ())
                at = f" with {values}" if values else ""
                message = f"`{guard.text}` is never reached{at}: {earlier}"
                hint = "set the limits so that this one is reached first"
                context.say("CL330", path, message, hint=hint)


def _reads_limit(guard: Expression) -> bool:
    """Whether a guard compares a fact with a limit, or a counter with a number."""
    return any("limits." in b.bound_text or b.grows for b in guard.bounds)


def say_limits(context: CheckContext, *guards: Expression | Claim) -> str:
    """Return the limits that guards read, with their values in the file, in words."""
    nodes = [g.node if isinstance(g, Claim) else g.root for g in guards]
    names = sorted({p for n in nodes for p, fact in facts_of(n).items() if fact.is_limit})
    values = {n: context.as_written.limits.get(n) for n in names}
    types = {n: context.spec.limits[n.removeprefix("limits.")].type for n in names}
    parts = [f"`{n}` at {say_value(v, types[n])}" for n, v in values.items() if v is not None]
    return " and ".join(parts)

"""Certain failures: divisions by zero, indices past the end, too short deadlines, cut off retries.

Judged with the limits of the file, and the initial values of variables that it never changes. A
caller may give others, so these are warnings.
"""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.analysis.checker.check_context import (
    CheckContext,
    guards_of,
    outputs_of,
    ranges_of,
    value_of,
)
from chartloop.analysis.checker.shadowed import say_limits
from chartloop.core.specs import Effect
from chartloop.core.units import say_count, say_elapsed
from chartloop.language.expression import Expression
from chartloop.language.expression.runtime import GUARD_ERRORS
from chartloop.language.expression.tree import (
    Arith,
    Call,
    Choice,
    Compare,
    Each,
    Element,
    Fact,
    Field,
    Indexed,
    Logic,
    Node,
    children,
    facts_of,
)
from chartloop.language.intervals.evaluate import Known, judge, surely
from chartloop.language.intervals.interval import INF, NO, Other, Range, Value, Word, of_plain
from chartloop.language.json_schema.least_value import why_nothing_fits
from chartloop.language.json_schema.reply import ReplySchema
from chartloop.language.spec import Assign, Retry, Rule, StateSpec
from chartloop.language.yaml.reading import Path

_DIVIDING = ("/", "//", "%")


def check_failing(context: CheckContext) -> None:
    """Find divisions by zero, indices past the end, deadlines of zero, and cut off retries."""
    known = ranges_of(context.fixed)
    for path, expression in _expressions(context):
        reads_parts = expression.may_fail or "[" in expression.text
        node = _failing(context, expression.root, known) if reads_parts else None
        if node is not None and not isinstance(node, Arith):
            message = f"`{node.text}` has no value: {_why(context, node)}, "
            message += "and nothing in the file changes that"
            hint = "read what is there, or ask first: `in` and `len(...)` tell"
            context.say("CL343", path, message, hint=hint, of=node.text)
        elif node is not None:
            reads = sorted(facts_of(node.right))
            why = f": `{reads[0]}` is 0, and nothing in the file changes it" if reads else ""
            message = f"`{node.text}` divides by zero{why}"
            hint = f"ask first: `{reads[0]} > 0 and ...`" if reads else "divide by another number"
            context.say("CL343", path, message, hint=hint, of=node.text)
    for state in context.spec.states.values():
        _deadline(context, state, known)
        if state.retry is not None and state.action is not None and context.signals_stop:
            _retry(context, state, state.retry)


# divisions ----------------------------------------------------------------------------------


def _expressions(context: CheckContext) -> Iterator[tuple[Path, Expression]]:
    """Yield the expressions that a run evaluates in a reachable state, with their places."""
    reached = context.reached
    for path, guard in guards_of(context.spec):
        if path[0] != "states" or path[1] in reached:
            yield path, guard
    for name in context.in_order(reached):
        state = context.spec.states[name]
        yield from _assigned_expressions(("states", name, "set"), state.set)
        for edge in state.edges:
            yield from _assigned_expressions((*edge.path, "set"), edge.set)
        for field, given in state.args.items():
            if isinstance(given.value, Expression):
                yield ("states", name, "with", field), given.value
    yield from outputs_of(context.spec)


def _assigned_expressions(
    path: Path, assigns: tuple[Assign, ...]
) -> Iterator[tuple[Path, Expression]]:
    for one in assigns:
        if isinstance(one.value, Expression):
            yield (*path, one.target), one.value


def _failing(context: CheckContext, node: Node, known: Known) -> Node | None:
    """Return a part that fails in every evaluation of the expression, or None."""
    for part in _evaluated_parts(node, known):
        if (failing := _failing(context, part, known)) is not None:
            return failing
    if isinstance(node, Arith) and node.op in _DIVIDING:
        by = judge(node.right, known)
        if isinstance(by, Range) and by.some and not by.none and by.low == by.high == 0:
            return node
    return node if isinstance(node, _LOOKUPS) and _why(context, node) else None


_LOOKUPS = (Element, Field, Indexed, Call)


def _why(context: CheckContext, node: Node) -> str:
    """Why a part has no value with what the file fixes; empty if it has, or depends on more."""
    try:
        value_of(Expression(node.text, node.type, node), context.fixed)
    except KeyError as error:
        return f"there is no key `{error.args[0]}`"
    except GUARD_ERRORS as error:
        return str(error)
    return ""


def check_fields(context: CheckContext) -> None:
    """Find fields that are written out, or never change, and that their action refuses."""
    for state in context.spec.states.values():
        _refused(context, state)


def _refused(context: CheckContext, state: StateSpec) -> None:
    for arg in state.action.args if state.action is not None else ():
        given, path = state.args.get(arg.name), ("states", state.name, "with", arg.name)
        asked = given.value if given is not None else None
        if isinstance(asked, ReplySchema) and (why := why_nothing_fits(asked.schema)):
            message = f"no reply fits `{arg.name}`, so `{state.name}` always fails: {why}"
            context.say("CL363", path, message, hint="change the schema so that a value fits")
        if given is None or arg.check is None or not isinstance(given.value, Expression):
            continue
        value = context.constant(given.value)
        problem = arg.check(value[0]) if value else None
        if problem and not context.has_finding_at(path):
            code, when = ("CL363", "") if given.value.constant else ("CL364", " as written")
            message = f"`{arg.name}` takes {problem}: `{state.name}` always fails{when}"
            context.say(code, path, message, hint=arg.about)


def _evaluated_parts(node: Node, known: Known) -> Iterator[Node]:
    """Yield the parts of a node that every evaluation of it evaluates."""
    match node:
        case Logic(op=op, parts=parts):
            for part in parts:
                yield part
                if surely(judge(part, known)) is not (op == "and"):
                    return
        case Choice(test=test, then=then, other=other):
            yield test
            holds = surely(judge(test, known))
            yield from () if holds is None else (then if holds else other,)
        case Compare(first=first, links=links):
            yield from (first, links[0].right)
        case Each(source=source):
            yield source
        case _:
            yield from children(node)


# deadlines ----------------------------------------------------------------------------------


def _deadline(context: CheckContext, state: StateSpec, known: Known) -> None:
    within, action = state.within, state.action
    seconds = judge(within.root, known) if isinstance(within, Expression) else of_plain(within)
    if not isinstance(seconds, Range) or not seconds.some:
        return
    what = ""
    if seconds.high <= 0 and action is None:
        what = "expires as it starts: no answer can come in time"
    elif seconds.high <= 0 and action is not None:
        at_once = action.effect is Effect.PURE and not action.may_wait
        what = "" if at_once else "has no time: its `within` is 0"
    elif 0 < seconds.high < SHORTEST_CALL and state.asks_model in ("reply", "task"):
        what = f"has {say_elapsed(seconds.high)} for a model call: hardly any is that fast"
    if what:
        path = ("states", state.name, "within")
        context.say("CL348", path, f"`{state.name}` {what}", hint="give it time, such as `30s`")


SHORTEST_CALL = 0.1
"""Seconds in which no usual model answers."""


# retries ------------------------------------------------------------------------------------


def _retry(context: CheckContext, state: StateSpec, retry: Retry) -> None:
    """Report extra attempts that no run makes, because a rule stops it first."""
    assert state.action is not None
    facts, limits = dict[str, Value](), ranges_of(context.as_written.limits)

    def known(fact: Fact) -> Value | None:
        return limits(fact) or facts.get(fact.path)

    for failures in range(1, min(retry.times, _MOST_TIMES) + 1):
        at_least = Range(failures, INF)
        facts |= {
            "run.steps": at_least, "errors.total": at_least, "last.ok": NO, "last.error": Other(),
            "errors.last": Other(), "last.state": Word(state.name),
            "last.action": Word(state.action.name),
        }  # fmt: skip
        # a detour between two attempts may reset the count of errors
        if state.action.work and (failures == 1 or not context.chart.detours):
            facts["errors.consecutive"] = at_least
        for rule in context.spec.rules:
            if _is_evaluated_at(rule, state.name) and surely(judge(rule.when.root, known)):
                at = f" with {values}" if (values := say_limits(context, rule.when)) else ""
                why = f"`{rule.when.text}` stops the run after {say_count(failures, 'failure')}{at}"
                effect = "is never retried"
                if failures > 1:
                    effect = f"is retried {say_count(failures - 1, 'time')}, not {retry.times}"
                hint = "let the rule allow more failures, or retry less often"
                path = ("states", state.name, "retry")
                context.say("CL349", path, f"`{state.name}` {effect}: {why}", hint=hint, key=True)
                return


_MOST_TIMES = 50
"""The most attempts of one `retry` that are examined."""


def _is_evaluated_at(rule: Rule, name: str) -> bool:
    if rule.kind != "stop":
        return False
    return name in rule.before if rule.before else not rule.at or name in rule.at

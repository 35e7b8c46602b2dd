"""The answer to `each TOOL after its own EVENT`: did a person accept every call, by itself?

Where `approve` holds the tool back it follows from the engine, on whatever path a run gets there:
an action executes such a call only if `ask_approval` showed it and the answer to that very question
accepted it (`actions.approval`). Elsewhere paths are searched, since an execution may lack even an
answer. If none does it is still unknown whether the person saw the calls: a wait of the file shows
what its `ask` says.

A child machine counts: its calls are those of the run that a person watches.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace

from chartloop.analysis.proofs.guards.implication import Implication, implies
from chartloop.analysis.proofs.query.query_answer import Answer
from chartloop.analysis.proofs.query.query_text import Query, condition_of_calls
from chartloop.core.approvals import ACCEPT
from chartloop.language.approval import ACTION
from chartloop.language.expression import Expression, ExpressionFault
from chartloop.language.expression.syntax import read as read_expression
from chartloop.language.spec import Approve, MachineSpec

ASSUMED = (
    "the tool's function is called by runs only, not by your own code",
    "a call that is tried again after a failure or a crash is the same call",
)


def answer_each(
    query: Query, spec: MachineSpec, search: Callable[[Query], Answer], below: Mapping[str, Answer]
) -> Answer:
    """The answer for a machine. `search` follows its paths; `below`: those of its children."""
    answers = [_of_machine(query, spec, search)]
    for name, child in below.items():
        shown = f": {' → '.join(child.witness)}" if child.witness else ""
        reason = f"child machine `{name}`: {child.reason}{shown}"
        answers.append(replace(child, reason=reason, witness=(), edges=()))
    # `no` decides; a tool that nothing calls says the least
    return min(
        answers,
        key=lambda a: (a.holds is not False, bool(a), not a.unless, a.assumptions != ASSUMED),
    )


def _of_machine(query: Query, spec: MachineSpec, search: Callable[[Query], Answer]) -> Answer:
    tool, approve = query.a.name, spec.approve
    never = search(query._replace(form="never", b=None))
    if never:
        return never
    if approve is None or tool not in approve.tools:
        loose = f"only `approve: {{tools: [{tool}]}}` ties an answer to the calls that it is for"
        return _searched(query, search, loose)
    gap, shown = _gap(query, spec, approve), None
    if not gap and approve.when is not None:
        left_out = _compare(query, spec, approve.when)
        if left_out.holds is None:
            return Answer(query.text, None, left_out.reason, assumptions=ASSUMED)
        gap, shown = left_out.reason, left_out.arguments
    if gap:
        found = _searched(query, search, gap)
        if found.holds is None:
            return found
        return replace(found, reason=f"{found.reason}: {gap}", arguments=shown)
    calls = f"each call of {query.a}" + (f" with `{query.when}`" if query.when else "")
    again = ", again once a person changed them" if approve.edit else ""
    reason = (
        f"`approve` shows the arguments of {calls}{again}, and executes the call once, after its "
        f"own `{ACCEPT}`"
    )
    return Answer(query.text, True, reason, assumptions=ASSUMED)


def _compare(query: Query, spec: MachineSpec, held: Expression) -> Implication:
    """Whether `approve` holds back all calls that the query asks about, and if not, why."""
    tool, asked = query.a.name, query.when
    try:
        condition = condition_of_calls(asked or "True", spec, tool)
    except ExpressionFault as fault:
        return Implication(None, reason=f"`{asked}` is not a condition here: {fault.message}")
    holds = f"`approve` holds back the calls with `{held.text}`"
    if condition is not None:
        found = implies(condition if asked else None, held, spec.registry.tools[tool])
        if found.holds is False:
            ask = f"; ask `each tool:{tool} when {held.text} after its own {ACCEPT}`"
            reason = f"`approve` holds back only those with `{held.text}`{'' if asked else ask}"
            return found._replace(reason=f"{reason}; not one with `{found.reason}`")
        return found if found.holds else found._replace(reason=f"{holds}: {found.reason}")
    if asked and _are_equal(asked, held.text):
        return Implication(True)
    why = f"not all arguments of `{tool}` have a known type; ask with that very condition"
    return Implication(None, reason=f"{holds}, and {why}")


def _searched(query: Query, search: Callable[[Query], Answer], loose: str) -> Answer:
    """The answer from paths, which is never `yes`. `loose`: why it cannot be."""
    found = search(query)
    if found:
        found = replace(found, holds=None, reason=f"{found.reason}, but {loose}")
    return replace(found, assumptions=_assumed(found))


def _assumed(found: Answer) -> tuple[str, ...]:
    return (*ASSUMED, *found.assumptions)


def _gap(query: Query, spec: MachineSpec, approve: Approve) -> str:
    """Why calls that `approve` holds back may lack their own answer; empty if none does."""
    assert query.b is not None
    if query.b.name != ACCEPT:
        return f"`approve` executes what is answered with `{ACCEPT}`"
    asks, made = spec.registry.actions.get(ACTION), (*approve.states, *approve.made)
    for name, state in spec.states.items():
        if state.named_tool == query.a.name:
            return f"`{name}` calls the tool itself"
        if state.action is asks and name not in made:
            return f"`{name}` puts the question to a wait of the file"
    return "an answer with `remember` is also for later calls" if approve.remember else ""


def _are_equal(one: str, other: str) -> bool:
    """Whether two conditions differ at most in blanks, quotes and brackets."""
    return ast.dump(read_expression(one)[0]) == ast.dump(read_expression(other)[0])

"""The answer to `each TOOL after its own EVENT`: did a person accept every call, by itself?

Where `approve` holds the tool back it follows from the engine, on whatever path a run gets there:
an action executes such a call only if `ask_approval` showed it, the answer to that very question
was `accept`, and no call was executed for it before (`actions.approval`). Elsewhere paths are
searched, since an execution may lack even an answer. If none does it is still unknown whether the
person saw the calls: a wait of the file shows what its `ask` says.

A child machine counts: its calls are those of the run that a person watches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from chartloop.language.approval import ACCEPT, ACTION
from chartloop.language.spec import MachineSpec
from chartloop.proofs.query.query_answer import Answer
from chartloop.proofs.query.query_text import Query

ASSUMED = (
    "the tool's function is called by runs only, not by your own code",
    "a call that is tried again after a failure or a crash is the same call",
)


def answer_each(
    query: Query, spec: MachineSpec, search: Callable[[Query], Answer], below: Mapping[str, Answer]
) -> Answer:
    """The answer for a machine. `search` follows its paths; `below`: the answers of its children."""
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
    a, b = query.a, query.b
    never = search(query._replace(form="never", b=None))
    if never:
        return never
    loose = _what_is_loose(query, spec)
    if not loose:
        reason = (
            f"`approve` asks about each call of {a} with its arguments, and executes it once, after "
            f"an {b} to that question"
        )
        return Answer(query.text, True, reason, assumptions=ASSUMED)
    found = search(query)
    if found:
        reason = f"{found.reason}, but {loose}"
        found = replace(found, holds=None, reason=reason)
    return replace(found, assumptions=(*ASSUMED, *found.assumptions))


def _what_is_loose(query: Query, spec: MachineSpec) -> str:
    """What keeps the answers from being tied to the calls; empty if `approve` ties them."""
    tool, approve = query.a.name, spec.approve
    assert query.b is not None
    if approve is None or tool not in approve.tools:
        return f"only `approve: {{tools: [{tool}]}}` ties an answer to the calls that it is for"
    if query.b.name != ACCEPT:
        return f"`approve` executes what is answered with `{ACCEPT}`"
    asks = spec.registry.actions.get(ACTION)
    for name, state in spec.states.items():
        if state.named_tool == tool:
            return f"`{name}` calls the tool itself"
        if state.action is asks and name not in approve.states:
            return f"`{name}` puts the question to a wait of the file"
    return ""

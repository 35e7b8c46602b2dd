"""The answer to `no flow LABEL to TOOL`: can text with that label reach what the tool is given?

`yes` is a proof over every path. `no` comes with a way. Where a tool, an action of your own or an
input declares nothing, its data may have any label: if that is all that stands against a `yes`, the
answer is unknown, and says what to declare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chartloop.analysis.proofs.query.data_flow import ARRIVED, NEXT_RUN, DataFlow, Way
from chartloop.analysis.proofs.query.data_movements import NO_PROMPT, Sent, Source, say_cell
from chartloop.analysis.proofs.query.query_answer import Answer
from chartloop.analysis.proofs.query.query_text import Atom, Query
from chartloop.core.cells import ASSUMED as BY_TABLE
from chartloop.machine.transition_table import ENGINE_ENDS

ASSUMED = (
    "tools, actions and inputs do with data what they declare, and no more",
    "that a guard read a text, and which tool a model chose, is no flow; neither is a count",
    *BY_TABLE,
    "it is not a run of an older file that goes on with this one",
)


def answer_flow(query: Query, flow: DataFlow, *, approved: frozenset[str]) -> Answer:
    """Answer a query of the form `no flow`. `approved`: tools that may send what is accepted."""
    assert query.b is not None
    aim, source = _aim(query.b), query.a
    wanted: Callable[[Source], bool] = lambda s: (  # noqa: E731
        source.name in s.use.labels if source.sort == "label" else s.name == str(source)
    )
    way = flow.way(wanted, aim)
    if way is not None:
        return _found(query, flow, way)
    unknown = flow.way(lambda s: s != NO_PROMPT and not s.use.declared, aim)
    if unknown is not None and source.sort == "label":
        said = f"nothing is declared for {unknown.source.name}, and it may reach {_whom(unknown)}"
        return _found(query, flow, unknown, said)
    if query.b.sort == "out":
        undeclared = flow.way(wanted, lambda one: not one.use.declared)
        if undeclared is not None:
            name = _whom(undeclared)
            said = f"nothing is declared for {name}, which may be given {_what(source)}"
            return _found(query, flow, undeclared, said)
    kept = ""
    if query.b.name in approved:
        kept = ", besides calls that a person accepts"
    elif query.b.sort == "out" and approved:
        tools = ", ".join(f"`{tool}`" for tool in sorted(approved))
        kept = f", besides calls of {tools}, which a person accepts"
    alone = " of one run" if query.one_run else ""
    reason = f"{_what(source)} reaches {_to(query.b)} on no path{alone}{kept}"
    return Answer(query.text, True, reason, assumptions=_assumed(query))


def ways_out(label: str, flow: DataFlow) -> Mapping[str, str]:
    """How text with a label reaches what may send it out, by what declares the label.

    By the name of the tool or action, which declares that it sends out or declares nothing.
    """
    reached = {
        one.to for _, one, origins in flow.sent()
        if (one.use.sends_out or not one.use.declared)
        and any(isinstance(o, Source) and label in o.use.labels for o in origins)
    }  # fmt: skip
    out: dict[str, str] = {}
    for to in sorted(reached):
        way = flow.way(lambda s: label in s.use.labels, lambda one, to=to: one.to == to)
        if way is not None:
            out[to.partition(":")[2]] = say_way(flow, way)
    return out


def _aim(to: Atom) -> Callable[[Sent], bool]:
    if to.sort == "out":
        return lambda one: one.use.sends_out
    return lambda one: one.to == f"{to.sort}:{to.name}"


def _what(source: Atom) -> str:
    return f"{source.name} text" if source.sort == "label" else f"text of {source}"


def _to(to: Atom) -> str:
    return "anything that sends it out" if to.sort == "out" else str(to)


def _whom(way: Way) -> str:
    sort, _, name = way.sent.to.partition(":")
    inside = f" of child machine `{way.sent.child}`" if way.sent.child else ""
    return f"{sort} `{name}`{inside}"


def _found(query: Query, flow: DataFlow, way: Way, said: str = "") -> Answer:
    """The answer that a way shows: `no`, or unknown for the reason that is `said`."""
    places, routes = flow.routes.places, flow.routes.routes
    states, edges = [routes[way.routes[0]].entry], list[str]()
    for number in way.routes:
        route, dest = routes[number], places[routes[number].dest]
        if (dest.state in flow.spec.states or dest.state in ENGINE_ENDS) and dest.branch is None:
            states += [dest.state] if dest.state != states[-1] or route.kind != "start" else []
        if route.origin in flow.edges:
            edges.append(route.origin)
    shown = said or f"{_what(query.a)} can reach {_whom(way)}"
    return Answer(
        query.text, None if said else False, f"{shown}: {say_way(flow, way)}",
        tuple(states), tuple(edges), _assumed(query),
    )  # fmt: skip


def _assumed(query: Query) -> tuple[str, ...]:
    left = ("nothing that an earlier run left is in it",) if query.one_run else ()
    return (*ASSUMED, *left)


def say_way(flow: DataFlow, way: Way) -> str:
    """A way in words: ``tool `fetch` → the conversation after `act` → tool `send_mail` ``."""
    parts, held, later = [way.source.name], "", ""
    for step in way.steps:
        if step.route == NEXT_RUN:
            later = "in the next run "
        elif step.cell not in (ARRIVED, held):
            at = flow.routes.routes[step.route].state
            said = f"{say_cell(step.cell)} after `{at}`" if at else say_cell(step.cell)
            parts.append(f"{later}{said}")
            held, later = step.cell, ""
    return " → ".join((*parts, f"{later}{_whom(way)}"))

"""The table of a machine's transitions, in order of evaluation.

A plain table between the file and `transitions`: both the live machine and the stock machine of the
differential test are built from it.

Order at one state and trigger: `ORDER`, which the abstract machine follows too. Under `check`:
stops by priority (signals raised before, then rules in file order), then detours in file order,
then signal rules, which never move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from chartloop.core.position import ReturnPoint
from chartloop.core.reasons import EndStatus
from chartloop.language.readers.states import case_value
from chartloop.language.spec import RETURN, Edge, MachineSpec, Rule, StateSpec
from chartloop.machine import regions

END_COMPLETED = "end-completed"
END_ERROR = "end-error"
"""The ends of the engine. No name in a file can have a hyphen, so they never clash."""

Trial = Literal["retry", "divert", "edges"]
ORDER: tuple[Trial, ...] = ("retry", "divert", "edges")
"""The order in which a state tries its own transitions after its action.

A failure tries all: a retry, then `failed` or `on_error`, then the file's edges, of which some may
return from a detour. A success tries only the edges.
"""

ENGINE_ENDS: Mapping[str, EndStatus] = {END_COMPLETED: "completed", END_ERROR: "error"}


class Row(NamedTuple):
    """One transition of the live machine."""

    trigger: str
    source: str
    dest: str | None
    guards: tuple[regions.Guard, ...] = ()
    origin: str = ""
    kind: str = "advance"
    edge: Edge | None = None
    rule: Rule | None = None
    by: str = "file"


def transition_rows(spec: MachineSpec, handled: frozenset[str]) -> list[Row]:
    """Return every transition of the machine's step region."""
    out: list[Row] = []
    for state in spec.states.values():
        out += _of_state(spec, state, handled)
    for name, edge in returning_states(spec):
        if not _has_alternatives(spec.states[name]):  # else it stands in the order of its state
            out += _returning(spec, edge)
    out += _checks(spec)
    return out


def _of_state(spec: MachineSpec, state: StateSpec, handled: frozenset[str]) -> Iterator[Row]:
    name = state.name
    for trial in ORDER:
        match trial:
            case "retry":
                if label := state.attempts_label:
                    guards = (regions.Retrying(label),)
                    yield Row("advance", name, name, guards, f"{name}.retry", "retry")
            case "divert":  # by the state's `failed`, else by the machine's `on_error`
                failed, error = (regions.Failed("the action failed"),), spec.on_error
                for edge in state.edges_of("failed"):
                    yield Row("advance", name, edge.target, failed, edge.id, "failed", edge)
                if error is not None and state.action is not None and name not in handled:
                    yield Row("advance", name, error.target, failed, "on_error", "error", error)
            case "edges":
                yield from _edges(spec, state)


def _edges(spec: MachineSpec, state: StateSpec) -> Iterator[Row]:
    """The edges of the file, in its order, including those that return from a detour."""
    for edge in state.edges:
        if edge.role != "failed" and edge.target == RETURN and _has_alternatives(state):
            yield from _returning(spec, edge)
        elif edge.role != "failed" and edge.target != RETURN:
            kind = {"on": "answer", "expired": "expired", "all": "fork"}.get(edge.role, "advance")
            guards = _guards(state, edge)
            yield Row(edge.trigger, state.name, edge.target, guards, edge.id, kind, edge)


def _guards(state: StateSpec, edge: Edge) -> tuple[regions.Guard, ...]:
    if edge.role == "all":
        return (regions.InBranch(int(edge.id.rpartition(".")[2])),)
    if edge.role == "case" and state.of is not None:
        return (regions.Is(state.of, case_value(state.of.type, edge.case)),)
    return (regions.Holds(edge.when),) if edge.when is not None else ()


def return_points(spec: MachineSpec, rule: Rule) -> list[tuple[ReturnPoint, str]]:
    """Return the points at which a detour may interrupt a run, with the run's destination."""
    out: list[tuple[ReturnPoint, str]] = []
    for state in spec.states.values():
        if state.job == "end":
            continue
        covered = not rule.at or state.name in rule.at
        acted = state.rests and covered
        for edge in state.edges:
            if edge.target != RETURN and (edge.target in rule.before if rule.before else acted):
                out.append((ReturnPoint("edge", edge.id), edge.target))
        begun = state.name in spec.entries and covered  # a rule may hold before the first action
        if (acted or begun) and not rule.before:
            out.append((ReturnPoint("state", state.name), state.name))
        if acted and not rule.before:
            if state.all:
                out.append((ReturnPoint("fork", state.name), state.name))
        again = state.name in rule.before if rule.before else acted
        if state.attempts and again:
            out.append((ReturnPoint("edge", f"{state.name}.retry"), state.name))
    if spec.on_error is not None and (not rule.before or spec.on_error.target in rule.before):
        out.append((ReturnPoint("edge", "on_error"), spec.on_error.target))
    out += [(ReturnPoint("state", b), b) for b in rule.before]
    return out


def returning_states(spec: MachineSpec) -> list[tuple[str, Edge]]:
    """Return the states that return to where a detour interrupted the run, with their edge."""
    return [(e.source, e) for e in spec.edges() if e.target == RETURN]


def _has_alternatives(state: StateSpec) -> bool:
    """Whether an edge that returns is one of several: then its place in the file counts."""
    return sum(edge.role != "failed" for edge in state.edges) > 1


def _returning(spec: MachineSpec, edge: Edge) -> Iterator[Row]:
    """One transition for each state that a detour may have kept the run from."""
    guards = _guards(spec.states[edge.source], edge)
    targets = dict.fromkeys(
        to for r in spec.rules if r.kind == "detour" for _, to in return_points(spec, r)
    )
    for to in targets:
        yield Row(
            "advance", edge.source, to, (*guards, regions.Returning(to)), edge.id, "return", edge
        )


def _checks(spec: MachineSpec) -> Iterator[Row]:
    ranked: list[tuple[tuple[int, int], Row]] = []
    live = [n for n, s in spec.states.items() if s.job != "end"]
    for number, rule in enumerate(spec.rules):
        guard = (regions.RuleHolds(rule.when, number),)
        if rule.kind == "stop":
            rank, to = spec.reason(rule.stop).priority, rule.to or route(spec, rule.stop)
        else:
            rank, to = (20, rule.to) if rule.kind == "detour" else (21, None)
        for source in _states_under(spec, rule, live):
            ranked.append(
                (
                    (rank, number),
                    Row("check", source, to, guard, rule.id, "rule", rule=rule, by="rule"),
                )
            )
    groups: dict[tuple[int, str], list[str]] = {}
    for name, reason in spec.reasons.items():
        groups.setdefault((reason.priority, route(spec, name)), []).append(name)
    for (priority, to), names in groups.items():
        guards = (regions.Raised(names),)
        for source in live:
            ranked.append(
                (
                    (priority, -1),
                    Row("check", source, to, guards, f"raised.{to}", "raised", by="engine"),
                )
            )
    ranked.sort(key=lambda pair: pair[0])
    yield from (row for _, row in ranked)


def _states_under(spec: MachineSpec, rule: Rule, live: list[str]) -> list[str]:
    if rule.before:
        sources = {e.source for e in spec.edges() if e.target in rule.before} | set(rule.before)
        sources |= {n for n, _ in returning_states(spec)}
        if spec.on_error is not None and spec.on_error.target in rule.before:
            sources |= {n for n, state in spec.states.items() if state.action is not None}
        return [n for n in live if n in sources]
    return [n for n in live if not rule.at or n in rule.at]


def route(spec: MachineSpec, reason: str) -> str:
    """Return the state that a stop without a target leads to. Source: "language", section 4."""
    if spec.on_stop:
        return spec.on_stop
    own = [n for n, s in spec.states.items() if s.stop == reason]
    if len(own) == 1:
        return own[0]
    ends = [n for n, s in spec.states.items() if s.end == "by_reason" and not s.stop]
    if len(ends) == 1:
        return ends[0]
    return END_ERROR if spec.reason(reason).status == "error" else END_COMPLETED

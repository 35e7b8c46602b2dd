"""Laws of the checker: what it says cannot happen does not, in any run that is tried.

Guards are drawn, asked about, and tried with every set of a few values. Small machines of decisions
behind each other are drawn, checked, and explored: every run of a few actions, whatever the actions
come to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.analysis.checker import Report, examine
from chartloop.analysis.proofs.guards.domains import World
from chartloop.analysis.proofs.guards.prover import Claim, Prover
from chartloop.api import lifecycle
from chartloop.core.errors import Finding
from chartloop.core.facts import Facts, sections
from chartloop.core.outcome import Outcome, Reply, Spent
from chartloop.core.position import Position
from chartloop.core.records import Input
from chartloop.core.types import BOOL, COUNT, INT, STR, struct
from chartloop.language.expression import GUARD_ERRORS, Expression, Scope, no_oracle, parse
from chartloop.language.load import load
from chartloop.language.spec import MachineSpec, path_in_file
from chartloop.language.yaml.document import dotted_path
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision
from chartloop.machine.evolve import evolve
from tests.laws.test_machine_laws import drive
from tests.strategies import happenings, machines, ticks
from tests.support import actions

# guards -------------------------------------------------------------------------------------

_SCOPE = Scope(
    {
        **sections(),
        "limits": struct({"n": COUNT, "off": COUNT.maybe()}, keyed=True),
        "vars": struct({"x": INT, "y": INT, "flag": BOOL, "word": STR}, keyed=True),
    }
)
_VALUES: dict[str, tuple[Any, ...]] = {
    "x": (-1, 0, 1, 2, 3), "y": (0, 1, 3), "flag": (True, False), "word": ("a", "b", "c"),
    "n": (0, 2, 3), "off": (None, 1, 3), "steps": (0, 1, 2, 4),
}  # fmt: skip


def _arithmetic(left: str, op: str, right: str) -> str:
    return f"({left} {op} {right})"


def _choice(then: str, test: str, other: str) -> str:
    return f"({then} if {test} else {other})"


def _extreme(name: str, left: str, right: str) -> str:
    return f"{name}({left}, {right})"


def _negated(text: str) -> str:
    return f"not ({text})"


_LEAVES = st.sampled_from(["vars.x", "vars.y", "run.steps", "limits.n", "0", "1", "2", "3"])
_TRUTHS = st.sampled_from(
    [
        "vars.flag", 'vars.word == "a"', 'vars.word in ["a", "b"]', 'vars.word != "c"',
        "run.steps >= limits.off", "limits.off is None", "vars.x in [0, 2]", "not vars.flag",
        'vars.word.startswith("a")', '"b" in vars.word', "run.steps < limits.n < 3",
    ]
)  # fmt: skip
_ORDERS = st.sampled_from([">=", ">", "<", "<=", "==", "!="])


def _more_numbers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return (
        st.builds(_arithmetic, inner, st.sampled_from("+-*"), inner)
        | st.builds(_choice, inner, _TRUTHS, inner)
        | st.builds(_extreme, st.sampled_from(["min", "max"]), inner, inner)
    )


_numbers: st.SearchStrategy[str] = st.recursive(_LEAVES, _more_numbers, max_leaves=5)
_compared: st.SearchStrategy[str] = st.builds(_arithmetic, _numbers, _ORDERS, _numbers)


def _more_truths(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.sampled_from(["and", "or"])
    return st.builds(_arithmetic, inner, joined, inner) | st.builds(_negated, inner)


_truths: st.SearchStrategy[str] = st.recursive(_TRUTHS | _compared, _more_truths, max_leaves=6)
_claims = st.lists(st.tuples(_truths, st.booleans()), min_size=1, max_size=3)


def _asked(drawn: list[tuple[str, bool]]) -> list[tuple[Expression, bool]]:
    assume(all(len(text) < 300 for text, _ in drawn))
    return [(parse(text, _SCOPE, want=BOOL), holds) for text, holds in drawn]


def _worlds() -> Iterator[Facts]:
    for x, y, flag, word, n, off, steps in product(*_VALUES.values()):
        yield Facts(
            run=Facts().run.replace(steps=steps),
            limits={"n": n, "off": off},
            vars={"x": x, "y": y, "flag": flag, "word": word},
        )


_WORLDS = tuple(_worlds())[::3]  # every third: 1,080


def _holds(claims: list[tuple[Expression, bool]], facts: Facts) -> bool:
    try:
        return all(bool(e.fn(facts, no_oracle)) == holds for e, holds in claims)
    except GUARD_ERRORS:
        return False


@given(_claims)
@settings(max_examples=100, deadline=None)
def test_what_is_refuted_holds_for_no_values(drawn: list[tuple[str, bool]]) -> None:
    claims = _asked(drawn)
    answer = Prover(World()).ask([Claim(e.root, h) for e, h in claims], values=True)
    if answer.possible is False:
        assert not any(_holds(claims, facts) for facts in _WORLDS)


@given(_claims)
@settings(max_examples=60, deadline=None)
def test_limits_that_count_as_written_are_no_others(drawn: list[tuple[str, bool]]) -> None:
    claims = _asked(drawn)
    world = World(limits={"limits.n": 2})
    answer = Prover(World()).ask([Claim(e.root, h) for e, h in claims], world=world)
    if answer.possible is False:
        fixed = (f for f in _WORLDS if f.limits["n"] == 2)
        assert not any(_holds(claims, facts) for facts in fixed)


# machines -----------------------------------------------------------------------------------

_ATOMS = (
    "run.steps >= {n}", "run.steps < {n}", "run.steps == {n}", "vars.x > {n}", "vars.x <= {n}",
    "last.ok", "not last.ok", "usage.total_tokens >= 100", "usage.prompt_tokens >= 150",
    "run.visits.act >= {n}", 'last.state == "act"', 'last.action == "keep"', "vars.flag",
    "run.steps >= limits.steps", "run.steps >= limits.most", "errors.rate > 50 / 100",
    "last.error is not None", "signals.count > 0",
)  # fmt: skip


def _filled(text: str, number: int) -> str:
    return text.format(n=number)


def _both(first: str, op: str, second: str) -> str:
    return f"{first} {op} {second}" if op else first


_atom: st.SearchStrategy[str] = st.builds(_filled, st.sampled_from(_ATOMS), st.integers(0, 3))
_guards: st.SearchStrategy[str] = st.builds(
    _both, _atom, st.sampled_from(["", "", "and", "or"]), _atom
)
Data = dict[str, Any]
_SETS: tuple[Data, ...] = ({"vars.x": "vars.x + 1"}, {"vars.x": "0"}, {"vars.flag": True})


@st.composite
def _edge(draw: st.DrawFn, targets: list[str], *, guarded: bool) -> Data:
    edge: Data = {"to": draw(st.sampled_from(targets))}
    if guarded:
        edge["when"] = draw(_guards)
    if draw(st.integers(0, 4)) == 0:
        edge["set"] = draw(st.sampled_from(_SETS))
    return edge


@st.composite
def deciding(draw: st.DrawFn) -> Data:
    """A machine of two actions and of decisions behind each other."""
    count = draw(st.integers(1, 4))
    names = [f"d{n}" for n in range(count)]
    body: Data = {
        "act": {"do": "act", "next": "d0"},
        "keep": {"do": "keep", "failed": "next", "next": draw(st.sampled_from(names))},
    }
    for n, name in enumerate(names):
        onward = [*names[n + 1 :], "act", "keep", "done"]
        if draw(st.booleans()):
            body[name] = {"ask": "Q?", "when": draw(_guards)}
            body[name] |= {k: draw(_edge(onward, guarded=False)) for k in ("then", "else")}
        else:
            edges = [draw(_edge(onward, guarded=True)) for _ in range(draw(st.integers(1, 3)))]
            last = [draw(_edge(onward, guarded=False))] if draw(st.integers(0, 3)) else []
            body[name] = {"ask": "Q?", "next": [*edges, *last]}
    body["done"] = {"stop": "completed"}
    rules: list[Data] = []
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["stop", "stop", "signal", "to"]))
        what = "side" if kind == "to" else draw(st.sampled_from(["custom", "steps_limit"]))
        rules.append({"when": draw(_guards), kind: what})
        if draw(st.integers(0, 3)) == 0:
            rules[-1]["at"] = [draw(st.sampled_from(["act", "keep"]))]
    if any("to" in rule for rule in rules):
        body["side"] = {"do": "keep", "next": "return"}
    return {
        "chartloop": 1, "machine": "drawn", "limits": {"steps": 3, "most": 5},
        "vars": {"x": 0, "flag": False}, "rules": rules, "states": body,
    }  # fmt: skip


def _ours() -> Any:
    specs = actions({})
    for spec in specs:  # else nothing is taken for granted: an application's code may do anything
        assert spec.run is not None
        spec.run.__module__ = "chartloop.of_this_test"
    return with_own(specs_of(specs))


_REGISTRY = _ours()
_COMES_TO = (
    Outcome(),
    Outcome.failure("TRANSIENT", "again"),
    Outcome(reply=Reply("hi"), spent=Spent(1, 160, 10)),
    Outcome(changes={"vars.x": 3}),
)
_DEEP = 5


def _explored(chart: Chart) -> Iterator[Decision]:
    """Every run of so many actions."""
    first = evolve(chart, chart.position("r"), Input("start", at=1.0, started=1.0))
    yield first[1]
    pending: list[tuple[Position, int]] = [(first[0], 0)]
    while pending:
        position, depth = pending.pop()
        if position.ended or depth == _DEEP:
            continue
        for outcome in _COMES_TO:
            given_ = Input("step", outcome=outcome, started=2.0 + depth, at=2.0 + depth)
            after, decision = evolve(chart, position, given_)
            yield decision
            pending.append((after, depth + 1))


def never_taken(spec: MachineSpec, findings: Iterable[Finding]) -> set[str]:
    """The edges and rules of which the findings say that they are never taken."""
    out = set[str]()
    by_path = {dotted_path(path_in_file(spec.made, e.path)): e for e in spec.edges()}
    deciding_at = {
        dotted_path(path_in_file(spec.made, ("states", n, "when"))): n for n in spec.states
    }
    for found in findings:
        parts = found.at.split(".")
        if found.code not in ("CL307", "CL326", "CL327", "CL328", "CL330"):
            continue
        if parts[0] == "rules":
            out |= {f"rules.{parts[1]}"} if found.code != "CL327" and len(parts) > 2 else set()
        elif found.at in deciding_at:
            role = "else" if found.code == "CL327" else "then"
            out |= {e.id for e in spec.states[deciding_at[found.at]].edges_of(role)}
        else:
            edge = by_path[found.at.removesuffix(".when")]
            group = list(spec.states[edge.source].edges)
            behind = group[group.index(edge) + 1 :] if found.code == "CL327" else [edge]
            out |= {e.id for e in behind}
    return out


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(deciding())
@settings(max_examples=100, deadline=None)
def test_what_is_said_never_to_happen_does_not(data: Data) -> None:
    loaded = load(json.dumps(data), "drawn.yaml", _REGISTRY)
    assert loaded.spec is not None, "\n".join(f.render() for f in loaded.findings)
    chart = Chart(loaded.spec, lifecycle())
    report = examine(chart, loaded.tainted)
    lost = never_taken(chart.spec, report.findings)
    missed = {f.at.split(".")[1] for f in report.findings if f.code == "CL304"}
    may_stick = {f.at.split(".")[1] for f in report.findings if f.code in ("CL305", "CL309")}
    for decision in _explored(chart):
        assert not lost & {*decision.taken}, (decision.taken, report.findings)
        assert not missed & {*decision.path}
        stuck = [s for s in decision.signals if str(s.reason) == "guard_error"]
        assert {s.source for s in stuck if "no way on" in s.message} <= may_stick


_COUNTED = ("run.steps", "errors.total", "errors.consecutive")


@given(deciding(), st.sampled_from(_COUNTED), st.integers(0, 3), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_what_a_rule_leaves_no_room_for_does_not_happen(
    data: Data, counter: str, most: int, times: int
) -> None:
    data["rules"] = [{"when": f"{counter} >= {most}", "stop": "steps_limit"}]
    data["states"]["act"]["retry"] = {"times": times, "base": "0s"}
    data["states"].pop("side", None)
    loaded = load(json.dumps(data), "drawn.yaml", _REGISTRY)
    assert loaded.spec is not None
    chart = Chart(loaded.spec, lifecycle())
    found = {f.code: f.message for f in examine(chart, loaded.tainted).findings}
    never = "is never retried" in found.get("CL349", "")
    for decision in _explored(chart):
        assert "CL347" not in found or "done" not in decision.path
        assert not never or "act.retry" not in decision.taken


def _no_continuation(happening: Any) -> bool:
    """What no action of ours comes to but `continue_run`."""
    return not isinstance(happening, Outcome) or happening.continued is None


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines(), happenings, st.lists(ticks, max_size=6))
@settings(max_examples=150, deadline=None)
def test_nor_with_waits_forks_detours_and_whatever_happens(
    data: Data, what: list[Any], moves: list[float]
) -> None:
    loaded = load(json.dumps(data), "generated.yaml", _REGISTRY)
    assert loaded.spec is not None
    chart = Chart(loaded.spec, lifecycle())
    report = examine(chart, loaded.tainted)
    # one of the happenings gives another limit
    kept = Report(tuple(f for f in report.findings if f.code != "CL330"))
    lost = never_taken(chart.spec, kept.findings)
    missed = {f.at.split(".")[1] for f in report.findings if f.code == "CL304"}
    for _, _, _, decision in drive(chart, [h for h in what if _no_continuation(h)], moves):
        assert not lost & {*decision.taken}, (decision.taken, report.findings)
        assert not missed & {*decision.path}

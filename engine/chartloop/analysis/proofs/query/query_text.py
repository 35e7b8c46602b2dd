"""The query language: `reach A`, `never A before B`, `each TOOL after its own EVENT` and so on.

A name is that of a state, event, action, tool or stop reason, or the id of an edge or rule as in
records and pictures. If a machine uses one name for two things, a prefix says which is meant:
``state:report``, ``action:report``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from chartloop.core.approvals import ACCEPT
from chartloop.core.errors import RunError, nearest
from chartloop.core.position import DECISIONS
from chartloop.core.specs import LABELS
from chartloop.core.types import BOOL
from chartloop.language.approval import call_type
from chartloop.language.expression import Expression, ExpressionFault, Scope, parse
from chartloop.language.expression.syntax import read as read_expression
from chartloop.language.readers.reader import NULLABLE
from chartloop.language.spec import INPUTS, MachineSpec
from chartloop.machine.build import Chart
from chartloop.machine.in_doubt import decides

Sort = Literal["state", "event", "action", "tool", "reason", "edge", "label", "input", "out"]
SORTS: tuple[Sort, ...] = ("state", "event", "action", "tool", "reason", "edge")
Form = Literal["reach", "never", "never before", "never after", "always after", "each", "no flow"]
FORMS = (
    "reach A", "avoid A", "never A", "never A before B", "never A after B", "always B after A",
    "always B before A", "each TOOL after its own EVENT",
    "no flow LABEL to TOOL", "no flow LABEL to TOOL unless STATE",
    "no flow LABEL to TOOL in one run",
)  # fmt: skip
LONGEST = 500
UNKNOWN_TYPE = "CL110"
"""The code of a condition on an argument whose type is not known."""
_WORD = r"(?P<{}>[^\s,;]+)"
_NO_FLOW = (
    rf"no flow {_WORD.format('a')} to {_WORD.format('b')}( unless {_WORD.format('unless')})?"
    r"(?P<one_run> in one run)?"
)
_SHAPES: tuple[tuple[str, Form], ...] = (
    (rf"reach {_WORD.format('a')}", "reach"),
    (rf"(?:avoid|never) {_WORD.format('a')}", "never"),
    (rf"never {_WORD.format('a')} before {_WORD.format('b')}", "never before"),
    (rf"always {_WORD.format('b')} before {_WORD.format('a')}", "never before"),
    (rf"never {_WORD.format('a')} after {_WORD.format('b')}", "never after"),
    (rf"always {_WORD.format('b')} after {_WORD.format('a')}", "always after"),
    (_NO_FLOW, "no flow"),
    (rf"each {_WORD.format('a')}( when (?P<when>.+))? after its own {_WORD.format('b')}", "each"),
)


class QueryFault(RunError):
    """A text that is not a query, or that names something that the machine does not have."""

    code = "CL612"


class Atom(NamedTuple):
    """One thing that may happen in a run."""

    sort: Sort
    name: str

    def __str__(self) -> str:
        return f"`{self.name}`" if self.sort in ("state", "edge") else f"{self.sort} `{self.name}`"


class Query(NamedTuple):
    """A parsed query: its form, and the one or two things that it is about."""

    text: str
    form: Form
    a: Atom
    b: Atom | None = None
    when: str = ""
    """Of `each`: the condition on the calls that are asked about; empty for all of them."""
    unless: str = ""
    """Of `no flow`: the state whose action lets pass only what may go on; empty for none."""
    one_run: bool = False
    """Of `no flow`: whether what a run leaves to the next one is left out."""


def read(text: str, chart: Chart) -> Query:
    """Parse a query of a machine. Raises `QueryFault`."""
    plain = " ".join(text.split())
    if len(plain) > LONGEST:
        raise QueryFault(f"a query has at most {LONGEST} characters")
    for shape, form in _SHAPES:
        match = re.fullmatch(shape, plain)
        if match is not None:
            names = match.groupdict()
            if form == "each":
                return _each(plain, chart, **names)
            if form == "no flow":
                return _no_flow(plain, chart, names)
            second = _atom(names["b"], chart) if "b" in names else None
            return Query(plain, form, _atom(names["a"], chart), second)
    raise QueryFault(f"`{plain[:80]}` is not a query", hint=f"write one of: {', '.join(FORMS)}")


def _no_flow(text: str, chart: Chart, names: Mapping[str, str | None]) -> Query:
    """A query about the data that reaches a tool, of child machines too; `out`: any that sends."""
    a, b, unless = str(names["a"]), str(names["b"]), names["unless"]
    known = names_of(chart)
    of_children = [tool for spec in chart.spec.family() for tool in spec.tools]
    known["tool"] = list(dict.fromkeys((*known["tool"], *of_children)))
    if a in LABELS:
        source = Atom("label", a)
    elif a.startswith("input:"):
        spec = chart.spec
        blocks = (f"memory.{name}" for name in spec.memory)
        source = _atom(a, chart, {**known, "input": [*INPUTS, *spec.vars, *blocks]})
    else:
        source = _atom(f"tool:{a.removeprefix('tool:')}", chart, known)
    sort, _, name = b.rpartition(":")
    if not sort and name in known["state"] and name not in (*known["tool"], *known["action"]):
        sort = "state"
    if sort in ("state", "event", "reason", "edge"):
        action = getattr(chart.spec.states.get(name), "action", None)
        raise QueryFault(
            f"text flows to a tool, an action or `out`, not to the {sort} `{name[:80]}`",
            hint=f"write `action:{action.name}`" if action else "write `tool:NAME`, or `out`",
        )
    target = Atom("out", "out") if b == "out" else _atom(b, chart, {
        **known, "state": [], "event": [], "reason": [], "edge": [],
    })  # fmt: skip
    screen = "" if unless is None else _atom(f"state:{unless.removeprefix('state:')}", chart).name
    return Query(
        text, "no flow", source, target, unless=screen, one_run=names["one_run"] is not None
    )


def _each(text: str, chart: Chart, a: str, b: str, when: str | None) -> Query:
    """A query about each call of a tool, of child machines too. A machine may lack the `accept`."""
    known = names_of(chart)
    of_children = [tool for spec in chart.spec.family() for tool in spec.tools]
    known["tool"] = list(dict.fromkeys((*known["tool"], *of_children)))
    known["event"] = list(dict.fromkeys((*known["event"], ACCEPT)))
    call = _atom(f"tool:{a.removeprefix('tool:')}", chart, known)
    answer = _atom(f"event:{b.removeprefix('event:')}", chart, known)
    faults: list[ExpressionFault] = []
    for spec in chart.spec.family():
        try:
            condition_of_calls(when or "True", spec, call.name)
        except ExpressionFault as fault:
            faults.append(fault)
        else:
            return Query(text, "each", call, answer, when or "")
    raise QueryFault(f"`{when}` is not a condition: {faults[0].message}", hint=faults[0].hint)


def condition_of_calls(text: str, spec: MachineSpec, tool: str) -> Expression | None:
    """The condition of a query on the calls of a tool, as a machine reads it.

    None if the types of the tool's arguments are not known. Raises `ExpressionFault`.
    """
    read_expression(text)
    known = spec.registry.tools.get(tool)
    if known is None or "properties" not in known.parameters:
        return None
    extra = {"call": call_type({tool: known.parameters})}
    defines = {name: one.text for name, one in spec.define.items()}
    guards = spec.registry.guards
    try:
        return parse(text, Scope(spec.roots, defines, guards, NULLABLE, extra=extra), want=BOOL)
    except ExpressionFault as fault:
        if fault.code == UNKNOWN_TYPE:
            return None
        raise


def _atom(word: str, chart: Chart, known: dict[Sort, list[str]] | None = None) -> Atom:
    sort, colon, name = word.partition(":")
    known = names_of(chart) if known is None else known
    if colon and (sort in SORTS or sort == "input"):
        if name in known[sort]:
            return Atom(sort, name)
        hint = nearest(name, known[sort], otherwise=_list_names(known[sort]))
        raise QueryFault(f"machine `{chart.name}` has no {sort} `{name[:80]}`", hint=hint)
    sorts: list[Sort] = [s for s in SORTS if word in known[s]]
    if len(sorts) > 1:
        choices = " or ".join(f"`{s}:{word}`" for s in sorts)
        both = " and ".join(f"{'an' if s[0] in 'aeiou' else 'a'} {s}" for s in sorts)
        raise QueryFault(f"`{word}` is {both}", hint=f"write {choices}")
    if not sorts:
        every = [n for s in SORTS for n in known[s]]
        message = f"machine `{chart.name}` has nothing that is called `{word[:80]}`"
        raise QueryFault(message, hint=nearest(word, every, otherwise=_list_names(known["state"])))
    return Atom(sorts[0], word)


def _list_names(names: Iterable[str]) -> str:
    listed = list(names)
    more = ", ..." if len(listed) > 8 else ""
    return f"there are: {', '.join(listed[:8])}{more}" if listed else "there are none"


def names_of(chart: Chart) -> dict[Sort, list[str]]:
    """Return the names that a query may use, by sort."""
    spec = chart.spec
    acting = [s.action.name for s in spec.states.values() if s.action is not None]
    events = [e.trigger for e in spec.edges() if e.role == "on"]
    if any(decides(spec, state) is not None for state in spec.states.values()):
        events += DECISIONS
    edges = [t.origin for t in chart.step.transitions() if t.kind != "raised"]
    return {
        "state": list(spec.states), "event": list(dict.fromkeys(events)),
        "action": list(dict.fromkeys(acting)),
        "tool": list(dict.fromkeys((*spec.tools, *spec.registry.own_tools))),
        "reason": list(spec.reasons), "edge": list(dict.fromkeys(edges)),
    }  # fmt: skip

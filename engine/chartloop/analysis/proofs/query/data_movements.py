"""Where the action, the answer and the assignments on a route move data.

A cell is a part of a run that holds data: see `core.cells`. A route's `Movement` says from what
each cell is made that it writes, and what it hands to tools. What happens inside a tool or a model
is not looked at: whatever went in may come out.

A decision moves nothing: that a guard read a text, and which tool a model chose, is no flow.

Belongs here: one route. Never: what follows along paths (`data_flow`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from chartloop.core.cells import CELLS, ENTRIES, NEWEST, OWN, Cell
from chartloop.core.facts import FACTS
from chartloop.core.specs import HARMLESS, UNSAID, DataUse, ToolSpec
from chartloop.language.expression import Expression
from chartloop.language.spec import INPUTS, Assign, Edge, Given, MachineSpec, StateSpec
from chartloop.language.template.template import Template
from chartloop.machine.abstract.position import FROM_OUTSIDE, Place, Route
from chartloop.machine.abstract.signals import Tools, carried_out

_SUPPLIED: Mapping[str, tuple[Cell, ...]] = {
    "conversation": ("messages", NEWEST), "tasks": ("queue",), "checkpoint": ("checkpoint",),
    "reply": ("reply",), "task": ("task",),
}  # fmt: skip
"""The cells that hold a supply: see `core.specs.Supply`."""
_WIDENED: Mapping[str, tuple[Cell, ...]] = {
    "result": ("result",), "call": ("reply",), "item": ("result",),
}  # fmt: skip
"""The cells behind the names that only some expressions may read."""


@cache
def cells_of_fact(path: str) -> frozenset[Cell]:
    """The cells behind a fact, a part of one, or a whole section."""
    return frozenset(
        cell for name, spec in FACTS.items() for cell in spec.cells
        if f"{name}.".startswith(f"{path}.") or path.startswith(f"{name}.")
    )  # fmt: skip


class Source(NamedTuple):
    """Where data comes from."""

    name: str
    """``tool `fetch` ``, ``input `task` ``"""
    use: DataUse = UNSAID
    """What it declares; if nothing, its data may have any label."""

    def __str__(self) -> str:
        return self.name


NO_PROMPT = Source("")
"""In the cell `prompt`: `prompt` made nothing, so a reply answers the conversation."""
Origin = Cell | Source
Origins = frozenset[Origin]
NONE: Origins = frozenset()


class Sent(NamedTuple):
    """Data that an action hands to a tool, or out by itself."""

    to: str
    """``tool:send_mail``, ``action:notify``"""
    of: Origins
    use: DataUse
    child: str = ""
    """The child machine that sends it; empty for the machine itself."""


class Movement(NamedTuple):
    """What a route does with data: what each written cell holds after it, and what was sent."""

    into: Mapping[Cell, Origins]
    sent: tuple[Sent, ...]


class Passed(NamedTuple):
    """What comes out of a child machine, and what it sends, by its own cells at its start."""

    result: Origins
    shared: Mapping[Cell, Origins]
    """What it leaves in the conversation, in memory and in the queue, if it shares them."""
    sent: tuple[Sent, ...]


def say_cell(cell: Cell) -> str:
    """A cell in words: ``the conversation``, ```vars.plan```."""
    return CELLS[cell].words if cell in CELLS else f"`{cell}`"


class Movements:
    """The movements of one machine. `children`: what its child machines do, by name.

    `cleaned`: states that let pass nothing; `approved`: tools whose calls a person accepts;
    `label`: the one that is asked for, which screens may end.
    """

    def __init__(
        self, spec: MachineSpec, children: Mapping[str, Passed], cleaned: frozenset[str],
        approved: frozenset[str], label: str,
    ) -> None:  # fmt: skip
        self.spec, self._children, self._approved = spec, children, approved
        ends = {n for n, state in spec.states.items() if label and label in _cleared(state)}
        self._cleaned = cleaned | ends
        self.cells: tuple[Cell, ...] = (*CELLS, *own_cells(spec))
        self._judged = self.read_by([(rule.when, rule.message) for rule in spec.rules])
        self._edges: dict[str, Edge] = {edge.id: edge for edge in spec.edges()}
        if spec.on_error is not None:
            self._edges[spec.on_error.id] = spec.on_error

    def on(self, route: Route, dest: Place, open_: Tools, *, unprompted: bool) -> Movement:
        """The movement of a route that leads to `dest`.

        `open_`: the tools that may have an open call; `unprompted`: whether a reply may answer the
        conversation.
        """
        held = _Held(self.cells)
        state = self.spec.states.get(route.state)
        kind = route.outcome.partition(":")[0]
        if state is not None and kind == "answer":
            self._answer(held, state)
        elif state is not None and state.action is not None and kind not in ("", "resumed"):
            self._act(held, state, sure=kind == "ok", open_=open_, unprompted=unprompted)
        edge = self._edges.get(route.origin)
        self._signal(held, state and [*state.edges, state.of, state.within])
        if edge is not None:
            self._set(held, edge.set, sure=True)
            self._signal(held, edge)
        if route.kind not in FROM_OUTSIDE and (entered := self.spec.states.get(dest.state)):
            self._set(held, entered.set, sure=edge is not None)
            self._signal(held, entered.message)
        return Movement(held.now, tuple(held.sent))

    def at_start(self, begin: str, inputs: Mapping[Cell, Origins]) -> Mapping[Cell, Origins]:
        """What the cells hold when a run has entered its first state."""
        held = _Held(self.cells)
        held.now |= {cell: inputs.get(cell, NONE) for cell in self.cells}
        held.now["prompt"] = frozenset({NO_PROMPT})
        self._set(held, self.spec.states[begin].set, sure=True)
        self._signal(held, self.spec.states[begin].message)
        return held.now

    def read_by(self, part: object) -> frozenset[Cell]:
        """The cells that an expression, a template, or a mapping or list of them reads."""
        match part:
            case Expression() | Template():
                return frozenset(c for path in part.reads for c in self._behind(path))
            case Given():
                return NONE_CELLS if part.kind == "constant" else self.read_by(part.value)
            case Edge():
                return self.read_by([part.when, part.message, *(one.value for one in part.set)])
            case Mapping():
                return frozenset().union(*map(self.read_by, part.values()))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            case list() | tuple():
                return frozenset().union(*map(self.read_by, part))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            case _:
                return NONE_CELLS

    def _behind(self, path: str) -> Iterable[Cell]:
        """The cells that hold what a fact says."""
        root, _, rest = path.partition(".")
        name = rest.partition(".")[0]
        if root in self.spec.define:
            return self.read_by(self.spec.define[root])
        if root in OWN:
            every = (c for c in self.cells if c.startswith(f"{root}."))
            return [c for c in every if not name or c == f"{root}.{name}"]
        return _WIDENED.get(root) or cells_of_fact(path)

    # what moves -------------------------------------------------------------------------------

    def _set(self, held: _Held, sets: tuple[Assign, ...], *, sure: bool) -> None:
        """Assignments, all of which read the values of before."""
        made = [(one, held.read(self.read_by(one.value))) for one in sets]
        for one, origins in made:
            held.write(one.target, origins, replaces=sure and not one.append)

    def _signal(self, held: _Held, *parts: object) -> None:
        """What is written into signals: messages, and what guards read, which may fail."""
        held.write("signals", held.read(self._judged.union(*map(self.read_by, parts))))

    def _answered(self, otherwise: DataUse = UNSAID) -> Origins:
        use = self.spec.inputs.get("answer") if self.spec.inputs is not None else None
        return frozenset({Source("input `answer`", use or otherwise)})

    def _answer(self, held: _Held, state: StateSpec) -> None:
        """The data of an answer, and what a gate makes of it."""
        origins = self._answered()
        held.write("answer", origins, replaces=True)
        # a denial tells the model why, an edit changes the call
        for cell in ENTRIES["answer"] if state.name in self.spec.gates else ():
            held.write(cell, origins)

    def _act(
        self, held: _Held, state: StateSpec, *, sure: bool, open_: Tools, unprompted: bool
    ) -> None:
        """An action: all that it reads may come out in all that it writes."""
        action = state.action
        assert action is not None
        read = self._read(state, unprompted=unprompted)
        origins = held.read(self.read_by(state.args)) | held.read(read)
        out = passed = NONE if state.name in self._cleaned else origins
        tools = [*self._tools(state, open_)]
        for tool in tools:
            if tool.machine:
                handed = NONE if tool.name in self._approved else origins
                held.sent.append(Sent(f"tool:{tool.name}", handed, HARMLESS))
                child = self._children[tool.machine]
                out |= self._child(held, child, handed, passed=passed, shared=state)
                out |= {Source(f"tool `{tool.name}`", HARMLESS)}
            else:
                out |= self._call(held, tool, origins)
        for name in self.spec.children_of(state) if state.traits.runs != "calls" else ():
            child = self._children[name]
            out |= self._child(held, child, origins, passed=passed, shared=state)
        use = self.spec.use_of(action)
        known = not use.declared and action.is_builtin
        out |= NONE if known else {Source(f"action `{action.name}`", use)}
        held.sent.append(Sent(f"action:{action.name}", origins, HARMLESS if known else use))
        screens = state.traits.screens is not None
        out |= origins if screens else NONE  # its reason and what it took out are of the text
        edits = (not tools and not screens) or any(tool.memory for tool in tools)
        self._write(held, state, out, passed, sure=sure, edits=edits)
        for save in state.save if sure else ():
            cells = {"result"} if save.template is None else self.read_by(save.template)
            left = screens and save.path == ("text",)
            saved = passed if left else held.read(cells)
            held.write(save.target, saved, replaces=not save.append)
        if state.asks_model in ("reply", "task"):
            held.write("prompt", frozenset({NO_PROMPT}), replaces=sure)

    def _read(self, state: StateSpec, *, unprompted: bool) -> frozenset[Cell]:
        """The cells that an action reads, besides those that its `with` names."""
        action, traits = state.action, state.traits
        assert action is not None
        if traits.reads is None or state.asks_model == "task":
            return frozenset(self.cells)
        cells = set(traits.reads)
        if _screens_newest(state):
            cells.add(NEWEST)
        if state.asks_model != "reply":  # which answers a prompt, or the conversation: see below
            cells |= {*_SUPPLIED.get(action.needs or "", ())}
        if state.asks_model == "reply":
            cells |= {"prompt", *self.read_by(self.spec.instructions)}
            cells |= {c for c in self.cells if c.startswith("memory.")}
            cells |= {"messages"} if unprompted else set()
        cells |= {NEWEST} if "messages" in cells else set()
        if traits.sets_prompt and "keep" in state.args:  # it goes to the model with what was said
            cells.add("messages")
        if traits.sets_prompt and "system" not in state.args:
            cells |= self.read_by(self.spec.instructions)
        if state.calls in ("all", "first", "memory"):
            cells.add("reply")
        return frozenset(c for cell in cells for c in (
            [o for o in self.cells if o.startswith(cell[:-1])] if cell.endswith("*") else [cell]
        ))  # fmt: skip

    def _tools(self, state: StateSpec, open_: Tools) -> Iterator[ToolSpec]:
        """The tools that an action may call."""
        named = carried_out(self.spec, state)
        for name in sorted(named if state.calls in ("named", "task") else named & open_):
            if (tool := self.spec.registry.tools.get(name)) is not None:
                yield tool

    def _call(self, held: _Held, tool: ToolSpec, origins: Origins) -> Origins:
        """Hand data to a tool; returns what may come out of it besides that."""
        use = self.spec.use_of(tool)
        more: set[Cell] = set()
        if tool.memory:
            more |= {c for c in self.cells if c.startswith("memory.")}
        # a `Context` is the whole run, of which a person who accepts the call sees nothing
        whole = held.read(self.cells) if tool.wants_context and not tool.server else NONE
        if tool.server:  # it may ask a person, who answers it by a form
            whole = self._answered(HARMLESS)
        given = NONE if tool.name in self._approved else origins
        held.sent.append(Sent(f"tool:{tool.name}", given | whole, use))
        return held.read(more) | whole | {Source(f"tool `{tool.name}`", use)}

    def _child(
        self, held: _Held, child: Passed, origins: Origins, *, passed: Origins, shared: StateSpec
    ) -> Origins:
        """Hand data to a child machine, which lets `passed` come out; returns what comes out."""
        share = repr([shared.args[n] for n in ("share", "children") if n in shared.args])
        parts = [c for c in self.cells if c.partition(".")[0] in share]
        common = held.read(parts)

        def outside(of: Origins, given: Origins = passed) -> Origins:
            own = frozenset(o for o in of if isinstance(o, Source))
            return own | (given | common if len(own) < len(of) else NONE)

        for cell in parts:
            held.write(cell, outside(child.shared.get(cell.partition(".")[0], NONE)))
        held.sent += [one._replace(of=outside(one.of, origins)) for one in child.sent]
        return outside(child.result)

    def _write(
        self, held: _Held, state: StateSpec, out: Origins, passed: Origins, *, sure: bool,
        edits: bool,
    ) -> None:  # fmt: skip
        """What an action leaves behind: `out`, or what it let pass. A failed one may leave any."""
        action, traits = state.action, state.traits
        assert action is not None
        held.write("result", out, replaces=sure)
        told = out | held.read(self.read_by([save.template for save in state.save]))
        held.write("error", told)
        held.write("signals", told)
        targets = [name for name in state.args if name.startswith("vars.")]
        for name in targets:
            own = held.read(self.read_by(state.args[name]))
            read = held.read({"reply"}) if traits.reads_reply else own
            held.write(name, NONE if state.name in self._cleaned else read, replaces=sure)
        apart = traits.runs in ("one", "several")  # a child changes what it shares: see `_child`
        for fact in action.changes:
            root, _, name = fact.partition(".")
            if (root == "vars" and targets) or (root == "memory" and not edits) or apart:
                continue
            cells = [c for c in self.cells if c.startswith(f"{root}.")] if name == "*" else [fact]
            for cell in ["queue"] if root == "queue" else cells:
                if cell in self.cells:
                    held.write(cell, out)
        if traits.sets_prompt:
            held.write("prompt", passed, replaces=sure)
        by_block = traits.calls == "memory" and state.calls == "none"
        leaves_none = traits.sets_prompt and "keep" not in state.args
        supplied = frozenset[str]() if by_block or leaves_none or apart else action.supplies
        for cell in (cell for supply in supplied for cell in _SUPPLIED[supply]):
            if cell not in ("messages", NEWEST):
                held.write(cell, out)
        self._converse(held, state, out, passed, edits="conversation" in supplied, sure=sure)
        replies = state.asks_model in ("reply", "task") or not action.is_builtin
        if replies:
            held.write("reply", out, replaces=sure and state.asks_model == "reply")
            name = held.read(self.read_by(state.args)) if action.is_builtin else out
            held.write("model", name, replaces=sure and state.asks_model == "reply")
        if "session" in (traits.reads or ()):
            held.write("session", out)

    def _converse(
        self, held: _Held, state: StateSpec, out: Origins, passed: Origins, *, edits: bool,
        sure: bool,
    ) -> None:  # fmt: skip
        """What an action leaves in the conversation. `edits`: it supplies it."""
        action, traits = state.action, state.traits
        assert action is not None
        if traits.screens is not None:
            if _screens_newest(state) and sure:  # what must not pass was taken out of them
                held.write(NEWEST, passed, replaces=True)
            return
        appends = state.calls in ("all", "first", "memory") or traits.step == "user-message"
        replies = state.asks_model in ("reply", "task") or not action.is_builtin
        edits |= appends or replies or "usage.messages" in action.changes
        if not edits and state.calls != "task":
            return
        held.write(NEWEST, out)
        if not appends:
            held.write("messages", held.read((NEWEST,)))  # it may stand before a reply now


def _screens_newest(state: StateSpec) -> bool:
    """Whether a state screens the messages since the newest reply, not a text."""
    screens = state.traits.screens
    return screens is not None and screens[1] not in state.args


def _cleared(state: StateSpec) -> Collection[str]:
    """The labels that what a state lets pass has lost, if it screens."""
    screens = state.traits.screens
    given = state.args.get(screens[0]) if screens is not None else None
    return () if given is None else given.value


NONE_CELLS: frozenset[Cell] = frozenset()


class _Held:
    """What the cells hold while a route is followed, in terms of what they held before it."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self.now: dict[Cell, Origins] = {}
        self.sent: list[Sent] = []

    def read(self, cells: Iterable[Cell]) -> Origins:
        return frozenset(o for c in cells for o in self.now.get(c, (c,)))

    def write(self, cell: Cell, origins: Origins, *, replaces: bool = False) -> None:
        """Add to what a cell holds. With `replaces` nothing of before is left, nor its labels."""
        self.now[cell] = origins if replaces else self.read((cell,)) | origins


def own_cells(spec: MachineSpec) -> Iterator[Cell]:
    """The cells that a machine has besides those of every machine."""
    for root, names in zip(OWN, (spec.vars, spec.memory, spec.limits), strict=True):
        yield from (f"{root}.{name}" for name in names)


_GIVEN: Mapping[Cell, str] = {
    cell: field
    for field in INPUTS if not isinstance(cells := ENTRIES.get(f"start.{field}", ""), str)
    for cell in cells
}  # fmt: skip
"""The cells of every machine that a caller may fill, and the input that does."""


def given_cells(spec: MachineSpec) -> tuple[Cell, ...]:
    """The cells that a caller, or a parent, may fill."""
    return (*_GIVEN, *own_cells(spec))


def given_data(spec: MachineSpec) -> Mapping[Cell, Origins]:
    """The origins of what a caller may give to a run of its own. Its limits are no text."""
    inputs = spec.inputs
    out: dict[Cell, Origins] = {}
    for cell in given_cells(spec):
        key = _GIVEN.get(cell) or cell.removeprefix("vars.")
        if cell.startswith("limits."):
            continue
        if inputs is None or (cell == "queue" and "tasks" not in inputs):  # tasks may come later
            out[cell] = frozenset({Source(f"input `{key}`")})
        elif key in inputs:
            out[cell] = frozenset({Source(f"input `{key}`", inputs[key])})
    return out


def declared_uses(spec: MachineSpec) -> list[DataUse]:
    """What is declared of the machine's tools, actions and inputs."""
    known, acting = spec.registry.tools, [s.action for s in spec.states.values()]
    tools = [spec.use_of(tool) for tool in known.values()]
    actions = [spec.use_of(action) for action in acting if action is not None]
    given = (*spec.data.values(), *(spec.inputs or {}).values())
    return [use for use in (*tools, *actions, *given) if use.declared]


Values = Mapping[Cell, Origins]


def expand(of: Origins, values: Values) -> Origins:
    """Origins in terms of what the cells held before, by what these held."""
    return frozenset(
        origin
        for one in of
        for origin in (values.get(one, NONE) if isinstance(one, str) else (one,))
    )

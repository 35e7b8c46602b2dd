"""Expansion of the key `approve` into states.

Belongs here: the expansion of a calling state. Never: reading the file (`language.readers`), the
question, or the execution of calls (`actions`).

A state that executes calls, here `act`, becomes four. Runs, pictures, proofs and records contain
these four:

    act            lists the open calls that need an approval, and writes the question
    approve        waits for `accept` or `deny`; with several calling states `approve_act`
    act_approved   `act` with all its tools: executes the calls that were approved
    act_others     `act` without these tools: if no call needs an approval, or all were denied

With `edit` there is a fifth, to which the event `edit` of the wait leads: `act_edited` lists the
changed calls that need an approval, as `act` does. With `when` or `remember` some calls of these
tools need no approval, so `act_others` has all tools of `act`; the action refuses the others.

The edges, `save`, `retry`, `within` and `failed` of `act` apply to `act_approved` and
`act_others`; `set` and `status` happen once, at `act`. A rule `at: act` is evaluated after either;
a rule `before: act` is evaluated before `act` and again before `act_approved`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from chartloop.core.approvals import ACCEPT, CALLS, DENY, EDIT
from chartloop.core.types import ANY, BOOL, STR, Type, map_of, struct, word_of
from chartloop.language.expression import Scope, parse
from chartloop.language.json_schema.typed import type_of_schema
from chartloop.language.label import Label, parse_label
from chartloop.language.spec import Approve, Edge, Given, MachineSpec, Rule, StateSpec
from chartloop.language.yaml.reading import Path

ACTION = "ask_approval"
"""The action of the state that lists the calls."""
HERE: Path = ("approve",)


def calling_states(spec: MachineSpec, tools: tuple[str, ...]) -> list[StateSpec]:
    """The states that may execute the model's calls of these tools."""
    return [
        state for state in spec.states.values()
        if state.calls in ("all", "first")
        and not set(tools).isdisjoint(spec.offered(state))
    ]  # fmt: skip


def names_for(states: list[StateSpec], *, edit: bool) -> dict[str, tuple[str, ...]]:
    """The names of the states that each calling state adds: wait, approved, others, edited."""
    alone = len(states) == 1
    return {
        (n := s.name): (
            "approve" if alone else f"approve_{n}", f"{n}_approved", f"{n}_others",
            *((f"{n}_edited",) if edit else ()),
        )
        for s in states
    }  # fmt: skip


def call_type(schemas: Mapping[str, Mapping[str, Any]]) -> Type:
    """The type of `call` in `when`: its name and arguments, by the schemas of the tools, by name.

    The arguments are those of all the tools together. One that two tools declare with different
    types is `any`, and so is every argument if the schema of a tool is unknown.
    """
    fields: dict[str, Type] = {}
    for schema in schemas.values():
        for name, type in type_of_schema(schema, whole=True).fields:
            fields[name] = type if fields.get(name, type) == type else ANY
    declared = all("properties" in schema for schema in schemas.values())
    arguments = struct(fields, keyed=True) if declared else map_of(ANY)
    return struct({"name": word_of(schemas, "tool"), "arguments": arguments}, keyed=True)


def expand(spec: MachineSpec, given: Approve, scope: Scope) -> MachineSpec:
    """Expand `approve` into the states of the machine."""
    calling = calling_states(spec, given.tools)
    names = names_for(calling, edit=given.edit)
    made: dict[Path, Path] = {}
    states: dict[str, StateSpec] = {}
    for name, state in spec.states.items():
        if name not in names:
            states[name] = state
            continue
        wait, *own = names[name]
        made |= {("states", n): ("states", name) for n in own}
        made["states", wait] = HERE
        maker = _Maker(given, state, names[name], spec, scope)
        states |= {s.name: s for s in maker.states()}
    kept = replace(
        given,
        states={s.name: s for s in calling},
        rules=spec.rules,
        made=tuple(str(path[1]) for path in made),
    )
    rules = tuple(_rule(rule, names) for rule in spec.rules)
    return replace(spec, states=states, rules=rules, approve=kept, made={**spec.made, **made})


def _rule(rule: Rule, names: Mapping[str, tuple[str, ...]]) -> Rule:
    at = tuple(n for name in rule.at for n in (names[name][1:3] if name in names else (name,)))
    before = tuple(n for name in rule.before for n in (name, *names.get(name, ("",) * 3)[1:2]) if n)
    return replace(rule, at=at, before=before)


class _Maker:
    """Expands one calling state."""

    def __init__(
        self, given: Approve, state: StateSpec, names: tuple[str, ...], spec: MachineSpec,
        scope: Scope,
    ) -> None:  # fmt: skip
        self.given = given
        self.state = state
        self.wait, self.approved, self.others, *self.edited = names
        self.spec = spec
        self.scope = scope

    def states(self) -> Iterator[StateSpec]:
        """The states, in the order of a run."""
        given, state = self.given, self.state
        rest = state.allow
        if given.when is None and not given.remember:
            rest = tuple(n for n in self.spec.offered(state) if n not in given.tools)
        asks = self._question_state(state.name, "Which calls need\napproval?", self.others)
        yield replace(asks, about=state.about, role=state.role, set=state.set, status=state.status)
        yield self._wait_state()
        for name in self.edited:
            yield self._question_state(name, "Do the changed calls\nneed approval?", self.approved)
        yield self._calling_state(self.approved, self.state.allow, self._label_for("approved"))
        yield self._calling_state(self.others, rest, self._label_for("the others"))

    def _question_state(self, name: str, label: str, otherwise: str) -> StateSpec:
        action = self.spec.registry.actions[ACTION]
        known = {"last.result": action.result}
        when = parse("len(last.result) > 0", replace(self.scope, typed=known))
        args = {
            "tools": Given("data", list(self.given.tools)), "wait": Given("data", self.wait),
            "by": Given("data", self.given.by), "first": Given("data", self.state.calls == "first"),
            "when": Given("data", self.given.when), "edited": Given("data", name in self.edited),
        }  # fmt: skip
        if self.given.ask is not None:
            args["text"] = Given("text", self.given.ask)
        needs = "needs approval"
        if self.given.when is not None:
            needs += f":\n{self.given.when.text}"
        to_wait = self._edge(f"{name}.next.0", self.wait)
        edges = (
            replace(to_wait, when=when, label=self._label(needs)),
            self._edge(f"{name}.next.1", otherwise),
        )
        return StateSpec(
            name,
            "act",
            edges,
            label=self._label(label),
            action=action,
            result=action.result,
            args=args,
        )

    def _wait_state(self) -> StateSpec:
        given = self.given
        who = f"\n({given.by})" if given.by else ""
        by: tuple[tuple[str, Type], ...] = (("by", STR),) if given.by or given.not_by else ()
        note = (*by, ("note", STR.maybe()))
        calls = (CALLS, map_of(ANY))
        each = (calls[0], calls[1].maybe())
        remember = (("remember", BOOL.maybe()),) if given.remember else ()
        edges = [
            self._on(ACCEPT, self.approved, (*by, each, *remember)),
            self._on(DENY, self.others, (*note, each)),
            *(self._on(EDIT, edited, (*by, calls)) for edited in self.edited),
        ]
        if given.within is not None:
            to = given.expired or self.others
            late = self._edge(f"{self.wait}.expired", to)
            edges.append(replace(late, role="expired", trigger="expired"))
        ask = self._label(f"Approve {', '.join(given.tools)}?{who}")
        return StateSpec(self.wait, "wait", tuple(edges), ask=ask, within=given.within)

    def _on(self, event: str, to: str, data: tuple[tuple[str, Type], ...]) -> Edge:
        edge = self._edge(f"{self.wait}.on.{event}", to)
        return replace(edge, role="on", trigger=event, data=data)

    def _edge(self, id: str, to: str) -> Edge:
        return Edge(id, id.partition(".")[0], to, path=HERE)

    def _label_for(self, which: str) -> Label | None:
        """The label of the calling state, with the part of its calls in parentheses."""
        own = self.state.label
        if own is None:
            return None
        return parse_label(f"{own.text}\\n({which})", self.scope.roots, self.spec.define)

    def _calling_state(
        self, name: str, allow: tuple[str, ...] | None, label: Label | None
    ) -> StateSpec:
        own = self.state.name
        edges = tuple(
            replace(e, id=name + e.id.removeprefix(own), source=name) for e in self.state.edges
        )
        return replace(
            self.state, name=name, edges=edges, allow=allow, label=label, set=(), status="",
            role="", about="",
        )  # fmt: skip

    def _label(self, text: str) -> Label:
        return parse_label(text.replace("{", "{{").replace("}", "}}"), self.scope.roots)

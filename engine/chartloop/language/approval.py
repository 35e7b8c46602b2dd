"""Expansion of the key `approve` into states.

Belongs here: the expansion of a calling state. Never: reading the file (`language.readers`), the
question, or the execution of calls (`actions`).

A state that executes calls, here `act`, becomes four. Runs, pictures, proofs and records contain
these four:

    act            lists the open calls that need an approval, and writes the question
    approve        waits for `accept` or `deny`; with several calling states `approve_act`
    act_approved   `act` with all its tools: executes the calls if they were approved
    act_others     `act` without these tools: if no call needs an approval, or it was denied

The edges, `save`, `retry`, `within` and `failed` of `act` apply to `act_approved` and
`act_others`; `set` and `status` happen once, at `act`. A rule `at: act` is evaluated after either;
a rule `before: act` is evaluated before `act` and again before `act_approved`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from chartloop.core.types import STR, Type
from chartloop.language.expression import Scope, parse
from chartloop.language.label import Label, parse_label
from chartloop.language.spec import Approve, Edge, Given, MachineSpec, Rule, StateSpec
from chartloop.language.yaml.reading import Path

ACTION = "ask_approval"
"""The action of the state that lists the calls."""
ACCEPT, DENY = "accept", "deny"
HERE: Path = ("approve",)


def calling_states(spec: MachineSpec, tools: tuple[str, ...]) -> list[StateSpec]:
    """The states that may execute the model's calls of these tools."""
    return [
        state for state in spec.states.values()
        if state.calls in ("all", "first")
        and not set(tools).isdisjoint(spec.tools if state.allow is None else state.allow)
    ]  # fmt: skip


def names_for(states: list[StateSpec]) -> dict[str, tuple[str, str, str]]:
    """The names of the states that each calling state adds: wait, approved, others."""
    alone = len(states) == 1
    return {
        (n := s.name): ("approve" if alone else f"approve_{n}", f"{n}_approved", f"{n}_others")
        for s in states
    }


def expand(spec: MachineSpec, given: Approve, scope: Scope) -> MachineSpec:
    """Expand `approve` into the states of the machine."""
    calling = calling_states(spec, given.tools)
    names = names_for(calling)
    made: dict[Path, Path] = {}
    states: dict[str, StateSpec] = {}
    for name, state in spec.states.items():
        if name not in names:
            states[name] = state
            continue
        wait, approved, others = names[name]
        made |= {("states", n): ("states", name) for n in (approved, others)}
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


def _rule(rule: Rule, names: dict[str, tuple[str, str, str]]) -> Rule:
    at = tuple(n for name in rule.at for n in (names[name][1:] if name in names else (name,)))
    before = tuple(n for name in rule.before for n in (name, *names.get(name, ("",) * 3)[1:2]) if n)
    return replace(rule, at=at, before=before)


class _Maker:
    """Expands one calling state."""

    def __init__(
        self, given: Approve, state: StateSpec, names: tuple[str, str, str], spec: MachineSpec,
        scope: Scope,
    ) -> None:  # fmt: skip
        self.given = given
        self.state = state
        self.wait, self.approved, self.others = names
        self.spec = spec
        self.scope = scope

    def states(self) -> Iterator[StateSpec]:
        """The four states, in the order of a run."""
        allowed = self.spec.tools if self.state.allow is None else self.state.allow
        rest = tuple(name for name in allowed if name not in self.given.tools)
        yield self._question_state()
        yield self._wait_state()
        yield self._calling_state(self.approved, self.state.allow, self._label_for("approved"))
        yield self._calling_state(self.others, rest, self._label_for("the others"))

    def _question_state(self) -> StateSpec:
        action = self.spec.registry.actions[ACTION]
        known = {"last.result": action.result}
        when = parse("len(last.result) > 0", replace(self.scope, typed=known))
        args = {
            "tools": Given("data", list(self.given.tools)), "wait": Given("data", self.wait),
            "by": Given("data", self.given.by), "first": Given("data", self.state.calls == "first"),
        }  # fmt: skip
        if self.given.ask is not None:
            args["text"] = Given("text", self.given.ask)
        to_wait = self._edge(f"{self.state.name}.next.0", self.wait)
        edges = (
            replace(to_wait, when=when, label=self._label("needs approval")),
            self._edge(f"{self.state.name}.next.1", self.others),
        )
        return StateSpec(
            self.state.name, "act", edges, label=self._label("Which calls need\napproval?"),
            about=self.state.about, role=self.state.role, action=action, result=action.result,
            args=args, set=self.state.set, status=self.state.status,
        )  # fmt: skip

    def _wait_state(self) -> StateSpec:
        given = self.given
        who = f"\n({given.by})" if given.by else ""
        by: tuple[tuple[str, Type], ...] = (("by", STR),) if given.by or given.not_by else ()
        note = (*by, ("note", STR)) if by else ()
        edges = [
            self._on(ACCEPT, self.approved, by), self._on(DENY, self.others, note),
        ]  # fmt: skip
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

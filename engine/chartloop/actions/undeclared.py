"""Names that no one here has declared, taken for someone's own: to look at a file, not to run it.

A file names tools, actions and guards of an application. Whoever only compares or draws it need not
have their code, and of a stranger's file must not run it. Here any such name means something that
may be anything: fields and arguments of it are not checked.

Belongs here: the stand-ins, and which of them a machine has. Never: something that can be called
with success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn, TypeVar

from chartloop.actions import builtin
from chartloop.core.errors import SetupError
from chartloop.core.specs import ActionSpec, GuardSpec, Registry, ToolSpec, TypeSpec
from chartloop.language.expression import Expression
from chartloop.language.spec import MachineSpec

T = TypeVar("T")
EVERY_TOOL = "*"


class _Assuming(Mapping[str, T]):
    """A table that also has what it does not list."""

    def __init__(self, known: Mapping[str, T], stand_in: Callable[[str], T]) -> None:
        self._known = known
        self._stand_in = stand_in

    def __getitem__(self, name: str) -> T:
        found = self._known.get(name)
        return self._stand_in(name) if found is None else found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def assuming(known: Registry) -> Registry:
    """The registry with a stand-in for every name that it does not have."""
    return Registry(
        _Assuming(known.actions, lambda name: ActionSpec(name, None)),
        _Assuming(known.tools, _tool),
        _Assuming(known.guards, lambda name: GuardSpec(name, None, _cannot)),
        known.own_tools or (EVERY_TOOL,),
        _Assuming(known.types, _type),
        known.plugins,
    )


def own_upkeep(spec: MachineSpec) -> tuple[str, ...]:
    """The actions of an application that a machine does and that are upkeep, by name."""
    used = (s.action for one in spec.family() for s in one.states.values() if s.action is not None)
    return tuple(
        dict.fromkeys(a.name for a in used if not a.work and a.name not in builtin().actions)
    )


def upkeep_stand_ins(names: Iterable[str]) -> list[ActionSpec]:
    """Stand-ins for actions of which it is known that they are upkeep."""
    return [ActionSpec(name, None, work=False) for name in names]


def _tool(name: str) -> ToolSpec:
    return ToolSpec(name, "", {}, _cannot, _cannot)


def _type(name: str) -> TypeSpec:
    return TypeSpec(name, None, dict[str, Any], _cannot)


def _cannot(*_: Any) -> NoReturn:
    raise SetupError("this machine was loaded for reading only", hint="load it with its tools")


def assumed_in(spec: MachineSpec) -> tuple[str, ...]:
    """The undeclared names of a machine and its children: ``tool `search` ``."""
    found: dict[str, None] = {}
    for one in spec.family():
        registry = one.registry
        tools, guards = set(registry.tools), set(registry.guards)
        actions = (s.action for s in one.states.values() if s.action is not None)
        found |= dict.fromkeys(f"action `{a.name}`" for a in actions if a.run is None)
        named = (n for n in one.tools if n not in tools and n != EVERY_TOOL)
        found |= dict.fromkeys(f"tool `{n}`" for n in named)
        asked = (name for guard in _expressions(one) for name in guard.opaque)
        found |= dict.fromkeys(f"guard `{n}`" for n in asked if n not in guards)
        classes = (
            g.value.name for s in one.states.values() for g in s.args.values() if g.kind == "schema"
        )
        found |= dict.fromkeys(
            f"class `{n}`" for n in classes if n and n not in set(registry.types)
        )
    return tuple(found)


def used_plugins(spec: MachineSpec, models: Iterable[str] = ()) -> dict[str, str]:
    """The plugins of which a machine or a child of it uses something, with where each is from.

    `models` are names of models that its run calls instead of the file's.
    """
    given, used = spec.registry.plugins, set[str]()
    if not given:
        return {}
    named = (*models, *(str(one.model.get("name", "")) for one in spec.family()))
    called = {name.partition("/")[0] for name in named if "/" in name}
    for one in spec.family():
        actions = {s.action.name for s in one.states.values() if s.action is not None}
        names = {*one.tools, *(n for g in _expressions(one) for n in g.opaque)}
        for state in one.states.values():
            names |= set(state.allow or ())
            names |= {g.value.name for g in state.args.values() if g.kind == "schema"}
            words = {_constant(arg.value) for arg in state.args.values()}
            names |= words
            called |= {word.partition("/")[0] for word in words if "/" in word}  # `with: {model}`
        used |= {p.name for p in given if p.actions & actions or p.names & names}
    return {p.name: p.source for p in given if p.name in used or p.name in called}


def _constant(value: Any) -> str:
    """A text of `with` that is the same in every run; empty for anything else."""
    if isinstance(value, str):
        return value
    text = getattr(value, "text", "") if getattr(value, "constant", False) else ""
    return text if isinstance(text, str) else ""


def _expressions(spec: MachineSpec) -> Iterator[Expression]:
    yield from (rule.when for rule in spec.rules)
    yield from (edge.when for edge in spec.edges() if edge.when is not None)
    yield from (state.of for state in spec.states.values() if state.of is not None)
    yield from spec.define.values()

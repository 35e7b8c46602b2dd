"""Stand-ins for undeclared names, to read a file without the application's code.

A file names tools, actions and guards of an application. Drawing or comparing the file does not
need their code, and must not run a stranger's. With stand-ins every name is accepted, and its
fields and arguments are not checked.

Belongs here: the stand-ins, and which of them a machine uses. Never: anything that can run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from chartloop.actions import builtin
from chartloop.core.errors import SetupError
from chartloop.core.specs import ActionSpec, GuardSpec, Registry, ToolSpec, TypeSpec
from chartloop.language.expression import Expression
from chartloop.language.spec import MachineSpec

T = TypeVar("T")
EVERY_TOOL = "*"


class _Assuming(Mapping[str, T]):
    """A mapping that makes a stand-in for every missing name."""

    def __init__(self, known: Mapping[str, T], stand_in: Callable[[str], T]) -> None:
        self._known = known
        self._stand_in = stand_in

    def __getitem__(self, name: str) -> T:
        spec = self._known.get(name)
        return self._stand_in(name) if spec is None else spec

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def assuming(known: Registry) -> Registry:
    """The registry with a stand-in for every unknown name."""
    return replace(
        known,
        actions=_Assuming(known.actions, lambda name: ActionSpec(name, None)),
        tools=_Assuming(known.tools, _tool),
        guards=_Assuming(known.guards, lambda name: GuardSpec(name, None, _cannot)),
        own_tools=known.own_tools or (EVERY_TOOL,),
        types=_Assuming(known.types, _type),
        assumed=True,
    )


def own_upkeep(spec: MachineSpec) -> tuple[str, ...]:
    """The names of the application's upkeep actions that a machine uses."""
    used = (s.action for one in spec.family() for s in one.states.values() if s.action is not None)
    return tuple(
        dict.fromkeys(a.name for a in used if not a.work and a.name not in builtin().actions)
    )


def upkeep_stand_ins(names: Iterable[str]) -> list[ActionSpec]:
    """Stand-ins for actions that are known to be upkeep."""
    return [ActionSpec(name, None, work=False) for name in names]


def _tool(name: str) -> ToolSpec:
    return ToolSpec(name, "", {}, _cannot, _cannot)


def _type(name: str) -> TypeSpec:
    return TypeSpec(name, None, dict[str, Any], _cannot)


def _cannot(*_: Any) -> NoReturn:
    raise SetupError("this machine was loaded for reading only", hint="load it with its tools")


def assumed_in(spec: MachineSpec) -> tuple[str, ...]:
    """The undeclared names of a machine and its children: ``tool `search` ``."""
    undeclared: dict[str, None] = {}
    for one in spec.family():
        registry = one.registry
        tools, guards = set(registry.tools), set(registry.guards)
        actions = (s.action for s in one.states.values() if s.action is not None)
        undeclared |= dict.fromkeys(f"action `{a.name}`" for a in actions if a.run is None)
        unknown = (n for n in one.tools if n not in tools and n != EVERY_TOOL)
        undeclared |= dict.fromkeys(f"tool `{n}`" for n in unknown)
        opaque = (name for guard in _expressions(one) for name in guard.opaque)
        undeclared |= dict.fromkeys(f"guard `{n}`" for n in opaque if n not in guards)
        classes = (
            g.value.name for s in one.states.values() for g in s.args.values() if g.kind == "schema"
        )
        undeclared |= dict.fromkeys(
            f"class `{n}`" for n in classes if n and n not in set(registry.types)
        )
    return tuple(undeclared)


def used_plugins(spec: MachineSpec, models: Iterable[str] = ()) -> dict[str, str]:
    """The plugins that a machine or its children use: plugin name to its source.

    `models` are the names of models that the run calls instead of the file's.
    """
    plugins, used = spec.registry.plugins, set[str]()
    if not plugins:
        return {}
    model_names = (*models, *(str(one.model.get("name", "")) for one in spec.family()))
    prefixes = {name.partition("/")[0] for name in model_names if "/" in name}
    for one in spec.family():
        actions = {s.action.name for s in one.states.values() if s.action is not None}
        names = {*one.tools, *(n for g in _expressions(one) for n in g.opaque)}
        for state in one.states.values():
            names |= set(state.allow or ())
            names |= {g.value.name for g in state.args.values() if g.kind == "schema"}
            words = {_constant(arg.value) for arg in state.args.values()}
            names |= words
            prefixes |= {word.partition("/")[0] for word in words if "/" in word}  # `with: {model}`
        used |= {p.name for p in plugins if p.actions & actions or p.names & names}
    return {p.name: p.source for p in plugins if p.name in used or p.name in prefixes}


def _constant(value: Any) -> str:
    """A constant text of `with`; empty for anything else."""
    if isinstance(value, str):
        return value
    text = getattr(value, "text", "") if getattr(value, "constant", False) else ""
    return text if isinstance(text, str) else ""


def _expressions(spec: MachineSpec) -> Iterator[Expression]:
    yield from spec.guards()
    yield from (state.of for state in spec.states.values() if state.of is not None)
    yield from spec.define.values()

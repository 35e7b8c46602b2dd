"""The reader of states: their job, their action or question, and their edges.

Source: `docs/language.md`, "States"
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from chartloop.core.specs import ActionSpec
from chartloop.language.expression import Expression, Scope
from chartloop.language.expression.words import DOUBT
from chartloop.language.file import file
from chartloop.language.readers.cases import case_fault, case_value, missing_cases
from chartloop.language.readers.edges import Slot, read_edge, read_edges, read_event, read_sets
from chartloop.language.readers.jobs import check_keys, job_of
from chartloop.language.readers.reader import Reader, items
from chartloop.language.readers.saves import read_save, result_of
from chartloop.language.readers.settings import offered_names
from chartloop.language.readers.withs import read_args
from chartloop.language.spec import HIGHEST, Edge, EdgeRole, Given, Retry, StateSpec
from chartloop.language.yaml.reading import Path

__all__ = ["case_value", "read_state"]


def read_state(reader: Reader, name: str, shape: file.StateShape) -> StateSpec:
    """Read one state."""
    path: Path = ("states", name)
    entry = reader.at(name, "entry")
    job = job_of(reader, path, shape)
    allow = _allow(reader, (*path, "allow"), shape.allow)
    action = _action(reader, path, shape, reader.tools if allow is None else allow)
    args: dict[str, Given] = {}
    if "with" not in shape.lost:
        args = read_args(reader, (*path, "with"), action, shape.with_, entry)
    result = result_of(action, args, reader.registry.tools)
    within = None if action is None else action.within
    if shape.within == "none" and within is not None:
        within = None
    elif shape.within is not None:
        within = reader.duration((*path, "within"), shape.within, entry)
    simple = reader.simple(path, shape)
    if job == "end":
        simple.setdefault("end", "by_reason")
    spec = StateSpec(
        name, job,
        **simple,
        action=action, result=result,
        args=args,
        save=read_save(reader, (*path, "save"), shape.save, result),
        within=within, retry=_retry(reader, path, shape.retry), failed_next=shape.failed == "next",
        set=read_sets(reader, (*path, "set"), shape.set, entry),
        stop=_stop(reader, (*path, "stop"), shape.stop),
        allow=allow,
    )  # fmt: skip
    check_keys(reader, path, shape, job)
    return _with_edges(reader, spec, path, shape)


def _action(
    reader: Reader, path: Path, shape: file.StateShape, offered: Iterable[str]
) -> ActionSpec | None:  # fmt: skip
    if shape.do is None:
        return None
    known, tools = reader.registry.actions, reader.registry.tools
    name = reader.name((*path, "do"), shape.do, known, "action", "CL401")
    action = known[name] if name else ActionSpec(shape.do, None)
    if action.traits.calls not in ("all", "first"):
        return action
    if not any(name in tools and tools[name].machine for name in offered):
        return action
    return replace(action, may_wait=True, declares=replace(action.traits, runs="calls"))


def _stop(reader: Reader, path: Path, name: str | None) -> str:
    if name is None or name == HIGHEST:
        return name or ""
    return reader.reason(path, name)


def _retry(reader: Reader, path: Path, shape: file.RetryShape | int | None) -> Retry | None:
    if shape is None:
        return None
    if isinstance(shape, int):
        return Retry(shape)
    base, most = (
        _wait(reader, (*path, "retry", key), text)
        for key, text in (("base", shape.base), ("most", shape.most))
    )
    on = items(shape.on)
    reader.once((*path, "retry", "on"), on, "category")
    return Retry(
        shape.times,
        base,
        shape.factor,
        tuple(dict.fromkeys(category for _, category in on)),
        most,
    )


def _wait(reader: Reader, at: Path, text: file.Scalar) -> float:
    wait = reader.duration(at, text)
    if isinstance(wait, Expression):
        message = "the waits of `retry` are written out"
        reader.say("CL209", at, message, hint="write `1s`; an expression is not allowed here")
    return wait if isinstance(wait, float) else 1.0


def _allow(reader: Reader, path: Path, names: list[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    return offered_names(reader, path, names)


# edges --------------------------------------------------------------------------------------


def _with_edges(reader: Reader, spec: StateSpec, path: Path, shape: file.StateShape) -> StateSpec:
    after = reader.at(spec.name, "after")
    edges: list[Edge] = []
    if shape.failed is not None and not spec.failed_next:
        failed = after.narrow({"last.error", "errors.last"})
        edges += _one(reader, _slot(spec, "failed"), shape.failed, failed)
    of: Expression | None = None
    if shape.when is not None:
        decided, spec = _read_when(reader, spec, path, shape, after)
        edges += decided
    elif shape.of is not None:
        of, cased = _cases(reader, spec, path, shape, after)
        edges += cased
    if shape.next is not None:
        name = f"{spec.name}.next" if isinstance(shape.next, list) else f"{spec.name}.next.0"
        edges += read_edges(
            reader, Slot((*path, "next"), spec.name, "next", name), shape.next, after
        )
    for event, edge in (shape.on or {}).items():
        edges += read_event(reader, spec.name, event, edge)
    if shape.expired is not None:
        scope = after.narrow({"last.error", "errors.last"}) if spec.action else after
        edges += _one(reader, _slot(spec, "expired"), shape.expired, scope)
    branches = tuple(_branches(reader, (*path, "all"), shape.all))
    edges += [
        Edge(f"{spec.name}.all.{n}", spec.name, b, "all", path=(*path, "all", n))
        for n, b in enumerate(branches)
    ]
    return replace(spec, edges=tuple(edges), of=of, all=branches)


def _one(reader: Reader, slot: Slot, shape: Any, scope: Scope) -> list[Edge]:
    made = read_edge(reader, slot, shape, scope)
    return [made] if made else []


def _slot(spec: StateSpec, role: EdgeRole) -> Slot:
    """The slot of the only edge with a role."""
    trigger = "expired" if role == "expired" else "advance"
    return Slot(("states", spec.name, role), spec.name, role, f"{spec.name}.{role}", trigger)


def _read_when(
    reader: Reader, spec: StateSpec, path: Path, shape: file.StateShape, scope: Scope
) -> tuple[list[Edge], StateSpec]:
    """Read the edges of `when`, and add `warn_at` to the state."""
    when = reader.guard((*path, "when"), shape.when, scope)
    if shape.warn_at is not None:
        spec = replace(spec, warn_at=reader.warn_at(path, shape.warn_at, when))
    out: list[Edge] = []
    if shape.then is not None:
        known = scope.narrow(when.implies(True))
        made = _one(reader, _slot(spec, "then"), shape.then, known)
        out += [replace(e, when=when) for e in made]
    if shape.else_ is not None:
        known = scope.narrow(when.implies(False))
        out += _one(reader, _slot(spec, "else"), shape.else_, known)
    return out, spec


def _cases(
    reader: Reader, spec: StateSpec, path: Path, shape: file.StateShape, scope: Scope
) -> tuple[Expression | None, list[Edge]]:
    at = (*path, "of")
    of = reader.expression(at, shape.of, None, scope)
    if of is not None and of.type.kind not in ("enum", "bool", "int", "str"):
        message = f"`of` gives {of.type}: a case is a word, a number, true or false"
        reader.say("CL104", at, message, hint="decide with `when`, or with a list under `next`")
        of = None
    out: list[Edge] = []
    for word, edge in _valid_cases(reader, path, of, shape):
        slot = Slot(
            (*path, "cases", word), spec.name, "case", f"{spec.name}.cases.{word}", case=word
        )
        out += _one(reader, slot, edge, scope)
    if shape.else_ is not None:
        out += _one(reader, _slot(spec, "else"), shape.else_, scope)
    elif of is not None and shape.cases and (missing := missing_cases(of.type, shape.cases)):
        hint = "add the case, or `else`"
        reader.say("CL322", at, f"no case for {missing}", hint=hint, key=True)
        reader.unsure = reader.unsure or of.type.nullable
    return of, out


def _valid_cases(
    reader: Reader, path: Path, of: Expression | None, shape: file.StateShape
) -> Iterator[tuple[str, Any]]:
    """The cases with their edges, after a report of impossible and duplicate ones."""
    seen: set[Any] = set()
    for word, edge in (shape.cases or {}).items():
        at = (*path, "cases", word)
        if of is not None and (fault := case_fault(of.type, word)):
            note = reader.warn if fault.code == DOUBT else reader.say
            note(fault.code, at, fault.message, hint=fault.hint, key=True)
        elif of is not None and (value := case_value(of.type, word)) in seen:
            message = f"`{word}` is a second case for {value}"
            reader.say("CL307", at, message, hint="remove one of them", key=True)
        else:
            seen.add(word if of is None else case_value(of.type, word))
        yield word, edge


def _branches(reader: Reader, path: Path, names: list[str] | None) -> Iterator[str]:
    given = items(names)
    reader.once(path, given, "branch")
    for number, name in given:
        if (state := reader.state((*path, number), name)) is not None:
            yield state

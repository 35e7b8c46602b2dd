"""Reads states, edges and rules: what is done, what is asked, where it goes.

Imported by: language.load
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock.core.specs import ActionSpec
from interlock.core.types import ANY, BOOL, Type, parse_type, struct
from interlock.language import file
from interlock.language.expression import Expression, Scope
from interlock.language.flow import Flow, Moment
from interlock.language.parts import coerce
from interlock.language.reader import Reader
from interlock.language.spec import (
    HIGHEST,
    RETURN,
    Assign,
    Edge,
    EdgeRole,
    Job,
    Retry,
    Rule,
    Save,
    StateSpec,
)
from interlock.language.withs import read_args, read_save
from interlock.language.yaml import Path

RESERVED = frozenset({"advance", "check", "expired"})

_JOBS: tuple[tuple[Job, tuple[str, ...]], ...] = (
    ("act", ("do",)),
    ("wait", ("on",)),
    ("decide", ("when", "of")),
)


class StateReader:
    """Reads the states and rules of one machine, with what `flow` knows about each moment."""

    def __init__(
        self,
        reader: Reader,
        *,
        names: tuple[str, ...],
        reasons: Mapping[str, Any],
        variables: Mapping[str, Type],
        tools: tuple[str, ...],
        flow: Flow | None,
    ) -> None:
        self.reader = reader
        self.names = names
        self.reasons = reasons
        self.variables = variables
        self.tools = tools
        self.flow = flow

    # states ---------------------------------------------------------------------------------

    def state(self, name: str, shape: file.StateShape) -> StateSpec:
        """One state."""
        reader, path = self.reader, ("states", name)
        job = self._job(path, shape)
        entry = self._scope(name, "entry")
        action = self._action(path, shape)
        spec = StateSpec(
            name,
            job,
            label=reader.label((*path, "label"), shape.label),
            ask=reader.label((*path, "ask"), shape.ask),
            about=shape.about or "",
            role=shape.role or "",
            pill=shape.shape == "pill",
            action=action,
            args=read_args(reader, (*path, "with"), action, shape.with_, entry, self.variables)
            if shape.do
            else {},
            save=read_save(reader, (*path, "save"), shape.save, action, self.variables),
            warn_at=None
            if shape.warn_at is None
            else reader.share((*path, "warn_at"), shape.warn_at),
            within=None
            if shape.within is None
            else reader.duration((*path, "within"), shape.within, entry),
            retry=self._retry(path, shape.retry),
            failed_next=shape.failed == "next",
            set=self._sets((*path, "set"), shape.set, entry),
            status=shape.status or "",
            stop=self._reason((*path, "stop"), shape.stop, highest=True),
            end=shape.end or ("by_reason" if job == "end" else None),
            allow=self._allow(path, shape.allow),
            in_doubt=shape.in_doubt,
            place=reader.document.key(reader.base + path),
        )
        return self._with_edges(spec, path, shape)

    def _job(self, path: Path, shape: file.StateShape) -> Job:
        jobs = [job for job, keys in _JOBS if any(_given(shape, k) for k in keys)]
        if shape.next is not None and shape.ask is not None and not jobs:
            jobs = ["decide"]
        others = [k for k in ("then", "else_", "cases", "all", "next") if _given(shape, k)]
        if not jobs:
            if shape.end is not None or (shape.stop is not None and not others):
                jobs = ["end"]
            else:
                jobs = ["fork" if shape.all is not None else "pass"]
        elif shape.all is not None and jobs != ["act"]:
            jobs.append("fork")
        if len(jobs) > 1:
            self._clash(path, f"a state has one job, this one has {len(jobs)}: {', '.join(jobs)}")
        self._keys(path, shape, jobs[0])
        return jobs[0]

    def _keys(self, path: Path, shape: file.StateShape, job: Job) -> None:
        """Keys that need another, or do not go with the job."""
        for key, needs in (
            ("then", ("when",)), ("cases", ("of",)), ("expired", ("within",)), ("with_", ("do",)),
            ("save", ("do",)), ("retry", ("do",)), ("failed", ("do",)), ("allow", ("do",)),
            ("in_doubt", ("do",)), ("else_", ("when", "of")), ("within", ("do", "on")),
            ("warn_at", ("when",)),
        ):  # fmt: skip
            if _given(shape, key) and not any(_given(shape, n) for n in needs):
                self._clash(
                    (*path, key.rstrip("_")),
                    f"`{key.rstrip('_')}` goes with `{'` or `'.join(needs)}`",
                    missing=True,
                )
        for key, needs in (("when", ("then", "else_")), ("of", ("cases",))):
            for need in needs:
                if _given(shape, key) and not _given(shape, need):
                    word = need.rstrip("_")
                    code = "IL309" if word == "else" else "IL202"
                    self.reader.say(
                        code,
                        (*path, key),
                        f"`{key}` needs `{word}`",
                        hint=f"add `{word}:`",
                        key=True,
                    )
        if shape.end is not None and (
            extra := next(
                (
                    k
                    for k in ("next", "then", "else_", "cases", "on", "do", "all")
                    if _given(shape, k)
                ),
                None,
            )
        ):
            self.reader.say(
                "IL306",
                (*path, extra.rstrip("_")),
                f"`{path[-1]}` is an end: `{extra.rstrip('_')}` can never come to pass",
                hint="remove it, or `end`",
                key=True,
            )
        if (shape.next is not None and job in ("wait", "fork")) or (
            job == "decide"
            and shape.next is not None
            and (shape.when is not None or shape.of is not None)
        ):
            self._clash((*path, "next"), "`next` does not go with this state's job", missing=True)

    def _clash(self, path: Path, message: str, *, missing: bool = False) -> None:
        self.reader.say("IL207", path, message, key=missing or len(path) == 2)

    def _action(self, path: Path, shape: file.StateShape) -> ActionSpec | None:
        if shape.do is None:
            return None
        known = self.reader.registry.actions
        name = self.reader.name((*path, "do"), shape.do, known, "action", "IL401")
        return known[name] if name else ActionSpec(shape.do, None)

    def _retry(self, path: Path, shape: file.RetryShape | None) -> Retry | None:
        if shape is None:
            return None
        base = self.reader.duration((*path, "retry", "base"), shape.base)
        if isinstance(base, Expression):
            self.reader.say(
                "IL209",
                (*path, "retry", "base"),
                "the wait of `retry` is written out",
                hint="write `1s`",
            )
        return Retry(
            shape.times, base if isinstance(base, float) else 1.0, shape.factor, tuple(shape.on)
        )

    def _allow(self, path: Path, names: list[str] | None) -> tuple[str, ...] | None:
        if names is None:
            return None
        for n, name in enumerate(names):
            self.reader.name((*path, "allow", n), name, self.tools, "tool of this machine", "IL405")
        return tuple(names)

    def _reason(self, path: Path, name: str | None, *, highest: bool = False) -> str:
        if name is None or (highest and name == HIGHEST):
            return name or ""
        return self.reader.name(path, name, self.reasons, "stop reason", "IL408") or name

    # edges ----------------------------------------------------------------------------------

    def _with_edges(self, spec: StateSpec, path: Path, shape: file.StateShape) -> StateSpec:
        scope = self._scope(spec.name, "after")
        edges: list[Edge] = []
        of: Expression | None = None
        if shape.failed is not None and shape.failed != "next":
            failed = scope.narrowed(scope.known | {"last.error"})
            edges += self._edge(
                (*path, "failed"), shape.failed, "failed", failed, f"{spec.name}.failed"
            )
        if shape.when is not None:
            edges += self._asked(spec, path, shape, scope)
        if shape.of is not None:
            of, cased = self._cases(spec, path, shape, scope)
            edges += cased
        edges += self._next((*path, "next"), shape.next, scope, f"{spec.name}.next")
        for event, edge in (shape.on or {}).items():
            edges += self._event(spec, (*path, "on", event), event, edge)
        if shape.expired is not None:
            edges += self._edge(
                (*path, "expired"), shape.expired, "expired", scope, f"{spec.name}.expired"
            )
        branches = self._branches(path, shape.all)
        edges += [
            Edge(f"{spec.name}.all.{n}", spec.name, b, "all", place=self.reader.place((*path, "all", n)))
            for n, b in enumerate(branches)
        ]  # fmt: skip
        edges = [replace(e, source=spec.name) for e in edges]
        return replace(spec, edges=tuple(edges), of=of, all=branches)

    def _asked(
        self, spec: StateSpec, path: Path, shape: file.StateShape, scope: Scope
    ) -> list[Edge]:
        when = self.reader.expression((*path, "when"), shape.when, BOOL, scope)
        if when is not None and spec.warn_at is not None and not when.bounds:
            self._clash(
                (*path, "warn_at"), "`warn_at` goes with a guard `fact >= bound`", missing=True
            )
        out: list[Edge] = []
        for role, edge, holds in (("then", shape.then, True), ("else", shape.else_, False)):
            if edge is None:
                continue
            inner = scope.narrowed(scope.known | when.implies(holds)) if when else scope
            made = self._edge((*path, role), edge, role, inner, f"{spec.name}.{role}")
            out += [replace(e, when=when) if role == "then" else e for e in made]
        if when is None:  # what could not be read leaves no false trail for later checks
            self.reader.tainted.add(spec.name)
        return out

    def _cases(
        self, spec: StateSpec, path: Path, shape: file.StateShape, scope: Scope
    ) -> tuple[Expression | None, list[Edge]]:
        of = self.reader.expression((*path, "of"), shape.of, None, scope)
        out: list[Edge] = []
        for word, edge in (shape.cases or {}).items():
            at = (*path, "cases", word)
            if of is not None and (problem := _case_problem(of.type, word)):
                self.reader.say("IL111", at, *problem, key=True)
            made = self._edge(at, edge, "case", scope, f"{spec.name}.cases.{word}")
            out += [replace(e, case=word) for e in made]
        if shape.else_ is not None:
            out += self._edge((*path, "else"), shape.else_, "else", scope, f"{spec.name}.else")
        elif of is not None and (missing := _uncovered(of.type, set(shape.cases or {}))):
            self.reader.say(
                "IL322",
                (*path, "of"),
                f"nothing is said for {missing}",
                hint="add the case, or `else`",
                key=True,
            )
            self.reader.unsure = self.reader.unsure or of.type.nullable
        return of, out

    def _next(self, path: Path, shape: Any, scope: Scope, id: str) -> list[Edge]:
        if shape is None:
            return []
        if not isinstance(shape, list):
            return self._edge(path, shape, "next", scope, f"{id}.0", guarded=True)
        out: list[Edge] = []
        for n, edge in enumerate(shape):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            made = self._edge((*path, n), edge, "next", scope, f"{id}.{n}", guarded=True)
            for e in made:
                if e.when is not None:
                    scope = scope.narrowed(scope.known | e.when.implies(False))
                elif n < len(shape) - 1:  # pyright: ignore[reportUnknownArgumentType]
                    self.reader.say(
                        "IL321",
                        (*path, n),
                        "this edge has no `when`: the edges behind it can never be taken",
                        hint="move it to the end",
                    )
            out += made
        return out

    def _event(self, spec: StateSpec, path: Path, event: str, shape: Any) -> list[Edge]:
        if event in RESERVED:
            self.reader.say("IL320", path, f"`{event}` is an event of the engine's own", key=True)
            return []
        data: dict[str, Type] = {}
        for name, text in (getattr(shape, "data", None) or {}).items():
            type = parse_type(text)
            if type is None:
                self.reader.say(
                    "IL209",
                    (*path, "data", name),
                    f"`{text}` is no type",
                    hint="bool int float str duration fraction list[T] map[T]",
                )
            data[name] = type or ANY
        scope = self._scope(spec.name, "entry")
        answer = struct(data, keyed=True)
        scope = replace(scope, typed={**scope.typed, "last.answer": answer}).narrowed(
            scope.known | {"last.answer"}
        )
        shapes = shape if isinstance(shape, list) else [shape]
        out: list[Edge] = []
        for n, one in enumerate(shapes):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            at = (*path, n) if isinstance(shape, list) else path
            id = f"{spec.name}.on.{event}" + (f".{n}" if isinstance(shape, list) else "")
            out += self._edge(at, one, "on", scope, id, guarded=True)
        return [replace(e, trigger=event, data=tuple(data.items())) for e in out]

    def _branches(self, path: Path, names: list[str] | None) -> tuple[str, ...]:
        found = [
            self.reader.name((*path, "all", n), b, self.names, "state", "IL301")
            for n, b in enumerate(names or [])
        ]
        return tuple(b for b in found if b)

    def _edge(
        self,
        path: Path,
        shape: Any,
        role: EdgeRole,
        scope: Scope,
        id: str,
        *,
        guarded: bool = False,
    ) -> list[Edge]:
        edge = shape if isinstance(shape, file.EdgeShape) else file.EdgeShape(to=str(shape))
        written = isinstance(shape, file.EdgeShape)
        to = edge.to
        at: Path = (*path, "to") if written else path
        if to != RETURN or role not in ("next", "then", "else", "case"):
            found = self.reader.name(at, to, self.names, "state", "IL301")
            if found is None:
                self.reader.tainted.add("*")
                return []
            to = found
        when = None
        if edge.when is not None:
            if not guarded:
                self._clash(
                    (*path, "when"), f"an edge under `{role}` has no guard of its own", missing=True
                )
            else:
                when = self.reader.expression((*path, "when"), edge.when, BOOL, scope)
                if when is None:
                    return []
                scope = scope.narrowed(scope.known | when.implies(True))
        trigger = "expired" if role == "expired" else "advance"
        return [
            Edge(
                id, "", to, role, trigger,
                self.reader.label((*path, "label"), edge.label), when, "",
                self._sets((*path, "set"), edge.set, scope),
                self._reason((*path, "stop"), edge.stop), (), self.reader.place(path),
            )
        ]  # fmt: skip

    def error_edge(self, shape: Any) -> Edge | None:
        """`on_error`."""
        if shape is None:
            return None
        scope = self.reader.scope.narrowed(frozenset({"last.error", "errors.last"}))
        made = self._edge(("on_error",), shape, "error", scope, "on_error")
        return made[0] if made else None

    def _sets(
        self, path: Path, shape: Mapping[str, Any] | None, scope: Scope
    ) -> tuple[Assign, ...]:
        out: list[Assign] = []
        for target, given in (shape or {}).items():
            at = (*path, target)
            type = (
                self.variables.get(target.removeprefix("vars."))
                if target.startswith("vars.")
                else None
            )
            if type is None:
                known = [f"vars.{n}" for n in self.variables]
                self.reader.name(at, target, known, "variable", "IL103")
                continue
            append = isinstance(given, file.Append)
            value = given.append if isinstance(given, file.Append) else given
            if append:
                at = (*at, "append")
                if type.kind != "list":
                    self.reader.say(
                        "IL104",
                        at,
                        f"`{target}` is {type}, not a list",
                        hint="`append` adds to a list",
                    )
                    continue
                type = type.of or ANY
            made = self._value(at, value, type, scope)
            if made is not None:
                out.append(Assign(target, made[0], append, self.reader.place(at)))
        return tuple(out)

    def _value(self, path: Path, value: Any, type: Type, scope: Scope) -> tuple[Any] | None:
        """A constant of the type, else an expression. In a tuple, since None may be meant."""
        if not isinstance(value, str) or type.kind in ("duration", "fraction", "int", "float"):
            fits, constant = coerce(type, value)
            if fits:
                return (constant,)
            if not isinstance(value, str):
                self.reader.say("IL104", path, f"`{value}` is no {type}")
                return None
        expression = self.reader.expression(
            path, value, None if type.kind == "any" else type, scope
        )
        return None if expression is None else (expression,)

    # rules ----------------------------------------------------------------------------------

    def rule(self, number: int, shape: file.RuleShape) -> Rule | None:
        """One rule."""
        reader, path = self.reader, ("rules", number)
        given = [k for k in ("stop", "signal", "to") if getattr(shape, k) is not None]
        if not given or {"signal", "stop"} <= set(given) or given == ["signal", "to"]:
            self._clash(
                path, "a rule has `stop`, `signal`, or `to` alone (a detour); `to` goes with `stop`"
            )
            return None
        when = reader.expression((*path, "when"), shape.when, BOOL)
        if when is None:
            return None
        if shape.warn_at is not None and not when.bounds:
            self._clash(
                (*path, "warn_at"), "`warn_at` goes with a guard `fact >= bound`", missing=True
            )
        to = (
            ""
            if shape.to is None
            else reader.name((*path, "to"), shape.to, self.names, "state", "IL301")
        )
        if to is None:
            reader.tainted.add("*")
            return None
        return Rule(
            f"rules.{number}", when,
            self._reason((*path, "stop"), shape.stop), self._reason((*path, "signal"), shape.signal), to,
            self._covers((*path, "at"), shape.at), self._covers((*path, "before"), shape.before),
            None if shape.message is None else reader.template((*path, "message"), shape.message),
            None if shape.warn_at is None else reader.share((*path, "warn_at"), shape.warn_at),
            reader.place(path),
        )  # fmt: skip

    def _covers(self, path: Path, names: list[str] | None) -> tuple[str, ...]:
        found = [
            self.reader.name((*path, n), s, self.names, "state", "IL301")
            for n, s in enumerate(names or [])
        ]
        return tuple(s for s in found if s)

    def _scope(self, state: str, moment: Moment) -> Scope:
        scope = self.reader.scope
        return self.flow.scope(scope, state, moment) if self.flow is not None else scope


def _given(shape: file.StateShape, key: str) -> bool:
    return getattr(shape, key) is not None


def case_value(type: Type, word: str) -> Any:
    """The value that a case's word stands for, of the type of `of`."""
    if type.kind == "bool":
        return {"true": True, "True": True, "false": False, "False": False}.get(word)
    if type.kind == "int":
        return int(word) if word.lstrip("-").isdigit() else None
    return word


def _case_problem(type: Type, word: str) -> tuple[str] | None:
    if type.kind == "enum" and word not in type.values:
        return (f"`{word}` is none of {', '.join(type.values)}",)
    if type.kind in ("bool", "int") and case_value(type, word) is None:
        return (f"`{word}` is no {type.kind}",)
    if type.kind not in ("enum", "bool", "int", "str"):
        return (f"`of` gives {type}: a case is a word, a number, true or false",)
    return None


def _uncovered(type: Type, words: set[str]) -> str:
    """What no case names, in words; empty when all is covered."""
    missing: list[str] = []
    if type.kind == "enum":
        missing = [f"`{v}`" for v in type.values if v not in words]
    elif type.kind == "bool":
        missing = [f"`{v}`" for v in ("true", "false") if not {v, v.capitalize()} & words]
    else:
        missing = [f"any other {type.kind}"]
    if type.nullable:
        missing.append("None")
    return ", ".join(missing)


__all__ = ["RESERVED", "Save", "StateReader", "case_value"]

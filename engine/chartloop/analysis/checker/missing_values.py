"""Values that templates and `save` need and that may be None or missing, or always are.

A guard with such a value is refused. Here it is a warning unless every run fails that gets there:
whether the value is there depends on the run. Source: docs/language.md, "Templates".

Belongs here: what is known at the moment of a template or `save`. Never: the syntax of templates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

from chartloop.analysis.checker.check_context import CheckContext, outputs_of
from chartloop.analysis.checker.structure import epilogue
from chartloop.core.errors import nearest
from chartloop.core.types import ANY, Type, struct
from chartloop.language.expression import ExpressionFault, Scope, parse
from chartloop.language.expression.check_context import ABSENT
from chartloop.language.expression.narrow import FAILED
from chartloop.language.readers.flow import Flow, flow
from chartloop.language.readers.flow import Known as Reached
from chartloop.language.readers.reader import NULLABLE
from chartloop.language.readers.saves import part_of
from chartloop.language.spec import MachineSpec, Save, StateSpec
from chartloop.language.template.template import Moment, Template, doubts
from chartloop.language.yaml.reading import Path


class _Use(NamedTuple):
    """A template of the file, with what is known when it is rendered."""

    path: Path
    template: Template
    moment: Callable[[], Moment]
    result: Type | None = None
    """For `save`: the type of the action's result."""
    message: bool = False
    """Whether it is the message of a signal, whose failure does not fail an action."""


def check_values(context: CheckContext) -> None:
    """Find values that may be None or missing, and indices past the end of a list."""
    if context.broken:
        return
    for state in context.spec.states.values():
        if state.name in context.reached:
            _saved_parts(context, state)
    spec, moments = context.spec, _Moments(context)
    if spec.output is not None:
        _output(context, moments)
    names = {**spec.roots, **{n: e.type for n, e in spec.define.items()}}
    for use in _uses(context, moments):
        if not moments.concerns(use.template):
            continue
        roots = names if use.result is None else {**names, "result": use.result}
        for doubt in doubts(use.template, roots, use.moment()):
            if doubt.kind == "index" and not doubt.certain:
                continue  # perhaps its length was asked for
            message, place = doubt.message, context.part(use.path, doubt.offset, doubt.width)
            code = "CL343" if doubt.kind == "index" else "CL117"
            if code == "CL117" and doubt.certain and not use.message:
                code, message = "CL118", f"{message}: the template always fails"
            context.say(code, use.path, message, hint=doubt.hint, place=place)


def _output(context: CheckContext, moments: _Moments) -> None:
    """Report an output that reads a part of what may be None at an end of the file."""
    spec, known = context.spec, moments.at_ends()
    defines = {name: made.text for name, made in spec.define.items()}
    scope = Scope(spec.roots, defines, spec.registry.guards, known)
    for path, part in outputs_of(spec):
        try:
            parse(part.text, scope)
        except ExpressionFault as fault:
            if fault.code == ABSENT:
                place = context.part(path, fault.offset, fault.width)
                message = f"{fault.message} at the end: then the output is None"
                hint = "write `x if y is not None else None`"
                context.say("CL117", path, message, hint=hint, place=place)


def _saved_parts(context: CheckContext, state: StateSpec) -> None:
    """Report saved parts that a result may lack, or that a child's output always lacks."""
    result = _result(context.spec, state)
    for save in state.save:
        at, path = ("states", state.name, "save", save.target), save.path or ()
        if context.has_finding_at(at):
            continue
        parts = [part_of(result, path[:n]) for n in range(1, len(path) + 1)]
        if None in parts:
            first = parts.index(None)
            have = [name for name, _ in ([result, *parts][first] or ANY).fields]
            message = f"the result has no `{path[first]}`: `{state.name}` always fails"
            context.say("CL407", at, message, hint=nearest(str(path[first]), have))
        lacking = next((n for n, part in enumerate(parts) if part and part.optional), None)
        name = "result" + "".join(f".{p}" if isinstance(p, str) else f"[{p}]" for p in path)
        if lacking is not None:
            message = f"`{name}` may be missing: the schema does not require `{path[lacking]}`"
            context.say("CL117", at, message, hint=f"add it to `required`: [{path[lacking]}]")
        elif any(part and part.nullable for part in (result, *parts[:-1]) if path):
            message = f"`{name}` may be missing: what it is a part of may be None"
            context.say("CL117", at, message, hint="save it with a template that tests it")
        elif (last := [result, *parts][-1]) and last.nullable and not _takes_none(context, save):
            message = f"`{name}` may be None, and `{save.target}` does not take that"
            context.say("CL117", at, message, hint="save it with a template: it prints nothing")


def _takes_none(context: CheckContext, save: Save) -> bool:
    type = context.spec.vars[save.target.removeprefix("vars.")].type
    type = (type.of or ANY) if save.append else type
    return type.nullable or type.kind == "any"


def _result(spec: MachineSpec, state: StateSpec) -> Type:
    """The type of a state's result, with the names of its child's `output`."""
    given = state.args.get("machine") if state.traits.runs == "one" else None
    child = spec.machines.get(str(given.value)) if given is not None else None
    if child is None or not isinstance(child.output, dict):
        return state.result
    output = struct(dict.fromkeys(child.output, ANY), keyed=True)
    fields = ((n, output if n == "output" else type) for n, type in state.result.fields)
    return replace(state.result, fields=tuple(fields))


def _uses(context: CheckContext, moments: _Moments) -> Iterator[_Use]:
    spec, anywhere = context.spec, moments.anywhere
    if spec.instructions is not None:
        yield _Use(("instructions",), spec.instructions, anywhere)
    if spec.approve is not None and spec.approve.ask is not None:
        yield _Use(("approve", "ask"), spec.approve.ask, anywhere)
    for rule in spec.rules:
        if rule.message is not None:
            known = partial(anywhere, rule.when.implies(True))
            yield _Use((*rule.path, "message"), rule.message, known, message=True)
    made = () if spec.approve is None else spec.approve.made
    for state in spec.states.values():
        if state.name in context.reached:
            yield from _uses_of(spec, state, moments, fields=state.name not in made)


def _uses_of(
    spec: MachineSpec, state: StateSpec, moments: _Moments, *, fields: bool
) -> Iterator[_Use]:
    """The templates of one state and its edges; without `fields` those of its `with` are made."""
    at: Path = ("states", state.name)
    entry = partial(moments.on_entry, state.name)
    for name, given in state.args.items() if fields else ():
        for path, template in _templates_in((*at, "with", name), given.value):
            yield _Use(path, template, entry)
    for save in state.save:
        if save.template is not None:
            yield _Use((*at, "save", save.target), save.template, entry, _result(spec, state))
    if state.message is not None:
        known = partial(moments.on_stopping, state.name)
        yield _Use((*at, "message"), state.message, known, message=True)
    for edge in state.edges:
        if edge.message is not None:
            present = edge.when.implies(True) if edge.when is not None else frozenset[str]()
            if edge.role in ("failed", "expired") and state.action is not None:
                present |= FAILED
            known = partial(moments.anywhere, present)
            yield _Use((*edge.path, "message"), edge.message, known, message=True)


def _templates_in(path: Path, value: Any) -> Iterator[tuple[Path, Template]]:
    if isinstance(value, Template):
        yield path, value
    elif isinstance(value, dict):
        for name, part in cast(dict[str, Any], value).items():
            yield from _templates_in((*path, name), getattr(part, "value", part))
    elif isinstance(value, list):
        for number, part in enumerate(cast(list[Any], value)):
            yield from _templates_in((*path, number), part)


class _Moments:
    """What is known when each state is entered."""

    def __init__(self, context: CheckContext) -> None:
        self._context = context
        spec = context.spec
        off = {f"limits.{n}" for n, limit in spec.limits.items() if limit.type.nullable}
        none = {n for n, made in spec.define.items() if made.type.nullable}
        self._doubtful = NULLABLE | {"last.result", "result"} | off | none | context.fixed.keys()

    def concerns(self, template: Template) -> bool:
        """Whether a template reads anything that may be None, missing or too short."""
        reads = [f"{read}." for read in template.reads]
        return any(read.startswith(f"{name}.") for read in reads for name in self._doubtful)

    @cached_property
    def _flow(self) -> Flow:
        return self._flow_of(outside=True)

    @cached_property
    def _own(self) -> Flow:
        return self._flow_of(outside=False)

    def _flow_of(self, *, outside: bool) -> Flow:
        chart = self._context.chart
        starts = self._context.starts & chart.spec.states.keys()
        passing = chart.handled | epilogue(self._context)
        return flow(chart.spec, starts, passing, outside=outside)

    def anywhere(self, present: frozenset[str] = frozenset()) -> Moment:
        """What is known at any moment, where these facts are not None."""
        return Moment(present, written=self._context.fixed)

    def on_entry(self, state: str) -> Moment:
        """What is known when a state is entered."""
        return self._moment(self._flow.entry.get(state))

    def at_ends(self) -> frozenset[str]:
        """The facts that have a value wherever the file ends a run by itself."""
        states, entry = self._context.spec.states, self._own.entry
        ends = [entry[n].facts for n in entry if states[n].stop or states[n].job == "end"]
        return frozenset[str]().union(*ends).intersection(*ends)

    def on_stopping(self, state: str) -> Moment:
        """What is known when a state is entered and raises its reason, which was not raised yet."""
        return self._moment(self._own.entry.get(state))

    def _moment(self, known: Reached | None) -> Moment:
        if known is None:
            return self.anywhere()
        states = self._context.spec.states
        absent = FAILED - known.failures
        if known.results == frozenset({""}) and "last.error" in absent:
            absent |= {"last.result"}
        if known.answers == frozenset({""}):
            absent |= {"last.answer"}
        results = [
            _result(self._context.spec, states[n])
            if n and (a := states[n].action) and a.is_builtin
            else ANY
            for n in sorted(known.results)
        ]
        answers = [self._flow.answers.get(n, ANY) for n in sorted(known.answers)]
        types = {"last.result": _any_of(results), "last.answer": _any_of(answers)}
        typed = {name: type for name, type in types.items() if type is not None}
        return Moment(known.facts, absent, typed, self._context.fixed)


def _any_of(types: Iterable[Type]) -> Type | None:
    """The type of a value that has one of these; None if its fields are not known."""
    found = list(dict.fromkeys(types))
    if len(found) == 1 and found[0].kind != "any":
        return found[0]
    if any(type.kind != "struct" or not type.keyed for type in found):
        return None
    fields: dict[str, Type] = {}
    for name in dict.fromkeys(n for type in found for n, _ in type.fields):
        parts = [type.field(name) for type in found]
        same = len(set(parts)) == 1 and parts[0] is not None
        lacking = any(part is None or part.optional for part in parts)
        fields[name] = parts[0] if same and parts[0] else Type("any", optional=lacking)
    return struct(fields, keyed=True)

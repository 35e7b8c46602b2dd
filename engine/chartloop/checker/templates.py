"""Values that templates need and that may be None or missing, or always are.

A guard with such a value is refused. A template is only warned of, unless every rendering fails:
whether the value is there then depends on the run. Source: design "language", section 8.

Belongs here: what is known at the moment of a template. Never: the syntax of templates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, cast

from chartloop.checker.check_context import CheckContext
from chartloop.checker.structure import epilogue
from chartloop.core.types import ANY, Type, struct
from chartloop.language.readers.flow import Flow, flow
from chartloop.language.readers.flow import Known as Reached
from chartloop.language.readers.reader import NULLABLE
from chartloop.language.spec import StateSpec
from chartloop.language.template.template import Moment, Template, doubts
from chartloop.language.yaml.reading import Path
from chartloop.machine.abstract.counters import Counting

_OF_FAILURES = frozenset({"errors.last", "last.error"})


class _Use(NamedTuple):
    """A template of the file, with what is known when it is rendered."""

    path: Path
    template: Template
    moment: Moment
    result: Type | None = None
    """For `save`: the type of the action's result."""
    may_fail: bool = True
    """Whether its failure fails the action; that of a message is only written down."""


def check_templates(context: CheckContext) -> None:
    """Find values in templates that may be None or missing, and indices past the end of a list."""
    if context.broken:
        return
    spec, moments = context.spec, _Moments(context)
    names = {**spec.roots, **{n: e.type for n, e in spec.define.items()}}
    for use in _uses(context, moments):
        if not moments.concerns(use.template):
            continue
        roots = names if use.result is None else {**names, "result": use.result}
        for doubt in doubts(use.template, roots, use.moment):
            certain = doubt.certain and use.may_fail and doubt.kind == "value"
            message = f"{doubt.message}: the template always fails" if certain else doubt.message
            code = "CL343" if doubt.kind == "index" else "CL118" if certain else "CL117"
            part = (doubt.offset, doubt.width)
            context.say(code, use.path, message, hint=doubt.hint, part=part)


def _uses(context: CheckContext, moments: _Moments) -> Iterator[_Use]:
    spec = context.spec
    made = () if spec.approve is None else spec.approve.made
    if spec.instructions is not None:
        yield _Use(("instructions",), spec.instructions, moments.any)
    if spec.approve is not None and spec.approve.ask is not None:
        yield _Use(("approve", "ask"), spec.approve.ask, moments.any)
    for number, rule in enumerate(spec.rules):
        if rule.message is not None:
            known = moments.any._replace(present=rule.when.implies(True))
            path = ("rules", int(rule.id.partition(".")[2] or number), "message")
            yield _Use(path, rule.message, known, may_fail=False)
    for state in spec.states.values():
        entry = moments.at(state)
        if entry is None:
            continue
        at: Path = ("states", state.name)
        if state.name not in made:
            for name, given in state.args.items():
                for path, template in _templates_in((*at, "with", name), given.value):
                    yield _Use(path, template, entry)
        for save in state.save:
            if save.template is not None:
                path = (*at, "save", save.target)
                yield _Use(path, save.template, entry, state.result)
        if state.message is not None:
            yield _Use((*at, "message"), state.message, entry, may_fail=False)
        for edge in state.edges:
            if edge.message is not None:
                present = moments.any.present | (edge.when.implies(True) if edge.when else set())
                if edge.role in ("failed", "expired"):
                    present |= _OF_FAILURES
                known = moments.any._replace(present=present)
                yield _Use((*edge.path, "message"), edge.message, known, may_fail=False)


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
        fixed = Counting(spec).fixed
        lists = {n: v for n, v in fixed.items() if isinstance(v, (list, tuple))}
        self.any = Moment(lengths={n: len(cast(list[Any], v)) for n, v in lists.items()})
        """What is known at any moment."""
        off = {f"limits.{n}" for n, limit in spec.limits.items() if limit.type.nullable}
        none = {n for n, made in spec.define.items() if made.type.nullable}
        self._doubtful = NULLABLE | {"last.result", "result"} | off | none

    def concerns(self, template: Template) -> bool:
        """Whether a template reads anything that may be None, missing or too short."""
        reads = template.reads
        if "[" in template.text and reads & self.any.lengths.keys():
            return True
        return any(f"{read}.".startswith(f"{name}.") for read in reads for name in self._doubtful)

    @cached_property
    def _flow(self) -> Flow:
        chart = self._context.chart
        return flow(chart.spec, self._context.starts, chart.handled | epilogue(self._context))

    def at(self, state: StateSpec) -> Moment | None:
        """What is known on entering a state; None if no run does."""
        if state.name not in self._context.reached:
            return None
        texts = [*state.args.values(), *state.save, *([state.message] if state.message else [])]
        if not texts:
            return self.any
        known = self._flow.entry.get(state.name)
        return None if known is None else self._moment(known)

    def _moment(self, known: Reached) -> Moment:
        states = self._context.spec.states
        absent = _OF_FAILURES - known.failures
        if known.results == {""} and "last.error" in absent:
            absent |= {"last.result"}
        if known.answers == {""}:
            absent |= {"last.answer"}
        results = [
            states[n].result if n and (a := states[n].action) and a.is_builtin else ANY
            for n in sorted(known.results)
        ]
        answers = [self._flow.answers.get(n, ANY) for n in sorted(known.answers)]
        types = {"last.result": _any_of(results), "last.answer": _any_of(answers)}
        typed = {name: type for name, type in types.items() if type is not None}
        return self.any._replace(present=known.facts, absent=absent, typed=typed)


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

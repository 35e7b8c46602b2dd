"""Guards: what is never taken, what need not hold, what a label says and a limit does not do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from interlock.checker.subject import Subject
from interlock.core.specs import ArgKind
from interlock.language.expression import Expression
from interlock.language.label import Label
from interlock.language.spec import Edge, Given, MachineSpec, StateSpec
from interlock.language.template import Template
from interlock.machine.regions import GuardedTransition

_ORDER = {"≥": ">=", "≤": "<=", ">=": ">=", "<=": "<=", "<": "<", ">": ">"}
_COMPARISON = re.compile(r"(?:^|\s)(≥|≤|>=|<=|<|>)\s")
_OPPOSITE = {">=": "<", "<": ">=", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def check_guards(subject: Subject) -> None:
    """Edges and rules that are never taken, decisions that may be stuck, labels, limits, model."""
    for state in subject.spec.states.values():
        _shadowed(subject, state)
        _stuck(subject, state)
        _labels(subject, state)
    _rules(subject)
    _limits(subject)
    _model(subject)


# edges and rules ----------------------------------------------------------------------------


def _texts(t: GuardedTransition) -> frozenset[str]:
    return frozenset(" ".join(g.__name__.split()) for g in t.guards)


def _shadowed(subject: Subject, state: StateSpec) -> None:
    """An edge behind one that holds whenever it does."""
    for trigger, event in subject.chart.step.triggers.items():
        if trigger == "check":
            continue
        earlier: list[frozenset[str]] = []
        for t in event.at(state.name):
            edge = t.edge
            texts = _texts(t)
            always = [set(e) - {"True"} for e in earlier]
            if edge is not None and any(a <= texts for a in always):
                subject.say(
                    "IL307",
                    f"states.{state.name}",
                    f"an edge of `{state.name}` to `{edge.target}` is never taken: one before it holds whenever it does",
                    edge.place,
                    hint="move it up, or remove it",
                )
            elif edge is not None and "False" in texts:
                subject.say(
                    "IL307",
                    f"states.{state.name}",
                    f"the guard of this edge of `{state.name}` never holds",
                    edge.place,
                    hint="remove the edge",
                )
            earlier.append(texts)


def _rules(subject: Subject) -> None:
    seen: dict[tuple[str, tuple[str, ...], tuple[str, ...], str], str] = {}
    for rule in subject.spec.rules:
        key = (" ".join(rule.when.text.split()), rule.at, rule.before, rule.kind)
        if key in seen:
            subject.say(
                "IL307",
                rule.id,
                f"this rule says the same as {seen[key]}",
                rule.place,
                hint="remove one of them",
            )
        seen.setdefault(key, rule.id)
        if rule.when.constant and rule.when.text in ("True", "False"):
            word = "holds at once" if rule.when.text == "True" else "never holds"
            subject.say(
                "IL307",
                rule.id,
                f"the guard of this rule {word}",
                rule.place,
                hint="remove the rule",
            )


def _stuck(subject: Subject, state: StateSpec) -> None:
    """Guarded edges of which none need hold."""
    edges = list(state.edges_of("next"))
    if not edges or any(e.when is None for e in edges):
        return
    guards = [e.when for e in edges if e.when is not None]
    if not exhaustive(guards):
        subject.say(
            "IL309",
            f"states.{state.name}.next",
            f"every edge of `{state.name}` has a guard, and none need hold",
            edges[-1].place,
            hint="give the last edge no `when`",
        )


def exhaustive(guards: Iterable[Expression]) -> bool:
    """Whether two of the guards are opposites, as far as their texts show, or one always holds."""
    texts = {" ".join(g.text.split()) for g in guards}
    return "True" in texts or any(t in texts for text in texts for t in _opposites(text))


def _opposites(text: str) -> Iterator[str]:
    yield f"not {text}"
    yield f"not ({text})"
    parts = re.split(r" (>=|<=|==|!=|<|>) ", text)
    if len(parts) == 3 and not re.search(r"\b(and|or|if|not)\b", text):
        yield f"{parts[0]} {_OPPOSITE[parts[1]]} {parts[2]}"


# labels -------------------------------------------------------------------------------------


def _labels(subject: Subject, state: StateSpec) -> None:
    guards = [e.when for e in state.edges if e.when is not None] + ([state.of] if state.of else [])
    if state.ask is not None and state.job == "decide":
        _label(subject, state, state.ask, guards)
    for edge in state.edges:
        if edge.label is not None and edge.when is not None and edge.role == "next":
            _label(subject, state, edge.label, [edge.when])


def _label(subject: Subject, state: StateSpec, label: Label, guards: list[Expression]) -> None:
    reads = frozenset[str]().union(*(g.reads for g in guards))
    ops = frozenset[str]().union(*(g.ops for g in guards))
    for name in sorted(label.reads - reads):
        subject.say(
            "IL317",
            f"states.{state.name}.label",
            f"the label of `{state.name}` shows `{name}`, its guard does not read it",
            state.place,
            hint="show the limit that the guard reads",
        )
    for sign in _COMPARISON.findall(label.text.replace("\\n", "\n")):
        if _ORDER[sign] not in ops and guards:
            subject.say(
                "IL317",
                f"states.{state.name}.label",
                f"the label of `{state.name}` says `{sign}`, its guard does not",
                state.place,
                hint="make the label say what the guard does",
            )


# limits and model ---------------------------------------------------------------------------


def _limits(subject: Subject) -> None:
    read = frozenset[str]().union(*(e.reads for e in _expressions(subject.spec)))
    read |= frozenset[str]().union(*(t.reads for t in _templates(subject.spec)))
    for name, limit in subject.spec.limits.items():
        if f"limits.{name}" not in read:
            subject.say(
                "IL315",
                f"limits.{name}",
                f"limit `{name}` is declared and nothing reads it: it would not be enforced",
                limit.place,
                hint="add a rule such as `{when: ... >= limits."
                + name
                + ", stop: ...}`, or remove it",
            )


def _expressions(spec: MachineSpec) -> Iterator[Expression]:
    for rule in spec.rules:
        yield rule.when
        if isinstance(rule.warn_at, Expression):
            yield rule.warn_at
    for state in spec.states.values():
        found = [state.of, state.within, state.warn_at, *(a.value for a in state.set)]
        found += [x for e in state.edges for x in (e.when, *(a.value for a in e.set))]
        yield from (x for x in found if isinstance(x, Expression))
        for given in state.args.values():
            yield from _given(given)
    outputs = spec.output.values() if isinstance(spec.output, dict) else [spec.output]
    yield from (o for o in outputs if isinstance(o, Expression))


def _given(given: Given) -> Iterator[Expression]:
    kind: ArgKind | str = given.kind
    if isinstance(given.value, Expression):
        yield given.value
    elif kind == "values":
        for inner in given.value.values():
            yield from _given(inner)


def _templates(spec: MachineSpec) -> Iterator[Template]:
    for state in spec.states.values():
        for given in state.args.values():
            yield from _templates_in(given.value)


def _templates_in(value: object) -> Iterator[Template]:
    if isinstance(value, Template):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from _templates_in(inner)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list):
        for inner in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _templates_in(inner)  # pyright: ignore[reportUnknownArgumentType]


def _model(subject: Subject) -> None:
    spec = subject.spec
    known = spec.model.get("name", "scripted") != "scripted"
    reads = frozenset[str]().union(*(e.reads for e in _expressions(spec)))
    priced = "input_cost_per_token" in spec.model and "output_cost_per_token" in spec.model
    for rule in spec.rules:
        if "usage.cost" in rule.when.reads and not (known or priced):
            subject.say(
                "IL318",
                rule.id,
                "this rule cannot be enforced: the model's price is not known",
                rule.place,
                hint="give `input_cost_per_token` and `output_cost_per_token` under `model`",
            )
    if (
        not known
        and "context_window" not in spec.model
        and any(r.startswith("usage.context_") for r in reads)
    ):
        subject.say(
            "IL323",
            "model",
            "the file reads `usage.context_*` and the model's window is not known",
            hint="write `context_window` under `model`",
        )

"""The expectations of a scenario: checked against the machine, compared with the result.

A fact is expected to have a value (``3``, ``30s``, ``95%``, ``null``), or to satisfy a comparison
in the guard language: ``">= 3"``, ``"< limits.tokens"``, ``is not None``, ``'in ["a", "b"]'``.

Belongs here: reason, kind, path, facts, output. Never: running.

Source:       docs/language.md, sections 3, 6 and 8
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from chartloop.core.codes import finding
from chartloop.core.errors import Finding, Place, nearest
from chartloop.core.plain import plain
from chartloop.core.types import ANY, BOOL, Type, accepts
from chartloop.language.expression import Expression, ExpressionFault, GuardFailed, Scope, parse
from chartloop.language.readers.declarations import coerce
from chartloop.language.readers.reader import NULLABLE
from chartloop.language.spec import MachineSpec
from chartloop.machine.transition_table import ENGINE_ENDS
from chartloop.run.result import Result
from chartloop.scenarios.file import Scenario
from chartloop.scenarios.side_by_side import WIDEST, beside

_FACT = re.compile(r"[a-z_]\w*(?:\.\w+)*", re.ASCII)
_COMPARISON = re.compile(r"(?:>=|<=|==|!=|>|<|is (?:not )?None$|(?:not )?in \[)")
"""The start of a text that is a comparison instead of a value."""
_OF_TEXT = re.compile(r"(?:==|!=|is (?:not )?None$|(?:not )?in \[)")
"""The same for a fact of type text, whose value may start with `<`, as in `<PLAN>`."""


class Difference(NamedTuple):
    """One expectation that was not met."""

    what: str
    place: Place
    expected: Sequence[str]
    got: Sequence[str]

    def __str__(self) -> str:
        """The name and place, and both sides next to each other."""
        where = f"  ({self.place})" if str(self.place) else ""
        table = "\n".join(f"  {line}" for line in beside(self.expected, self.got))
        return f"{self.what}{where}\n{table}"


class FactCheck(NamedTuple):
    """One expected fact, compiled."""

    name: str
    place: Place
    fact: Expression
    guard: Expression | None
    """The comparison; None if a value is expected."""
    value: Any = None

    def differs(self, result: Result) -> Difference | None:
        """Compare the fact at the end of a run; None if it is as expected."""
        try:
            got = as_data(self.fact.value(result.facts), self.fact.type)
        except GuardFailed as error:
            return Difference(self.name, self.place, self._expected_lines(), [str(error.cause)])
        if self.guard is None:
            met = same(self.value, got)
        else:
            try:
                met = bool(self.guard.value(result.facts))
            except GuardFailed:  # a comparison with None
                met = False
        if met:
            return None
        return Difference(
            self.name, self.place, self._expected_lines(), _format_fact(got, self.fact.type)
        )

    def _expected_lines(self) -> list[str]:
        if self.guard is None:
            return _format_fact(self.value, self.fact.type)
        return [self.guard.text.removeprefix(self.name).strip()]


@dataclass(frozen=True)
class Expectation:
    """The compiled expectations of a scenario."""

    scenario: Scenario
    facts: tuple[FactCheck, ...]

    def differences(self, result: Result) -> Iterator[Difference]:
        """The differences, in the order of `reason`, `kind`, `path`, `facts`, `output`."""
        wanted = self.scenario.expect
        reason = None if result.reason is None else str(result.reason)
        for name, got in (("reason", reason), ("kind", result.kind)):
            if name in wanted and wanted[name] != got:
                yield self._difference(name, [wanted[name] or "none"], [got or "none"])
        if "path" in wanted and tuple(wanted["path"]) != result.path:
            yield self._difference("path", wanted["path"], result.path)
        for check in self.facts:
            if (difference := check.differs(result)) is not None:
                yield difference
        if "output" in wanted and not same(wanted["output"], output := plain(result.output)):
            yield self._difference("output", _lines(wanted["output"]), _lines(output))

    def _difference(self, name: str, expected: Sequence[str], got: Sequence[str]) -> Difference:
        return Difference(name, self.scenario.place("expect", name), expected, got)


def expectation(scenario: Scenario, spec: MachineSpec) -> tuple[Expectation, list[Finding]]:
    """Compile the expectations of a scenario, with findings for names that the machine lacks."""
    wanted, document = scenario.expect, scenario.document
    findings: list[Finding] = []
    reason = wanted.get("reason")
    if reason is not None and reason not in (*spec.reasons, scenario.own_reason):
        hint = nearest(reason, spec.reasons)
        place = document.at(("expect", "reason"))
        text = f"unknown reason `{reason}`"
        findings.append(finding("CL408", text, place, hint=hint, at="expect.reason"))
    states = [*spec.states, *ENGINE_ENDS]
    for number, name in enumerate(wanted.get("path") or ()):
        if name not in states:
            path = ("expect", "path", number)
            hint = nearest(name, states)
            text = f"machine `{spec.name}` has no state `{name}`"
            findings.append(finding("CL301", text, document.at(path), hint=hint, at="expect.path"))
    checks: list[FactCheck] = []
    facts: Mapping[str, Any] = wanted.get("facts") or {}
    for name, value in facts.items():
        check = _fact(scenario, spec, name, value)
        if isinstance(check, FactCheck):
            checks.append(check)
        else:
            findings.append(check)
    return Expectation(scenario, tuple(checks)), findings


def _fact(scenario: Scenario, spec: MachineSpec, name: str, value: Any) -> FactCheck | Finding:
    """Compile one expected fact. Facts that may be None are allowed; None meets no comparison."""
    defines = {n: e.text for n, e in spec.define.items()}
    bare = Scope(spec.roots, defines=defines, guards=spec.registry.guards)
    path = ("expect", "facts", name)
    place = scenario.document.at(path)
    if not _FACT.fullmatch(name):
        message, hint = f"`{name}` is not a fact", "a dotted name, as in `run.steps` or `vars.plan`"
        return finding("CL103", message, scenario.document.key(path), hint=hint, at=".".join(path))
    try:
        fact = parse(name, bare.narrow(NULLABLE))
        if value is None:
            return FactCheck(name, place, fact, parse(f"{name} is None", bare, want=BOOL))
        form = _OF_TEXT if fact.type.kind in ("str", "any") else _COMPARISON
        if isinstance(value, str) and form.match(value):
            scope = bare if value.startswith("is ") else bare.narrow(NULLABLE)
            return FactCheck(name, place, fact, parse(f"{name} {value}", scope, want=BOOL))
    except ExpressionFault as fault:
        return _fault(scenario, name, fault)
    fits, made = (True, value) if accepts(fact.type, value) else coerce(fact.type, value)
    if not fits:
        message = f"`{name}` is {fact.type}: `{_format_fact(value, ANY)[0]}` is not"
        hint = 'a comparison is written `">= 3"`, a duration `30s`, a share `95%`'
        return finding("CL104", message, place, hint=hint, at=".".join(path))
    return FactCheck(name, place, fact, None, plain(made))


def _fault(scenario: Scenario, name: str, fault: ExpressionFault) -> Finding:
    """A fault of `name` or of its comparison, as a finding at its place."""
    path, offset = ("expect", "facts", name), fault.offset - len(name) - 1
    if offset < 0:
        place = scenario.document.key(path).inside(fault.offset, fault.width)
    else:
        place = scenario.document.part(path, offset, fault.width)
    return finding(fault.code, fault.message, place, hint=fault.hint, at=".".join(path))


def as_data(value: Any, type: Type) -> Any:
    """A fact as plain data: a struct with the fields that the language has."""
    if value is None or type.kind not in ("struct", "list"):
        return plain(value)
    if type.kind == "list":
        return [as_data(v, type.of or type) for v in value]
    if type.keyed:
        return plain(value)
    return {n: as_data(getattr(value, n), t) for n, t in type.fields}


def same(expected: Any, got: Any) -> bool:
    """Whether plain data is equal; `true` differs from 1, floats may differ by 1e-9 (relative)."""
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(expected, float) or isinstance(got, float):
        return _is_number(expected) and _is_number(got) and math.isclose(expected, got)
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        left, right = cast(Mapping[str, Any], expected), cast(Mapping[str, Any], got)
        return left.keys() == right.keys() and all(same(v, right[k]) for k, v in left.items())
    if isinstance(expected, (list, tuple)) and isinstance(got, (list, tuple)):
        these, those = cast(Sequence[Any], expected), cast(Sequence[Any], got)
        return len(these) == len(those) and all(map(same, these, those))
    return expected == got


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _format_fact(value: Any, type: Type) -> list[str]:
    """Format a fact with the precision of the comparison, durations and shares with units."""
    if isinstance(value, float) and type.kind in ("duration", "fraction"):
        exact = f"{value:.12g} s" if type.kind == "duration" else f"{value * 100:.12g}%"
        return [exact]
    line = json.dumps(value, ensure_ascii=False, default=str)
    return [line] if isinstance(value, str) or len(line) <= WIDEST else _lines(value)


def _lines(value: Any) -> list[str]:
    """Data as lines: the lines of a text, or indented JSON."""
    if isinstance(value, str):
        return value.split("\n")
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True, default=str).split("\n")

"""What the tests of loading share: small files in which the fault is marked, and what is found.

    limits: {steps: «abc»}

The caret must stand under what the marks enclose, and there must be nothing else to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from chartloop.api import Own, find_faults
from chartloop.core.errors import Finding
from chartloop.language.spec import MachineSpec

T = TypeVar("T")

HEAD = "chartloop: 1\nmachine: m\n"
STATES = "states:\n  a: {do: nothing, next: z}\n  z: {stop: completed}\n"
END = "  z: {stop: completed}\n"


class Spot(NamedTuple):
    """Where a caret stands, and how wide it is. Counts from 1."""

    line: int
    column: int
    width: int


class Fault(NamedTuple):
    """A part of a file with its fault marked, and the finding that it gives."""

    id: str
    body: str
    code: str
    says: str
    hint: str = ""


@dataclass(frozen=True)
class Says(Generic[T]):
    """A part of a file, what is read of its spec, and what that must be."""

    id: str
    body: str
    reads: Callable[[T], Any]
    means: Any


def whole(body: str) -> str:
    """A body as a file: with its first lines, and with states where it has none."""
    lines = unmarked(body)[0].splitlines()
    if not any(line.startswith(("chartloop:", "machine:")) for line in lines):
        body = HEAD + body
    return body if any(line.startswith("states:") for line in lines) else body + STATES


def unmarked(text: str) -> tuple[str, list[Spot]]:
    """The text without its marks, and where they were."""
    spots: list[Spot] = []
    lines: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        while "«" in line:
            start = line.index("«")
            line = line.replace("«", "", 1)
            end = line.index("»")
            line = line.replace("»", "", 1)
            spots.append(Spot(number, start + 1, end - start))
        lines.append(line)
    return "\n".join(lines), spots


def found(text: str, *, own: Own = (), define: Mapping[str, str] | None = None) -> list[Finding]:
    """Everything that is found in a text."""
    return list(find_faults(text, tools=own, define=define)[1])


def spot(finding: Finding) -> Spot:
    """Where a finding stands."""
    return Spot(finding.place.line, finding.place.column, finding.place.width)


def expect(case: Fault, *, own: Own = ()) -> Finding:
    """Insist on the one finding of a case, at its place."""
    text, spots = unmarked(whole(case.body))
    findings = found(text, own=own)
    shown = "\n\n".join(f.render() for f in findings)
    assert [f.code for f in findings] == [case.code], shown or "nothing was found"
    assert case.says in findings[0].message, shown
    assert case.hint in findings[0].hint, shown
    assert [spot(f) for f in findings] == spots, shown
    return findings[0]


def spec(body: str, *, own: Own = (), define: Mapping[str, str] | None = None) -> MachineSpec:
    """The spec of a body in which nothing is wrong."""
    machine, findings = find_faults(whole(body), tools=own, define=define)
    assert machine is not None, "\n\n".join(f.render() for f in findings)
    return machine.spec


def value(thing: Any) -> Any:
    """Something of a spec in plain data: the text of an expression, a template or a label."""
    text = getattr(thing, "text", None)
    return thing if text is None else text

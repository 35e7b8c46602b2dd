"""Routes of machines: what they are, what is wrong with them, what they can cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from chartloop.analysis.coverage.figures import PLURAL
from chartloop.analysis.coverage.measure import coverage
from chartloop.api import Machine, Run
from chartloop.core.errors import ChartloopError, SpecError
from chartloop.core.facts import FACTS
from chartloop.hosting.machines import ServedFile
from chartloop.run.journal import RunRow
from chartloop.run.journal_pages import RunFilter
from chartloop.run.journal_records import DAMAGED
from chartloop.run.sync import by_hand
from chartloop.server.common import ANY, READ, Parts, TheParts, problems
from chartloop.versions.diff.diff import diff, say
from chartloop.view.dot.theme import Theme
from chartloop.view.flowchart import Direction

router = APIRouter(prefix="/machines", tags=["machines"], dependencies=[READ])
FOUND = problems(*ANY, 404, 422)
LOOKED_AT = 100
"""The newest runs of a machine that coverage and changes are found in."""


def _summary(file: ServedFile) -> dict[str, Any]:
    machine = file.machine
    return {
        "name": file.name,
        "machine": machine.name if machine is not None else None,
        "title": (machine.spec.title or machine.name) if machine is not None else file.name,
        "hash": machine.hash if machine is not None else None,
        "errors": sum(found.is_error for found in file.findings),
        "warnings": sum(not found.is_error for found in file.findings),
    }


@router.get("", responses=problems(*ANY))
def machines(parts: TheParts) -> dict[str, Any]:
    """The machines of the named folders."""
    return {"machines": [_summary(file) for file in parts.machines.listing()]}


@router.get("/{name}", responses=FOUND)
def machine(name: str, parts: TheParts) -> dict[str, Any]:
    """One machine, with the text of its file, its states, limits, variables and facts."""
    file = parts.machines.file(name)
    told = {**_summary(file), "text": file.text}
    if file.machine is None:
        return told
    spec = file.machine.spec
    return told | {
        "states": list(spec.states),
        "start": spec.start,
        "limits": {n: str(limit.type) for n, limit in spec.limits.items()},
        "vars": {n: str(var.type) for n, var in spec.vars.items()},
        "memory": list(spec.memory),
        "reasons": sorted(spec.reasons),
        "facts": _facts_schema(file.machine),
    }


@router.get("/{name}/findings", responses=FOUND)
def findings(name: str, parts: TheParts) -> dict[str, Any]:
    """Everything that is wrong with the file, and what is right and good to know."""
    file = parts.machines.file(name)
    notes = file.machine.check().notes if file.machine is not None else ()
    return {
        "findings": [{**f.to_dict(), "file": file.name} for f in file.findings],
        "notes": [note.to_dict() for note in notes],
    }


@router.get("/{name}/bound", responses=FOUND)
def bound(name: str, parts: TheParts) -> dict[str, Any]:
    """The worst that a run can cost, with the file's limits."""
    file = parts.machines.file(name)
    if file.machine is None:
        raise SpecError(file.findings)
    return file.machine.bound().to_dict()


@router.get("/{name}/facts", responses=FOUND)
def facts(name: str, parts: TheParts) -> dict[str, Any]:
    """What its guards can read: each fact with its type and meaning."""
    file = parts.machines.file(name)
    if file.machine is None:
        raise SpecError(file.findings)
    return _facts_schema(file.machine)


@router.get("/{name}/coverage", responses=FOUND)
def machine_coverage(name: str, parts: TheParts) -> dict[str, Any]:
    """What its newest runs have gone through, and what they never did."""
    machine = _sound(parts, name)
    found = coverage(machine, list(_readable(parts, _newest(parts, machine))))
    figures = [
        {
            "kind": PLURAL[kind], "seen": figure.seen, "all": figure.all,
            "missing": [one.item.id for one in found.missing if one.item.kind == kind],
        }
        for kind, figure in found.figures.items()
    ]  # fmt: skip
    return {"runs": found.runs, "rows": figures, "skipped_runs": list(found.skipped_runs)}


@router.get("/{name}/changes", responses=FOUND)
def machine_changes(name: str, parts: TheParts) -> dict[str, Any]:
    """What became different since the newest run that began with another version of the file."""
    machine = _sound(parts, name)
    old = next((r for r in _newest(parts, machine) if r.machine_hash != machine.hash), None)
    if old is None:
        return {"since": None, "verdict": "", "changes": []}
    found = diff(parts.machines.to_read(old), machine)
    told = [say(change) for change in found.changes]
    return {"since": old.run_id, "verdict": found.verdict, "changes": told}


def _sound(parts: Parts, name: str) -> Machine:
    """The machine of a file. `SpecError` where it has errors."""
    file = parts.machines.file(name)
    if file.machine is None:
        raise SpecError(file.findings)
    return file.machine


def _readable(parts: Parts, rows: list[RunRow]) -> Iterator[Run]:
    for row in rows:
        with suppress(ChartloopError):  # a damaged one: its own page says so
            yield parts.machines.to_read(row).open(row.run_id, journal=parts.journal)


def _newest(parts: Parts, machine: Machine) -> list[RunRow]:
    """The newest runs of a machine that have begun."""
    page = by_hand(parts.journal.page(RunFilter(machine=machine.name), "", LOOKED_AT))
    return [row for row in page.rows if row.head and row.status != DAMAGED]


@router.get(
    "/{name}/picture",
    responses={
        **FOUND,
        200: {
            "description": "The flowchart.",
            "content": {"image/svg+xml": {"schema": {"type": "string"}}},
        },
    },
    response_class=Response,
)
def picture(
    name: str, parts: TheParts, direction: Annotated[Direction, Query()] = "tb",
    theme: Annotated[Theme, Query()] = "light",
) -> Response:  # fmt: skip
    """The flowchart of the machine, as SVG."""
    file = parts.machines.file(name)
    if file.machine is None:
        raise SpecError(file.findings)
    drawn = file.machine.draw(direction=direction).with_theme(theme)
    return Response(drawn.svg(), media_type="image/svg+xml")


def _facts_schema(machine: Machine) -> dict[str, Any]:
    """What guards of the machine can read, as JSON: the type and meaning of each fact."""
    roots: dict[str, Any] = {}
    for root, section in machine.spec.roots.items():
        roots[root] = {
            name: {
                "type": str(type),
                "about": FACTS[f"{root}.{name}"].about if f"{root}.{name}" in FACTS else "",
            }
            for name, type in section.fields
        }
    return roots

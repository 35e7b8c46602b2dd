"""Routes of machines: their description, findings, bounds, coverage and picture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from chartloop.analysis.versions.diff.diff import diff, say
from chartloop.api import Machine, Run
from chartloop.core.errors import ChartloopError, SpecError
from chartloop.core.facts import FACTS
from chartloop.hosting.machines import ServedFile
from chartloop.hosting.server.common import ANY, READ, Parts, TheParts, TheReach, problems
from chartloop.pictures.dot.theme import Theme
from chartloop.pictures.flowchart import Direction
from chartloop.run.journal import RunRow
from chartloop.run.journal_pages import RunFilter
from chartloop.run.journal_records import DAMAGED
from chartloop.run.sync import by_hand
from chartloop.run.tenants import Reach
from chartloop.studies.coverage.figures import PLURAL
from chartloop.studies.coverage.measure import coverage

router = APIRouter(prefix="/machines", tags=["machines"], dependencies=[READ])
FOUND = problems(*ANY, 404, 422)
RECENT = 100
"""How many of a machine's newest runs are read for its coverage and changes."""


def _summary(file: ServedFile) -> dict[str, Any]:
    machine = file.machine
    return {
        "name": file.name,
        "machine": machine.name if machine is not None else None,
        "title": (machine.spec.title or machine.name) if machine is not None else file.name,
        "hash": machine.hash if machine is not None else None,
        "errors": sum(finding.is_error for finding in file.findings),
        "warnings": sum(not finding.is_error for finding in file.findings),
    }


@router.get("", responses=problems(*ANY))
def machines(parts: TheParts) -> dict[str, Any]:
    """The machines in the served folders."""
    return {"machines": [_summary(file) for file in parts.machines.listing()]}


@router.get("/{name}", responses=FOUND)
def machine(name: str, parts: TheParts) -> dict[str, Any]:
    """One machine: the text of its file, its states, limits, variables and facts."""
    file = parts.machines.file(name)
    summary = {**_summary(file), "text": file.text}
    if file.machine is None:
        return summary
    spec = file.machine.spec
    return summary | {
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
    """The errors and warnings of the file, and notes that ask for no change."""
    file = parts.machines.file(name)
    notes = file.machine.check().notes if file.machine is not None else ()
    return {
        "findings": [{**f.to_dict(), "file": file.name} for f in file.findings],
        "notes": [note.to_dict() for note in notes],
    }


@router.get("/{name}/bound", responses=FOUND)
def bound(name: str, parts: TheParts) -> dict[str, Any]:
    """The upper bound on what a run can cost, under the file's limits."""
    file = parts.machines.file(name)
    if file.machine is None:
        raise SpecError(file.findings)
    return file.machine.bound().to_dict()


@router.get("/{name}/facts", responses=FOUND)
def facts(name: str, parts: TheParts) -> dict[str, Any]:
    """The facts that its guards can read, each with its type and meaning."""
    file = parts.machines.file(name)
    if file.machine is None:
        raise SpecError(file.findings)
    return _facts_schema(file.machine)


@router.get("/{name}/coverage", responses=FOUND)
def machine_coverage(name: str, parts: TheParts, reach: TheReach) -> dict[str, Any]:
    """The states, edges and rules that its newest runs covered, and those that they missed."""
    machine = _sound(parts, name)
    report = coverage(machine, list(_readable(parts, _newest(parts, machine, reach))))
    figures = [
        {
            "kind": PLURAL[kind], "seen": figure.seen, "all": figure.all,
            "missing": [one.item.id for one in report.missing if one.item.kind == kind],
        }
        for kind, figure in report.figures.items()
    ]  # fmt: skip
    return {"runs": report.runs, "rows": figures, "skipped_runs": list(report.skipped_runs)}


@router.get("/{name}/changes", responses=FOUND)
def machine_changes(name: str, parts: TheParts, reach: TheReach) -> dict[str, Any]:
    """The changes since the newest run that was started with another version of the file."""
    machine = _sound(parts, name)
    newest = _newest(parts, machine, reach)
    old = next((r for r in newest if r.machine_hash != machine.hash), None)
    if old is None:
        return {"since": None, "verdict": "", "changes": []}
    difference = diff(parts.machines.to_read(old), machine)
    changes = [say(change) for change in difference.changes]
    return {"since": old.run_id, "verdict": difference.verdict, "changes": changes}


def _sound(parts: Parts, name: str) -> Machine:
    """The machine of a file. Raises `SpecError` if the file has errors."""
    file = parts.machines.file(name)
    if file.machine is None:
        raise SpecError(file.findings)
    return file.machine


def _readable(parts: Parts, rows: list[RunRow]) -> Iterator[Run]:
    for row in rows:
        with suppress(ChartloopError):  # a damaged run: its own page reports it
            yield parts.machines.to_read(row).open(row.run_id, journal=parts.journal)


def _newest(parts: Parts, machine: Machine, reach: Reach) -> list[RunRow]:
    """The newest readable runs of a machine that the caller sees and that have a record."""
    wanted = RunFilter(machine=machine.name, tenant=reach.tenant)
    page = by_hand(parts.journal.page(wanted, "", RECENT))
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
    """The facts that guards of the machine can read, as JSON: the type and meaning of each."""
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

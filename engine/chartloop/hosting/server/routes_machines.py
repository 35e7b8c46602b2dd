"""Routes of machines: their description, findings, bounds, coverage and picture."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import Query, Response

from chartloop.analysis.versions.diff.diff import diff, say
from chartloop.api import Machine
from chartloop.core.errors import ChartloopError, SpecError
from chartloop.core.facts import FACTS
from chartloop.core.plain import plain
from chartloop.core.specs import ToolSpec
from chartloop.hosting.machines import ServedFile
from chartloop.hosting.server.common import ANY, READ, Parts, Rooms, TheParts, TheReach, problems
from chartloop.hosting.server.routes_page import Memory, PageMemory
from chartloop.language.spec import MachineSpec
from chartloop.pictures.dot.theme import Theme
from chartloop.pictures.flowchart import Direction
from chartloop.run.journal import RunRow
from chartloop.run.journal_pages import RunFilter
from chartloop.run.journal_records import DAMAGED
from chartloop.run.sync import by_hand
from chartloop.run.tenants import Reach
from chartloop.studies.coverage.coverage import Coverage
from chartloop.studies.coverage.figures import PLURAL
from chartloop.studies.coverage.measure import coverage
from chartloop.studies.coverage.targets import Item

router = Rooms(prefix="/machines", tags=["machines"], dependencies=[READ])
FOUND = problems(*ANY, 404, 422)
RECENT = 100
"""How many of a machine's newest runs are read for its coverage and changes."""
EVENTS = 20_000
"""The most events of these runs, together, that are read for its coverage."""


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
def machines(parts: TheParts, reach: TheReach) -> dict[str, Any]:
    """The machines in the served folders, each with its runs: how many, and the last that failed.

    Runs are counted up to 100; `more` says that there are others.
    """
    return {
        "machines": [
            {**_summary(file), "runs": _runs_of(parts, file, reach)}
            for file in parts.machines.listing()
        ]
    }


def _runs_of(parts: Parts, file: ServedFile, reach: Reach) -> dict[str, Any]:
    """How many runs a machine has, and the newest that failed: two pages, however many it has."""
    name = file.machine.name if file.machine is not None else file.name
    wanted = RunFilter(machine=name, tenant=reach.tenant)
    page = by_hand(parts.journal.page(wanted, "", RECENT))
    failed = by_hand(parts.journal.page(wanted.replace(status="error", followed=False), "", 1)).rows
    last = {"run": failed[0].run_id, "at": failed[0].updated} if failed else None
    return {"count": len(page.rows), "more": bool(page.next), "failed": last}


@router.get("/{name}", responses=FOUND)
def machine(name: str, parts: TheParts) -> dict[str, Any]:
    """One machine: the text of its file, what it is about, its model, tools, states and facts."""
    file = parts.machines.file(name)
    summary = {**_summary(file), "text": file.text}
    if file.machine is None:
        return summary
    spec = file.machine.spec
    return summary | {
        "about": spec.about,
        "instructions": spec.instructions.text if spec.instructions is not None else "",
        "model": plain(dict(spec.model)),
        "tools": [_tool(spec.registry.tools[name], spec) for name in spec.tools],
        "states": list(spec.states),
        "start": spec.start,
        "limits": {n: str(limit.type) for n, limit in spec.limits.items()},
        "vars": {n: str(var.type) for n, var in spec.vars.items()},
        "memory": list(spec.memory),
        "reasons": sorted(spec.reasons),
        "facts": _facts_schema(file.machine),
    }


def _tool(tool: ToolSpec, spec: MachineSpec) -> dict[str, Any]:
    """A tool in words: what it does, whether a call may be made twice, what it does with data."""
    use = spec.data.get(tool.name, tool.data)
    data = {"reads": use.reads, "from": use.origin, "sends": use.sends}
    return {
        "name": tool.name,
        "about": tool.description,
        "effect": str(tool.effect),
        "data": {key: word for key, word in data.items() if word},
        "runs": tool.machine,
        "server": tool.server,
        "approved": spec.approve is not None and tool.name in spec.approve.tools,
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
def machine_coverage(name: str, parts: TheParts, reach: TheReach, memory: Memory) -> dict[str, Any]:
    """The states, edges and rules that its newest runs covered, and those that they missed."""
    report = _covered(_sound(parts, name), parts, reach, memory)
    raised = {one.item.id: one.item.reason for one in report.covered if one.item.kind == "rule"}
    missing = {
        kind: [one.item for one in report.missing if one.item.kind == kind]
        for kind in report.figures
    }
    figures = [
        {
            "kind": PLURAL[kind], "seen": figure.seen, "all": figure.all,
            "missing": [item.id for item in missing[kind]],
            "words": [_in_words(item, raised) for item in missing[kind]],
        }
        for kind, figure in report.figures.items()
    ]  # fmt: skip
    return {"runs": report.runs, "rows": figures, "skipped_runs": list(report.skipped_runs)}


def _in_words(item: Item, raised: Mapping[str, str]) -> str:
    """A part of a machine as its file says it: the guard, and what that leads to.

    `raised` is the reason of each rule.
    """
    text = " ".join(item.text.split())
    if item.kind == "state":
        return f"{text} ({item.id})" if text and text != item.id else item.id
    if item.kind == "atom":
        return f"{text} is {str(item.way).lower()}"
    if item.kind == "reason":
        return item.reason or raised.get(item.id) or item.id
    leads = f"stop: {item.reason}" if item.reason else item.to
    if not (text or leads):
        return item.id
    where = f"{item.source}: " if item.source and item.kind != "rule" else ""
    return f"{where}{text or 'otherwise'}{f' → {leads}' if leads else ''}"


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


def _covered(machine: Machine, parts: Parts, reach: Reach, memory: PageMemory) -> Coverage:
    """The coverage by the newest runs. That of a run is kept: it is read again if it goes on."""
    found: list[Coverage] = []
    left = EVENTS
    for row in _newest(parts, machine, reach):
        left -= row.head
        if left < 0:
            break
        key = machine.hash, row.run_id, str(row.created), row.head
        with suppress(ChartloopError):  # a damaged run: its own page reports it
            if (one := memory.coverages.get(key)) is None:
                run = parts.machines.to_read(row).open(row.run_id, journal=parts.journal)
                memory.coverages.put(key, one := coverage(machine, [run]))
            found.append(one)
    return coverage(machine, saved=found)


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
    name: str, parts: TheParts, reach: TheReach, memory: Memory, *,
    direction: Annotated[Direction, Query()] = "tb", theme: Annotated[Theme, Query()] = "light",
    look: Annotated[
        Literal["plain", "heat"],
        Query(description="`heat`: coloured by how often its newest runs went where."),
    ] = "plain",
) -> Response:  # fmt: skip
    """The flowchart of the machine, as SVG."""
    machine = _sound(parts, name)
    drawn = machine.draw(direction=direction)
    if look == "heat":
        drawn = _covered(machine, parts, reach, memory).draw()
    drawn = drawn.with_theme(theme)
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

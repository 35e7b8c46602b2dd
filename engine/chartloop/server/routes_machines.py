"""Routes of machines: what they are, what is wrong with them, what they can cost."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from chartloop.core.errors import SpecError
from chartloop.server.common import ANY, READ, TheParts, problems
from chartloop.server.machines import ServedFile, facts_schema
from chartloop.view.dot.theme import Theme
from chartloop.view.flowchart import Direction

router = APIRouter(prefix="/machines", tags=["machines"], dependencies=[READ])
FOUND = problems(*ANY, 404, 422)


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
        "facts": facts_schema(file.machine),
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
    return facts_schema(file.machine)


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

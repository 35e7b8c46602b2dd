"""The reader of `approve`, which expands the calling states."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice, product

from chartloop.core.types import BOOL
from chartloop.language.approval import call_type, calling_states, expand, names_for
from chartloop.language.expression import Expression, ExpressionFault, Scope, parse
from chartloop.language.expression.tree import Opaque
from chartloop.language.file import file
from chartloop.language.readers.reader import NULLABLE, Reader
from chartloop.language.readers.settings import offered_names
from chartloop.language.spec import Approve, MachineSpec
from chartloop.language.yaml.reading import Path


def read_approve(reader: Reader, spec: MachineSpec, shape: file.ApproveShape | None) -> MachineSpec:
    """Read `approve`, and expand the states of the machine."""
    if shape is None:
        return spec
    at: Path = ("approve", "tools")
    named = offered_names(reader, at, shape.tools)
    scope = reader.scope.narrow(NULLABLE)
    within = None
    if shape.within is not None:
        within = reader.duration(("approve", "within"), shape.within)
    if shape.expired is not None and shape.within is None:
        message, hint = "`expired` goes with `within`", "add `within`, or remove `expired`"
        reader.say("CL207", ("approve", "expired"), message, hint=hint, key=True)
    expired = ""
    if shape.expired is not None:
        expired = reader.state(("approve", "expired"), shape.expired) or ""
    ask = reader.template(("approve", "ask"), shape.ask) if shape.ask else None
    when = None
    if shape.when is not None:
        known = reader.registry.tools
        schemas = {n: known[n].parameters for n in named if n in known}
        if reader.registry.assumed and not all("properties" in s for s in schemas.values()):
            when = _read_untyped(str(shape.when), scope, named)
        else:
            extra = {"call": call_type(schemas)}
            when = reader.guard(("approve", "when"), shape.when, replace(scope, extra=extra))
    made = Approve(
        named, shape.by or "", ask, within, expired, when, bool(shape.edit), bool(shape.remember),
        not_by=shape.not_by or "",
    )  # fmt: skip
    if _report_taken_names(reader, spec, made):
        return spec
    return expand(spec, made, scope)


_ARGUMENT = re.compile(r"\bcall\.arguments\.(\w+)")
_TYPES = ({"type": "number"}, {"type": "string"}, {"type": "boolean"},
          {"type": "array", "items": {"type": "string"}})  # fmt: skip
_MOST = 64
"""The most combinations of types that are tried."""


def _read_untyped(text: str, scope: Scope, tools: Iterable[str]) -> Expression:
    """A guard over arguments of tools that are not here, with types with which it is valid.

    Opaque if no types fit.
    """
    names = dict.fromkeys(_ARGUMENT.findall(text))
    for types in islice(product(_TYPES, repeat=len(names)), _MOST):
        properties = dict(zip(names, types, strict=True))
        schema = {"type": "object", "properties": properties, "required": [*names]}
        extra = {"call": call_type(dict.fromkeys(tools, schema))}
        try:
            return parse(text, replace(scope, extra=extra), want=BOOL)
        except ExpressionFault:
            continue
    return Expression(text, BOOL, Opaque(BOOL, text, "when", ()))


def _report_taken_names(reader: Reader, spec: MachineSpec, made: Approve) -> bool:
    """Report states whose names `approve` needs, and return whether there are any."""
    taken = False
    for name, own in names_for(calling_states(spec, made.tools), edit=made.edit).items():
        for other in own:
            if other in spec.states:
                taken = True
                message = f"`approve` makes a state `{other}` for `{name}`, and the file has one"
                hint = "give this state another name"
                reader.say("CL417", ("states", other), message, hint=hint, key=True)
    return taken

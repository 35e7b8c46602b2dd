"""The most items of a list variable, by what the file puts into it.

Belongs here: what a file writes. Never: what a caller passes, which is an assumption of the bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from chartloop.language.expression import Expression
from chartloop.language.expression.tree import Items
from chartloop.language.json_schema.reply import ReplySchema
from chartloop.language.json_schema.walk import resolve
from chartloop.language.spec import MachineSpec, StateSpec


def longest_list(spec: MachineSpec, variable: str) -> int | None:
    """The most items that a file puts into a list variable; None if nothing in it bounds them.

    A list that is saved from a structured reply is as long as `maxItems` of its schema allows.
    """
    name = variable.removeprefix("vars.")
    if name == variable or name not in spec.vars:
        return None
    lengths: list[int | None] = [len(spec.vars[name].value or ())]
    assigns = [a for state in spec.states.values() for a in state.set]
    assigns += [a for edge in spec.edges() for a in edge.set]
    assigns += spec.on_error.set if spec.on_error is not None else ()
    for one in (one for one in assigns if one.target == variable):
        value: Any = one.value.root if isinstance(one.value, Expression) else one.value
        value = value.items if isinstance(value, Items) else value
        sized = isinstance(value, (list, tuple)) and not one.append
        lengths.append(len(cast("Sequence[Any]", value)) if sized else None)
    for state in spec.states.values():
        action = state.action
        if action is not None and (variable in state.args or action.writes_any_variable):
            return None
        for saved in (saved for saved in state.save if saved.target == variable):
            path = None if saved.append else saved.path
            lengths.append(None if path is None else _max_items(state, path))
    known = [length for length in lengths if length is not None]
    return max(known) if len(known) == len(lengths) else None


def _max_items(state: StateSpec, path: Sequence[str | int]) -> int | None:
    """`maxItems` of the list at a path of a structured reply; None if the schema has none there."""
    asked = next((g.value for g in state.args.values() if g.kind == "schema"), None)
    if not isinstance(asked, ReplySchema) or not path or path[0] != "data":
        return None
    at: Any = asked.schema
    for part in (*path[1:], None):
        seen: set[str] = set()
        while isinstance(at, Mapping) and isinstance(ref := cast("Any", at).get("$ref"), str):
            at = None if ref in seen else resolve(asked.schema, ref)  # a class names its parts
            seen.add(ref)
        if not isinstance(at, Mapping):
            return None
        here = cast("Mapping[str, Any]", at)
        if part is None:
            most = here.get("maxItems")
            return most if isinstance(most, int) else None
        at = here.get("properties", {}).get(part) if isinstance(part, str) else here.get("items")
    return None

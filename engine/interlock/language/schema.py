"""The JSON Schema of machine files, for editors: made from the shapes that files are read by.

``docs/machine.schema.json`` is its checked-in copy; the first line of a machine file names it.
"""

from __future__ import annotations

from typing import Any, cast

from interlock.language.file import FileShape

ID = "https://interlock.invalid/machine.schema.json"


def schema() -> dict[str, Any]:
    """The schema as plain data, in a stable order."""
    made = cast(dict[str, Any], _tidy(FileShape.model_json_schema(by_alias=True)))
    made["properties"] = {"interlock": {"const": 1, "description": "Format version."}} | {
        k: v for k, v in made["properties"].items() if k != "interlock"
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "interlock machine",
        **{k: v for k, v in made.items() if k != "title"},
    }


def _tidy(node: Any) -> Any:
    """Without generated titles and nulls: a key that may be left out is not written as null."""
    if isinstance(node, list):
        return [_tidy(n) for n in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    given = cast(dict[str, Any], node)
    out = {k: _tidy(v) for k, v in given.items() if not (k == "title" and isinstance(v, str))}
    if out.get("default", ...) is None:
        del out["default"]
        options = [o for o in out.get("anyOf", []) if o != {"type": "null"}]
        if len(options) == 1:
            del out["anyOf"]
            out = {**options[0], **out}
        elif options:
            out["anyOf"] = options
    return out

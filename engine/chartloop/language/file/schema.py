"""The JSON Schema of machine files for editors, made from the shapes and the actions.

``docs/machine.schema.json`` is its checked-in copy, which the first line of a machine file names;
``docs/generate.py`` writes it. The description of a key is the text below it in the source of the
shapes; that of a field of `with` is the one of its action.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, cast

from chartloop.core.reasons import REASONS
from chartloop.core.specs import ActionSpec, ArgSpec
from chartloop.language.file import file, parts
from chartloop.language.file.base import NAME
from chartloop.language.file.file import NEEDS, FileShape

ID = "https://chartloop.invalid/machine.schema.json"

_TITLES = {
    "Append": "append", "ApproveShape": "approve", "BlockShape": "memory_block",
    "DeviationShape": "deviation", "ElicitationShape": "mcp_elicitation",
    "SamplingShape": "mcp_sampling",
    "EdgeShape": "edge", "IgnoreShape": "accepted_finding", "MachineShape": "child_machine",
    "McpShape": "mcp_server", "ModelShape": "model", "OnShape": "event", "ReasonShape": "reason",
    "RetryShape": "retry", "RuleShape": "rule", "StateShape": "state", "TaskFile": "tasks_file",
    "TaskShape": "task", "TypedValue": "typed_value",
}  # fmt: skip
_STRING = {"type": "string"}


def schema(actions: Iterable[ActionSpec]) -> dict[str, Any]:
    """The schema as plain data, in a stable order, with the fields of these actions."""
    made = FileShape.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    shapes: dict[str, Any] = {"FileShape": made, **made.pop("$defs")}
    texts = {**_texts(parts), **_texts(file)}
    for name, part in shapes.items():
        _describe(part, texts, name)
        _complete(part, name)
    tidy = cast(dict[str, Any], _tidy({n: p for n, p in shapes.items() if n in _TITLES}))
    tidy["StateShape"]["allOf"] = [
        {
            "if": {"properties": {"do": {"const": action.name}}, "required": ["do"]},
            "then": {"properties": {"with": _with(action)}},
        }
        for action in actions
        if action.run is not None
    ]
    whole = cast(dict[str, Any], _tidy(made))
    keys = whole["properties"]
    first = {key: keys[key] for key in ("chartloop", "machine")}  # the required ones
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "chartloop machine",
        **whole,
        "properties": {**first, **keys},
        "$defs": {_TITLES[n]: {"title": _TITLES[n], **p} for n, p in sorted(tidy.items())},
    }


def text(actions: Iterable[ActionSpec]) -> str:
    """The schema as the text of the file in ``docs``."""
    return json.dumps(schema(actions), indent=2, ensure_ascii=False) + "\n"


def _with(action: ActionSpec) -> dict[str, Any]:
    """The `with` of an action."""
    node = {"description": f"{action.about} {action.details}".rstrip(), **_fields(action.args)}
    if action.targets is not None:
        entry: dict[str, Any] = {"description": action.with_variables}
        if action.entry:
            whole: dict[str, Any] = {"type": "object", "minProperties": 1}
            entry["anyOf"] = [{"const": "json"}, {**whole, **_fields(action.entry)}]
        node["patternProperties"] = {r"^vars\.": entry}
    return node


def _fields(args: Iterable[ArgSpec]) -> dict[str, Any]:
    """Fields with their meaning. An unknown one is refused, and so is a word that is not listed."""
    fields: dict[str, Any] = {}
    for arg in args:
        fields[arg.name] = {"description": f"{arg.about} Written as: {arg.written_as}."}
        if arg.choices:
            fields[arg.name]["enum"] = list(arg.choices)
        if arg.kind == "fields":
            fields[arg.name]["additionalProperties"] = _fields(arg.fields)
    return {"properties": fields, "additionalProperties": False}


def _texts(module: ModuleType) -> dict[tuple[str, str], str]:
    """The text below each field of the shapes in a module, by class and field."""
    out: dict[tuple[str, str], str] = {}
    for cls in ast.parse(inspect.getsource(module)).body:
        if not isinstance(cls, ast.ClassDef):
            continue
        for node, below in zip(cls.body, cls.body[1:], strict=False):
            if isinstance(node, ast.AnnAssign) and isinstance(below, ast.Expr):
                if isinstance(node.target, ast.Name) and isinstance(below.value, ast.Constant):
                    text = inspect.cleandoc(str(below.value.value)).replace("\n", " ")
                    out[cls.name, node.target.id.rstrip("_")] = text
    return out


def _describe(part: dict[str, Any], texts: Mapping[tuple[str, str], str], name: str) -> None:
    parents = {"FileShape": "MachineShape", "OnShape": "EdgeShape"}
    for key, inner in part.get("properties", {}).items():
        description = texts.get((name, key)) or texts.get((parents.get(name, ""), key))
        if description:
            inner["description"] = description


def _complete(part: dict[str, Any], name: str) -> None:
    """Add conditions that the readers check, and that an editor can check too."""
    keys = part.get("properties", {})
    for key in ("stop", "signal"):
        if key in keys and name != "ModelShape":
            words = ["highest"] if name == "StateShape" and key == "stop" else []
            one_of = [{"enum": [*words, *REASONS]}, _STRING]
            keys[key] = {"description": keys[key].get("description", ""), "anyOf": one_of}
    if name == "StateShape":
        keys["failed"]["description"] = keys["failed"].get("description", "")
        part["dependentRequired"] = {k: list(n) for k, n in NEEDS.items() if len(n) == 1}
        part["dependentRequired"] |= {"when": ["then", "else"], "of": ["cases"]}
        part["dependentSchemas"] = {
            k: {"anyOf": [{"required": [n]} for n in needs]}
            for k, needs in NEEDS.items()
            if len(needs) > 1
        }
    if name in ("EdgeShape", "OnShape"):
        part["dependentRequired"] = {"message": ["stop"]}
    if name == "RuleShape":
        part["anyOf"] = [{"required": [k]} for k in ("stop", "signal", "to")]
    if name in ("MachineShape", "FileShape"):
        part["required"] = [*part.get("required", []), "states"]
        keys["states"] = {**keys["states"], "minProperties": 1}
    if name == "FileShape":
        keys["chartloop"] = {"const": 1, "description": keys["chartloop"]["description"]}
        keys["machine"]["pattern"] = NAME


def _tidy(node: Any) -> Any:
    """Remove generated titles and nulls, and rename the parts."""
    if isinstance(node, list):
        return [_tidy(n) for n in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    items = cast(dict[str, Any], node).items()
    out = {k: _tidy(v) for k, v in items if not (k == "title" and isinstance(v, str))}
    if isinstance(ref := out.get("$ref"), str):
        name = ref.rpartition("/")[2]
        out["$ref"] = f"#/$defs/{_TITLES.get(name, name)}"
    if "patternProperties" in out:
        out["additionalProperties"] = False
        out.pop("propertyNames", None)
    optional = out.get("default", ...) is None
    if optional:
        del out["default"]
    return _one_of(out, optional=optional) if "anyOf" in out else out


def _one_of(node: dict[str, Any], *, optional: bool) -> dict[str, Any]:
    """Simplify alternatives: without null for optional keys, and without a list of one."""
    options: list[dict[str, Any]] = node.pop("anyOf")
    if optional:
        options = [o for o in options if o != {"type": "null"}]
    if all(o.keys() == {"type"} for o in options):
        options = [{"type": [t for o in options for t in _types(o["type"])]}]
    return {**options[0], **node} if len(options) == 1 else {**node, "anyOf": options}


def _types(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given

"""The JSON Schema of machine files for editors, made from the tables of keys and the actions.

``docs/machine.schema.json`` is its checked-in copy, which the first line of a machine file names;
``docs/generate.py`` writes it. The description of a key is the text below it in the source of its
part; that of a field of `with` is the one of its action.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import Any, cast

from chartloop.core.reasons import REASONS
from chartloop.core.specs import ActionSpec, ArgSpec
from chartloop.language.file import file, parts
from chartloop.language.file.file import NEEDS, EdgeShape, FileShape, MachineShape, RuleShape
from chartloop.language.file.keys import (
    REQUIRED,
    Either,
    IsFlag,
    IsNumber,
    IsPart,
    IsScalar,
    IsText,
    Key,
    Kind,
    ListOf,
    MapOf,
    OneOf,
    Part,
)
from chartloop.language.file.name_rules import LONGEST_NAME, NAME

ID = "https://chartloop.invalid/machine.schema.json"

Node = dict[str, Any]


def schema(actions: Iterable[ActionSpec]) -> Node:
    """The schema as plain data, in a stable order, with the fields of these actions."""
    found = {**vars(parts), **vars(file)}.values()
    named = [p for p in found if isinstance(p, type) and issubclass(p, Part) and p.called]
    made = {p.called: _part(p) for p in sorted(named, key=lambda p: p.__name__)}
    made["state"]["allOf"] = [
        {
            "if": {"properties": {"do": {"const": action.name}}, "required": ["do"]},
            "then": {"properties": {"with": _with(action)}},
        }
        for action in actions
        if action.run is not None
    ]
    whole = _part(FileShape)
    keys = whole["properties"]
    about = {key: {"description": keys[key]["description"]} for key in ("chartloop", "machine")}
    name = {"maxLength": LONGEST_NAME, "pattern": NAME, "type": "string", **about["machine"]}
    first = {"chartloop": {"const": 1, **about["chartloop"]}, "machine": name}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "chartloop machine",
        **whole,
        "properties": {**first, **{n: k for n, k in keys.items() if n not in first}},
        "$defs": {title: {"title": title, **part} for title, part in made.items()},
    }


def text(actions: Iterable[ActionSpec]) -> str:
    """The schema as the text of the file in ``docs``."""
    return json.dumps(schema(actions), indent=2, ensure_ascii=False) + "\n"


def _part(part: type[Part]) -> Node:
    """A mapping with known keys, and the conditions that an editor can check."""
    keys, texts = part.table(), _texts(part)
    required = [name for name, key in keys.items() if key.default is REQUIRED]
    more: Node = {"required": required} if required else {}
    more["type"] = "object"
    if issubclass(part, MachineShape):
        more["required"] = [*required, "states"]
    if part is file.StateShape:
        one = {k: list(n) for k, n in NEEDS.items() if len(n) == 1}
        more["dependentRequired"] = {**one, "when": ["then", "else"], "of": ["cases"]}
        more["dependentSchemas"] = {
            k: {"anyOf": [{"required": [n]} for n in needs]}
            for k, needs in NEEDS.items()
            if len(needs) > 1
        }
    if issubclass(part, EdgeShape):
        more["dependentRequired"] = {"message": ["stop"]}
    if part is RuleShape:
        more["anyOf"] = [{"required": [k]} for k in ("stop", "signal", "to")]
    return {
        "additionalProperties": False,
        "description": inspect.cleandoc(part.__doc__ or ""),
        "properties": {name: _key(part, name, key, texts[name]) for name, key in keys.items()},
        **more,
    }


def _texts(part: type[Part]) -> dict[str, str]:
    """The text below each key in the source of a part."""
    out: dict[str, str] = {}
    for cls in (c for c in reversed(part.__mro__) if c is not object):
        for node, below in pairwise(_classes(cls.__module__)[cls.__name__].body):
            if isinstance(node, ast.AnnAssign) and isinstance(below, ast.Expr):
                if isinstance(node.target, ast.Name) and isinstance(below.value, ast.Constant):
                    text = inspect.cleandoc(str(below.value.value)).replace("\n", " ")
                    out[node.target.id.rstrip("_")] = text
    return out


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """The classes of a module. `inspect` would parse the module anew for each."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _key(part: type[Part], name: str, key: Key, about: str) -> Node:
    if name in ("stop", "signal") and part is not parts.ModelShape:
        highest = ["highest"] if part is file.StateShape else []
        words = {"enum": [*highest, *REASONS]}
        return {"description": about, "anyOf": [words, {"type": "string"}]}
    made = _kind(key.kind)
    if key.kind.nullable and made.keys() == {"type"} and isinstance(made["type"], str):
        made = {"type": [made["type"]]}
    if key.default not in (None, REQUIRED) and not isinstance(key.default, list):
        made = {"default": key.default, **made}
    least = {"minProperties": 1} if name == "states" else {}
    return {**made, "description": about, **least}


def _kind(kind: Kind) -> Node:
    """The values of a kind, without null."""
    match kind:
        case IsText():
            return {"type": "string"}
        case IsFlag():
            return {"type": "boolean"}
        case IsScalar():
            return {"type": ["string", "number", "boolean"]}
        case IsNumber():
            bounds = {
                "exclusiveMinimum": kind.above, "maximum": kind.most, "minimum": kind.least,
            }  # fmt: skip
            given = {name: bound for name, bound in bounds.items() if bound is not None}
            return {**given, "type": "integer" if kind.whole else "number"}
        case OneOf(words=words):
            allowed = {"enum": [*words]} if len(words) > 1 else {"const": "".join(words)}
            return {**allowed, "type": "string"}
        case ListOf():
            least = {"minItems": kind.least} if kind.least else {}
            return {"items": _or_null(kind.of), **least, "type": "array"}
        case MapOf(names=names):
            entry = _or_null(kind.of)
            if names is not None and not names.words:
                named = {NAME: entry}
                return {"patternProperties": named, "type": "object", "additionalProperties": False}
            words = {"propertyNames": {"enum": list(names.words)}} if names is not None else {}
            return {"additionalProperties": entry or True, **words, "type": "object"}
        case IsPart():
            return {"$ref": f"#/$defs/{cast('type[Part]', kind.part).called}"}
        case Either():
            forms = (kind.scalar, kind.mapping, kind.list)
            return {"oneOf": [_kind(form) for form in forms if form is not None]}
        case _:
            return {}


def _or_null(kind: Kind) -> Node:
    """The values of an entry, which may be empty."""
    made = _kind(kind)
    if not kind.nullable:
        return made
    if "oneOf" in made:
        scalar, *others = made["oneOf"]
        return {"oneOf": [{"type": [*scalar["type"], "null"]}, *others]}
    return {"anyOf": [made, {"type": "null"}]}


def _with(action: ActionSpec) -> Node:
    """The `with` of an action."""
    node: Node = {
        "description": f"{action.about} {action.details}".rstrip(), **_fields(action.args)
    }  # fmt: skip
    if action.targets is not None:
        entry: Node = {"description": action.with_variables}
        if action.entry:
            whole: Node = {"type": "object", "minProperties": 1}
            entry["anyOf"] = [{"const": "json"}, {**whole, **_fields(action.entry)}]
        node["patternProperties"] = {r"^vars\.": entry}
    return node


def _fields(args: Iterable[ArgSpec]) -> Node:
    """Fields with their meaning. An unknown one is refused, and so is a word that is not listed."""
    fields: Node = {}
    for arg in args:
        fields[arg.name] = {"description": f"{arg.about} Written as: {arg.written_as}."}
        if arg.choices:
            fields[arg.name]["enum"] = list(arg.choices)
        if arg.kind == "fields":
            fields[arg.name]["additionalProperties"] = _fields(arg.fields)
    return {"properties": fields, "additionalProperties": False}

"""Checks a document against the shape of a machine file, and says what does not fit.

Every fault becomes a finding with its place. To find the others in the same pass, what does
not fit is taken out (a misspelt key is read as the key it was meant to be) and the rest is
checked again; the states touched are *tainted*, and later checks say nothing about them.
"""

from __future__ import annotations

import copy
import re
from typing import Any, cast, get_args

from pydantic import BaseModel, ValidationError

from interlock.core.codes import finding
from interlock.core.errors import Finding, nearest
from interlock.language.file import FileShape
from interlock.language.yaml import Document, Path

_ROUNDS = 6
"""Each round takes one layer of faults away; a file of nothing but faults ends here."""


class Shaped:
    """A document that has been held against the shape."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.findings: list[Finding] = list(document.findings)
        self.tainted: set[str] = set()
        self.file: FileShape | None = None
        if not isinstance(document.data, dict):
            if not document.findings:
                self._add(
                    "IL203", (), "a machine file is a mapping", "the first line is `interlock: 1`"
                )
            return
        data = cast(dict[str, Any], copy.deepcopy(document.data))
        for _ in range(_ROUNDS):
            try:
                self.file = FileShape.model_validate(data)
                return
            except ValidationError as error:
                # hide_input_in_errors does not reach `errors()`: ask for no input at all
                faults = error.errors(include_url=False, include_input=False)
                for fault in faults:
                    self._fault(fault["type"], fault["loc"], fault["msg"], fault.get("ctx"), data)

    def _add(
        self, code: str, path: Path, message: str, hint: str = "", *, key: bool = False
    ) -> None:
        place = self.document.key(path) if key else self.document.at(path)
        self.findings.append(finding(code, message, place, hint=hint, at=".".join(map(str, path))))
        if len(path) > 1 and path[0] == "states":
            self.tainted.add(str(path[1]))

    def _fault(
        self, kind: str, loc: tuple[int | str, ...], message: str, ctx: Any, data: dict[str, Any]
    ) -> None:
        path = _real(loc, data)
        name = str(loc[-1]) if loc else ""
        if kind == "extra_forbidden":
            self._unknown(path, data)
        elif kind == "missing":
            where = ".".join(map(str, path)) or "the file"
            self._add(
                "IL202",
                path,
                f"{where} lacks the key `{name}`",
                _missing_hint(name),
                key=bool(path),
            )
            _remove(data, path) if path else data.update(_default(name))
        elif "[key]" in map(str, loc) or kind == "string_pattern_mismatch":
            bad = str(path[-1]) if path else ""
            value = _get(data, path)
            text = value if isinstance(value, str) and "[key]" not in map(str, loc) else bad
            self._add(
                "IL204",
                path,
                f"`{text}` is not a name",
                "a lower-case letter, then letters, digits and underscores",
                key=text == bad,
            )
            if path == ("machine",):
                data["machine"] = "unnamed"
            else:
                _remove(data, path)
        elif kind in ("literal_error", "enum"):
            words = re.findall(r"'([^']*)'", str((ctx or {}).get("expected", message)))
            value = _get(data, path)
            self._add("IL208", path, f"`{value}` may not stand here", nearest(str(value), words))
            _remove(data, path)
        else:
            self._add("IL203", path, _said(kind, message, _get(data, path), path), _said_hint(path))
            _remove(data, path)

    def _unknown(self, path: Path, data: dict[str, Any]) -> None:
        key = str(path[-1])
        known = _keys_at(FileShape, path[:-1], data)
        if ("#" not in key and any(c in key for c in "<>=\"'()")) or len(key) > 40:
            self._add(
                "IL007",
                path,
                "this looks like a guard that YAML cut in pieces",
                "put the whole guard in quotes",
                key=True,
            )
            _remove(data, path)
            return
        hint = nearest(key, known)
        self._add("IL201", path, f"unknown key `{key}`", hint, key=True)
        holder = _get(data, path[:-1])
        meant = re.findall(r"did you mean `(.+)`\?", hint)
        value = holder.pop(key, None)
        if meant and meant[0] not in holder:
            holder[meant[0]] = value


def shape(document: Document) -> Shaped:
    """The file in its shape, as far as it has one, and every fault of it."""
    return Shaped(document)


def _default(name: str) -> dict[str, Any]:
    return {"interlock": {"interlock": 1}, "machine": {"machine": "unnamed"}}.get(
        name, {name: None}
    )


def _missing_hint(name: str) -> str:
    return {
        "interlock": "write `interlock: 1` as the first line",
        "machine": "write `machine: my_agent`",
        "to": "an edge is a state's name, or a mapping with `to`",
    }.get(name, "")


_KINDS = {
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "list_type": "a list",
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}


def _said(kind: str, message: str, value: Any, path: Path) -> str:
    where = ".".join(map(str, path)) or "the file"
    got = (
        "nothing"
        if value is None
        else {dict: "a mapping", list: "a list", str: "text"}.get(type(value), "a number")
    )
    if isinstance(value, bool):
        got = "true or false"
    if kind in _KINDS:
        return f"`{where}` takes {_KINDS[kind]}, not {got}"
    if kind == "union_tag_invalid" or kind.startswith("union"):
        return f"`{where}` cannot be {got}"
    return f"`{where}`: {message[:1].lower()}{message[1:]}"


def _said_hint(path: Path) -> str:
    last = next((p for p in reversed(path) if isinstance(p, str)), "")
    return {
        "next": "`next` is a state's name, a mapping with `to`, or a list of these",
        "then": "an edge is a state's name, or a mapping with `to`",
        "states": "`states` maps each state's name to its job",
    }.get(last, "")


def _real(loc: tuple[int | str, ...], data: Any) -> Path:
    """The part of a pydantic location that stands in the document: union tags left out."""
    path: list[int | str] = []
    at = data
    for part in loc:
        if (isinstance(at, dict) and part in at) or (
            isinstance(at, list) and isinstance(part, int) and part < len(cast(list[Any], at))
        ):
            at = cast(Any, at[part])
        else:
            continue
        path.append(part)
    return tuple(path)


def _get(data: Any, path: Path) -> Any:
    for part in path:
        data = data[part]
    return data


def _remove(data: Any, path: Path) -> None:
    """Take a fault out. In a list its place is kept, so that later places stay right."""
    if not path:
        return
    try:
        holder = _get(data, path[:-1])
        if isinstance(holder, dict):
            cast(dict[Any, Any], holder).pop(path[-1], None)
            if path[-1] in ("to", "when") and len(path) > 1:
                _remove(data, path[:-1])
        elif len(path) > 1:
            _remove(data, path[:-1])
    except (KeyError, IndexError, TypeError):
        return


def _keys_at(model: type[BaseModel], path: Path, data: Any) -> list[str]:
    """The keys that the shape has at a place of the document."""
    found: Any = model
    for part in path:
        found = _inside(found, part)
    models = _models(found)
    value = _get(data, path)
    if len(models) > 1 and isinstance(value, dict):
        models = [m for m in models if m.__name__ != "Append"] or models
    return [f.alias or n for m in models for n, f in m.model_fields.items()]


def _inside(annotation: Any, part: int | str) -> Any:
    for model in _models(annotation):
        for name, info in model.model_fields.items():
            if part in (name, info.alias):
                return info.annotation
    for inner in _unwrapped(annotation):
        args = get_args(inner)
        origin = getattr(inner, "__origin__", None)
        if origin is dict and isinstance(part, str):
            return args[1]
        if origin is list and isinstance(part, int):
            return args[0]
    return None


def _unwrapped(annotation: Any) -> list[Any]:
    """The members of unions and `Annotated`, as far down as generic types and classes."""
    if annotation is None:
        return []
    origin = getattr(annotation, "__origin__", None)
    if isinstance(annotation, type) or origin in (dict, list):
        return [annotation]
    return [x for a in get_args(annotation) for x in _unwrapped(a)]


def _models(annotation: Any) -> list[type[BaseModel]]:
    return [a for a in _unwrapped(annotation) if isinstance(a, type) and issubclass(a, BaseModel)]

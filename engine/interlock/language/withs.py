"""Reads `with`: what an action is given.

Each field is written as its action wants it: texts are templates, values are expressions;
words, names and durations stand as they are.

Imported by: language.states
Source: design "language", section 8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from interlock.core.errors import nearest
from interlock.core.specs import ActionSpec, ArgSpec
from interlock.core.types import ANY, Type, accepts
from interlock.language.expression import Expression, Scope
from interlock.language.json_schema import schema_fault
from interlock.language.quantities import coerce
from interlock.language.reader import Reader
from interlock.language.saves import SCHEMA
from interlock.language.spec import Given
from interlock.language.yaml import Path
from interlock.language.yaml_document import short


def read_args(
    reader: Reader, path: Path, action: ActionSpec | None, given: Mapping[str, Any] | None,
    scope: Scope,
) -> dict[str, Given]:  # fmt: skip
    """The fields of `with`, by name."""
    if action is None or reader.is_gone(path):
        return {}
    if action.run is None and not action.args and action.targets is None:
        if texts := [t for t in _texts_in(given) if "limits." in t]:
            reader.mention(" ".join(texts))  # a later version reads them
        return {k: Given("data", v) for k, v in (given or {}).items()}
    out: dict[str, Given] = {}
    for name, value in (given or {}).items():
        if reader.is_gone((*path, name)):
            continue
        made = _one(reader, (*path, name), action, value, scope)
        if made is not None:
            out[name] = made
    for arg in action.args:
        if arg.required and arg.name not in (given or {}):
            where = path if given else (*path[:-1], "do")
            said = f"`{action.name}` needs `{arg.name}` under `with`"
            reader.say("IL403", where, said, hint=arg.about, key=bool(given))
    return out


def _one(
    reader: Reader, path: Path, action: ActionSpec, value: Any, scope: Scope
) -> Given | None:  # fmt: skip
    name = str(path[-1])
    arg = action.arg(name)
    if arg is not None:
        return _READERS[arg.kind](reader, path, arg, value, scope)
    if action.targets is not None and name.startswith("vars."):
        return _of_variable(reader, path, action, value, scope)
    known = [a.name for a in action.args]
    otherwise = "its fields are variables: write `vars.NAME`" if action.targets else ""
    hint = otherwise or nearest(name, known) or "it takes none"
    said = f"`{action.name}` has no field `{short(name)}`"
    reader.say("IL402", path, said, hint=hint, key=True)
    return None


def _of_variable(
    reader: Reader, path: Path, action: ActionSpec, value: Any, scope: Scope
) -> Given | None:  # fmt: skip
    name = str(path[-1])
    type = reader.variable(path, name)
    if type is None or action.targets is None:
        return None
    if problem := action.targets(name, value):
        reader.say("IL404", path, problem, hint=action.about)
        return None
    if action.target_kind == "value":
        return _expression(reader, path, type, value, scope)
    return Given("data", value)


# kinds of fields ----------------------------------------------------------------------------


def _text(reader: Reader, path: Path, arg: ArgSpec, value: Any, scope: Scope) -> Given | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raw = short(reader.document.raw(reader.base + path) or str(value))
        said = f"`{arg.name}` is text, and `{raw}` is a number"
        reader.say("IL210", path, said, hint=f'quote it: `"{raw}"`')
        return None
    if not isinstance(value, str):
        return _wrong(reader, path, arg, value, "text")
    template = reader.template(path, value)
    return template and Given("text", template)


def _texts(reader: Reader, path: Path, arg: ArgSpec, value: Any, scope: Scope) -> Given | None:
    if not isinstance(value, (dict, list)):
        return _wrong(reader, path, arg, value, "a mapping or a list")
    return Given("texts", _templates(reader, path, value))


def _templates(reader: Reader, path: Path, value: Any) -> Any:
    """Data in which every text is a template."""
    if isinstance(value, str):
        return reader.template(path, value)
    if isinstance(value, dict):
        items = cast(dict[str, Any], value).items()
        return {k: _templates(reader, (*path, k), v) for k, v in items}
    if isinstance(value, list):
        return [_templates(reader, (*path, n), v) for n, v in enumerate(cast(list[Any], value))]
    return value


def _value(reader: Reader, path: Path, arg: ArgSpec, value: Any, scope: Scope) -> Given | None:
    return _expression(reader, path, arg.type, value, scope, arg)


def _expression(
    reader: Reader, path: Path, type: Type, value: Any, scope: Scope, arg: ArgSpec | None = None
) -> Given | None:  # fmt: skip
    if not isinstance(value, str) or type.kind in ("int", "float", "duration", "fraction"):
        fits, constant = coerce(type, value)
        if fits:
            return Given("constant", constant)
    if isinstance(value, str):
        want = None if type.kind == "any" else type
        made = reader.expression(path, value, want, scope)
        return made and Given("value", made)
    shown = "nothing" if value is None else f"`{short(str(value))}`"
    hint = arg.about if arg is not None else f"write an expression that gives {type}"
    reader.say("IL404", path, f"{shown} is no {type}", hint=hint)
    return None


def _values(reader: Reader, path: Path, arg: ArgSpec, value: Any, scope: Scope) -> Given | None:
    if not isinstance(value, dict):
        return _wrong(reader, path, arg, value, "a mapping of expressions")
    items = cast(dict[str, Any], value).items()
    made = {k: _expression(reader, (*path, k), ANY, v, scope, arg) for k, v in items}
    known = {k: v for k, v in made.items() if v is not None}
    return Given("values", known)


def _enum(reader: Reader, path: Path, arg: ArgSpec, value: Any, scope: Scope) -> Given | None:
    if isinstance(value, str) and value in arg.choices:
        return Given("constant", value)
    said = f"`{short(str(value))}` is not one of {', '.join(arg.choices)}"
    reader.say("IL404", path, said, hint=nearest(str(value), arg.choices))
    return None


def _duration(reader: Reader, path: Path, arg: ArgSpec, value: Any, scope: Scope) -> Given | None:
    if value is None or isinstance(value, (dict, list)):
        return _wrong(reader, path, arg, value, "a duration")
    made = reader.duration(path, value, scope)
    kind = "value" if isinstance(made, Expression) else "constant"
    return None if made is None else Given(kind, made)


def _name(reader: Reader, path: Path, arg: ArgSpec, value: Any, scope: Scope) -> Given | None:
    if not isinstance(value, str):
        return _wrong(reader, path, arg, value, f"the name of a {arg.names or 'thing'}")
    match arg.names:
        case "tool":
            reader.name(path, value, reader.registry.tools, "tool", "IL405")
        case "variable":
            known = [f"vars.{n}" for n in reader.variables]
            reader.name(path, value, known, "variable", "IL103")
        case "state":
            reader.state(path, value)
        case "reason":
            reader.reason(path, value)
        case "block":
            known = [n for n, _ in reader.scope.roots["memory"].fields]
            reader.name(path, value, known, "memory block", "IL103")
        case _:
            pass
    return Given("constant", value)


def _data(reader: Reader, path: Path, arg: ArgSpec, value: Any, scope: Scope) -> Given | None:
    if arg.name == SCHEMA:
        problem = schema_fault(value)
    elif arg.type.kind in ("map", "list", "struct") and not accepts(arg.type, value):
        problem = {"list": "a list"}.get(arg.type.kind, "a mapping")
    else:
        problem = arg.check(value) if arg.check is not None else None
    if problem:
        return _wrong(reader, path, arg, value, problem)
    return Given("data", value)


_Read = Callable[[Reader, Path, ArgSpec, Any, Scope], Given | None]
_READERS: Mapping[str, _Read] = {
    "text": _text, "texts": _texts, "value": _value, "values": _values, "enum": _enum,
    "duration": _duration, "name": _name, "data": _data,
}  # fmt: skip
"""One for each `core.specs.ArgKind`."""


def _wrong(reader: Reader, path: Path, arg: ArgSpec, value: Any, wanted: str) -> None:
    said = f"`{arg.name}` takes {wanted}" if value is not None else f"`{arg.name}` is empty"
    reader.say("IL404", path, said, hint=arg.about)


def _texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [t for v in cast(Mapping[str, Any], value).values() for t in _texts_in(v)]
    if isinstance(value, list):
        return [t for v in cast(list[Any], value) for t in _texts_in(v)]
    return []

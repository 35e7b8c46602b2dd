"""The reader of `with`: the fields of an action.

Each field is written as its action wants it: texts are templates, values are expressions;
words, names and durations stand as they are.

Source: `docs/reference/actions.md`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from chartloop.core.errors import nearest
from chartloop.core.specs import ActionSpec, ArgSpec
from chartloop.core.types import ANY, accepts
from chartloop.core.units import parse_duration
from chartloop.language.expression import Expression, Scope
from chartloop.language.file.keys import LOST
from chartloop.language.file.name_rules import bad_name
from chartloop.language.readers.quantities import coerce
from chartloop.language.readers.reader import Reader
from chartloop.language.readers.schemas import read_schema
from chartloop.language.spec import Given
from chartloop.language.yaml.document import short
from chartloop.language.yaml.reading import Path


def read_args(
    reader: Reader, path: Path, action: ActionSpec | None, given: Mapping[str, Any] | None,
    scope: Scope,
) -> dict[str, Given]:  # fmt: skip
    """Read the fields of `with`, by name."""
    if action is None:
        return {}
    if action.run is None and not action.args and action.targets is None:
        # no one knows its fields; the limits that they name count as used
        reader.mention(" ".join(t for t in _texts_in(given) if "limits." in t))
        return {k: Given("data", v) for k, v in (given or {}).items()}
    out: dict[str, Given] = {}
    for name, value in (given or {}).items():
        if value is LOST:
            continue
        made = _one(reader, (*path, name), action, value, scope)
        if made is not None:
            out[name] = made
    where = path if given else (*path[:-1], "do")
    for arg in _missing(action.args, given or {}):
        message = f"`{action.name}` needs `{arg.name}` under `with`"
        reader.say("CL403", where, message, hint=arg.about, key=bool(given))
    several = action.traits.one_of
    written = [name for name in several if name in (given or {})]
    if several and len(written) != 1:
        names = ", ".join(f"`{name}`" for name in several)
        message = f"`{action.name}` takes one of {names}" + (", not several" if written else "")
        reader.say("CL403", where, message, hint="give one of them", key=bool(given))
    for arg in action.args:
        if arg.needs and arg.name in (given or {}) and arg.needs not in (given or {}):
            message = f"`{arg.name}` goes with `{arg.needs}`"
            hint = f"give `{arg.needs}`, or remove `{arg.name}`"
            reader.say("CL403", (*path, arg.name), message, hint=hint, key=True)
    return out


def _missing(args: Sequence[ArgSpec], given: Mapping[str, Any]) -> list[ArgSpec]:
    return [arg for arg in args if arg.required and arg.name not in given]


class _Field(NamedTuple):
    """One field of a `with`, and its spec."""

    reader: Reader
    path: Path
    arg: ArgSpec
    scope: Scope

    def fault(self, message: str, *, code: str = "CL404", hint: str = "") -> None:
        self.reader.say(code, self.path, message, hint=hint or self.arg.about)

    def wrong(self, value: Any, wanted: str) -> None:
        """Report a value that the field does not accept."""
        name = self.arg.name
        self.fault(f"`{name}` takes {wanted}" if value is not None else f"`{name}` is empty")


def _one(
    reader: Reader, path: Path, action: ActionSpec, value: Any, scope: Scope
) -> Given | None:  # fmt: skip
    name = str(path[-1])
    arg = action.arg(name)
    if arg is not None:
        return _READERS[arg.kind](_Field(reader, path, arg, scope), value)
    if action.targets is not None and name.startswith("vars."):
        return _of_variable(reader, path, action, value, scope)
    known = [a.name for a in action.args]
    otherwise = "its fields are variables: write `vars.NAME`" if action.targets else ""
    hint = otherwise or nearest(name, known) or "it takes none"
    message = f"`{action.name}` has no field `{short(name)}`"
    reader.say("CL402", path, message, hint=hint, key=True)
    return None


def _of_variable(
    reader: Reader, path: Path, action: ActionSpec, value: Any, scope: Scope
) -> Given | None:  # fmt: skip
    name = str(path[-1])
    type = reader.variable(path, name)
    if type is None or action.targets is None:
        return None
    if problem := action.targets(name, value, type):
        hint = f"`chartloop info actions {action.name}` shows what an entry may say"
        reader.say("CL404", path, problem, hint=hint)
        return None
    if action.target_kind == "value":
        about = f"an expression that gives {type}"
        return _value(_Field(reader, path, ArgSpec(name, "value", type, about=about), scope), value)
    return Given("data", value)


# kinds of fields ----------------------------------------------------------------------------


def _text(field: _Field, value: Any) -> Given | None:
    reader, path = field.reader, field.path
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raw = short(reader.document.raw(reader.base + path) or str(value))
        message = f"`{field.arg.name}` is text, and `{raw}` is a number"
        return field.fault(message, code="CL210", hint=f'quote it: `"{raw}"`')
    if not isinstance(value, str):
        return field.wrong(value, "text")
    template = reader.template(path, value)
    return template and Given("text", template)


def _texts(field: _Field, value: Any) -> Given | None:
    if not isinstance(value, (dict, list)):
        return field.wrong(value, "a mapping or a list")
    return Given("texts", _templates(field.reader, field.path, value))


def _templates(reader: Reader, path: Path, value: Any) -> Any:
    """Read data in which every text is a template."""
    if isinstance(value, str):
        return reader.template(path, value)
    if isinstance(value, dict):
        items = cast(dict[str, Any], value).items()
        return {k: _templates(reader, (*path, k), v) for k, v in items}
    if isinstance(value, list):
        return [_templates(reader, (*path, n), v) for n, v in enumerate(cast(list[Any], value))]
    return value


def _value(field: _Field, value: Any) -> Given | None:
    type = field.arg.type
    if not isinstance(value, str) or type.kind in ("int", "float", "duration", "fraction"):
        fits, constant = coerce(type, value)
        if fits:
            problem = field.arg.check(constant) if field.arg.check is not None else None
            return field.wrong(constant, problem) if problem else Given("constant", constant)
    if type.kind == "bool" and isinstance(value, str) and value.strip() in ("true", "false"):
        name, word = field.arg.name, value.strip()
        message = f"`{name}` takes true or false, not text"
        return field.fault(message, hint=f"take the quotes away: `{name}: {word}`")
    if isinstance(value, str):
        want = None if type.kind == "any" else type
        made = field.reader.expression(field.path, value, want, field.scope)
        return made and Given("value", made)
    shown = "nothing" if value is None else f"`{short(str(value))}`"
    return field.fault(f"{shown} is not of type {type}")


def _values(field: _Field, value: Any) -> Given | None:
    if not isinstance(value, dict):
        return field.wrong(value, "a mapping of expressions")
    anything = replace(field.arg, type=ANY)
    made = {
        k: Given("constant", v)
        if _is_quantity(v)
        else _value(field._replace(path=(*field.path, k), arg=anything), v)
        for k, v in cast(dict[str, Any], value).items()
    }
    return Given("values", {k: v for k, v in made.items() if v is not None})


def _is_quantity(value: Any) -> bool:
    """Whether a text is a quantity such as `30m` or `95%`, whose type depends on the field."""
    if not isinstance(value, str) or value.isidentifier():
        return False
    return parse_duration(value) is not None or value.endswith("%")


def _fields(field: _Field, value: Any) -> Given | None:
    """Read a mapping of names to fields, by `ArgSpec.fields`."""
    if not isinstance(value, dict) or not value:
        return field.wrong(value, "a mapping of names")
    out: dict[str, Any] = {}
    for name, given in cast(dict[str, Any], value).items():
        inner = field._replace(path=(*field.path, name))
        if bad := bad_name(inner.path, name):
            field.reader.say("CL204", inner.path, bad.message, hint=bad.hint, key=True)
        if not isinstance(given, dict):
            known = ", ".join(f"`{arg.name}`" for arg in field.arg.fields)
            inner.fault(f"`{short(name)}` takes a mapping: {known}")
            continue
        out[name] = _under(inner, cast(dict[str, Any], given))
    return Given("fields", out)


def _under(field: _Field, given: dict[str, Any]) -> dict[str, Given]:
    args = {arg.name: arg for arg in field.arg.fields}
    out: dict[str, Given] = {}
    for name, value in given.items():
        path = (*field.path, name)
        if name not in args:
            message = f"there is no field `{short(name)}` here"
            field.reader.say("CL402", path, message, hint=nearest(name, args), key=True)
        elif made := _READERS[args[name].kind](field._replace(path=path, arg=args[name]), value):
            out[name] = made
    for arg in _missing(field.arg.fields, given):
        message = f"`{field.path[-1]}` needs `{arg.name}`"
        field.reader.say("CL403", field.path, message, hint=arg.about, key=True)
    return out


def _enum(field: _Field, value: Any) -> Given | None:
    choices = field.arg.choices
    if isinstance(value, str) and value in choices:
        return Given("constant", value)
    message = f"`{short(str(value))}` is not one of {', '.join(choices)}"
    return field.fault(message, hint=nearest(str(value), choices))


def _duration(field: _Field, value: Any) -> Given | None:
    if value is None or isinstance(value, (dict, list)):
        return field.wrong(value, "a duration")
    made = field.reader.duration(field.path, value, field.scope)
    kind = "value" if isinstance(made, Expression) else "constant"
    return None if made is None else Given(kind, made)


def _name(field: _Field, value: Any) -> Given | None:
    if not isinstance(value, str):
        return field.wrong(value, f"the name of a {field.arg.names or 'thing'}")
    reader, path = field.reader, field.path
    match field.arg.names:
        case "tool":
            reader.function(path, value)
        case "variable":
            known = [f"vars.{n}" for n in reader.variables]
            reader.name(path, value, known, "variable", "CL103")
        case "state":
            reader.state(path, value)
        case "reason":
            reader.reason(path, value)
        case "machine":
            reader.child(path, value)
        case "block":
            known = [n for n, _ in reader.scope.roots["memory"].fields]
            reader.name(path, value, known, "memory block", "CL103")
        case _:
            pass
    return Given("constant", value)


def _data(field: _Field, value: Any) -> Given | None:
    arg = field.arg
    if arg.type.kind in ("map", "list", "struct") and not accepts(arg.type, value):
        problem = "a list" if arg.type.kind == "list" else "a mapping"
    else:
        problem = arg.check(value) if arg.check is not None else None
    if problem:
        return field.wrong(value, problem)
    if arg.names == "variable":
        known = [f"vars.{n}" for n in field.reader.variables]
        for key, name in cast(dict[str, str], value).items():
            field.reader.name((*field.path, key), name, known, "variable", "CL103")
    return Given("data", value)


def _schema(field: _Field, value: Any) -> Given | None:
    return Given("schema", read_schema(field.reader, field.path, value))


_READERS: Mapping[str, Callable[[_Field, Any], Given | None]] = {
    "text": _text, "texts": _texts, "value": _value, "values": _values, "enum": _enum,
    "duration": _duration, "name": _name, "data": _data, "fields": _fields,
    "schema": _schema,
}  # fmt: skip
"""The reader for each `core.specs.ArgKind`."""


def _texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [t for v in cast(Mapping[str, Any], value).values() for t in _texts_in(v)]
    if isinstance(value, list):
        return [t for v in cast(list[Any], value) for t in _texts_in(v)]
    return []

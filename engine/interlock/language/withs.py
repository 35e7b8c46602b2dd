"""Reads `with` and `save`: what an action is given, and what is kept of its result.

Imported by: language.states
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from interlock.core.errors import nearest
from interlock.core.specs import ActionSpec, ArgSpec
from interlock.core.types import ANY, Type
from interlock.language import file
from interlock.language.expression import Scope
from interlock.language.parts import coerce
from interlock.language.reader import Reader
from interlock.language.spec import Given, Save
from interlock.language.yaml import Path


def read_args(
    reader: Reader, path: Path, action: ActionSpec | None, given: Mapping[str, Any] | None,
    scope: Scope, variables: Mapping[str, Type],
) -> dict[str, Given]:  # fmt: skip
    """The fields of `with`, each as its action wants it."""
    if action is None or (action.run is None and not action.args and action.targets is None):
        return {k: Given("data", v, reader.place((*path, k))) for k, v in (given or {}).items()}
    out: dict[str, Given] = {}
    for name, value in (given or {}).items():
        at = (*path, name)
        arg = action.arg(name)
        if arg is not None:
            made = _field(reader, at, arg, value, scope)
            if made is not None:
                out[name] = made
        elif action.targets is not None and name.startswith("vars."):
            if name.removeprefix("vars.") not in variables:
                reader.name(at, name, [f"vars.{v}" for v in variables], "variable", "IL103")
            elif problem := action.targets(name, value):
                reader.say("IL404", at, problem)
            elif action.target_kind == "value":
                type = variables[name.removeprefix("vars.")]
                if made := _expression(reader, at, type, value, scope):
                    out[name] = made
            else:
                out[name] = Given("data", value, reader.place(at))
        else:
            known = [a.name for a in action.args]
            hint = nearest(name, known) or (
                "write `vars.NAME`" if action.targets else "it takes none"
            )
            reader.say("IL402", at, f"`{action.name}` has no field `{name}`", hint=hint, key=True)
    for arg in action.args:
        if arg.required and arg.name not in (given or {}):
            where = path if given else path[:-1]
            reader.say(
                "IL403",
                where,
                f"`{action.name}` needs `{arg.name}` under `with`",
                hint=arg.about,
                key=True,
            )
    return out


def _field(reader: Reader, path: Path, arg: ArgSpec, value: Any, scope: Scope) -> Given | None:
    place = reader.place(path)
    match arg.kind:
        case "text":
            text = value if isinstance(value, str) else None
            if text is None and isinstance(value, (int, float)):
                text = reader.document.raw(reader.base + path)
            if text is None:
                return _wrong(reader, path, arg, value, "text")
            template = reader.template(path, text)
            return template and Given("text", template, place)
        case "texts":
            return Given("texts", _texts(reader, path, value), place)
        case "value":
            return _expression(reader, path, arg.type, value, scope)
        case "values":
            if not isinstance(value, dict):
                return _wrong(reader, path, arg, value, "a mapping of expressions")
            items = {
                str(k): _expression(reader, (*path, str(k)), ANY, v, scope)
                for k, v in value.items()
            }  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            return Given("values", {k: v for k, v in items.items() if v is not None}, place)
        case "enum":
            if value not in arg.choices:
                reader.say(
                    "IL404",
                    path,
                    f"`{value}` is not one of {', '.join(arg.choices)}",
                    hint=nearest(str(value), arg.choices),
                )
                return None
            return Given("constant", value, place)
        case "duration":
            seconds = reader.duration(path, value, scope)
            if seconds is None:
                return None
            return Given("constant" if isinstance(seconds, float) else "value", seconds, place)
        case "name":
            return _named(reader, path, arg, value)
        case "data":
            if arg.check is not None and (problem := arg.check(value)):
                return _wrong(reader, path, arg, value, problem)
            return Given("data", value, place)


def _named(reader: Reader, path: Path, arg: ArgSpec, value: Any) -> Given | None:
    if not isinstance(value, str):
        return _wrong(reader, path, arg, value, f"the name of a {arg.names}")
    if arg.names == "tool":
        reader.name(path, value, reader.registry.tools, "tool", "IL405")
    if arg.names == "variable":
        known = [f"vars.{n}" for n, _ in reader.scope.roots["vars"].fields]
        reader.name(path, value, known, "variable", "IL103")
    return Given("constant", value, reader.place(path))


def _wrong(reader: Reader, path: Path, arg: ArgSpec, value: Any, wanted: str) -> None:
    reader.say(
        "IL404",
        path,
        f"`{arg.name}` takes {wanted}" if value is not None else f"`{arg.name}` is empty",
        hint=arg.about,
    )


def _expression(reader: Reader, path: Path, type: Type, value: Any, scope: Scope) -> Given | None:
    if not isinstance(value, str):
        fits, constant = coerce(type, value)
        if not fits:
            reader.say("IL404", path, f"`{value}` is no {type}")
            return None
        return Given("constant", constant, reader.place(path))
    if type.kind in ("int", "float", "duration", "fraction"):
        fits, constant = coerce(type, value)
        if fits:
            return Given("constant", constant, reader.place(path))
    made = reader.expression(path, value, None if type.kind == "any" else type, scope)
    return None if made is None else Given("value", made, reader.place(path))


def _texts(reader: Reader, path: Path, value: Any) -> Any:
    """Data in which every text is a template."""
    if isinstance(value, str):
        return reader.template(path, value)
    if isinstance(value, dict):
        return {str(k): _texts(reader, (*path, str(k)), v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [_texts(reader, (*path, n), v) for n, v in enumerate(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value


_PATH = re.compile(r"result((?:\.[A-Za-z][A-Za-z0-9_]*|\[\d{1,6}\])*)")
_PART = re.compile(r"\.([A-Za-z][A-Za-z0-9_]*)|\[(\d+)\]")


def result_path(text: str) -> tuple[str | int, ...] | None:
    """``result.output.world[0]`` as a path; None when it is none."""
    match = _PATH.fullmatch(text.strip())
    if match is None:
        return None
    return tuple(name or int(index) for name, index in _PART.findall(match[1]))


def read_save(
    reader: Reader, path: Path, shape: Mapping[str, Any] | None, action: ActionSpec | None,
    variables: Mapping[str, Type],
) -> tuple[Save, ...]:  # fmt: skip
    """`save`: variables that take a part of the result, when the action succeeded."""
    result = action.result if action else ANY
    out: list[Save] = []
    for target, given in (shape or {}).items():
        at = (*path, target)
        name = target.removeprefix("vars.")
        if not target.startswith("vars.") or name not in variables:
            reader.name(at, target, [f"vars.{v}" for v in variables], "variable", "IL407")
            continue
        append = isinstance(given, file.Append)
        if isinstance(given, file.Append):
            given, at = given.append, (*at, "append")
            if variables[name].kind != "list":
                reader.say(
                    "IL407",
                    at,
                    f"`{target}` is {variables[name]}, not a list",
                    hint="`append` adds to a list",
                )
                continue
        saved = _saved(reader, at, target, given, result, append)
        if saved is not None:
            out.append(saved)
    return tuple(out)


def _saved(
    reader: Reader, at: Path, target: str, given: Any, result: Type, append: bool
) -> Save | None:
    place = reader.place(at)
    if isinstance(given, str) and ("{{" in given or "{%" in given):
        template = reader.template(at, given, extra={"result": result})
        return template and Save(target, None, template, append, place)
    parts = result_path(given) if isinstance(given, str) else None
    if parts is None:
        reader.say(
            "IL407",
            at,
            f"`{given}` is no part of the result",
            hint="write `result.part`, or a template with `{{ result.part }}`",
        )
        return None
    type = result
    for part in parts:
        if type.kind == "any":
            break
        inner = (
            (type.field(part) if type.kind == "struct" else type.of)
            if isinstance(part, str)
            else type.of
        )
        if inner is None:
            known = [n for n, _ in type.fields]
            reader.say(
                "IL407",
                at,
                f"the result has no `{part}`: it is {type}",
                hint=nearest(str(part), known),
            )
            return None
        type = inner
    return Save(target, parts, None, append, place)

"""The reader of reply schemas: a JSON Schema, or the name of a Python class.

`output: Answer` names a class that comes with `--tools`. The canonical text has its schema beside
its name, `{class: Answer, schema: {...}}`: so the hash holds it, a machine is read without the
class, and a class that has changed is noticed.

Source: `docs/reference/actions.md`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from chartloop.core.errors import SetupError
from chartloop.language.json_schema.faults import schema_faults
from chartloop.language.json_schema.reply import ReplySchema
from chartloop.language.readers.reader import Reader
from chartloop.language.yaml.document import short
from chartloop.language.yaml.reading import Path

_OF_CLASS = {"class", "schema"}


def read_schema(reader: Reader, path: Path, value: Any) -> ReplySchema:
    """Read the schema at `path`; an invalid one is replaced by one that every reply satisfies."""
    if isinstance(value, str):
        return _of_class(reader, path, value) or ReplySchema({})
    if isinstance(value, Mapping) and set(cast(Mapping[str, Any], value)) == _OF_CLASS:
        return _as_recorded(reader, path, cast(Mapping[str, Any], value)) or ReplySchema({})
    return ReplySchema(cast(Any, value) if _is_sound(reader, path, value) else {})


def _is_sound(reader: Reader, path: Path, schema: Any) -> bool:
    faults = schema_faults(schema)
    for fault in faults:
        message = fault.message if fault.path else f"`{path[-1]}` {fault.message}"
        there = path
        for part in fault.path:
            there = (*there, part)
        hint = fault.hint or "it is JSON Schema, draft 2020-12"
        reader.say("CL413", there, message, hint=hint, key=fault.key)
    return not faults


def _of_class(reader: Reader, path: Path, name: str) -> ReplySchema | None:
    """The schema of a class of the application."""
    known = reader.registry.types
    if name not in known:
        if known:
            reader.name(path, name, known, "class", "CL414")
        else:
            hint = "give its file with `--tools`, or the class with `tools=`"
            reader.say("CL414", path, f"unknown class `{short(name)}`", hint=hint)
        return None
    found = known[name]
    try:
        schema = found.schema()
    except SetupError as error:
        reader.say("CL414", path, error.message, hint=error.hint)
        return None
    if not schema:  # assumed to be someone's own: nothing is known of it
        return ReplySchema({}, name, found.make)
    faults = schema_faults(schema)
    for fault in faults:
        message = f"the schema of class `{short(name)}`: {fault.message}"
        reader.say("CL413", path, message, hint=fault.hint)
    return None if faults else ReplySchema(schema, name, found.make)


def _as_recorded(reader: Reader, path: Path, value: Mapping[str, Any]) -> ReplySchema | None:
    """The schema of a class in a recorded machine, with the schema at that time."""
    name, schema = value["class"], value["schema"]
    if not isinstance(name, str):
        reader.say("CL414", (*path, "class"), "`class` takes the name of a class")
        return None
    if schema and not _is_sound(reader, (*path, "schema"), schema):
        return None
    found = _of_class(reader, (*path, "class"), name)
    if found is None:
        return None
    if found.schema and schema and found.schema != schema:
        message = f"class `{short(name)}` is not what it was when this text was written"
        hint = "load the file that names it, or bring back the class as it was"
        reader.say("CL415", (*path, "class"), message, hint=hint)
        return None
    return ReplySchema(schema, name, found.make)

"""The readers of settings: model, tools, tasks, reasons, and notes for people.

Source: `docs/language.md`, "The file"; `docs/language.md`, "Stop reasons"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from chartloop.core.codes import CODES
from chartloop.core.errors import Severity, nearest
from chartloop.core.reasons import REASONS, StopReason
from chartloop.core.specs import DataUse, refused_extra
from chartloop.core.units import parse_duration
from chartloop.language.file import file
from chartloop.language.readers.declarations import whole
from chartloop.language.readers.reader import Reader, items
from chartloop.language.readers.servers import refuse_collisions, tools_named
from chartloop.language.spec import HIGHEST, INPUTS, Deviation, Ignore
from chartloop.language.tool_lock import matches
from chartloop.language.yaml.document import short
from chartloop.language.yaml.reading import Path

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
ACCEPTABLE = frozenset(
    {c.code for c in CODES.values() if c.severity is Severity.WARNING}
    | {"CL114", "CL304", "CL307", "CL315"}
)
"""The findings that a file may accept: warnings, and errors that no run can notice."""

EVERY = "*"
"""The entry of `tools` for every tool of the application."""


def read_model(reader: Reader, shape: file.ModelShape | str | None) -> dict[str, Any]:
    """Read `model`: the settings for model calls, as plain data with parsed quantities."""
    if shape is None:
        return {}
    if isinstance(shape, str):
        return {"name": shape}
    out = shape.plain()
    for name in ("max_tokens", "context_window", "reply_limit"):
        if name in out and (found := whole(reader, ("model", name), out[name])) is not None:
            out[name] = found
    for name in ("timeout", "idle_timeout"):
        if (timeout := out.get(name)) is not None:
            seconds = parse_duration(timeout) if isinstance(timeout, str) else None
            if seconds is None or seconds <= 0:
                message = f"`{short(str(timeout))}` is not a duration above zero"
                reader.say("CL209", ("model", name), message, hint="write `60s`")
            out[name] = seconds
    if (wrong := refused_extra(out.get("extra") or {})) is not None:
        message = f"`model.extra` may not hold `{wrong}`"
        reader.say("CL207", ("model", "extra"), message, hint="leave it to `model`", key=True)
    if shape.api_key_env is not None and not _VARIABLE.fullmatch(shape.api_key_env):
        # what is there may be a key: it is not repeated in the message
        message = "`model.api_key_env` takes the name of an environment variable, never the key"
        hint = "write `OPENAI_API_KEY`, and set the variable"
        reader.say("CL203", ("model", "api_key_env"), message, hint=hint)
    return out


def read_tools(reader: Reader, names: list[str] | None) -> tuple[str, ...]:
    """Read `tools`: registered tools, in the order in which the model sees them."""
    out: list[str] = []
    known = reader.registry.tools
    for number, name in items(names):
        path: Path = ("tools", number)
        if name == EVERY:
            out += reader.registry.own_tools
            continue
        if "." in name:
            out += tools_named(reader, path, name)
        else:
            reader.name(path, name, known, "tool", "CL405")
            out.append(name)
    reader.once(("tools",), items(names), "tool")
    if reader.servers:
        refuse_collisions(reader, out)
    return tuple(dict.fromkeys(out))


def read_data(reader: Reader, shape: Mapping[str, file.DataShape] | None) -> dict[str, DataUse]:
    """Read `data`: what tools and the application's actions do with data."""
    out: dict[str, DataUse] = {}
    tools, both = reader.registry.tools, {**reader.registry.tools, **reader.registry.actions}
    for name, given in (shape or {}).items():
        known = tools if name in tools else both  # a registry that assumes tools has them all
        meant = reader.function(("data", name), name, known, key=True)
        if meant and given is not file.LOST:
            out[meant] = _use(given)
    return out


def read_inputs(
    reader: Reader, shape: Mapping[str, file.DataShape] | None, blocks: Iterable[str]
) -> dict[str, DataUse] | None:
    """Read `inputs`: what a caller may give a run."""
    if shape is None:
        return None
    known = dict.fromkeys((*INPUTS, *reader.variables, *(f"memory.{name}" for name in blocks)))
    return {
        meant: _use(given)
        for name, given in shape.items()
        if given is not file.LOST
        and (meant := reader.name(("inputs", name), name, known, "input", "CL201", key=True))
    }


def _use(given: file.DataShape) -> DataUse:
    words = {"reads": given.reads, "from": given.from_, "sends": given.sends}
    return DataUse.read({key: word for key, word in words.items() if word})


def offered_names(reader: Reader, path: Path, names: list[str]) -> tuple[str, ...]:
    """Read the names and patterns of tools in a part of the machine."""
    out: list[str] = []
    for number, name in (given := items(names)):
        found = [known for known in reader.tools if "." in name and matches(name, known)]
        if not found and name.partition(".")[0] not in reader.unlocked:
            meant = reader.name(
                (*path, number), name, reader.tools, "tool of this machine", "CL405"
            )
            found = [meant] if meant else []
        out += found
    reader.once(path, given, "tool")
    return tuple(dict.fromkeys(out))


def read_reasons(
    reader: Reader, shape: Mapping[str, file.ReasonShape | None] | None
) -> dict[str, StopReason]:
    """Read `reasons`: the built-in ones with the file's own."""
    out = dict(REASONS)
    for name, given in (shape or {}).items():
        if name == HIGHEST:
            message = "`highest` is not a reason: it names the signals already raised"
            path: Path = ("reasons", name)
            reader.say("CL204", path, message, hint="take another name", key=True)
        else:
            one = given or file.ReasonShape()
            out[name] = StopReason(name, one.priority, one.forced, one.status)
    return out


def read_tasks(reader: Reader, shape: Any) -> tuple[dict[str, Any], ...] | str | None:
    """Read `tasks`: the initial tasks, or the path of their file, which is read at the start."""
    if isinstance(shape, file.TaskFile):
        return shape.file
    given = [(n, task_shape(t)) for n, t in items(cast("list[Any]", shape))]
    ids = [(n, t.id or f"task_{n + 1}") for n, t in given]
    reader.once(("tasks",), ids, "task")
    for number, task in given:
        if not task.text.strip():
            message, hint = f"task {number + 1} has no text", "`text` says what is to be done"
            reader.say("CL203", ("tasks", number), message, hint=hint)
        if task.by is not None:
            _check_by(reader, ("tasks", number, "by"), task.by)
    made = [
        {"id": id, **task.but(id=id).plain()} for (_, task), (_, id) in zip(given, ids, strict=True)
    ]
    return tuple(made) or None


def task_shape(given: file.TaskShape | str) -> file.TaskShape:
    """The shape of a task, which the file may write as its text alone."""
    return file.TaskShape(text=given) if isinstance(given, str) else given


def _check_by(reader: Reader, path: Path, by: Mapping[Any, Any]) -> None:
    if len(by) != 1 and file.is_whole(by):
        message = "a task is done by one of `tool`, `prompt`, `machine`"
        reader.say("CL207", path, message, hint="name one of them", key=True)
    for kind, name in by.items():
        if name is file.LOST:
            continue
        if kind == "tool" and isinstance(name, str):
            reader.function((*path, kind), name)
        elif kind == "machine" and isinstance(name, str):
            reader.child((*path, kind), name)
        elif not isinstance(name, str):
            message = f"`{kind}` takes text, not {type(name).__name__}"
            reader.say("CL203", (*path, kind), message, hint=f"name one {kind}")


# notes --------------------------------------------------------------------------------------


def read_ignore(reader: Reader, shape: list[file.IgnoreShape] | None) -> tuple[Ignore, ...]:
    """Read `ignore`: the accepted findings. An error about the file cannot be accepted."""
    out: list[Ignore] = []
    for number, given in items(shape):
        path: Path = ("ignore", number, "code")
        if given.code not in CODES:
            hint = nearest(given.code, ACCEPTABLE)
            reader.say("CL325", path, f"there is no finding `{short(given.code)}`", hint=hint)
        elif given.code not in ACCEPTABLE:
            title = CODES[given.code].title
            message = f"an error cannot be accepted: {given.code} ({title})"
            reader.say("CL325", path, message, hint="fix the cause, and remove this entry")
        else:
            out.append(Ignore(given.code, given.at or "", given.reason))
    return tuple(out)


def read_deviations(
    reader: Reader, shape: list[file.DeviationShape] | None, source: str | None
) -> tuple[Deviation, ...]:
    """Read `deviations`: accepted differences from the picture in `source`."""
    if shape and not source and "source" not in reader.shape.lost:
        message, hint = "`deviations` needs `source`", "name the document: `source: design.md`"
        reader.say("CL202", ("deviations",), message, hint=hint, key=True)
    return tuple(Deviation(d.difference, d.reason) for _, d in items(shape))


def read_renamed(reader: Reader, shape: Mapping[str, str] | None) -> dict[str, str]:
    """Read `renamed`: old to new names of states, for runs recorded before a rename."""
    for old, new in (shape or {}).items():
        path: Path = ("renamed", old)
        if new is file.LOST:
            continue
        if old in reader.states:
            message = f"`{short(old)}` is still a state"
            hint = "name the old state as the key, the new one as its value"
            reader.say("CL207", path, message, hint=hint, key=True)
        else:
            reader.name(path, new, reader.states, "state", "CL301")
    return {old: new for old, new in (shape or {}).items() if new is not file.LOST}

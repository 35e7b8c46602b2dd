"""Loading of machine files: text and registry to a spec and all findings.

Loading is tolerant: unreadable parts are noted and left out, so that one pass reports every
mistake. The caller decides whether a file with findings may run; a spec with errors is only for
further checks.

Source: `docs/language.md`, "The file"; `docs/checks.md`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

from chartloop.core.codes import finding
from chartloop.core.errors import Finding, SetupError
from chartloop.core.specs import Registry, ToolSpec
from chartloop.core.types import Type, Words
from chartloop.language.child_tools import tool_of_machine
from chartloop.language.expression import Expression, Scope
from chartloop.language.file import file
from chartloop.language.file.name_rules import bad_name
from chartloop.language.file.shape import Shaped, shape
from chartloop.language.file.unreadable import Unread
from chartloop.language.foreign import foreign
from chartloop.language.readers.approve import read_approve
from chartloop.language.readers.declarations import (
    define_texts,
    read_defines,
    read_limits,
    read_memory,
    read_vars,
)
from chartloop.language.readers.edges import Slot, read_edge
from chartloop.language.readers.flow import Flow, flow
from chartloop.language.readers.loops import (
    check_loop,
    declare_loops,
    find_loops,
    lead_back,
    places,
    with_loops,
)
from chartloop.language.readers.reader import NULLABLE, Named, Reader, items, make_roots
from chartloop.language.readers.rules import read_rule
from chartloop.language.readers.servers import (
    ReadLock,
    read_server_shape,
    read_servers,
    wanted_tools,
)
from chartloop.language.readers.settings import (
    ACCEPTABLE,
    EVERY,
    read_data,
    read_deviations,
    read_ignore,
    read_inputs,
    read_model,
    read_reasons,
    read_renamed,
    read_tasks,
    read_tools,
)
from chartloop.language.readers.states import read_state
from chartloop.language.readers.words import doubts_a_word, written_words
from chartloop.language.server_tools import ServerSpec
from chartloop.language.spec import Edge, LimitSpec, MachineSpec, StateSpec
from chartloop.language.tool_lock import lock_name
from chartloop.language.yaml.document import dotted_path, short
from chartloop.language.yaml.reading import Document, Path, read

__all__ = ["VERSION", "Find", "Found", "Loaded", "StateSpec", "load"]

VERSION = 1
"""The format version that this chartloop reads."""


class Loaded(NamedTuple):
    """A loaded machine with its findings."""

    spec: MachineSpec | None
    findings: tuple[Finding, ...]
    tainted: Unread = Unread()
    """The parts that could not be read; later checks skip them."""

    @property
    def ok(self) -> bool:
        """Whether there is no error among the findings."""
        return self.spec is not None and not any(f.is_error for f in self.findings)


class Found(NamedTuple):
    """The file of a child machine."""

    text: str
    file: str
    """Its name, for places; unique for each file."""


Find = Callable[[str, str], Found]
"""Finds the file of a child machine by a path or the name of a shipped machine, and by the name of
the file that refers to it. Raises `SetupError` if there is none."""


class _Reading(NamedTuple):
    """The inputs of loading that all files share."""

    registry: Registry
    define: Mapping[str, str]
    find: Find | None
    within: tuple[str, ...]
    """The files that led to this one, the outermost first."""


class _File(NamedTuple):
    """The inputs of loading that all machines of a file share."""

    document: Document
    shaped: Shaped
    reading: _Reading


def load(
    text: str, file_name: str, registry: Registry, *, define: Mapping[str, str] | None = None,
    find: Find | None = None,
) -> Loaded:  # fmt: skip
    """Load a machine file. `define` replaces named expressions of the file. Never raises.

    Child machines in other files are found by `find` and become part of the spec.
    """
    return _load(text, file_name, _Reading(registry, define or {}, find, ()))


class Declared(NamedTuple):
    """An MCP server that a file declares, and the tools that the file names."""

    server: ServerSpec
    tools: tuple[str, ...]
    """Names and patterns of tools, without the prefix of the server."""


def declared_servers(text: str, file_name: str) -> tuple[dict[str, Declared], tuple[Finding, ...]]:
    """The MCP servers of a file and its inline machines, without a lock, and the findings.

    Only the shape of the rest is checked, because it needs the lock.
    """
    document = read(text, file_name)
    shaped = shape(document)
    findings = list(shaped.findings)
    servers: dict[str, Declared] = {}
    context = _File(document, shaped, _Reading(Registry(), {}, None, ()))
    for base, machine in _machines_in(shaped.file, ()):
        reader = _reader(context, base, machine, deepcopy(shaped.unread))
        wanted = [*wanted_tools(machine)]
        for name, server_shape in (machine.mcp_servers or {}).items():
            if (server := read_server_shape(reader, name, server_shape)) is None:
                continue
            named = [n.partition(".")[2] for n in wanted if n.startswith(f"{name}.")]
            before = servers.get(name, Declared(server, ()))
            if before.server.definition != server.definition:
                message = f"two machines of this file declare different servers `{name}`"
                hint = "rename one of them"
                reader.say("CL211", ("mcp_servers", name), message, hint=hint, key=True)
            servers[name] = Declared(server, tuple(dict.fromkeys((*before.tools, *named))))
        findings += reader.findings
    return servers, _sort_findings(findings)


def _machines_in(
    machine: file.MachineShape | None, base: Path
) -> Iterator[tuple[Path, file.MachineShape]]:
    """The machine of a file and its inline children, each with its path."""
    if machine is None:
        return
    yield base, machine
    for name, child in (machine.machines or {}).items():
        if isinstance(child, file.MachineShape):
            yield from _machines_in(child, (*base, "machines", name))


def _load(text: str, file_name: str, reading: _Reading) -> Loaded:
    document = read(text, file_name)
    if (other := foreign(document)) is not None:
        return Loaded(None, (other,))
    shaped = shape(document)
    findings = list(shaped.findings)
    if shaped.file is None:
        return Loaded(None, _sort_findings(findings), shaped.unread)
    findings += _version(document, shaped.file.chartloop)
    given = _File(document, shaped, reading)
    spec, more, unread = _machine(given, (), shaped.file.machine, shaped.file)
    return Loaded(spec, _sort_findings([*findings, *more]), unread)


def _version(document: Document, version: int) -> list[Finding]:
    """The findings about the format version, which must be known and come first."""
    keys = list(cast(dict[str, Any], document.data))
    hint = f"write `chartloop: {VERSION}` as the first line"
    path: Path = ("chartloop",)
    if version != VERSION:
        message = f"format version {version} is not known"
        return [finding("CL206", message, document.at(path), hint=hint, at="chartloop")]
    if "chartloop" in keys and keys[0] != "chartloop":
        message = "the format version is not the first key"
        return [finding("CL206", message, document.key(path), hint=hint, at="chartloop")]
    return []


def _sort_findings(findings: list[Finding]) -> tuple[Finding, ...]:
    unique = dict.fromkeys(findings)
    return tuple(sorted(unique, key=lambda f: (f.place.file, f.place.line, f.place.column, f.code)))


def _machine(
    given: _File, base: Path, name: str, shape: file.MachineShape
) -> tuple[MachineSpec | None, list[Finding], Unread]:
    """Read one machine; a second time, with its flow, if the first reading left doubts."""
    children: dict[str, MachineSpec] = {}
    unread, findings = deepcopy(given.shaped.unread), list[Finding]()
    for child, inner in (shape.machines or {}).items():
        path = (*base, "machines", child)
        if isinstance(inner, str):
            spec, found = _load_linked(given, path, inner)
        elif inner is file.LOST:
            continue
        else:
            spec, found, left = _machine(given, path, child, inner)
            unread = unread.union(left)
        findings += found
        if spec is not None:
            children[child] = spec
    reader = _reader(given, base, shape, unread)
    lock = partial(_lock_text, given)
    spec = _read(reader, name, shape, children, lock)
    words = written_words(spec) if spec is not None else {}
    if spec is not None and (reader.unsure or doubts_a_word(spec, words)):
        reader = _reader(given, base, shape, unread, flow(spec) if reader.unsure else None)
        reader.words = words
        spec = _read(reader, name, shape, children, lock)
    declared = shape.machines or {}
    inherited = {n: (*base, *p) for n, p in reader.children.items() if n not in declared}
    for child, path in inherited.items():
        linked, found = _load_linked(given, path, child)
        findings += found
        if linked is not None:
            children[child] = linked
    own = reader.findings
    if spec is not None and spec.ignore:
        own = [f for f in own if f.code not in ACCEPTABLE or not spec.accepts(f)]
    return spec, [*findings, *own], reader.unread


def _lock_text(given: _File) -> str:
    """The text of the lock beside the file. Raises `SetupError` if there is none."""
    find, here = given.reading.find, given.document.file
    if find is None or here.startswith("<"):
        raise SetupError("there is no file for it")
    return find(lock_name(here), here).text


def _load_linked(given: _File, path: Path, source: str) -> tuple[MachineSpec | None, list[Finding]]:
    """Load a child machine from another file; None if it has errors. Returns its findings too."""
    reading, place = given.reading, given.document.at(path)
    here = given.document.file
    within = (*reading.within, here)
    by_name = path[-2:-1] != ("machines",)
    if reading.find is None or (by_name and bad_name((), source)):
        message = f"there is no child machine `{short(source)}`"
        hint = f"write `machines: {{a_name: {short(source)}}}`, and that name here"
        return None, [finding("CL409", message, place, hint=hint, at=dotted_path(path))]
    try:
        text, name = reading.find(source, here)
    except SetupError as error:
        return None, [finding("CL409", error.message, place, hint=error.hint, at=dotted_path(path))]
    if name in within:
        message = f"`{short(source)}` would run itself: {' → '.join((*within, name))}"
        hint = "a machine is not part of itself: loop inside one machine"
        return None, [finding("CL409", message, place, hint=hint, at=dotted_path(path))]
    loaded = _load(text, name, reading._replace(define={}, within=within))
    return loaded.spec if loaded.ok else None, list(loaded.findings)


def _reader(
    given: _File, base: Path, shape: file.MachineShape, unread: Unread, known: Flow | None = None
) -> Reader:  # fmt: skip
    reading = given.reading
    reader = Reader(
        given.document, base, reading.registry, deepcopy(unread), shape, known,
        define=reading.define if not base else {},
    )  # fmt: skip
    reader.broken = {*(shape.lost & {"limits", "vars", "memory", "define"})}
    return reader


def _read(
    reader: Reader, name: str, shape: file.MachineShape, children: dict[str, MachineSpec],
    lock: ReadLock,
) -> MachineSpec | None:  # fmt: skip
    names = tuple(shape.states or {})
    if not names and "states" not in shape.lost:
        message = f"machine `{name}` has no states"
        hint = "add `states:` with a first state: `think: {do: infer, next: done}`"
        path: Path = ("states",) if shape.states is not None else ()
        reader.say("CL302", path, message, hint=hint, key=True)
    loops = find_loops(reader, shape.states or {})
    shapes = with_loops(shape.states or {}, loops)
    reader.states = dict.fromkeys(shapes)
    reader.made = dict(places(loops))
    limits = read_limits(reader, shape.limits)
    variables = read_vars(reader, shape.vars)
    texts = define_texts(shape.define)
    if loops:
        roots = _roots(reader, name, shape, limits)
        scope = Scope(roots, defines={**texts, **reader.define}, guards=reader.registry.guards)
        loops = declare_loops(reader, loops, variables, scope)
    reader.variables = {n: _with_words(v.type, reader.words.get(n)) for n, v in variables.items()}
    reader.servers = read_servers(reader, shape.mcp_servers, [*wanted_tools(shape)], lock)
    _add_children(reader, shape, children)
    reader.tools = read_tools(reader, shape.tools)
    reader.reasons = read_reasons(reader, shape.reasons)
    roots = _roots(reader, name, shape, limits)
    reader.scope = Scope(roots, guards=reader.registry.guards)
    defined = read_defines(reader, shape.define, reader.define)
    memory = read_memory(reader, shape.memory)
    if loops:
        loops = [check_loop(reader, loop) for loop in loops]
        shapes = with_loops(shape.states or {}, loops)
    states = {n: read_state(reader, n, s or file.StateShape()) for n, s in shapes.items()}
    rules = [rule for n, s in items(shape.rules) if (rule := read_rule(reader, n, s)) is not None]
    start = _start(reader, shape.start)
    spec = MachineSpec(
        name, states, start, tuple(rules),
        limits=limits, vars=variables, define=defined, memory=memory, reasons=reader.reasons,
        own_reasons=tuple(n for n in shape.reasons or {} if n in reader.reasons),
        tools=reader.tools, servers=reader.servers, machines=children,
        tasks=read_tasks(reader, shape.tasks),
        data=read_data(reader, shape.data), inputs=read_inputs(reader, shape.inputs, memory),
        model=read_model(reader, shape.model), on_error=_on_error(reader, shape.on_error),
        resume_at=tuple(
            known for number, name in items(shape.resume_at)
            if (known := reader.state(("resume_at", number), name)) is not None
        ),
        continues=shape.continues or "",
        on_stop=(reader.state(("on_stop",), shape.on_stop) or "") if shape.on_stop else "",
        output=_output(reader, shape.output), start_given=shape.start is not None,
        registry=reader.registry, file=reader.document.file, roots=roots,
        document=reader.document, base=reader.base, made=reader.made,
    )  # fmt: skip
    spec = lead_back(spec, loops) if loops else spec
    spec = _with_notes(reader, spec, shape)
    return read_approve(reader, spec, shape.approve) if names and start else None


def _add_children(
    reader: Reader, shape: file.MachineShape, children: Mapping[str, MachineSpec]
) -> None:  # fmt: skip
    """Add the child machines that `tools` names to the reader's registry."""
    registry, made = reader.registry, dict[str, ToolSpec]()
    own = set(registry.tools)
    for number, name in items(shape.tools):
        if name not in (shape.machines or {}):
            continue
        known = registry.tools[name] if name in own else None
        if known is not None and not (known.machine or known.stand_in):
            message = f"`{short(name)}` is a child machine, and another tool"
            reader.say("CL204", ("tools", number), message, hint="give the machine another name")
        elif known is None or known.machine:
            made[name] = tool_of_machine(name, children.get(name) or MachineSpec(name, {}, ""))
    if made:
        reader.add_tools(made)


def _roots(
    reader: Reader, name: str, shape: file.MachineShape, limits: Mapping[str, LimitSpec]
) -> dict[str, Type]:
    every = tuple(reader.registry.tools)
    tools = reader.tools or every
    named = Named(
        name, tuple(reader.states), tools,
        tuple(dict.fromkeys((*tools, *every))) if shape.machines else tools,
        fixed=bool(reader.tools) and EVERY not in (shape.tools or ()),
        actions=tuple(reader.registry.actions), reasons=tuple(reader.reasons),
    )  # fmt: skip
    return make_roots(
        named, limits={n: x.type for n, x in limits.items()},
        variables=reader.variables, blocks=tuple(shape.memory or {}),
    )  # fmt: skip


def _with_words(type: Type, words: Words | None) -> Type:
    """The type of a variable, with the words that the file assigns to it."""
    if words is not None and type.kind == "list" and type.of is not None:
        return replace(type, of=replace(type.of, words=words))
    return replace(type, words=words) if words is not None else type


def _with_notes(reader: Reader, spec: MachineSpec, shape: file.MachineShape) -> MachineSpec:
    """Add the texts for people, and the accepted findings."""
    return replace(
        spec, **reader.simple((), shape), metadata=shape.metadata or {},
        ignore=read_ignore(reader, shape.ignore),
        deviations=read_deviations(reader, shape.deviations, shape.source),
        renamed=read_renamed(reader, shape.renamed),
    )  # fmt: skip


def _start(reader: Reader, given: str | None) -> str:
    first = next(iter(reader.states), "")
    if given is None or not reader.states:
        return first
    return reader.state(("start",), given, "CL303") or first


def _on_error(reader: Reader, shape: Any) -> Edge | None:
    if shape is None:
        return None
    scope = reader.scope.narrow({"last.error", "errors.last"})
    return read_edge(reader, Slot(("on_error",), "", "error", "on_error"), shape, scope)


def _output(reader: Reader, shape: Any) -> Expression | dict[str, Expression] | None:
    """Read `output`. It is evaluated at the end, so facts that may be None are allowed."""
    scope = reader.scope.narrow(NULLABLE)
    if shape is None:
        return None
    if not isinstance(shape, dict):
        return reader.expression(("output",), shape, None, scope)
    out: dict[str, Expression] = {}
    for name, text in cast(dict[str, Any], shape).items():
        if text is not file.LOST:
            expression = reader.expression(("output", name), text, None, scope)
            if expression is not None:
                out[name] = expression
    return out or None

"""Text, with the tables of actions, tools and guards, to a machine's spec, or all findings.

Reading is tolerant: what cannot be read is noted and left out, so that one pass shows every
mistake. Whether a file with findings may run is for the caller to decide; `Loaded.spec` is
then a best effort for further checks only.

Source: design "language", sections 1 and 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from interlock.core.errors import Finding, nearest
from interlock.core.specs import Registry
from interlock.core.types import Type
from interlock.language import file
from interlock.language.expression import Expression, Scope
from interlock.language.flow import Flow, flow
from interlock.language.parts import (
    read_limits,
    read_memory,
    read_model,
    read_reasons,
    read_tasks,
    read_tools,
    read_vars,
)
from interlock.language.reader import NULLABLE, Reader, make_roots
from interlock.language.shape import shape
from interlock.language.spec import Deviation, Ignore, MachineSpec, StateSpec
from interlock.language.states import StateReader
from interlock.language.yaml import Document, Path, read

VERSION = 1
"""The format version that this interlock reads."""


class Loaded(NamedTuple):
    """What was read, and everything that is wrong with it."""

    spec: MachineSpec | None
    findings: tuple[Finding, ...]
    tainted: frozenset[str] = frozenset()
    """States about which nothing more should be said; `*`: an edge's target is unknown."""

    @property
    def ok(self) -> bool:
        """Whether there is no error among the findings."""
        return self.spec is not None and not any(f.is_error for f in self.findings)


def load(
    text: str, file_name: str, registry: Registry, *, define: Mapping[str, str] | None = None
) -> Loaded:
    """Read a machine file. `define` replaces named expressions of the file."""
    document = read(text, file_name)
    shaped = shape(document)
    findings = list(shaped.findings)
    if shaped.file is None:
        return Loaded(None, tuple(_sorted(findings)))
    given = shaped.file
    if given.interlock != VERSION and "interlock" in (document.data or {}):
        findings.append(_version(document, given.interlock))
    spec, more, tainted = _machine(document, (), given.machine, given, registry, define or {})
    tainted |= {p.removeprefix("states.") for p in shaped.unread.places}
    return Loaded(spec, tuple(_sorted([*findings, *more])), frozenset(tainted))


def _version(document: Document, found: int) -> Finding:
    from interlock.core.codes import finding

    return finding(
        "IL206",
        f"format version {found} is not known",
        document.at(("interlock",)),
        hint=f"this version reads `interlock: {VERSION}`",
    )


def _sorted(findings: list[Finding]) -> list[Finding]:
    unique = dict.fromkeys(findings)
    return sorted(unique, key=lambda f: (f.place.file, f.place.line, f.place.column, f.code))


def _machine(
    document: Document, base: Path, name: str, shape: file.MachineShape, registry: Registry,
    define: Mapping[str, str],
) -> tuple[MachineSpec | None, list[Finding], set[str]]:  # fmt: skip
    """One machine; read a second time with the flow where a first reading was not sure."""
    spec, reader = _read(document, base, name, shape, registry, define, None)
    if reader.unsure and spec is not None:
        again, second = _read(document, base, name, shape, registry, define, flow(spec))
        return again, second.findings, second.tainted
    return spec, reader.findings, reader.tainted


def _read(
    document: Document, base: Path, name: str, shape: file.MachineShape, registry: Registry,
    define: Mapping[str, str], known: Flow | None,
) -> tuple[MachineSpec | None, Reader]:  # fmt: skip
    reader = Reader(document, base, registry)
    names = tuple(shape.states or {})
    if not names:
        reader.say(
            "IL302",
            ("states",) if shape.states is not None else (),
            f"machine `{name}` has no states",
            hint="add `states:` with a first state",
            key=True,
        )
    limits = read_limits(reader, shape.limits)
    variables = read_vars(reader, shape.vars)
    tools = read_tools(reader, shape.tools)
    roots = make_roots(
        states=names, tools=tools or tuple(registry.tools), limits={n: x.type for n, x in limits.items()},
        variables={n: v.type for n, v in variables.items()}, blocks=tuple(shape.memory or {}),
    )  # fmt: skip
    texts = _defines(reader, shape.define, define if not base else {})
    reader.scope = Scope(roots, defines=texts, guards=registry.guards)
    memory = read_memory(reader, shape.memory)
    if shape.mcp_servers:
        reader.say(
            "IL205",
            ("mcp_servers",),
            "MCP servers are not in this version",
            hint="remove `mcp_servers`",
            key=True,
        )
    defined = {n: e for n, t in texts.items() if (e := reader.expression(("define", n), t, None))}
    reasons = read_reasons(reader, shape.reasons)
    states = StateReader(
        reader, names=names, reasons=reasons, variables={n: v.type for n, v in variables.items()},
        tools=tools, flow=known,
    )  # fmt: skip
    read_states = {
        n: states.state(n, s or file.StateShape.model_construct())
        for n, s in (shape.states or {}).items()
    }
    rules = [r for n, s in enumerate(shape.rules or []) if (r := states.rule(n, s))]
    start = _start(reader, shape.start, names)
    children = _children(document, base, shape, registry, reader)
    spec = MachineSpec(
        name, read_states, start, tuple(rules),
        title=shape.title or "", about=shape.about or "", source=shape.source or "",
        metadata=shape.metadata or {},
        instructions=None if shape.instructions is None else reader.template(("instructions",), shape.instructions, extra=_types(defined)),
        model=read_model(reader, shape.model), tools=tools, memory=memory, tasks=read_tasks(shape.tasks),
        limits=limits, vars=variables, define=defined, reasons=reasons, own_reasons=tuple(n for n in shape.reasons or {} if n in reasons),
        machines=children,
        on_stop="" if shape.on_stop is None else reader.name(("on_stop",), shape.on_stop, names, "state", "IL301") or "",
        on_error=states.error_edge(shape.on_error), in_doubt=shape.in_doubt or "retry",
        output=_output(reader, shape.output), agent=shape.agent or "",
        ignore=tuple(Ignore(i.code, i.at or "", i.reason) for i in shape.ignore or []),
        deviations=tuple(Deviation(d.difference, d.reason) for d in shape.deviations or []),
        renamed=shape.renamed or {}, start_given=shape.start is not None,
        registry=registry, file=document.file, roots=roots,
    )  # fmt: skip
    return (spec if names and start else None), reader


def _types(defined: Mapping[str, Expression]) -> dict[str, Type]:
    return {n: e.type for n, e in defined.items()}


def _defines(
    reader: Reader, shape: Mapping[str, Any] | None, given: Mapping[str, str]
) -> dict[str, str]:
    texts = {n: str(t) for n, t in (shape or {}).items()}
    for name, text in given.items():
        if name not in texts:
            reader.say(
                "IL103",
                ("define",),
                f"`--define {name}`: the file defines no `{name}`",
                hint=nearest(name, texts),
            )
        else:
            texts[name] = text
    return texts


def _start(reader: Reader, given: str | None, names: tuple[str, ...]) -> str:
    if given is None:
        return names[0] if names else ""
    return reader.name(("start",), given, names, "state", "IL303") or (names[0] if names else "")


def _output(reader: Reader, shape: Any) -> Expression | dict[str, Expression] | None:
    scope = reader.scope.narrowed(NULLABLE)
    if shape is None:
        return None
    if isinstance(shape, dict):
        named = cast(dict[str, Any], shape)
        return {
            n: e
            for n, t in named.items()
            if (e := reader.expression(("output", n), t, None, scope))
        }
    return reader.expression(("output",), shape, None, scope)


def _children(
    document: Document, base: Path, shape: file.MachineShape, registry: Registry, reader: Reader
) -> dict[str, MachineSpec]:
    out: dict[str, MachineSpec] = {}
    for name, inner in (shape.machines or {}).items():
        spec, findings, tainted = _machine(
            document, (*base, "machines", name), name, inner, registry, {}
        )
        reader.findings += findings
        reader.tainted |= {t for t in tainted if t == "*"}
        if spec is not None:
            out[name] = spec
    return out


__all__ = ["VERSION", "Loaded", "StateSpec", "load"]

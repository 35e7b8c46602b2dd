"""A machine as a flat list of named parts, each with its aspects.

Everything in a file is an aspect of some part: a law changes every key of every shipped machine and
sees a difference. Only what has no meaning is left out: the order of keys in a mapping, `start` if
it names the first state, the notation of a quantity or an expression.

Belongs here: parts and aspects in comparable form, and as text for people. Never: comparing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from chartloop.analysis.versions.diff.change import What
from chartloop.analysis.versions.diff.guards import plain
from chartloop.core.specs import DataUse
from chartloop.core.types import Type
from chartloop.core.units import say_number, write_duration
from chartloop.language.expression import Expression
from chartloop.language.file.file import ApproveShape, OnShape, RuleShape, StateShape
from chartloop.language.file.keys import Part as Keyed
from chartloop.language.label import Label
from chartloop.language.spec import (
    Assign,
    Edge,
    Given,
    MachineSpec,
    Rule,
    Save,
    StateSpec,
)
from chartloop.language.template.template import Template
from chartloop.language.yaml.document import Path, dotted_path
from chartloop.machine.guard_text import say_value

_VISITS = re.compile(r"\brun\.visits\.(\w+)")


@dataclass(frozen=True)
class Renaming:
    """The states of one machine, mapped to their names in another."""

    names: Mapping[str, str] = field(default_factory=dict[str, str])

    def state(self, name: str) -> str:
        """Return the name of a state in the other machine."""
        return self.names.get(name, name)

    def text(self, text: str) -> str:
        """Rewrite the states in an expression or template: ``run.visits.plan``."""
        if not self.names:
            return text
        return _VISITS.sub(lambda match: f"run.visits.{self.state(match[1])}", text)


SAME = Renaming()


class Aspect(NamedTuple):
    """One property of a part."""

    value: str
    """The canonical text for comparing: equal exactly if the meaning is."""
    text: str
    """The text for people."""
    path: Path
    guard: Expression | None = None


@dataclass(frozen=True)
class Part:
    """A state, edge, limit or other named part of one machine."""

    what: What
    id: str
    name: str
    path: Path
    aspects: Mapping[str, Aspect] = field(default_factory=dict[str, Aspect])
    text: str = ""
    """A description in one line, shown if the part was added or removed."""

    def says(self, *aspects: str) -> tuple[str | None, ...]:
        """Return the values of some aspects, None for those that it lacks."""
        return tuple(a.value if (a := self.aspects.get(n)) else None for n in aspects)


# values -------------------------------------------------------------------------------------


def _data(value: Any) -> Any:
    """A value of a spec as plain data, equal exactly if the meaning is."""
    match value:
        case Expression(text=text):
            return {"=": plain(text)}
        case Template(text=text) | Label(text=text):
            return text
        case Given(value=inner):
            return _data(inner)
        case Type():
            return str(value)
        case Mapping():
            mapping = cast("Mapping[str, Any]", value)
            return {str(k): _data(v) for k, v in mapping.items()}
        case list() | tuple():
            return [_data(v) for v in cast("list[Any] | tuple[Any, ...]", value)]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def canonical(value: Any) -> str:
    """Return the canonical text of a value: equal for values with equal meaning."""
    return json.dumps(_data(value), sort_keys=True, ensure_ascii=False, default=str)


def format_value(value: Any) -> str:
    """Return a value of a spec as text for people."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case int() | float():
            return say_number(value)
        case str():
            return value
        case Expression(text=text) | Template(text=text) | Label(text=text):
            return " ".join(text.split()) if isinstance(value, Expression) else text
        case Given(value=inner):
            return format_value(inner)
        case _:
            return json.dumps(_read(value), ensure_ascii=False, default=str)


def _read(value: Any) -> Any:
    data = _data(value)
    if isinstance(data, dict):
        known = cast("dict[str, Any]", data)
        return known["="] if set(known) == {"="} else {k: _read(v) for k, v in known.items()}
    return [_read(v) for v in cast("list[Any]", data)] if isinstance(data, list) else data


class _Aspects(dict[str, Aspect]):
    """The aspects of a part under construction, without those that the file does not give."""

    def __init__(self, base: Path, renaming: Renaming = SAME) -> None:
        super().__init__()
        self.base = base
        self.renaming = renaming

    def add(
        self, name: str, value: Any, path: Path = (), *, text: str | None = None,
        guard: Expression | None = None,
    ) -> None:  # fmt: skip
        """Add an aspect; `path` is relative to the part's."""
        if value is None or value is False or value in ("", ()):
            return
        at = (*self.base, *(path or filter(None, name.split("."))))
        comparable = self.renaming.text(canonical(value))
        self[name] = Aspect(comparable, format_value(value) if text is None else text, at, guard)

    def seconds(self, name: str, value: Expression | float | None) -> None:
        """Add a duration, which may be an expression."""
        read = value if isinstance(value, Expression) else None
        text = None if read or value is None else write_duration(cast("float", value))
        self.add(name, value, text=text, guard=read)

    def share(self, name: str, value: Expression | float | None) -> None:
        """Add a share, which may be an expression."""
        self.add(name, value, text=f"{value * 100:g}%" if isinstance(value, (int, float)) else None)

    def states(self, name: str, states: Collection[str]) -> None:
        """Add states of the other machine, with their names in this one as text."""
        told = [states] if isinstance(states, str) else states
        now = (*sorted(map(self.renaming.state, told)),) if states else None
        self.add(name, now, text=", ".join(told))

    def part(self, what: What, name: str, text: str = "") -> Part:
        """The part, named after its key in the file."""
        return Part(what, name, name, self.base, self, text)

    def guard(self, name: str, guard: Expression | None, path: Path = ()) -> None:
        """Add an expression."""
        self.add(name, guard, path, guard=guard)

    def rest(self, spec: Any, part: type[Keyed], left: Collection[str] = ()) -> None:
        """Add the keys of a part that have a value in its spec and no aspect of their own."""
        done = {name.partition(".")[0] for name in self}
        for name, key in part.table().items():
            if name not in done and name not in left:
                self.add(name, getattr(spec, key.field, None))

    def sets(self, assigns: Iterable[Assign]) -> None:
        """Add a `set`, one aspect for each variable."""
        for one in assigns:
            text = f"append {format_value(one.value)}" if one.append else format_value(one.value)
            self.add(f"set.{one.target}", [one.value, one.append], ("set", one.target), text=text)

    def saves(self, saves: Iterable[Save]) -> None:
        """Add a `save`, one aspect for each variable."""
        for one in saves:
            source = _format_save(one)
            text = f"append {source}" if one.append else source
            self.add(f"save.{one.target}", [source, one.append], ("save", one.target), text=text)


def _format_save(save: Save) -> str:
    if save.template is not None:
        return save.template.text
    steps = (f".{p}" if isinstance(p, str) else f"[{p}]" for p in save.path or ())
    return f"result{''.join(steps)}"


# parts --------------------------------------------------------------------------------------


def state_part(state: StateSpec, names: Renaming = SAME) -> Part:
    """Return a state without its edges, with state names of the other machine by `names`."""
    aspects = _Aspects(("states", state.name), names)
    aspects.add("job", state.job)
    aspects.add("do", state.action.name if state.action else None)
    for name, given in state.args.items():
        seconds = _is_duration(state, name) and isinstance(given.value, float)
        text = write_duration(given.value) if seconds else None
        aspects.add(f"with.{name}", given, ("with", name), text=text)
    aspects.saves(state.save)
    aspects.guard("of", state.of)
    then = next((e for e in state.edges if e.role == "then"), None)
    aspects.guard("when", then.when if then else None)
    aspects.share("warn_at", state.warn_at)
    aspects.seconds("within", state.within)
    if state.retry is not None:
        retry = state.retry
        waits = f"{write_duration(retry.base)} × {format_value(retry.factor)}"
        aspects.add(
            "retry", "given", text=f"{retry.times}, after {waits}, on {', '.join(retry.on)}"
        )
        aspects.add("retry.times", retry.times, text=f"{retry.times}")
        aspects.seconds("retry.base", retry.base)
        aspects.add("retry.factor", retry.factor)
        aspects.add("retry.on", sorted(retry.on), text=", ".join(retry.on))
        aspects.seconds("retry.most", retry.most)
    aspects.add("failed", "next" if state.failed_next else None)
    if state.allow is not None:
        aspects.add("allow", sorted(state.allow), text=", ".join(state.allow) or "no tools")
    aspects.sets(state.set)
    aspects.rest(state, StateShape, {"all", "next", "on"})
    return aspects.part("state", state.name, _state_line(state))


def _is_duration(state: StateSpec, name: str) -> bool:
    arg = state.action.arg(name) if state.action is not None else None
    return arg is not None and (arg.kind == "duration" or arg.type.kind == "duration")


def _state_line(state: StateSpec) -> str:
    """A state in one line: ``decides: errors.rate >= limits.rate``."""
    match state.job:
        case "act":
            message = f"acts: {state.action.name if state.action else ''}"
        case "decide":
            question = next((e.when for e in state.edges if e.role == "then"), None) or state.of
            message = f"decides: {format_value(question)}" if question else "decides"
        case "wait":
            events = dict.fromkeys(e.trigger for e in state.edges if e.role == "on")
            message = f"waits for {', '.join(events)}"
        case "fork":
            message = f"checks all of {', '.join(state.all)}"
        case "pass":
            message = "goes on"
        case "end":
            message = "ends"
    stop = state.stop and f"stops: {state.stop}"
    message = "" if stop and state.job in ("pass", "end") else message
    onward = ", ".join(dict.fromkeys(e.target for e in state.edges))
    return "; ".join(filter(None, (message, stop, onward and f"to {onward}")))


def edge_part(edge: Edge, names: Renaming = SAME) -> Part:
    """Return an edge. The guard of a `then` belongs to its state."""
    aspects = _Aspects(edge.path, names)
    aspects.states("to", edge.target)
    guard = edge.when if edge.role in ("next", "on") else None
    aspects.guard("when", guard)
    aspects.sets(edge.set)
    for name, type in edge.data:
        aspects.add(f"data.{name}", type, ("data", name), text=str(type))
    aspects.rest(edge, OnShape, {"when", "data"})
    name = dotted_path(edge.path[1:] if edge.path[:1] == ("states",) else edge.path)
    when = f" when {format_value(guard)}" if guard else ""
    return Part("edge", edge.id, name, edge.path, aspects, f"to {edge.target}{when}")


def rule_part(rule: Rule, number: int, names: Renaming = SAME) -> Part:
    """Return a rule, named after the reason that it raises or the state that it leads to."""
    aspects = _Aspects(("rules", number), names)
    aspects.guard("when", rule.when)
    for name in ("to", "at", "before"):
        aspects.states(name, getattr(rule, name))
    aspects.share("warn_at", rule.warn_at)
    aspects.rest(rule, RuleShape)
    title = rule.stop or rule.signal or f"to {rule.to}"
    raises = f"{rule.kind} {rule.stop or rule.signal}".strip() if rule.kind != "detour" else ""
    does = ", ".join(filter(None, (raises, rule.to and f"to {rule.to}")))
    line = f"when {format_value(rule.when)}: {does}"
    return Part("rule", rule.id, title, ("rules", number), aspects, line)


def named_parts(spec: MachineSpec, names: Renaming = SAME) -> Iterator[Part]:
    """Yield the parts that have a name: limits, variables, definitions, reasons and so on."""
    for name, limit in spec.limits.items():
        aspects = _Aspects(("limits", name))
        text = "off" if limit.value is None else say_value(limit.value, limit.type)
        aspects.add("value", [limit.value], text=text)
        aspects.add("type", str(limit.type.without_none()))
        yield aspects.part("limit", name, text)
    for name, var in spec.vars.items():
        aspects = _Aspects(("vars", name))
        seconds = var.type.kind == "duration" and isinstance(var.value, (int, float))
        text = (write_duration if seconds else format_value)(var.value) or '""'
        aspects.add("value", [var.value], text=text)
        aspects.add("type", str(var.type))
        yield aspects.part("variable", name, text)
    for name, expression in spec.define.items():
        aspects = _Aspects(("define", name), names)
        aspects.guard("", expression)
        yield aspects.part("definition", name, format_value(expression))
    for name, reason in spec.reasons.items():
        aspects = _Aspects(("reasons", name))
        aspects.add("priority", [reason.priority], text=f"{reason.priority}")
        aspects.add("forced", [reason.forced], text=format_value(reason.forced))
        aspects.add("status", [reason.status], text=str(reason.status))
        line = f"priority {reason.priority}, {reason.status}"
        yield aspects.part("reason", name, line)
    said_of: tuple[tuple[What, str, Mapping[str, DataUse]], ...] = (
        ("data", "data", spec.data), ("input", "inputs", spec.inputs or {}),
    )  # fmt: skip
    for what, key, uses in said_of:
        for name, use in uses.items():
            aspects = _Aspects((key, name))
            for word, said in use.to_dict().items():
                aspects.add(word, said)
            text = ", ".join(f"{word}: {said}" for word, said in use.to_dict().items())
            yield aspects.part(what, name, text)
    for name, block in spec.memory.items():
        aspects = _Aspects(("memory", name))
        aspects.add("value", [block.value], text=block.value or '""')
        for one in ("limit", "label", "template", "on_demand"):
            aspects.add(one, getattr(block, one))
        yield aspects.part("memory", name, block.value)
    for name, value in spec.model.items():
        aspects = _Aspects(("model", name))
        seconds = name == "timeout" and isinstance(value, float)
        aspects.add("", [value], text=(write_duration if seconds else format_value)(value))
        yield aspects.part("model", name, aspects[""].text)
    for number, name in enumerate(spec.tools):
        yield Part("tool", name, name, ("tools", number), _lock_aspects(spec, name))
    yield from _server_parts(spec)
    yield from _notes(spec)


def approve_parts(spec: MachineSpec, names: Renaming = SAME) -> Iterator[Part]:
    """Yield `approve`, if the file has it, with all of its keys."""
    given = spec.approve
    if given is None:
        return
    aspects = _Aspects(("approve",), names)
    aspects.add("tools", sorted(given.tools), text=", ".join(given.tools))
    aspects.guard("when", given.when)
    aspects.seconds("within", given.within)
    aspects.states("expired", given.expired)
    aspects.rest(given, ApproveShape)
    text = ", ".join(f"{name}: {aspect.text}" for name, aspect in aspects.items())
    yield aspects.part("approve", "approve", text)


def _server_parts(spec: MachineSpec) -> Iterator[Part]:
    """The MCP servers; their tools are parts of their own."""
    for name, server in spec.servers.items():
        aspects = _Aspects(("mcp_servers", name))
        for one in ("command", "args", "cwd", "url"):
            aspects.add(one, getattr(server, one))
        for one in ("env", "headers"):
            for key, value in getattr(server, one).items():
                aspects.add(f"{one}.{key}", [value], (one, key), text=value)
        aspects.add("effect", str(server.effect))
        aspects.seconds("timeout", server.timeout)
        aspects.seconds("connect_timeout", server.connect_timeout)
        asks, sampling = server.elicitation, server.sampling
        aspects.seconds("elicitation.within", asks.within)
        aspects.add("elicitation.questions", asks.questions, text=str(asks.questions))
        if sampling is not None:
            tokens = "" if sampling.tokens is None else f", tokens: {sampling.tokens:,}"
            aspects.add("sampling", "allowed", text=f"{{calls: {sampling.calls:,}{tokens}}}")
            for key in ("calls", "tokens"):
                if (value := getattr(sampling, key)) is not None:
                    aspects.add(f"sampling.{key}", value, text=f"{value:,}")
        yield aspects.part("server", name, server.reaches)


def _lock_aspects(spec: MachineSpec, tool: str) -> _Aspects:
    """The aspects of an MCP server's tool in the lock; none for a Python function."""
    server, _, name = tool.partition(".")
    lock = spec.servers[server].tools.get(name) if server in spec.servers else None
    aspects = _Aspects(("mcp_servers", server))
    if lock is not None:
        for key, value in lock.to_dict().items():
            for part, inner in _leaves({key: value}):
                aspects.add(part, [inner], ("lock",), text=format_value(inner))
    return aspects


def _leaves(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a schema with their dotted paths."""
    for name, inner in value.items():
        at = f"{path}.{name}" if path else name
        if isinstance(inner, Mapping) and inner:
            yield from _leaves(cast("Mapping[str, Any]", inner), at)
        else:
            yield at, inner


def _notes(spec: MachineSpec) -> Iterator[Part]:
    """The parts that people and programs read, but no run."""
    notes: list[tuple[str, Path, Any]] = [
        *((f"metadata.{n}", ("metadata", n), v) for n, v in spec.metadata.items()),
        *((f"renamed.{old}", ("renamed", old), new) for old, new in spec.renamed.items()),
        *(
            (f"ignore {i.code} {i.at}".strip(), ("ignore", n), i.reason)
            for n, i in enumerate(spec.ignore)
        ),
        *(
            (f"deviation {d.difference}", ("deviations", n), d.reason)
            for n, d in enumerate(spec.deviations)
        ),
    ]  # fmt: skip
    seen: dict[str, int] = {}
    for name, path, value in notes:
        seen[name] = seen.get(name, 0) + 1
        title = name if seen[name] == 1 else f"{name} ({seen[name]})"
        aspects = {"": Aspect(canonical([value]), format_value(value), path)}
        yield Part("note", title, title, path, aspects, format_value(value))


def task_parts(spec: MachineSpec) -> list[Part]:
    """Return the tasks of a file."""
    out: list[Part] = []
    for number, task in enumerate(spec.tasks if isinstance(spec.tasks, tuple) else ()):
        aspects = _Aspects(("tasks", number))
        for name, value in task.items():
            aspects.add(name, [value], text=format_value(value))
        out.append(aspects.part("task", f"{task['id']}", task["text"]))
    return out


def machine_part(spec: MachineSpec, names: Renaming = SAME) -> Part:
    """Return the machine as a whole, without its parts."""
    aspects = _Aspects((), names)
    aspects.add("machine", spec.name)
    for name in ("title", "about", "source", "instructions", "agent"):
        aspects.add(name, getattr(spec, name))
    aspects.add("in_doubt", spec.in_doubt)
    aspects.states("start", spec.start)
    aspects.add("resume_at", (*map(names.state, spec.resume_at),), text=", ".join(spec.resume_at))
    aspects.add("continues", spec.continues)
    aspects.states("on_stop", spec.on_stop)
    if isinstance(spec.tasks, str):
        aspects.add("tasks", spec.tasks)
    output = spec.output
    if isinstance(output, Mapping):
        for name, expression in output.items():
            aspects.guard(f"output.{name}", expression, ("output", name))
    else:
        aspects.guard("output", output)
    return aspects.part("machine", spec.name)

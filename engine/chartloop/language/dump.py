"""Dumping of specs: plain data, and the canonical text whose hash identifies a machine.

``load(dump(spec)) == spec``. The order of states, edges, rules and tools is kept; comments, the
order of keys and the notation of quantities are not. Journals identify a machine by the hash of
its canonical text.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, cast

from chartloop.core.specs import Effect
from chartloop.core.types import ANY, DURATION, Type
from chartloop.core.units import parse_duration, parse_fraction, write_duration
from chartloop.language.expression import Expression
from chartloop.language.file.file import MachineShape, ReasonShape, RuleShape, StateShape
from chartloop.language.file.keys import Part
from chartloop.language.json_schema.reply import ReplySchema
from chartloop.language.label import Label
from chartloop.language.server_tools import Elicitation, ServerSpec
from chartloop.language.spec import (
    Approve,
    Assign,
    BlockSpec,
    Edge,
    Given,
    LimitSpec,
    MachineSpec,
    Retry,
    Save,
    StateSpec,
    VarSpec,
)
from chartloop.language.template.template import Template
from chartloop.language.tool_lock import LockedServer

Data = dict[str, Any]

_UNWRITTEN = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON leaves unescaped and YAML treats as line breaks or refuses."""


def dump(spec: MachineSpec) -> Data:
    """The whole file as plain data."""
    return {"chartloop": 1, "machine": spec.name, **_machine(spec, spec.file)}


def canonical(spec: MachineSpec) -> str:
    """The canonical text: JSON, which is YAML that `load` reads."""
    text = json.dumps(dump(spec), ensure_ascii=False, separators=(",", ":"))
    return _UNWRITTEN.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text) + "\n"


def _some(**given: Any) -> Data:
    """The non-empty keys; `with_` and `else_` become `with` and `else`."""
    return {k.rstrip("_"): v for k, v in given.items() if v not in (None, "", (), {}, [], False)}


def _written(spec: Any, part: type[Part], special: Data, *, order: str = "") -> Data:
    """The keys of a part with a value; those that are not special have it in the spec.

    Hashes depend on the order: that of `order`, then that of the table of keys.
    """
    keys = part.table()
    return _some(
        **{
            name: special[name]
            if name in special
            else _value(getattr(spec, keys[name].field, None))
            for name in dict.fromkeys((*order.split(), *keys))
        }
    )


def _value(value: Any) -> Any:
    """A value that a spec keeps as the file has it."""
    if isinstance(value, (Template, Expression, Label)):
        return value.text
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value


def _machine(spec: MachineSpec, home: str) -> Data:
    spec = spec.authored
    special: Data = {
        "metadata": dict(spec.metadata), "model": _model(spec.model),
        "mcp_servers": {n: _server(s) for n, s in spec.servers.items()},
        "memory": {n: _block(b) for n, b in spec.memory.items()}, "tasks": _tasks(spec, home),
        "limits": {n: _limit(x) for n, x in spec.limits.items()},
        "vars": {n: _var(v) for n, v in spec.vars.items()},
        "define": {n: e.text for n, e in spec.define.items()},
        "reasons": {
            n: {key: getattr(spec.reasons[n], key) for key in ReasonShape.table()}
            for n in spec.own_reasons
        },
        "approve": _approve(spec.approve),
        "data": {name: use.to_dict() for name, use in spec.data.items()},
        "inputs": {name: use.to_dict() for name, use in (spec.inputs or {}).items()},
        "rules": [
            _written(rule, RuleShape, {}, order="when stop signal to at before")
            for rule in spec.rules
        ],
        "states": {n: _state(s) for n, s in spec.states.items()},
        "machines": {n: _machine(m, home) for n, m in spec.machines.items()},
        "start": spec.start if spec.start_given else "",
        "resume_at": [*spec.resume_at],
        "continues": spec.continues,
        "on_error": _edge(spec.on_error) if spec.on_error else None,
        "in_doubt": spec.in_doubt or "",
        "output": _output(spec.output),
        "ignore": [_some(code=i.code, at=i.at, reason=i.reason) for i in spec.ignore],
        "deviations": [_some(difference=d.difference, reason=d.reason) for d in spec.deviations],
        "renamed": dict(spec.renamed),
    }  # fmt: skip
    first = "title about source metadata instructions model tools mcp_servers memory tasks limits"
    return _written(spec, MachineShape, special, order=f"{first} vars define reasons approve")


def _approve(given: Approve | None) -> Data | None:
    if given is None:
        return None
    return _some(
        tools=list(given.tools), by=given.by, not_by=given.not_by, ask=_value(given.ask),
        within=_duration(given.within), expired=given.expired, when=_value(given.when),
        edit=given.edit, remember=given.remember,
    )  # fmt: skip


def _model(model: Mapping[str, Any]) -> Data:
    out = dict(model)
    for name in ("timeout", "idle_timeout"):
        if isinstance(out.get(name), float):
            out[name] = _exactly(out[name])
    return out


def _server(server: ServerSpec) -> Data:
    """A server with its locked tools, because a recorded machine has no lock file."""
    asks, usual, sampling = server.elicitation, Elicitation(), server.sampling
    return _some(
        command=server.command, args=list(server.args), env=dict(server.env), cwd=server.cwd,
        url=server.url, headers=dict(server.headers),
        effect="" if server.effect is Effect.PAID else str(server.effect),
        connect_timeout=_exactly(server.connect_timeout), timeout=_exactly(server.timeout),
        # without defaults, so that hashes stay stable
        elicitation={} if asks == usual else
        {"within": _exactly(asks.within), "questions": asks.questions},
        sampling={} if sampling is None else _some(calls=sampling.calls, tokens=sampling.tokens),
        lock=LockedServer(server.definition, server.tools, server.left_out).to_dict(),
    )  # fmt: skip


def _block(block: BlockSpec) -> Any:
    more = _some(
        limit=block.limit, label=block.label, template=_value(block.template),
        on_demand=block.on_demand,
    )  # fmt: skip
    return {"value": block.value, **more} if more else block.value


def _tasks(spec: MachineSpec, home: str) -> Any:
    """The tasks, with the path of their file relative to `home`, which children become part of."""
    if not isinstance(spec.tasks, str):
        return [dict(t) for t in spec.tasks or ()]
    if spec.file == home:
        return {"file": spec.tasks}
    here, there = PurePath(home).parent, PurePath(spec.file).parent
    return {"file": PurePath(os.path.relpath(there / spec.tasks, here)).as_posix()}


def _quantity(type: Type, value: Any) -> Any:
    """A value in the notation of files: ``30m`` for a duration, ``95%`` for a fraction."""
    if isinstance(value, (list, tuple)):
        items = cast("list[Any] | tuple[Any, ...]", value)
        return [_quantity(type.of or ANY, item) for item in items]
    if isinstance(value, Mapping):
        entries = cast(Mapping[str, Any], value)
        return {k: _quantity(type.of or ANY, v) for k, v in entries.items()}
    if value is None or isinstance(value, (bool, str)):
        return value
    if type.kind == "duration":
        return _exactly(value)
    return _percent(value) if type.kind == "fraction" else value


def _exactly(seconds: float) -> str:
    """A duration that reads back as the same number, to the microsecond."""
    short = write_duration(seconds)
    return short if parse_duration(short) == seconds else f"{seconds:.6f}s"


def _percent(value: float) -> Any:
    """A fraction that reads back as the same number."""
    text = f"{value * 100:.9f}".rstrip("0").rstrip(".") + "%"
    return text if parse_fraction(text) == value else value


def _limit(limit: LimitSpec) -> Any:
    value = _quantity(limit.type, limit.value)
    return {"type": str(limit.type.without_none()), "value": value} if limit.typed else value


def _var(var: VarSpec) -> Any:
    value = _quantity(var.type, var.value)
    return value if var.type.kind in _PLAIN else {"type": str(var.type), "value": value}


_PLAIN = frozenset({"bool", "int", "float", "str"})
"""The types that are evident from a value."""


def _duration(value: Expression | float | None) -> Any:
    if isinstance(value, Expression):
        return value.text
    return None if value is None else _exactly(value)


def _output(output: Expression | Mapping[str, Expression] | None) -> Any:
    if isinstance(output, Mapping):
        return {n: e.text for n, e in output.items()}
    return _value(output)


def _state(state: StateSpec) -> Data:
    usual = state.action.within if state.action is not None else None
    grouped: dict[str, list[Edge]] = {}
    for edge in state.edges_of("on"):
        grouped.setdefault(edge.trigger, []).append(edge)
    special: Data = {
        "do": state.action.name if state.action else "",
        "with": {n: _argument(state, n, g) for n, g in state.args.items()},
        "save": {s.target: _save(s) for s in state.save},
        "cases": {e.case: _edge(e) for e in state.edges_of("case")},
        # the default deadline of the action too, so that records name it
        "within": _duration(state.within) if state.within is not None or usual is None else "none",
        "when": next((e.when.text for e in state.edges_of("then") if e.when), None),
        "then": _first(state.edges_of("then")), "else": _first(state.edges_of("else")),
        "on": {
            n: _edge(e[0]) if e[0].id.endswith(f".on.{n}") else [*map(_edge, e)]
            for n, e in grouped.items()
        },
        "expired": _first(state.edges_of("expired")),
        "next": _next(list(state.edges_of("next"))),
        "failed": "next" if state.failed_next else _first(state.edges_of("failed")),
        "retry": _retry(state), "set": written_sets(state.set),
        "end": None if state.end == "by_reason" and state.stop else state.end,
    }  # fmt: skip
    first = "label about role shape do with save ask of cases warn_at within when then else on"
    last = "expired all next failed retry set status stop message end in_doubt"
    made = _written(state, StateShape, special, order=f"{first} {last}")
    return made | ({} if state.allow is None else {"allow": list(state.allow)})


def _retry(state: StateSpec) -> Data | None:
    retry = state.retry
    if retry is None:
        return None
    return {
        "times": retry.times,
        "base": _exactly(retry.base),
        "factor": retry.factor,
        "on": list(retry.on),
        **({} if retry.most == Retry(0).most else {"most": _exactly(retry.most)}),
    }


def _argument(state: StateSpec, name: str, given: Given) -> Any:
    """A field of `with`, with units for durations and fractions."""
    arg = state.action.arg(name) if state.action is not None else None
    if arg is not None and given.kind == "constant" and arg.kind in ("duration", "value"):
        type = DURATION if arg.kind == "duration" else arg.type
        return _quantity(type, given.value)
    return _field(given)


def _field(value: Any) -> Any:
    """A part of `with` in the notation of files."""
    if isinstance(value, (Template, Expression)):
        return value.text
    if isinstance(value, Given):
        return _field(value.value)
    if isinstance(value, ReplySchema):
        return value.canonical()
    if isinstance(value, Mapping):
        return {k: _field(v) for k, v in cast(Mapping[str, Any], value).items()}
    if isinstance(value, (list, tuple)):
        return [_field(v) for v in cast("list[Any] | tuple[Any, ...]", value)]
    return value


def _save(save: Save) -> Any:
    if save.template is not None:
        text = save.template.text
    else:
        text = "result" + "".join(
            f".{p}" if isinstance(p, str) else f"[{p}]" for p in save.path or ()
        )
    return {"append": text} if save.append else text


def written_sets(assigns: tuple[Assign, ...]) -> Data:
    """A `set` in the notation of files."""
    out: Data = {}
    for one in assigns:
        value = one.value.text if isinstance(one.value, Expression) else _field(one.value)
        out[one.target] = {"append": value} if one.append else value
    return out


def _edge(edge: Edge) -> Any:
    more = _some(
        label=edge.label.text if edge.label else None, set=written_sets(edge.set), stop=edge.stop,
        message=_value(edge.message), data={n: str(t) for n, t in edge.data},
    )  # fmt: skip
    if edge.when is not None and edge.role in ("next", "on"):
        more["when"] = edge.when.text
    return {"to": edge.target, **more} if more else edge.target


def _first(edges: Iterable[Edge]) -> Any:
    return next((_edge(e) for e in edges), None)


def _next(edges: list[Edge]) -> Any:
    if not edges:
        return None
    return _edge(edges[0]) if len(edges) == 1 else [_edge(e) for e in edges]

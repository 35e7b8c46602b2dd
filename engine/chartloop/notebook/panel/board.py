"""What a page shows of a run, as plain JSON: texts in order, never markup.

Belongs here: which facts, rows and records are shown, and which buttons can be pressed. Never: how
any of it looks, a thread, anywidget.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from chartloop.core.facts import FACTS, Facts
from chartloop.core.plain import plain
from chartloop.core.records import Record
from chartloop.core.types import ANY, Type
from chartloop.core.units import say_count, write_duration
from chartloop.machine.build import Chart
from chartloop.machine.explain import Atom, Explanation, Row
from chartloop.machine.guard_text import fact_value, say_value
from chartloop.notebook.panel.stepped import Stepped
from chartloop.run.record_text import action_of, because, duration_of, outcome_of, path_of
from chartloop.run.replay import position_before

Json = dict[str, Any]
RECORDS = 200
"""The newest records, which are shown."""
_TEXT = 400
"""Characters of one value that are shown."""
_NEVER_NEWS = frozenset(
    "run.elapsed run.working run.idle run.paused_from run.visits progress.stalled_for".split()
)
"""Facts that a clock changes, or that are seen elsewhere: that they changed is no news."""


def board(run: Stepped, records: list[Record]) -> Json:
    """Everything about a run that rests."""
    return {
        **head(run),
        **_standing(run),
        "facts": [*_facts(run, records)],
        "records": [_record(run.machine.chart, r) for r in records[-RECORDS:]],
        "left_out": max(0, len(records) - RECORDS),
        "editable": [*_editable(run)],
        "states": [*run.machine.spec.states],
        "cannot": _cannot(run, len(records)),
    }


def head(run: Stepped) -> Json:
    """What changes while a run is driven; cheap, and safe from any thread."""
    facts, spec = run.session.position.facts, run.machine.spec
    usage = facts.usage
    spent = [say_count(facts.run.steps, "step")]
    if usage.llm_calls:
        spent += [say_count(usage.llm_calls, "model call"), say_count(usage.total_tokens, "token")]
    return {
        "machine": run.machine.name,
        "title": _short(spec.title or run.machine.name),
        "run": run.id,
        "state": run.state,
        "status": run.status,
        "spent": ", ".join(spent),
    }


def _standing(run: Stepped) -> Json:
    result = run.result
    waits: Mapping[str, Mapping[str, Type]] = {} if run.ended else run.answers
    return {
        "ended": run.ended,
        "kind": result.kind if run.ended else "",
        "said": _short(result.explain(), 4 * _TEXT) if run.ended else "",
        "output": _short(str(result.output), 4 * _TEXT) if run.ended and result.output else "",
        "question": _short(result.question or "", 4 * _TEXT),
        "wait": result.wait or "",
        "answers": [
            {"event": event, "fields": [_field(name, type) for name, type in fields.items()]}
            for event, fields in waits.items()
        ],
    }


def _field(name: str, type: Type) -> Json:
    return {
        "name": name,
        "type": str(type),
        "kind": type.kind,
        "values": list(type.values),
        "optional": type.nullable,
    }


def _cannot(run: Stepped, records: int) -> dict[str, str]:
    """Why a button cannot be pressed now; what is not here can."""
    cannot: dict[str, str] = {}
    if run.ended:
        cannot["step"] = cannot["run"] = "The run has ended: Back takes its last record back"
        cannot["set"] = cannot["cancel"] = "The run has ended"
    elif run.answers:
        cannot["step"] = cannot["run"] = "The run waits for an answer"
    if records < 2:
        cannot["back"] = "There is nothing to take back"
    return cannot


# facts --------------------------------------------------------------------------------------


class _Fact(NamedTuple):
    """One fact, or one entry of a fact that is a map, at two moments."""

    name: str
    type: Type
    was: Any
    value: Any
    root: str
    """The name of the fact itself."""

    @property
    def changed(self) -> bool:
        return self.value != self.was and self.root not in _NEVER_NEWS


def _facts(run: Stepped, records: list[Record]) -> Iterator[Json]:
    """Facts with their values: what the newest record changed, what guards read, and the rest.

    Of the rest only what says something.
    """
    read = _read_by_guards(run)
    now, before = run.facts, _before(run, records)
    for part in sorted(_each(run, before, now), key=lambda f: (not f.changed, f.root not in read)):
        guarded = part.root in read
        if not (part.changed or guarded or part.value):
            continue
        row: Json = {
            "name": part.name, "value": _short(say_value(part.value, part.type)),
            "changed": part.changed, "read": guarded,
            "about": FACTS[part.root].about if part.root in FACTS else "",
        }  # fmt: skip
        yield row | ({"was": _short(say_value(part.was, part.type))} if part.changed else {})


def _each(run: Stepped, before: Facts, now: Facts) -> Iterator[_Fact]:
    for root, section in run.machine.spec.roots.items():
        for field, type in section.fields:
            name = f"{root}.{field}"
            was, value = fact_value(before, name), fact_value(now, name)
            kind = FACTS[name].type if name in FACTS else type
            if kind.kind == "map" and isinstance(was, dict) and isinstance(value, dict):
                of, entries = cast(dict[str, Any], was), cast(dict[str, Any], value)
                for entry, amount in entries.items():
                    yield _Fact(f"{name}.{entry}", kind.of or ANY, of.get(entry), amount, name)
            else:
                yield _Fact(name, type, was, value, name)


def _before(run: Stepped, records: list[Record]) -> Facts:
    if not records:
        return run.facts
    return position_before(run.machine.chart, records, records[-1].seq, run.id).facts


def _read_by_guards(run: Stepped) -> frozenset[str]:
    """The facts that rules and edges read."""
    spec = run.machine.spec
    guards = [rule.when for rule in spec.rules]
    guards += [edge.when for edge in spec.edges() if edge.when is not None]
    return frozenset(name for guard in guards for name in guard.reads)


def _editable(run: Stepped) -> Iterator[Json]:
    """Limits and variables, each with its value as a person types it."""
    spec, facts = run.machine.spec, run.facts
    for root, declared, values in (
        ("limits", spec.limits, facts.limits),
        ("vars", spec.vars, facts.vars),
    ):
        for name, one in declared.items():
            typed = _typed(one.type, values.get(name))
            yield {"name": f"{root}.{name}", "type": str(one.type), "value": typed}


def _typed(type: Type, value: object) -> str:
    """A value as somebody would type it where this type is declared."""
    if value is None:
        return "off"
    if type.kind == "duration" and isinstance(value, (int, float)):
        return write_duration(value)
    if type.kind == "fraction" and isinstance(value, (int, float)):
        return f"{value * 100:.10g}%"
    if isinstance(value, str):
        return value
    return json.dumps(plain(value), ensure_ascii=False)


# decisions and records ----------------------------------------------------------------------


def decision(found: Explanation, seq: int) -> Json:
    """The table of one decision: rules and edges by group, and where they led."""
    groups: list[Json] = []
    for row in found.rows:
        if not groups or groups[-1]["name"] != row.group:
            groups.append({"name": row.group, "rows": []})
        groups[-1]["rows"] += _lines(row)
    led = [{"what": what, "said": _short(said)} for what, said in _led(found)]
    return {"seq": seq, "title": found.title, "groups": groups, "led": led}


def _led(found: Explanation) -> Iterator[tuple[str, str]]:
    made = found.decision
    yield from (("signal", str(signal)) for signal in made.signals)
    yield from (("warning", warning) for warning in made.warnings)
    begun = () if found.kind == "start" else (found.state,)
    path = " → ".join((*begun, *made.path)) if made.path else f"stays at {made.next}"
    yield (
        "led to",
        f"{path}, {made.status}" + (f", stopped for {made.winner}" if made.winner else ""),
    )


def _lines(row: Row) -> Iterator[Json]:
    """The row, with the values of its only atom; else a line for each atom below it."""
    alone = row.atoms[0] if len(row.atoms) == 1 else None
    yield {
        "mark": row.mark, "text": _short(row.text), "taken": row.taken,
        "looked": row.holds is not None, "to": row.reason or row.to, **_values(alone),
    }  # fmt: skip
    for atom in row.atoms if alone is None else ():
        yield {"mark": "", "text": _short(atom.text), "taken": False, "looked": True, "to": "",
               "atom": True, **_values(atom)}  # fmt: skip


def _values(atom: Atom | None) -> Json:
    if atom is None:
        return {"values": "", "left": ""}
    said = atom.error or (f"{atom.left} against {atom.right}" if atom.right else atom.left)
    share = None if atom.share is None else max(0.0, min(1.0, atom.share))
    return {"values": _short(said), "left": atom.margin, "share": share}


def _record(chart: Chart, record: Record) -> Json:
    return {
        "seq": record.seq, "kind": record.kind,
        "at": "" if record.kind == "start" else record.state,
        "did": action_of(chart, record), "came": _short(outcome_of(record)),
        "took": duration_of(record), "then": " → ".join(path_of(chart, record)),
        "because": _short(because(chart, record)),
        "failed": bool(record.failures),
    }  # fmt: skip


def _short(text: str, longest: int = _TEXT) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"

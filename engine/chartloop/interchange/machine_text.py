"""A skeleton as the text of a machine file, to be read and finished by a person.

Belongs here: YAML, its quotes, comments. Never: what a box becomes (`skeleton`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chartloop.core.units import say_some
from chartloop.interchange.machine_names import as_name
from chartloop.interchange.skeleton import Edge, Skeleton, State
from chartloop.pictures.flowchart import one_line, printable

_PLAIN = re.compile(r"[A-Za-z][\w ./()'-]*[\w.)]|[A-Za-z]")
_NOT_TEXT = re.compile(r"(?:true|false|null|none|yes|no|on|off|~)", re.IGNORECASE)
_INVISIBLE = re.compile(
    r"[\x7f-\xa0\xad\u0600-\u0605\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\uffff]"
)
_WIDEST = 100


class Head(NamedTuple):
    """The head of the file."""

    machine: str
    title: str
    source: str
    """The document, as the file names it."""
    where: str
    """The place in the document: `lines 8 to 36`."""
    deviations: Sequence[tuple[str, str]] = ()
    """Differences from the picture, with reasons."""
    notes: Sequence[str] = ()
    """Parts of the document's chart that were not kept or were read in quotes."""
    chart: str = "flowchart"
    """What the file calls the document's chart."""
    accepting: bool = False
    """Whether it accepts unreachable states, so that it loads before it is fixed."""


def write_machine(skeleton: Skeleton, head: Head) -> str:
    """The file, ending with a newline."""
    parts = [*_head(skeleton, head), "", "states:"]
    for state in skeleton.states:
        parts += _state(state)
    return "\n".join(parts) + "\n"


def text(value: str) -> str:
    """A text as YAML: plain where that is unambiguous, else in double quotes."""
    value = printable(value)
    if len(value) < _WIDEST and _PLAIN.fullmatch(value) and not _NOT_TEXT.fullmatch(value):
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _comment(text: str) -> str:
    return _INVISIBLE.sub(" ", one_line(text))


def _label(label: str) -> str:
    """A label, in which braces would show a fact; a blank one draws nothing."""
    return text(label.replace("{", "{{").replace("}", "}}")) if one_line(label) else '" "'


def _head(skeleton: Skeleton, head: Head) -> Iterator[str]:
    yield f"# A skeleton, imported from {_comment(head.source)}, {head.where}."
    yield f"# It draws the document's {head.chart}, and can be stepped by hand: chartloop step FILE"
    yield "# Each TODO is something left to say. `do: nothing` wants an action. What is under"
    yield "# `on` is asked of a person, until the state decides by `when`, `of` or guards."
    for note in head.notes:
        yield f"# {_comment(note)}"
    yield "chartloop: 1"
    yield f"machine: {head.machine}"
    if head.title:
        yield f"title: {text(head.title)}"
    yield f"source: {text(head.source)}"
    if head.deviations:
        yield "deviations:"
        for difference, reason in head.deviations:
            plain = text(difference)
            quoted = plain if plain.startswith('"') else f'"{plain}"'
            yield f"  - {{difference: {quoted}, reason: {text(reason)}}}"
    if skeleton.unreached:
        some = say_some([f"`{name}`" for name in skeleton.unreached], 5)
        yield f"# TODO: no arrow of the document leads to {some}. Lead one there or remove it;"
        yield "# until then `chartloop check` reports it, and the file does not run."
    if skeleton.unreached and head.accepting:
        yield "ignore: [{code: CL304, reason: it is for reading only}]"
    if skeleton.start != skeleton.states[0].name:
        yield f"start: {skeleton.start}"


def _state(state: State) -> Iterator[str]:
    keys = list(_keys(state))
    flow = ", ".join(f"{key}: {value}" for key, value in keys)
    parts = [f"line {state.line}"] if state.line is not None else []
    if state.name != as_name(state.box.id):
        parts.append(f"`{_comment(state.box.id)[:60]}`")
    where = f"  # {', '.join(parts)}" if parts else ""
    if not (state.acts or state.edges[1:] or _waits(state)):
        todo = "  # TODO: for which reason" if state.stop == "custom" else ""
        line = f"  {state.name}: {{{flow}}}{todo}{where if not todo else where.replace('  #', ',')}"
        if len(line) <= _WIDEST + 20:
            yield line
            return
    yield f"  {state.name}:{where}"
    for key, value in keys:
        yield f"    {key}: {value}{_TODO.get((key, value), '')}"
    if _waits(state):
        yield f"    on:  # TODO: {'who decides' if state.asks else 'which way, or `all`'}"
        for edge in state.edges:
            yield f"      {_edge(edge)}"


_TODO = {
    ("do", "nothing"): "  # TODO: what is done here",
    ("stop", "custom"): "  # TODO: for which reason",
}


def _waits(state: State) -> bool:
    return bool(state.edges and state.edges[0].event)


def _keys(state: State) -> Iterator[tuple[str, str]]:
    """What the file says of a state, but for the events of a wait."""
    if state.asks:
        yield "ask", _label(state.box.label)
    elif state.box.label != state.name:
        yield "label", _label(state.box.label)
    if state.hub:
        yield "role", "hub"
    if state.shape:
        yield "shape", state.shape
    if state.acts and not state.stop:
        yield "do", "nothing"
    if state.stop:
        yield "stop", state.stop
    if state.end:
        yield "end", state.end
    if state.edges and not _waits(state):
        to, label = state.edges[0].to, state.edges[0].label
        yield "next", f"{{to: {to}, label: {_label(label)}}}" if one_line(label) else to


def _edge(edge: Edge) -> str:
    if edge.label == edge.event:
        return f"{edge.event}: {edge.to}"
    return f"{edge.event}: {{to: {edge.to}, label: {_label(edge.label)}}}"

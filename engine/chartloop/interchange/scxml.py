"""A machine as SCXML, the W3C's language of statecharts.

Transitions are tried in document order. A guard is a field of the event's data: the driver of the
chart sends the values of the guards with each event. A transition to a deciding state stores that
data, because libraries differ in what `_event` is there. The text of a guard is an attribute of the
namespace `urn:chartloop:1`, and so are actions, assignments and stop reasons, for which SCXML has
no elements.

Belongs here: the XML. Never: which transitions are exported (`statechart_of_machine`).

Source:       www.w3.org/TR/scxml, sections 3 and 5
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

from chartloop.api import Machine
from chartloop.interchange.statechart import PARENT, Action, Node, Predicate, Statechart, Transition
from chartloop.interchange.statechart_of_machine import statechart, status_chart

NAMESPACE = "urn:chartloop:1"
HOLDING = "holding"
"""The datamodel variable with the data of the last event, read by deciding states."""
ENTRY = "before-start"
"""The state that waits for the event `start`, in a chart whose first state decides."""

_NONE: Mapping[str, str] = MappingProxyType({})

_IMPOSSIBLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML forbids, even as references."""
_HIDDEN = re.compile(r"[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Invisible characters, and those that change the direction of text."""


def to_scxml(machine: Machine, *, all: bool = False, status: bool = False) -> str:
    """Export a machine as an SCXML document that ends with a newline.

    Equal machines give equal texts.
    `all` adds the engine's own part: its ends, and the exits for a cancel, a signal from a tool
    and an unhandled failure. `status` adds the status of the run as a parallel state.
    """
    chart = statechart(machine, all=all)
    page = _Page()
    head = {
        "xmlns": "http://www.w3.org/2005/07/scxml", "xmlns:chartloop": NAMESPACE,
        "version": "1.0", "datamodel": "ecmascript", "name": chart.name,
        "initial": "regions" if status else _begins(chart),
        "chartloop:title": chart.title, "chartloop:about": chart.about,
        "chartloop:hash": machine.hash,
    }  # fmt: skip
    with page.element("scxml", head):
        if _decides(chart):
            with page.element("datamodel"):
                page.empty("data", {"id": HOLDING})
        if status:
            with page.element("parallel", {"id": "regions"}):
                with page.element("state", {"id": "region-state", "initial": _begins(chart)}):
                    _Region(page, chart).write()
                beside = status_chart(machine, beside=chart)
                first = {"id": "region-status", "initial": f"status-{beside.start}"}
                with page.element("state", first):
                    _Region(page, beside, prefix="status-").write()
        else:
            _Region(page, chart).write()
    return page.text()


def _decides(chart: Statechart) -> bool:
    return any(t.guard for node in chart.nodes if not node.rests for t in node.transitions)


def _begins(chart: Statechart) -> str:
    """The initial state. A deciding start needs an event for its guards, hence `ENTRY`."""
    first = next(node for node in chart.nodes if node.name == chart.start)
    if not first.rests:
        return ENTRY
    return PARENT if first in chart.under else first.name


class _Region:
    """Writes the states of one region. `prefix` keeps ids unique in a document of two regions."""

    def __init__(self, page: _Page, chart: Statechart, *, prefix: str = "") -> None:
        self.page = page
        self.chart = chart
        self.prefix = prefix
        self.predicates: Mapping[str, Predicate] = {p.name: p for p in chart.predicates}
        self.deciding = (
            {n.name for n in chart.nodes if not n.rests} if _decides(chart) else set[str]()
        )

    def write(self) -> None:
        if not self.prefix and _begins(self.chart) == ENTRY:
            with self.page.element("state", {"id": ENTRY}):
                self._transition(Transition("start", self.chart.start, "start"))
        under = self.chart.under
        if under:
            names = [node.name for node in under]
            first = self.chart.start if self.chart.start in names else names[0]
            with self.page.element("state", {"id": PARENT, "initial": first}):
                for transition in self.chart.checks:
                    self._transition(transition)
                for node in under:
                    self._state(node)
        for node in self.chart.beside:
            self._state(node)

    def _state(self, node: Node) -> None:
        about = {
            "id": f"{self.prefix}{node.name}", "chartloop:job": node.job,
            "chartloop:label": node.label, "chartloop:about": node.about,
            "chartloop:within": node.deadline.text if node.deadline is not None else "",
            **_action_attributes(node.actions),
        }  # fmt: skip
        with self.page.element("final" if node.job == "end" else "state", about):
            for transition in (*node.checks, *node.transitions):
                self._transition(transition)

    def _transition(self, transition: Transition) -> None:
        guard = self.predicates.get(transition.guard)
        data = "_event.data" if transition.event else HOLDING
        # The condition is ECMAScript; with `and` for `&&` it is Python. It never fails: one that
        # fails in a deciding state raises an error event, at which it is tried again, forever.
        about = {
            "event": transition.event,
            "cond": "" if guard is None else f"{data} && {data}.{guard.name}",
            "target": f"{self.prefix}{transition.target}",
            "chartloop:edge": transition.edge,
            "chartloop:kind": "" if transition.kind == "advance" else transition.kind,
            "chartloop:label": transition.label,
            "chartloop:when": guard.text if guard is not None else "",
            "chartloop:before": " ".join(guard.before) if guard is not None else "",
            "chartloop:data": json.dumps(dict(transition.fields)) if transition.fields else "",
            **_action_attributes(transition.actions),
        }
        with self.page.element("transition", about):
            if transition.event and transition.target in self.deciding:
                self.page.empty("assign", {"location": HOLDING, "expr": "_event.data"})


def _action_attributes(actions: tuple[Action, ...]) -> dict[str, str]:
    """Actions as attributes; assignments in JSON."""
    out: dict[str, str] = {}
    for effect in actions:
        match effect.name:
            case "chartloop.set":
                out["chartloop:set"] = json.dumps(dict(effect.params), ensure_ascii=False)
            case "chartloop.stop":
                out["chartloop:stop"] = effect.params["reason"]
            case "chartloop.status":
                out["chartloop:status"] = effect.params["status"]
            case action:
                out["chartloop:do"] = action
    return out


class _Page:
    """Writes an XML document: one element per line, indented by two spaces."""

    def __init__(self) -> None:
        self._out = io.StringIO()
        self._write = XMLGenerator(self._out, "UTF-8", short_empty_elements=True)
        self._level = 0
        self._inside = False
        """Whether the open element has children."""
        self._write.startDocument()

    @contextmanager
    def element(self, name: str, attributes: Mapping[str, str] = _NONE) -> Generator[None]:
        """Write an element around the writes of the `with` block. Empty attributes are omitted."""
        if self._level:
            self._write.ignorableWhitespace("\n" + "  " * self._level)
        safe = {n: _IMPOSSIBLE.sub("\ufffd", text) for n, text in attributes.items() if text}
        self._write.startElement(name, AttributesImpl(safe))
        self._level, self._inside = self._level + 1, False
        yield
        self._level -= 1
        if self._inside:
            self._write.ignorableWhitespace("\n" + "  " * self._level)
        self._write.endElement(name)
        self._inside = True

    def empty(self, name: str, attributes: Mapping[str, str]) -> None:
        """Write an element without children."""
        with self.element(name, attributes):
            pass

    def text(self) -> str:
        # Names are ASCII, so only attribute values change.
        return _HIDDEN.sub(lambda match: f"&#x{ord(match.group()):X};", self._out.getvalue()) + "\n"

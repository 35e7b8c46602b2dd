"""A machine as SCXML, the W3C's language of statecharts.

The order of transitions in the document is the order of trial. A guard is a field of the data of
the event: whoever drives the chart sends with each event what the guards say. A transition to a
decision keeps that data for it, since libraries differ in what `_event` is there. What a guard
says in chartloop is next to it, in attributes of the namespace `urn:chartloop:1`; so do
actions, assignments and stop reasons, which SCXML has no elements for.

Belongs here: the shape of that XML. Never: which transitions are exported (`from_live`).

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
from chartloop.interchange.statechart import PARENT, Deed, Node, Predicate, Statechart, Way
from chartloop.interchange.statechart_of_machine import statechart, status_chart

NAMESPACE = "urn:chartloop:1"
HOLDING = "holding"
"""The data of the last event, where decisions read it."""
ENTRY = "before-start"
"""Where a chart waits for the event `start`, when its first decision comes before any action."""

_NONE: Mapping[str, str] = MappingProxyType({})

_IMPOSSIBLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML document can hold, in whatever form."""
_HIDDEN = re.compile(r"[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Characters that an editor does not show, or that turn the direction of writing round."""


def to_scxml(machine: Machine, *, all: bool = False, status: bool = False) -> str:
    """An SCXML document of the machine, ending with a newline. Equal machines give equal texts.

    `all` adds what the engine does: its ends, and the exits for a cancel, a signal of a tool
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
    return any(way.guard for node in chart.nodes if not node.rests for way in node.ways)


def _begins(chart: Statechart) -> str:
    """The state that a chart starts in; guards are answered by events, so there must be one."""
    first = next(node for node in chart.nodes if node.name == chart.start)
    if not first.rests:
        return ENTRY
    return PARENT if first in chart.under else first.name


class _Region:
    """Writes the states of one region. Ids are unique in a document: `prefix` makes them so."""

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
                self._transition(Way("start", self.chart.start, "start"))
        under = self.chart.under
        if under:
            names = [node.name for node in under]
            first = self.chart.start if self.chart.start in names else names[0]
            with self.page.element("state", {"id": PARENT, "initial": first}):
                for way in self.chart.checks:
                    self._transition(way)
                for node in under:
                    self._state(node)
        for node in self.chart.beside:
            self._state(node)

    def _state(self, node: Node) -> None:
        about = {
            "id": f"{self.prefix}{node.name}", "chartloop:job": node.job,
            "chartloop:label": node.label, "chartloop:about": node.about,
            "chartloop:within": node.deadline.text if node.deadline is not None else "",
            **_action_attributes(node.deeds),
        }  # fmt: skip
        with self.page.element("final" if node.job == "end" else "state", about):
            for way in (*node.checks, *node.ways):
                self._transition(way)

    def _transition(self, way: Way) -> None:
        guard = self.predicates.get(way.guard)
        about = {
            "event": way.event,
            "cond": "" if guard is None else _cond(guard, "_event.data" if way.event else HOLDING),
            "target": f"{self.prefix}{way.target}",
            "chartloop:edge": way.edge,
            "chartloop:kind": "" if way.kind == "advance" else way.kind,
            "chartloop:label": way.label,
            "chartloop:when": guard.text if guard is not None else "",
            "chartloop:before": " ".join(guard.before) if guard is not None else "",
            "chartloop:data": json.dumps(dict(way.fields)) if way.fields else "",
            **_action_attributes(way.deeds),
        }
        with self.page.element("transition", about):
            if way.event and way.target in self.deciding:
                self.page.empty("assign", {"location": HOLDING, "expr": "_event.data"})


def _cond(guard: Predicate, data: str) -> str:
    """In ECMAScript, and after a replacement of `&&` in Python.

    It never fails: in a decision a failing condition would be tried again, at the event that says
    that it failed, and so for ever.
    """
    return f"{data} && {data}.{guard.name}"


def _action_attributes(deeds: tuple[Deed, ...]) -> dict[str, str]:
    """What is done, as attributes; an assignment in JSON."""
    out: dict[str, str] = {}
    for deed in deeds:
        match deed.name:
            case "chartloop.set":
                out["chartloop:set"] = json.dumps(dict(deed.given), ensure_ascii=False)
            case "chartloop.stop":
                out["chartloop:stop"] = deed.given["reason"]
            case "chartloop.status":
                out["chartloop:status"] = deed.given["status"]
            case action:
                out["chartloop:do"] = action
    return out


class _Page:
    """An XML document, while it is written: an element a line, two spaces for each level."""

    def __init__(self) -> None:
        self._out = io.StringIO()
        self._write = XMLGenerator(self._out, "UTF-8", short_empty_elements=True)
        self._level = 0
        self._inside = False
        """Whether the element that is open has others in it."""
        self._write.startDocument()

    @contextmanager
    def element(self, name: str, attributes: Mapping[str, str] = _NONE) -> Generator[None]:
        """An element with what is written inside. Attributes that say nothing are left out."""
        if self._level:
            self._write.ignorableWhitespace("\n" + "  " * self._level)
        given = {n: _IMPOSSIBLE.sub("\ufffd", text) for n, text in attributes.items() if text}
        self._write.startElement(name, AttributesImpl(given))
        self._level, self._inside = self._level + 1, False
        yield
        self._level -= 1
        if self._inside:
            self._write.ignorableWhitespace("\n" + "  " * self._level)
        self._write.endElement(name)
        self._inside = True

    def empty(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element with nothing in it."""
        with self.element(name, attributes):
            pass

    def text(self) -> str:
        # names are ASCII: what is replaced here is in the value of an attribute
        return _HIDDEN.sub(lambda found: f"&#x{ord(found.group()):X};", self._out.getvalue()) + "\n"

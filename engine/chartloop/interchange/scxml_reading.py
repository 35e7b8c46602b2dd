"""SCXML documents as charts: the elements that have a meaning in a machine.

Every element and attribute that is taken stands in a table here; any other is refused with its
place. A document that declares a type or an entity is refused, so that nothing is expanded or
fetched. Our own exports (`scxml`) come back with the labels that they carry in `chartloop:`
attributes; their rules hold in every state, and become notes.

Belongs here: the XML. Never: what nested states mean (`nested`).

Source:       www.w3.org/TR/scxml, sections 3 and 5
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn
from xml.parsers import expat

from chartloop.core.codes import finding
from chartloop.core.errors import Place, SpecError
from chartloop.interchange.mermaid.read import Reading
from chartloop.interchange.mermaid.source import LARGEST
from chartloop.interchange.nested import DEEPEST, Nested, NestedError, Part, Way
from chartloop.interchange.scxml import ENTRY, HOLDING, NAMESPACE

START = re.compile(r"\s*(?:<\?xml\b|<!--|<!DOCTYPE\b|<(?:\w+:)?scxml\b)")
"""How a document begins."""
_SCXML = "http://www.w3.org/2005/07/scxml"
_TAKEN: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    name: (frozenset(around.split()), frozenset(attributes.split()))
    for name, around, attributes in (
        ("scxml", "document", "name initial version datamodel binding"),
        ("state", "scxml state", "id initial"),
        ("final", "scxml state", "id"),
        ("initial", "state", ""),
        ("transition", "state initial", "event cond target type"),
    )
}
"""The elements that are taken: what may be around them, and their attributes."""
_HELD = frozenset({("datamodel", ""), ("data", HOLDING), ("assign", HOLDING)})
"""What our exports need besides: the data of the last event, which conditions read."""
_RULES = frozenset({"rule", "raised", "return"})
"""The kinds of transitions that hold in every state: no arrow in a picture."""
_CURES = {
    "parallel": "a machine is in one state: `run_machines` runs several machines at once",
    "history": "a detour returns by itself: `to` of a rule, and `next: return`",
    "onentry": "an action is what a state does: `do`",
    "onexit": "an action is what a state does: `do`",
    "invoke": "`do: run_machine` runs another machine",
    "datamodel": "declare `vars` in the machine",
    "assign": "write `set` in the machine",
}
_PAGE = "docs/documents.md lists what is taken"


def read_scxml(text: str, *, file: str = "") -> Reading:
    """The chart of an SCXML document. Raises `SpecError` at the first part that is not taken."""
    return _Reader(text, file).read()


class _Reader:
    """Reads one element after the other; `open` are those around it."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.lines = text.split("\n")
        self.nested = Nested()
        self.open: list[tuple[str, str]] = []
        """Each open element with the id of its state."""
        self.targets: list[tuple[str, int, str]] = []
        """Each id that an attribute names, with where it does, and what it must be inside of."""
        self.places: list[tuple[int, int]] = []
        """The line and column of each element."""
        self.ours = False
        """Whether chartloop wrote it."""
        self.parser = expat.ParserCreate("utf-8", " ")
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.StartDoctypeDeclHandler = self.doctype

    def read(self) -> Reading:
        """Read the whole document."""
        if len(self.text) > LARGEST:
            self.refuse("the document is larger than 1 MB", "split it")
        try:
            self.parser.Parse(self.text.encode("utf-8", "replace"), True)
            nested = self.nested
            for name, at, around in self.targets:
                if name not in nested.parts:
                    self.refuse(f"there is no state `{name}`", "write the id of a state", at)
                if around and (name == around or not nested.is_in(name, around)):
                    self.refuse(
                        f"`{around}` starts at `{name}`, which is not inside it",
                        "let it start at a state inside",
                        at,
                    )
            self._enter_first()
            return nested.reading()
        except expat.ExpatError as error:
            self.places.append((error.lineno, error.offset + 1))
            what = expat.errors.messages[error.code]
            self.refuse(f"this is not XML: {what}", "fix the line shown", len(self.places) - 1)
        except NestedError as refused:
            self.refuse(str(refused), refused.hint, refused.at)

    def refuse(self, message: str, cure: str = _PAGE, at: int | None = None) -> NoReturn:
        """Raise `SpecError` at an element, by default at this one."""
        here = (self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber + 1)
        line, column = here if at is None else self.places[at]
        text = self.lines[line - 1][:10_000] if line <= len(self.lines) else ""
        place = Place(self.file, line, column, 1, text)
        raise SpecError([finding("CL421", message, place, hint=cure)])

    def doctype(self, *_: object) -> NoReturn:
        """A document type could declare entities."""
        self.refuse("a document type is not taken", "remove it: nothing is expanded or fetched")

    def end(self, _: str) -> None:
        """The end of an element."""
        self.open.pop()

    def characters(self, text: str) -> None:
        """Text between elements."""
        if text.strip():
            self.refuse(f"the text `{text.strip()[:40]}` is not taken")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Read one element."""
        self.places.append((self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber + 1))
        space, _, name = tag.rpartition(" ")
        own = {n.rpartition(" ")[2]: v for n, v in attributes.items() if n.startswith(NAMESPACE)}
        plain = {n: v for n, v in attributes.items() if " " not in n}
        if len(attributes) > len(own) + len(plain):
            self.leave_out("attributes of other namespaces are left out")
        if name not in _TAKEN or space not in (_SCXML, ""):
            held = (name, plain.get("id", plain.get("location", "")))
            if held not in _HELD or not self.ours:
                self.refuse(f"`<{name}>` is not taken", _CURES.get(name, _PAGE))
            self.open.append((name, ""))
            return
        may_be_in, known = _TAKEN[name]
        for attribute in plain.keys() - known:
            self.refuse(f"the attribute `{attribute}` of `<{name}>` is not taken")
        around, inside = self.open[-1] if self.open else ("document", "")
        if around not in may_be_in:
            self.refuse(f"`<{name}>` does not belong here")
        if len(self.open) > DEEPEST:
            self.refuse(f"states are nested more than {DEEPEST} deep", "flatten them")
        read = {"scxml": self._document, "transition": self._transition, "initial": self._first}
        read.get(name, self._state)(name, inside, plain, own)
        self.open.append((name, plain.get("id", inside)))

    def leave_out(self, what: str) -> None:
        """Note something that a machine does not hold."""
        self.nested.notes[what].append(self.parser.CurrentLineNumber)

    # elements -------------------------------------------------------------------------------

    def _document(self, name: str, inside: str, plain: dict[str, str], own: dict[str, str]) -> None:
        self.ours = "hash" in own
        self.nested.title = own.get("title", plain.get("name", ""))
        self.nested.first = self._id(plain.get("initial", ""))

    def _state(self, name: str, inside: str, plain: dict[str, str], own: dict[str, str]) -> None:
        own_id = plain.get("id", "")
        if not own_id:
            self.refuse(f"a `<{name}>` without an id is not taken", "give it an id")
        if own_id in self.nested.parts:
            self.refuse(f"there are two states `{own_id}`", "rename one of them")
        decides = own.get("job") in ("decide", "wait")
        kind = "end" if name == "final" else "choice" if decides else "state"
        line = self.parser.CurrentLineNumber
        part = Part(own_id, line, inside, kind, own.get("label", ""))
        part.first = self._id(plain.get("initial", ""), own_id)
        self.nested.parts[own_id] = part
        self._leave_out_deeds(own)

    def _first(self, name: str, inside: str, plain: dict[str, str], own: dict[str, str]) -> None:
        """The transition in it names the first state."""

    def _transition(
        self, name: str, inside: str, plain: dict[str, str], own: dict[str, str]
    ) -> None:
        is_first = self.open[-1][0] == "initial"
        target = self._id(plain.get("target", ""), inside if is_first else "")
        event, cond = plain.get("event", ""), plain.get("cond", "")
        if not target:
            self.refuse("a `<transition>` without a target is not taken", "write its target")
        if is_first:
            self.nested.parts[inside].first = target
            return
        if own.get("kind") in _RULES:
            does = own.get("stop", "") and f", stop {own['stop']}"
            to = f"`{own.get('edge', '')}`: {own.get('when', '')} → {target}{does}"
            self.leave_out(f"rules are no arrows: {to}")
            return
        label = own.get("label", "") if own else f"{event} [{cond}]" if cond else event
        done = any(word == f"done.state.{inside}" for word in event.split())
        at = len(self.places) - 1
        line = self.parser.CurrentLineNumber
        self.nested.ways.append(Way(inside, target, label.strip(), line, at, done))
        self._leave_out_deeds(own)

    def _id(self, named: str, around: str = "") -> str:
        """The id that an attribute names, inside of `around`; empty if there is none."""
        names = named.split()
        if len(names) > 1:
            self.refuse("several states at once are not taken", _CURES["parallel"])
        self.targets += [(name, len(self.places) - 1, around) for name in names]
        return names[0] if names else ""

    def _leave_out_deeds(self, own: dict[str, str]) -> None:
        for word in ("do", "set", "stop", "status", "within", "data", "when"):
            if word in own:
                self.leave_out(f"`chartloop:{word}` is left out: write it in the machine")

    def _enter_first(self) -> None:
        """Where a document does not say it, the first state is entered first."""
        nested = self.nested
        for part in nested.parts.values():
            around = nested.parts.get(part.within)
            if around is not None:
                around.first = around.first or part.id
            elif not part.within:
                nested.first = nested.first or part.id
        if not self.ours:
            return
        led_to = {way.target for way in nested.ways}
        for name in [name for name in nested.parts if "-" in name and name not in led_to]:
            if nested.parts[name].kind == "end":
                del nested.parts[name]
                nested.notes[f"the engine's own end `{name}` is left out"] = []
        if nested.first == ENTRY:
            entry = next(way for way in nested.ways if way.source == ENTRY)
            nested.ways.remove(entry)
            del nested.parts[ENTRY]
            nested.first = entry.target

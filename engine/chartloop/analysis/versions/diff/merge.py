"""Merges two charts into one, and marks its parts: the same, added, removed, changed.

Belongs here: pairing boxes and arrows, the marks, the selection of the focus view. Never: colours,
a file format.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from chartloop.analysis.versions.diff.align import Pairs
from chartloop.analysis.versions.diff.change import Change, phrase
from chartloop.pictures.flowchart import Arrow, Box, Flowchart, RuleLine, one_line
from chartloop.pictures.focus import near, part

Mark = Literal["same", "added", "removed", "changed"]

_FEW = 6
"""The most neighbours that the focus view shows of a changed box without changed arrows."""


class Note(NamedTuple):
    """A change that no label shows: ``with.base``, 1s, 2s."""

    name: str
    old: str = ""
    new: str = ""


class Line(NamedTuple):
    """One line of a box of rules."""

    mark: Mark
    text: str
    old: str = ""


class Marked(NamedTuple):
    """The mark of a box or arrow, with the details of its change."""

    mark: Mark = "same"
    old: str = ""
    """The old label, if it changed."""
    notes: tuple[Note, ...] = ()
    lines: tuple[Line, ...] = ()
    """For a box of rules: the rules that lead to no state."""


UNCHANGED = Marked()


@dataclass(frozen=True)
class Merged:
    """Two charts as one, with the marks of its parts."""

    chart: Flowchart
    boxes: Mapping[str, Marked] = field(default_factory=dict[str, Marked])
    arrows: Mapping[Arrow, Marked] = field(default_factory=dict[Arrow, Marked])
    hidden: int = 0
    """The number of boxes that are left out."""

    def of_box(self, box: Box) -> Marked:
        """The mark of a box."""
        return self.boxes.get(box.id, UNCHANGED)

    def of_arrow(self, arrow: Arrow) -> Marked:
        """The mark of an arrow."""
        return self.arrows.get(arrow, UNCHANGED)


def merge(
    a: Flowchart, b: Flowchart, pairs: Pairs, changes: Sequence[Change], *, title: str = ""
) -> Merged:
    """Merge two charts. Of `changes`, those of child machines are ignored."""
    return _Merger(a, b, pairs, [c for c in changes if not c.within]).build(title)


class _Merger:
    def __init__(self, a: Flowchart, b: Flowchart, pairs: Pairs, changes: Sequence[Change]) -> None:
        self.a, self.b, self.pairs = a, b, pairs
        self.changes = changes
        self.states = {box.id for box in b.boxes if box.origin != "rule"}
        self.panels = (_panels(a, pairs.states), _panels(b, {}))
        self.boxes = self._paired_boxes()
        self.notes = {**_notes(changes, "state"), **_notes(changes, "edge")}
        self.rule_notes = _notes(changes, "rule")

    def build(self, title: str) -> Merged:
        old = {box.id: box for box in self.a.boxes}
        back = {new: old[name] for name, new in self.boxes.items()}
        boxes = list(self._in_order())
        marks = {
            box.id: Marked("removed") if box.id not in back and box.id not in self._new else
            Marked("added") if box.id not in back else self._compare_boxes(back[box.id], box)
            for box in boxes
        }  # fmt: skip
        for box in boxes:
            if box.role == "rules":
                marks[box.id] = self._panel(box, marks[box.id])
        arrows, arrow_marks = self._arrows()
        boxes = [
            replace(box, label=box.label.partition("\n")[0]) if marks[box.id].lines else box
            for box in boxes
        ]
        new, title = self.b, title or self.b.title
        chart = Flowchart(title, tuple(boxes), tuple(arrows), new.rules, new.direction)
        return Merged(chart, marks, arrow_marks)

    @property
    def _new(self) -> set[str]:
        return {box.id for box in self.b.boxes}

    # boxes ----------------------------------------------------------------------------------

    def _paired_boxes(self) -> dict[str, str]:
        """Map each box of the first chart that the second has to its id there."""
        there = {box.id for box in self.b.boxes}
        states = {old: new for old, new in self.pairs.states.items() if new in there}
        before, after = self.panels
        places = {group: name for name, group in after.items()}
        panels = {n: places[group] for n, group in before.items() if group in places}
        drawn = {box.id for box in self.a.boxes}
        return {n: m for n, m in (states | panels).items() if n in drawn}

    def _in_order(self) -> Iterator[Box]:
        """The boxes of the second chart, each followed by the removed ones that came after it."""
        removed: dict[str | None, list[Box]] = {}
        last: str | None = None
        for box in self.a.boxes:
            if box.id in self.boxes:
                last = self.boxes[box.id]
            else:
                removed.setdefault(last, []).append(replace(box, id=self._merged_id(box.id)))
        yield from removed.get(None, ())
        for box in self.b.boxes:
            yield box
            yield from removed.get(box.id, ())

    def _merged_id(self, name: str) -> str:
        """The id of an old chart's box in the merged chart."""
        if name in self.boxes:
            return self.boxes[name]
        return f"{name}-removed" if name in self._new else name

    def _compare_boxes(self, old: Box, new: Box) -> Marked:
        notes = self.notes.get(new.id, ())
        was = old.label if one_line(old.label) != one_line(new.label) else ""
        if new.role == "rules":
            return UNCHANGED
        if was:
            notes = tuple(note for note in notes if note.name not in _IN_LABEL)
        else:
            labels = " ".join(one_line(a.words) for a in self.b.arrows if a.source == new.id)
            notes += tuple(_limits(self.changes, new.id, labels))
        look = (old.shape, old.role, old.entry) != (new.shape, new.role, new.entry)
        changed = bool(was or notes or look)
        return Marked("changed", was, notes) if changed else UNCHANGED

    # rules ----------------------------------------------------------------------------------

    def _panel(self, box: Box, marked: Marked) -> Marked:
        """The lines of a box of rules, each with its mark."""
        group_a, group_b = (panels.get(box.id) for panels in self.panels)
        group = group_b if box.id in self._new else group_a
        back = {new: old for old, new in self.pairs.rules.items()}
        old = {line.id: line for line in self.a.rules}
        new = {line.id: line for line in self.b.rules}
        lines: list[Line] = []
        for line in self._listed_rules(self.b, self.states):
            if _moment(line, {}) == group and box.id in self._new:
                was = old.get(back.get(line.id, ""))
                lines.append(self._rule_line(line, was))
        for line in self._listed_rules(self.a, {box.id for box in self.a.boxes}):
            successor = new.get(self.pairs.rules.get(line.id, ""))
            stays = successor in self._listed_rules(self.b, self.states)
            if _moment(line, self.pairs.states) == group and not stays:
                lines.append(Line("removed", _words(line)))
        if marked.mark == "same" and any(line.mark != "same" for line in lines):
            marked = Marked("changed")
        return marked._replace(lines=tuple(lines))

    def _listed_rules(self, chart: Flowchart, drawn: set[str]) -> list[RuleLine]:
        """The rules that are lines of a box because they lead to no box."""
        return [line for line in chart.rules if line.to not in drawn]

    def _rule_line(self, line: RuleLine, was: RuleLine | None) -> Line:
        if was is None:
            return Line("added", _words(line))
        if _words(was) != _words(line):
            return Line("changed", _words(line), _words(was))
        notes = self.rule_notes.get(line.id, ())
        return (
            Line("changed", f"{_words(line)} · {_note_words(notes)}")
            if notes
            else Line("same", _words(line))
        )

    # arrows ---------------------------------------------------------------------------------

    def _arrows(self) -> tuple[list[Arrow], dict[Arrow, Marked]]:
        ours = [
            replace(
                arrow, source=self._merged_id(arrow.source), target=self._merged_id(arrow.target)
            )
            for arrow in self.a.arrows
        ]
        theirs = list(self.b.arrows)
        marks: dict[Arrow, Marked] = {}
        for key in (self._by_id, _by_words):
            paired = [*_pair_arrows(ours, theirs, key)]
            for old, new in paired:
                marks[new] = self._arrow(old, new)
            done = {id(arrow) for pair in paired for arrow in pair}
            ours = [arrow for arrow in ours if id(arrow) not in done]
            theirs = [arrow for arrow in theirs if id(arrow) not in done]
        marks |= {arrow: Marked("added") for arrow in theirs}
        removed = [replace(arrow, id=f"-{arrow.id}") for arrow in ours]
        return [*self.b.arrows, *removed], marks | {arrow: Marked("removed") for arrow in removed}

    def _by_id(self, arrow: Arrow, *, old: bool) -> Hashable:
        name = arrow.id.partition("→")[0]
        if old:
            name = self.pairs.edges.get(name) or self.pairs.rules.get(name) or name
        return name, arrow.kind, arrow.source, arrow.target

    def _arrow(self, old: Arrow, new: Arrow) -> Marked:
        notes = self.notes.get(new.id, ()) or self.rule_notes.get(new.id, ())
        if one_line(old.words) != one_line(new.words):
            return Marked("changed", old.words)
        if old.number != new.number and self._is_reordered(new.source):
            notes = (*notes, Note("order", _ordinal(old.number), _ordinal(new.number)))
        return Marked("changed", "", notes) if notes else UNCHANGED

    def _is_reordered(self, state: str) -> bool:
        return any(
            c.kind == "moved" and c.what == "state" and c.side.id == state for c in self.changes
        )


def _by_words(arrow: Arrow, *, old: bool) -> Hashable:  # noqa: ARG001  the same for both
    return arrow.source, arrow.target, one_line(arrow.words), arrow.kind


def _pair_arrows(
    ours: Iterable[Arrow], theirs: Iterable[Arrow], key: Callable[..., Hashable]
) -> Iterator[tuple[Arrow, Arrow]]:
    waiting: dict[Hashable, list[Arrow]] = {}
    for arrow in theirs:
        waiting.setdefault(key(arrow, old=False), []).append(arrow)
    for arrow in ours:
        if like := waiting.get(key(arrow, old=True)):
            yield arrow, like.pop(0)


def _ordinal(number: int | None) -> str:
    return "" if number is None else f"{number}."


# notes --------------------------------------------------------------------------------------

_IN_LABEL = frozenset({"label", "question"})


def _notes(changes: Iterable[Change], what: str) -> dict[str, tuple[Note, ...]]:
    """The changes of each state, edge or rule that its label may not show, by its new id."""
    notes: dict[str, tuple[Note, ...]] = {}
    for change in changes:
        if change.what != what or (change.after is None and not change.aspect):
            continue
        if change.aspect in ("label", "ask", "to", "all", "next", "on") and change.kind != "moved":
            continue
        if change.kind == "moved" or (change.kind == "added" and not change.aspect):
            continue
        name = phrase(change.what, change.aspect) if change.aspect else ""
        old = change.before.text if change.before is not None else ""
        new = change.after.text if change.after is not None else ""
        if change.kind == "renamed" and change.before is not None and change.after is not None:
            name, old, new = "", change.before.name, change.after.name
        key = (change.after or change.side).id
        notes[key] = (*notes.get(key, ()), Note(name.replace("`", ""), old, new))
    return notes


def _limits(changes: Iterable[Change], state: str, labels: str) -> Iterator[Note]:
    """The changed limits that affect a state whose label does not show them.

    `labels` are those of the state's arrows: a deadline that they show is left out.
    """
    for change in changes:
        if change.what == "limit" and change.before is not None and change.after is not None:
            on_arrow = change.after.text in labels
            if any(e.after == state and not (e.deadline and on_arrow) for e in change.effects):
                yield Note(f"limits.{change.side.name}", change.before.text, change.after.text)


def _note_words(notes: Iterable[Note]) -> str:
    return ", ".join(note.name for note in notes)


# rules --------------------------------------------------------------------------------------

_Moment = tuple[frozenset[str], frozenset[str]]


def _moment(line: RuleLine, names: Mapping[str, str]) -> _Moment:
    at, before = (frozenset(names.get(n, n) for n in states) for states in (line.at, line.before))
    return at, before


def _panels(chart: Flowchart, names: Mapping[str, str]) -> dict[str, _Moment]:
    """The boxes of rules, with the moment at which their rules are evaluated."""
    groups = dict.fromkeys((line.at, line.before) for line in chart.rules)
    firsts = {(line.at, line.before): line for line in reversed(chart.rules)}
    return {f"rules-{n}": _moment(firsts[group], names) for n, group in enumerate(groups, 1)}


def _words(line: RuleLine) -> str:
    return one_line(f"{line.text} → {line.does}" if line.does else line.text)


# focus --------------------------------------------------------------------------------------


def focus(merged: Merged) -> Merged:
    """Keep the changes and their neighbours, with a box that counts the hidden ones."""
    chart = merged.chart
    changed = [a for a in chart.arrows if merged.of_arrow(a).mark != "same"]
    visible = {end for arrow in changed for end in (arrow.source, arrow.target)}
    for box in chart.boxes:
        if merged.of_box(box).mark != "same":
            if box.id not in visible:
                visible |= _around(chart, box.id)
            visible.add(box.id)
    hidden = len(chart.boxes) - len(visible)
    if hidden == 1 and visible:  # the count would take the same room
        return merged
    nodes = "node" if hidden == 1 else "nodes"
    message = f"… {hidden} unchanged {nodes} hidden" if visible else "The flowchart is the same"
    return replace(merged, chart=part(chart, visible, message if hidden else ""), hidden=hidden)


def _around(chart: Flowchart, name: str) -> set[str]:
    """The neighbours of a box if they are few, else none."""
    neighbours = near(chart, name) - {name}
    return neighbours if len(neighbours) <= _FEW else set()

"""Describes the first record that a new machine decides differently: the old and new decision.

Belongs here: one difference of a replay, and the guard or edge of the new file that causes it.
Never: finding the difference (`run.replay`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chartloop.analysis.versions.migration.renames import GONE
from chartloop.analysis.versions.migration.verdict import Cause
from chartloop.core.errors import NOWHERE, Place, StatusError
from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.language.spec import MachineSpec
from chartloop.machine.build import Chart
from chartloop.machine.evolve import evolve
from chartloop.machine.explain import Atom, Explanation, explain
from chartloop.run.renaming import Names, as_now
from chartloop.run.replay import Replay

LATER = "continue with the machine that the run was started with, or start a fork at record {}"
NEVER = "continue with the machine that the run was started with, or start a new run"


def cause_of(chart: Chart, records: Sequence[Record], replayed: Replay, names: Names) -> Cause:
    """Explain why the record at which the replay ended is decided differently."""
    difference = replayed.differences[0]
    record = next(r for r in records if r.seq == difference.seq)
    recorded = as_now(record, *names)
    at = f"record {record.seq} at {record.state}"
    cure = LATER.format(record.seq) if record.seq > 0 else NEVER
    try:
        _, decision = evolve(chart, replayed.position, recorded.input, trace=True)
    except (StatusError, KeyError):
        return Cause(f"{at}: {difference.what}", cure, record.seq)
    now = explain(chart, decision)
    removed = "".join(
        f"state `{name}` is gone: "
        for name in dict.fromkeys((recorded.state, recorded.next))
        if name not in chart.step.nodes
    )
    guard, place = _deciding_guard(chart.spec, recorded, now)
    place = place if place.line else _start_place(chart.spec, replayed.position.state)
    what = f"{at}: {removed}{_differ(record, recorded, replayed.position, now)}{guard}"
    return Cause(what, cure, record.seq, place)


def _differ(record: Record, recorded: Record, before: Position, now: Explanation) -> str:
    """Describe the recorded decision and the new one. `recorded` has the new names."""
    decision = now.decision
    if recorded.state != before.state:
        return f"the run was at `{recorded.state}`, and in this file it is at `{before.state}`"
    now_ids = zip(record.taken, recorded.taken, strict=True)
    ids = [f"{id}{GONE if now_id.endswith(GONE) else ''}" for id, now_id in now_ids]
    was = _came(record.next, ids, recorded.signals.reasons)
    then = _came(decision.next, decision.taken, decision.signals.reasons)
    if was == then:
        was, then = f"{was}, {recorded.status}", f"{then}, {decision.status}"
    went, _ = _moves(record, record.taken, record.next)
    _, goes = _moves(recorded, decision.taken, decision.next)
    return f"it {went} {was}; in this file it {goes} {then}"


def _moves(record: Record, taken: Sequence[str], next: str) -> tuple[str, str]:
    if record.kind == "start":
        return "began at", "begins at"
    if taken or next != record.state:
        return "went to", "goes to"
    return "stayed at", "stays at"


def _came(next: str, taken: Sequence[str], reasons: Sequence[object]) -> str:
    edges = f" by {', '.join(map(_quote_id, taken))}" if taken else ""
    signals = f", raising {', '.join(f'`{reason}`' for reason in reasons)}" if reasons else ""
    return f"`{next}`{edges}{signals}"


def _quote_id(id: str) -> str:
    known = id.removesuffix(GONE)
    return f"`{known}`{id[len(known) :]}"


def _deciding_guard(spec: MachineSpec, recorded: Record, now: Explanation) -> tuple[str, Place]:
    """The guard that changes the decision, with its values and its place."""
    last, gone = now.decision.taken[-1:], [*_gone_signals(recorded, now)]
    rest = [*gone, *last] if now.decision.next == recorded.next else [*last, *gone]
    ids = [*_other_edges(recorded, now), *_other_signals(recorded, now), *rest]
    place = next((place for id in ids if (place := place_of(spec, id)).line), NOWHERE)
    rows = {row.id: row for row in now.rows}
    deciding = next((rows[id] for id in ids if id in rows and rows[id].atoms), None)
    if deciding is not None:
        values = "; ".join(filter(None, map(_atom, deciding.atoms)))
        verdict = {True: "holds", False: "does not hold", None: "could not be evaluated"}
        shown = f" ({values})" if values else ""
        return f": `{deciding.text}` {verdict[deciding.holds]}{shown}", place
    source = next((_quote_id(id) for id in ids if id.endswith(GONE)), "")
    return (f": it was raised by {source}" if source and not place.line else ""), place


def _other_edges(recorded: Record, now: Explanation) -> Iterator[str]:
    """The first edge or rule that is taken now but was not, and the one before it."""
    taken = now.decision.taken
    both = enumerate(zip((*recorded.taken, ""), (*taken, ""), strict=False))
    at = next((n for n, (one, other) in both if one != other), None)
    if at is not None:
        yield from taken[at : at + 1] or taken[at - 1 : at]  # its target has changed
        yield from recorded.taken[at : at + 1]


def _other_signals(recorded: Record, now: Explanation) -> Iterator[str]:
    """The sources of reasons that are raised now but were not."""
    known = set(recorded.signals.reasons)
    yield from (s.source for s in now.decision.signals if s.reason not in known)


def _gone_signals(recorded: Record, now: Explanation) -> Iterator[str]:
    """The sources of reasons that were raised but are no longer."""
    known = set(now.decision.signals.reasons)
    yield from (s.source for s in recorded.signals if s.reason not in known)


def _start_place(spec: MachineSpec, state: str) -> Place:
    """The place of `start` in the file if it names the state, else the place of the state."""
    place = spec.place(("start",))
    if state == spec.start and place != spec.place(()):
        return place
    return spec.place(("states", state), key=True)


def _atom(atom: Atom) -> str:
    if atom.error:
        return atom.error
    return f"{atom.left} against {atom.right}" if atom.right else ""


def place_of(spec: MachineSpec, id: str) -> Place:
    """Return the place of an edge, or of a rule's guard; for another id, that of its state."""
    for number, rule in enumerate(spec.rules):
        if rule.id == id:
            return spec.place(("rules", number, "when"))
    for edge in (*spec.edges(), *((spec.on_error,) if spec.on_error is not None else ())):
        if edge.id == id:
            return spec.place(edge.path)
    state = id.partition(".")[0]
    return spec.place(("states", state), key=True) if state in spec.states else NOWHERE

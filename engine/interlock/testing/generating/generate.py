"""`generate`: from a machine to the scenarios that it lacks, each played and passed.

    what is there? ─▶ what is missing? ─▶ search ─▶ play each way ─▶ fewest that show all

Belongs here: the order of these. Never: printing, a decision about a run.

Imported by:  testing, cli.commands.scenarios
Source:       issue "Proofs", 4 "Scenarios and coverage"
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from interlock import catalog
from interlock.actions.assumed import assumed_in
from interlock.actions.declare import specs_of
from interlock.api import Machine, Own, find_faults, load
from interlock.core.errors import InterlockError, SetupError, SpecError, nearest
from interlock.core.specs import Registry, ToolSpec
from interlock.language.yaml.reading import Document
from interlock.run.result import Result
from interlock.run.sync import wait
from interlock.testing.clock import ManualClock
from interlock.testing.generating.moves import Moves
from interlock.testing.generating.naming import file_name, head, stamped
from interlock.testing.generating.result import Generated, Unreached, Written
from interlock.testing.generating.search import WORK, Progress, Search, Way
from interlock.testing.generating.targets import Target, shown_by, targets_of
from interlock.testing.generating.unreached import impossible, why
from interlock.testing.generating.wording import (
    expected,
    facts_that_matter,
    keys_of,
    without,
    without_each,
)
from interlock.testing.generating.world import World
from interlock.testing.rehearsing import Rehearsals
from interlock.testing.report import ScenarioReport
from interlock.testing.scenario_file import read_scenario, scenario_of
from interlock.testing.scenario_text import scenario_text
from interlock.testing.scenarios import (
    find_scenarios,
    load_scenario,
    machine_of,
)

ADAPTER = "adapter"
"""The tool that a machine gets which takes every tool of its application, and was given none."""


def generate(
    machine: str | Path, folder: str | Path = ".", *, tools: Own = (), only: Sequence[str] = (),
    work: int = WORK, run_actions: bool = False, told: Callable[[Progress], None] | None = None,
) -> Generated:  # fmt: skip
    """The scenarios that a folder lacks to show every edge, rule and stop reason of a machine.

        generate("shopper.yaml", "scenarios", tools=[price]).write()

    `machine` is a path or the name of a shipped machine; `tools` are the tools, actions and guards
    that it names. The scenarios of the machine that are in the folder are run, and what they show
    is not looked for again. `only` are ids of edges and rules, or stop reasons, and asks for these
    whatever is there. `work` bounds the search. Tools are scripted and never called; an action of
    one's own is run only where it is declared without effects, or with `run_actions`. `told` hears
    how far the search is.

    Raises `SpecError` for a machine with faults, `SetupError` for what it cannot run without.
    """
    own = specs_of(tools)
    path = catalog.find(str(machine))
    folder = Path(folder)
    subject = _Subject.of(path, own)
    chart = subject.machine.chart
    targets = targets_of(chart)
    stage = Rehearsals(own)
    covered, unread = _covered(folder, path, stage) if not only else (frozenset[Target](), ())
    asked = _asked(targets, only) if only else targets
    missing = [target for target in asked if target not in covered]
    proven = impossible(chart, missing)
    wanted = frozenset(missing) - proven.keys()
    search = Search(subject.moves(run_own=run_actions), wanted, work, told or (lambda _: None))
    if wanted:
        wait(search.run(), suspends=True)
    writer = _Writer(subject, path, folder, stage)
    played = {t: writer.play(t, search.ways[t]) for t in missing if t in search.ways}
    found = {t: p for t, p in played.items() if isinstance(p, _Played)}
    scenarios = tuple(
        writer.write(p, new, shortest=search.is_shortest(p.way)) for p, new in _fewest(found)
    )
    shown = {target for one in scenarios for target in one.shows}
    left = [*proven.values()]
    left += [
        _unwritten(target, played.get(target), search)
        for target in missing
        if target not in shown and target not in proven
    ]
    return Generated(
        chart.name, folder, scenarios, covered, asked, tuple(left), unread,
        search.moves.tried, work,
    )  # fmt: skip


def _asked(targets: Sequence[Target], only: Sequence[str]) -> tuple[Target, ...]:
    """The targets of these names."""
    known = {target.name for target in targets}
    for name in only:
        if name not in known:
            hint = nearest(name, known)
            raise SetupError(f"no edge, rule or stop reason is called `{name[:80]}`", hint=hint)
    return tuple(target for target in targets if target.name in only)


def _unwritten(target: Target, played: _Played | str | None, search: Search) -> Unreached:
    if isinstance(played, str):
        return Unreached(target, "not writable", f"found, but no scenario can say it: {played}")
    moves = search.moves
    return why(
        moves.chart, target, not_run=moves.not_run, ended=search.ended, tried=moves.tried
    )  # fmt: skip


# the machine --------------------------------------------------------------------------------


class _Subject(NamedTuple):
    """The machine with a world in the place of its tools."""

    machine: Machine
    world: World
    clock: ManualClock
    unknown: tuple[str, ...]
    """Tools that it names and that nobody declared: a scenario must name them."""

    @classmethod
    def of(cls, path: Path, own: Registry) -> _Subject:
        """Load it. Tools that nobody declared take any arguments."""
        clock = ManualClock()
        world = World(clock)
        unknown = _unknown(path, own)
        tools: dict[str, ToolSpec | None] = {**own.tools, **dict.fromkeys(unknown)}
        machine = load(path, tools=[_chosen(own, tools, world)])
        if not own.tools and _takes_any(machine):
            machine = load(path, tools=[_chosen(own, {**tools, ADAPTER: None}, world)])
        return cls(machine, world, clock, unknown)

    def moves(self, *, run_own: bool) -> Moves:
        """What may happen in its runs."""
        return Moves(self.machine, self.world, self.clock, run_own=run_own)


def _chosen(own: Registry, tools: Mapping[str, ToolSpec | None], world: World) -> Registry:
    chosen = {name: world.tool(name, known) for name, known in tools.items()}
    return Registry(own.actions, chosen, own.guards)


def _unknown(path: Path, own: Registry) -> tuple[str, ...]:
    """The names of tools that a machine calls and nobody declared."""
    machine, findings = find_faults(path, tools=own, assume=True)
    if machine is None:
        raise SpecError(findings)
    said = (name for name in assumed_in(machine.spec) if name.startswith("tool "))
    return tuple(name.removeprefix("tool `").removesuffix("`") for name in said)


def _takes_any(machine: Machine) -> bool:
    """Whether it, or a child, takes every tool that its application brings."""
    return any(
        part.document is not None and "*" in (part.document.data.get("tools") or ())
        for part in machine.spec.family()
        if not part.base
    )  # fmt: skip


# what is there ------------------------------------------------------------------------------


def _covered(
    folder: Path, machine: Path, stage: Rehearsals
) -> tuple[frozenset[Target], tuple[str, ...]]:
    """What the scenarios of a folder show of a machine, and those that do not pass."""
    found: set[Target] = set()
    unread: list[str] = []
    for path in find_scenarios([folder]) if folder.is_dir() else ():
        try:
            made = load_scenario(path)
            if not os.path.samefile(machine_of(made), machine):  # noqa: PTH121
                continue
            report = stage.play(made)
        except InterlockError as error:
            unread.append(f"{catalog.shown(path)}: {str(error).splitlines()[0]}")
            continue
        if report.passed and report.run is not None:
            found |= shown_by(report.run)
        else:
            unread.append(f"{catalog.shown(path)}: it fails")
    return frozenset(found), tuple(unread)


# what is written ----------------------------------------------------------------------------


class _Played(NamedTuple):
    """A way that was played as a scenario."""

    way: Way
    keys: Mapping[str, Any]
    report: ScenarioReport
    shown: frozenset[Target]
    target: Target
    """What it is the shortest for."""


class _Writer:
    """Ways as scenarios that pass."""

    def __init__(self, subject: _Subject, machine: Path, folder: Path, stage: Rehearsals) -> None:
        self._subject = subject
        self._stage = stage
        shipped = {path: name for name, path in catalog.shipped().items()}
        self._named = shipped.get(machine) or _from(folder, machine)
        """The machine as the file names it."""
        self._path = shipped.get(machine) or str(machine.resolve())
        """The same for playing it: the folder need not be there yet."""
        self._made: dict[int, tuple[Mapping[str, Any], ScenarioReport] | str] = {}

    def play(self, target: Target, way: Way) -> _Played | str:
        """The way, played as a scenario; or what keeps a scenario from saying it."""
        key = id(way.end)
        if key not in self._made:
            self._made[key] = self._play(way)
        made = self._made[key]
        if isinstance(made, str):
            return made
        keys, report = made
        assert report.run is not None
        shown = shown_by(report.run)
        if target not in shown:
            return "the run of the scenario does not show it"
        return _Played(way, keys, report, shown, target)

    def _play(self, way: Way) -> tuple[Mapping[str, Any], ScenarioReport] | str:
        keys = keys_of(way.end.way(), self._path)
        unknown: dict[str, list[Any]] = {name: [] for name in self._subject.unknown}
        if unknown:
            keys["tools"] = {**unknown, **keys.get("tools", {})}
        path = [state for node in way.end.way() for state in node.path]
        report = self._run({**keys, "expect": {"path": path}})
        if isinstance(report, str):
            return report
        return (keys, report) if report.passed else report.problems[0].split("\n")[0]

    def _run(self, keys: Mapping[str, Any]) -> ScenarioReport | str:
        document = Document(_plain(keys), "", "")
        try:
            made = scenario_of(document, name="generated", folder=None)
            return self._stage.play(made)
        except InterlockError as error:
            return str(error).split("\n")[0]

    def write(self, played: _Played, new: Sequence[Target], *, shortest: bool) -> Written:
        """The file for a way, for what it is the first to show."""
        chart = self._subject.machine.chart
        targets = sorted(new, key=lambda t: _first(t, played.target))
        keys, result = self._least(played)
        facts = facts_that_matter(chart.spec, targets, result)
        if facts and not self._passes(
            scenario_text({**keys, "expect": expected(result, facts)}, ())
        ):
            facts = {}
        keys = {**keys, "machine": self._named, "expect": expected(result, facts)}
        text = scenario_text(keys, head(chart, targets))
        return Written(
            file_name(targets[0]), stamped(text), tuple(targets), played.way.end.records, shortest
        )  # fmt: skip

    def _least(self, played: _Played) -> tuple[Mapping[str, Any], Result]:
        """Its keys without what the run does not need to begin with, and what comes of them."""
        keys, result = played.keys, played.report.result
        assert result is not None
        for group, name in [*without_each(keys)]:
            fewer = without(keys, group, name)
            report = self._run({**fewer, "expect": {"path": list(result.path)}})
            if isinstance(report, str) or not report.passed or report.run is None:
                continue
            if played.shown <= shown_by(report.run):
                keys, result = fewer, report.run.result
        return keys, result

    def _passes(self, text: str) -> bool:
        made = read_scenario(text, file="", name="generated", folder=None)
        return self._stage.play(made).passed


def _from(folder: Path, machine: Path) -> str:
    """The machine's path as a scenario in the folder names it."""
    return Path(os.path.relpath(machine.resolve(), folder.resolve())).as_posix()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _fewest(played: Mapping[Target, _Played]) -> Iterator[tuple[_Played, list[Target]]]:
    """Few of them, so that each target is shown by one that is as short as the shortest for it.

    Always the one that does so for most of what is left (lazily: what was worth more before can
    only be worth less now).
    """
    length = {target: one.way.end.length for target, one in played.items()}
    ways = {id(one.way.end): one for one in reversed(played.values())}
    serves = {
        key: {t for t in one.shown if length.get(t, -1) >= one.way.end.length}
        for key, one in ways.items()
    }  # fmt: skip
    order = {key: n for n, key in enumerate(reversed(ways))}
    heap = [(-len(serves[key]), n, key) for key, n in order.items()]
    heapq.heapify(heap)
    left = set(played)
    while left:
        worth, n, key = heapq.heappop(heap)
        new = serves[key] & left
        if len(new) < -worth:
            heapq.heappush(heap, (-len(new), n, key))
            continue
        left -= new
        yield ways[key], sorted(new, key=_order)


def _first(target: Target, of: Target) -> tuple[bool, bool]:
    """A stop is what a person looks for; a plain end shows less than the edge on the way to it."""
    return target.kind != "reason" or target.name == "completed", target != of


def _order(target: Target) -> tuple[bool, str, str]:
    return target.kind != "reason", target.kind, target.name

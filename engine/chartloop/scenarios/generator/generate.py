"""`generate`: from a machine to the scenarios that it lacks, each played and passed.

    covered targets ─▶ missing targets ─▶ search ─▶ play each path ─▶ fewest that show all

Belongs here: the order of these steps. Never: printing, deciding a run.

Source:       issue "Proofs", 4 "Scenarios and coverage"
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from chartloop import catalog
from chartloop.actions.declare import specs_of
from chartloop.actions.undeclared import assumed_in
from chartloop.api import Machine, Own, find_faults, load
from chartloop.core.errors import ChartloopError, SetupError, SpecError, nearest
from chartloop.core.specs import Registry, ToolSpec
from chartloop.core.units import say_number
from chartloop.language.yaml.reading import Document
from chartloop.run.result import Result
from chartloop.run.sync import wait
from chartloop.scenarios.file import read_scenario, scenario_of
from chartloop.scenarios.generator.file_names import file_name, head, stamp_checksum
from chartloop.scenarios.generator.generated_scenarios import Generated, Unreached, Written
from chartloop.scenarios.generator.moves import Moves
from chartloop.scenarios.generator.scenario_keys import (
    expect_result,
    facts_that_matter,
    keys_of,
    without,
    without_each,
)
from chartloop.scenarios.generator.search import WORK, Candidate, OnProgress, Search
from chartloop.scenarios.generator.search_targets import Target, shown_by, targets_of
from chartloop.scenarios.generator.unreached import Reasons, impossible
from chartloop.scenarios.generator.world import World
from chartloop.scenarios.machine_cache import CachingPlayer
from chartloop.scenarios.report import ScenarioReport
from chartloop.scenarios.runner import (
    find_scenarios,
    load_scenario,
    machine_of,
)
from chartloop.scenarios.text import scenario_text
from chartloop.testing.clock import ManualClock

_T = TypeVar("_T")
_Done = TypeVar("_Done")
ADAPTER = "adapter"
"""The tool of a machine with ``tools: "*"`` if its caller gives none."""


def generate(
    machine: str | Path, folder: str | Path = ".", *, tools: Own = (), only: Sequence[str] = (),
    work: int = WORK, run_actions: bool = False, progress: OnProgress | None = None,
) -> Generated:  # fmt: skip
    """Generate the scenarios that a folder lacks to show each edge, rule and stop reason.

        generate("shopper.yaml", "scenarios", tools=[price]).write()

    `machine` is a path or the name of a shipped machine; `tools` are the tools, actions, guards and
    classes that it names. The machine's scenarios in the folder are played first, and what they
    show is not searched for. `only` are ids of edges and rules, or stop reasons, to search for
    whatever is there. `work` bounds the search. Tools are scripted and never called; a custom
    action runs only if it is declared without effects, or with `run_actions`. `progress` is called
    during the search. Ctrl-C ends the search and keeps its results.

    Raises `SpecError` for a machine with faults, `SetupError` if it lacks what it needs to run.
    """
    own = specs_of(tools)
    path = catalog.find(str(machine))
    folder = Path(folder)
    subject = _Subject.of(path, own)
    chart = subject.machine.chart
    targets = targets_of(chart)
    player = CachingPlayer(own)
    if not subject.world_tools:
        player.know(path, subject.machine)
    covered, unread = (
        _covered_targets(folder, path, player) if not only else (frozenset[Target](), ())
    )
    selected = _select_targets(targets, only) if only else targets
    missing = [target for target in selected if target not in covered]
    proven = impossible(chart, missing)
    wanted = frozenset(missing) - proven.keys()
    search = Search(subject.moves(run_own=run_actions), wanted, work, progress or (lambda _: None))
    if wanted:
        _look(search)
    writer = _Writer(subject, path, folder, player)
    reached = [(t, search.candidates[t]) for t in missing if t in search.candidates]
    played = dict(_each(search, reached, lambda one: (one[0], writer.play(*one))))
    passed = {t: p for t, p in played.items() if isinstance(p, _Played)}
    scenarios = tuple(_each(search, list(_fewest(passed)), lambda one: writer.write(
        *one, shortest=search.is_shortest(one[0].candidate)
    )))  # fmt: skip
    shown = {target for one in scenarios for target in one.shows}
    unknown = [t for t in missing if t not in shown and t not in proven]
    left = (*proven.values(), *_explain_missing(unknown, played, search))
    return Generated(
        chart.name, folder, scenarios, covered, selected, left, unread,
        search.moves.tried, work, search.stopped,
    )  # fmt: skip


def _look(search: Search) -> None:
    """Run the search. Ctrl-C ends it and keeps its results; a second Ctrl-C is not caught."""
    try:
        wait(search.run(), suspends=True)
    except KeyboardInterrupt:
        wait(search.stop(), suspends=True)


def _each(search: Search, items: Sequence[_T], work: Callable[[_T], _Done]) -> Iterator[_Done]:
    """Yield `work` of each item. Ctrl-C leaves out the rest."""
    try:
        for number, one in enumerate(items):
            yield work(one)
            search.report(f"{say_number(number + 1)} of {say_number(len(items))} played")
    except KeyboardInterrupt:
        search.stopped = True


def _select_targets(targets: Sequence[Target], only: Sequence[str]) -> tuple[Target, ...]:
    """The targets of these names. `SetupError` for an unknown name."""
    known = {target.name for target in targets}
    for name in only:
        if name not in known:
            hint = nearest(name, known)
            raise SetupError(f"no edge, rule or stop reason is called `{name[:80]}`", hint=hint)
    return tuple(target for target in targets if target.name in only)


def _explain_missing(
    missing: Iterable[Target], played: Mapping[Target, _Played | str], search: Search
) -> Iterator[Unreached]:
    """The reason why each of these targets has no scenario."""
    moves = search.moves
    reasons = Reasons(
        moves.chart, not_run=moves.not_run, tried=moves.tried,
        end="stopped" if search.stopped else "nothing left" if search.ended else "budget",
    )  # fmt: skip
    for target in missing:
        problem = played.get(target)
        if isinstance(problem, str):
            message = f"found, but no scenario can say it: {problem}"
            yield Unreached(target, "not writable", message)
        else:
            yield reasons.of(target)


# the machine --------------------------------------------------------------------------------


class _Subject(NamedTuple):
    """The machine, with a world in place of its tools."""

    machine: Machine
    world: World
    clock: ManualClock
    unknown: tuple[str, ...]
    """The undeclared tools that it names, which a scenario must script."""
    world_tools: bool
    """Whether some of its tools are the world's, so that it cannot play scenarios itself."""

    @classmethod
    def of(cls, path: Path, own: Registry) -> _Subject:
        """Load the machine. Undeclared tools take any arguments."""
        clock = ManualClock()
        world = World(clock)
        machine, findings = find_faults(path, tools=own, assume=True)
        if machine is None:
            raise SpecError(findings)
        assumed = assumed_in(machine.spec)
        names = (name for name in assumed if name.startswith("tool "))
        unknown = tuple(name.removeprefix("tool `").removesuffix("`") for name in names)
        tools: dict[str, ToolSpec | None] = {**own.tools, **dict.fromkeys(unknown)}
        takes_any = any(  # also a child may take every tool of its application
            part.document is not None and "*" in (part.document.data.get("tools") or ())
            for part in machine.spec.family()
            if not part.base
        )
        if takes_any and not own.tools:
            tools[ADAPTER] = None
        # load again without assumptions: they hide what else is missing
        simulated = {name: world.tool(name, known) for name, known in tools.items()}
        machine = load(path, tools=[replace(own, tools=simulated)])
        return cls(machine, world, clock, unknown, bool(tools))

    def moves(self, *, run_own: bool) -> Moves:
        """The moves of its runs."""
        return Moves(self.machine, self.world, self.clock, run_own=run_own)


# existing scenarios -------------------------------------------------------------------------


def _covered_targets(
    folder: Path, machine: Path, player: CachingPlayer
) -> tuple[frozenset[Target], tuple[str, ...]]:
    """The targets that the scenarios of a folder cover, and the scenarios that do not pass."""
    covered: set[Target] = set()
    unread: list[str] = []
    for path in find_scenarios([folder]) if folder.is_dir() else ():
        try:
            made = load_scenario(path)
            if not os.path.samefile(machine_of(made), machine):  # noqa: PTH121
                continue
            report = player.play(made)
        except ChartloopError as error:
            unread.append(f"{catalog.display_path(path)}: {str(error).splitlines()[0]}")
            continue
        if report.passed and report.run is not None:
            covered |= shown_by(report.run)
        else:
            unread.append(f"{catalog.display_path(path)}: it fails")
    return frozenset(covered), tuple(unread)


# new scenarios ------------------------------------------------------------------------------


class _Played(NamedTuple):
    """A path of the search that was played as a scenario and passed."""

    candidate: Candidate
    keys: Mapping[str, Any]
    report: ScenarioReport
    shown: frozenset[Target]
    target: Target
    """The target that it is the shortest for."""


class _Writer:
    """A writer of paths as scenarios, each of which it plays."""

    def __init__(
        self, subject: _Subject, machine: Path, folder: Path, player: CachingPlayer
    ) -> None:
        self._subject = subject
        self._player = player
        shipped = {path: name for name, path in catalog.shipped_machines().items()}
        self._named = (
            shipped.get(machine)
            or Path(os.path.relpath(machine.resolve(), folder.resolve())).as_posix()
        )
        """The machine as the file names it."""
        self._path = shipped.get(machine) or str(machine.resolve())
        """The machine for playing it, as the folder may not exist yet."""
        self._made: dict[int, tuple[Mapping[str, Any], ScenarioReport] | str] = {}

    def play(self, target: Target, candidate: Candidate) -> _Played | str:
        """Play a path as a scenario; a text if no scenario can say it, with the reason."""
        key = id(candidate.end)
        if key not in self._made:
            self._made[key] = self._play(candidate)
        made = self._made[key]
        if isinstance(made, str):
            return made
        keys, report = made
        assert report.run is not None
        shown = shown_by(report.run)
        if target not in shown:
            return "the run of the scenario does not show it"
        return _Played(candidate, keys, report, shown, target)

    def _play(self, candidate: Candidate) -> tuple[Mapping[str, Any], ScenarioReport] | str:
        keys = keys_of(candidate.end.lineage(), self._path)
        unknown: dict[str, list[Any]] = {name: [] for name in self._subject.unknown}
        if unknown:
            keys["tools"] = {**unknown, **keys.get("tools", {})}
        path = [state for node in candidate.end.lineage() for state in node.path]
        report = self._run({**keys, "expect": {"path": path}})
        if isinstance(report, str):
            return report
        return (keys, report) if report.passed else report.problems[0].split("\n")[0]

    def _run(self, keys: Mapping[str, Any]) -> ScenarioReport | str:
        document = Document(_plain(keys), "", "")
        try:
            made = scenario_of(document, name="generated", folder=None)
            return self._player.play(made)
        except ChartloopError as error:
            return str(error).split("\n")[0]

    def write(self, played: _Played, new: Sequence[Target], *, shortest: bool) -> Written:
        """Write the scenario of a path for `new`, the targets that it is the first to show."""
        chart = self._subject.machine.chart
        targets = sorted(  # stops first, as people look for them, but plain ends last
            new, key=lambda t: (t.kind != "reason" or t.name == "completed", t != played.target)
        )
        keys, result = self._least(played)
        facts = facts_that_matter(chart.spec, targets, result)
        if facts and not self._passes(
            scenario_text({**keys, "expect": expect_result(result, facts)}, ())
        ):
            facts = {}
        keys = {**keys, "machine": self._named, "expect": expect_result(result, facts)}
        text = scenario_text(keys, head(chart, targets))
        return Written(
            file_name(targets[0]), stamp_checksum(text), tuple(targets),
            played.candidate.end.records, shortest,
        )  # fmt: skip

    def _least(self, played: _Played) -> tuple[Mapping[str, Any], Result]:
        """The keys without parts of the start that the run does not need, and their result."""
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
        return self._player.play(made).passed


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _fewest(played: Mapping[Target, _Played]) -> Iterator[tuple[_Played, list[Target]]]:
    """Select few paths so that each target is shown by one of the shortest length for it.

    A greedy set cover: always the path that serves most of the remaining targets. It is evaluated
    lazily, as the worth of a path never grows.
    """
    length = {target: one.candidate.end.length for target, one in played.items()}
    distinct = list({id(one.candidate.end): one for one in played.values()}.values())
    serves = [
        {t for t in one.shown if length.get(t, -1) >= one.candidate.end.length} for one in distinct
    ]
    heap = [(-len(served), number) for number, served in enumerate(serves)]
    heapq.heapify(heap)
    left = set(played)
    while left:
        worth, number = heapq.heappop(heap)
        new = serves[number] & left
        if len(new) < -worth:
            heapq.heappush(heap, (-len(new), number))
            continue
        left -= new
        yield distinct[number], sorted(new, key=_order)


def _order(target: Target) -> tuple[bool, str, str]:
    return target.kind != "reason", target.kind, target.name

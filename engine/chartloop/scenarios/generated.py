"""Scenarios for the parts of a machine that no scenario shows yet.

    parts that coverage misses ──query──▶ the prover's path to each ──played──▶ scenario files

The prover's path says which edges to take. It leaves open what the guards read, so real runs look
for it: they try the few replies, results, answers and starts that fit, and keep what follows the
path. A scenario is written only if it passes when it is played from its file and shows its part.

Stand-ins take the place of tools. Only guards and pure actions of the user's code are called.

Belongs here: the search and its report. `least_value` makes values for a schema.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, NamedTuple, cast

from chartloop import catalog
from chartloop.actions import builtin
from chartloop.actions.declare import specs_of
from chartloop.adapters.model.scripted import deliver, parse_replies
from chartloop.analysis.proofs.query import QueryFault
from chartloop.api import Machine, Own, Run, load
from chartloop.core.approvals import EDIT
from chartloop.core.errors import Category, ChartloopError, RunError, ScriptError
from chartloop.core.reports import Part, Report
from chartloop.core.specs import ActionSpec, Effect
from chartloop.core.text_table import Line
from chartloop.core.types import Type
from chartloop.core.units import say_count
from chartloop.language.expression import Expression
from chartloop.language.expression.tree import Const, walk
from chartloop.language.json_schema.least_value import NoLeastValueError, least_value
from chartloop.language.json_schema.of_type import schema_of_type
from chartloop.language.json_schema.validator import Validator
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.pictures.save import write_whole
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.scenarios.file import read_scenario
from chartloop.scenarios.runner import (
    SUFFIX,
    find_scenarios,
    load_scenario,
    machine_of,
    run_scenario,
)
from chartloop.scenarios.scripted_tools import split_delay, stand_in, tool_result
from chartloop.scenarios.text import scenario_text
from chartloop.studies.coverage.collect import NotDecided, Seeing
from chartloop.studies.coverage.targets import Item, items_of
from chartloop.testing.clock import ManualClock

RUNS = 150
"""The most runs that are tried for one part."""
RECORDS = 60
"""The most records of such a run."""
ODD = 4
"""How many plain choices, the first of their menus, are tried before one more of another kind."""
KINDS = ("state", "edge", "rule", "reason")
"""The kinds of parts that a scenario is written for."""
TASK = "Do it."
LOW, LATE = (1, 0), "30d"
"""Low limits, and a delay that exceeds any."""


class Written(NamedTuple):
    """A scenario that was written."""

    file: str
    shows: tuple[str, ...]
    """The parts that no scenario before it shows."""


class Left(NamedTuple):
    """A part without a scenario."""

    part: str
    why: str


@dataclass(frozen=True)
class Generated(Report):
    """The scenarios that were written for a machine, and the parts that are left."""

    machine: str
    parts_in_all: int
    missing: int
    written: tuple[Written, ...] = ()
    left: tuple[Left, ...] = ()

    def parts(self) -> Iterator[Part]:
        """A line for each scenario and each part that is left, and a summary."""
        for file, shows in self.written:
            yield Line(f"+ {file}", "green")
            yield Line(f"    {', '.join(shows)}", "dim")
        for part, why in self.left:
            yield Line(f"- {part}", "yellow")
            yield Line(f"    {why}", "dim")
        new = say_count(len(self.written), "new scenario")
        shown = f", {self.missing - len(self.left)} shown by {new}" if self.missing else ""
        parts = say_count(self.parts_in_all, "part")
        yield Line(f"{self.machine}: {self.missing or 'none'} of {parts} missing{shown}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `chartloop test --generate --format json` prints it."""
        return {
            "machine": self.machine, "parts": self.parts_in_all, "missing": self.missing,
            "written": [{"file": file, "shows": list(shows)} for file, shows in self.written],
            "left": [one._asdict() for one in self.left],
        }  # fmt: skip


def generate(source: Path, folder: Path, own: Own = (), *, runs: int = RUNS) -> Generated:
    """Write scenarios for the missing parts of the machine in a file, into a folder.

    `own` are the machine's tools, actions, guards and classes; `runs` is the most that are tried
    for one part.
    """
    machine = load(source, tools=own)
    every = [item for item in items_of(machine.chart) if item.kind in KINDS]
    shown: set[str] = set()
    folder.mkdir(parents=True, exist_ok=True)
    for path in find_scenarios([folder]):
        try:
            made = load_scenario(path)
            if machine_of(made).resolve() == source.resolve():
                shown |= _keys_of(machine, run_scenario(made, tools=own).run)
        except ChartloopError:  # its own test reports it
            continue
    missing = [item for item in every if item.key not in shown]
    shipped = {path.resolve(): name for name, path in catalog.shipped_machines().items()}
    named = shipped.get(source.resolve()) or os.path.relpath(source.resolve(), folder.resolve())
    search = _Search(source, machine, own)
    written, left = list[Written](), dict[Item, str]()
    for item in missing:
        if item.key in shown:
            continue
        found = search.keys_for(item, runs)
        if isinstance(found, str):
            left[item] = found
            continue
        # The proof of a scenario is its file: it is read and played before it is kept.
        text = scenario_text({"machine": named, **found}, [f"Shows {_say(item)}."])
        name = f"{machine.name}-{item.kind}-{re.sub('[^A-Za-z0-9]+', '-', item.id).strip('-')}"
        path = folder / f"{name}{SUFFIX}"
        made = read_scenario(text, file=str(path), name=name, folder=folder)
        made = replace(made, tools={**dict.fromkeys(search.stands, ()), **made.tools})
        report = run_scenario(made, tools=[search.own])
        shows = _keys_of(machine, report.run)
        if not report.passed or item.key not in shows:
            left[item] = "a run shows it, but no scenario can repeat that run"
        elif path.exists():
            left[item] = f"`{path.name}` exists and says something else"
        else:
            write_whole(path, text.encode())
            fresh = tuple(_say(one) for one in missing if one.key in shows - shown)
            written.append(Written(path.name, fresh))
            shown |= shows
    rest = tuple(Left(_say(item), why) for item, why in left.items() if item.key not in shown)
    return Generated(machine.name, len(every), len(missing), tuple(written), rest)


def _say(item: Item) -> str:
    return f"{item.kind} {item.id}"


def _keys_of(machine: Machine, run: Run | None) -> set[str]:
    seeing = Seeing(machine.chart)
    if run is None:
        return set()
    try:
        seeing.add(run.id, run.records)
    except NotDecided:
        return set()
    return {key for key, times in seeing.counts.items() if times}


# searching ----------------------------------------------------------------------------------


class _Choice(NamedTuple):
    """An input that a run got from outside, in the order in which it asked."""

    kind: str
    """`start`, `reply`, `send`, or a tool's name after `tool:`."""
    value: Any


class _Played(NamedTuple):
    """A run with given choices."""

    run: Run
    menu: Sequence[_Choice]
    """The choices for the next question; empty if the run ended or rests."""
    made: Sequence[_Choice]


class _Script:
    """The model and the tools of a run: they give the choices in order, then ask for the next."""

    suspends = False

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.chosen: Sequence[_Choice] = ()
        self.made: list[_Choice] = []
        self.menu: Sequence[_Choice] = ()
        self.replies: Callable[[ModelRequest], Iterable[Any]] = lambda _: ()

    def take(self, menu: Iterable[_Choice]) -> Any:
        """The next choice. `ScriptError` after the last: `menu` holds those that may follow."""
        if len(self.made) == len(self.chosen):
            self.menu = list(menu)
            raise ScriptError("the next choice is open")
        self.made.append(self.chosen[len(self.made)])
        return self.made[-1].value

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Do nothing: choices need no settings."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """The window that the file sets."""
        return settings.get("context_window")

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """The chosen reply."""
        reply = self.take(_Choice("reply", one) for one in self.replies(request))
        (read,), _ = parse_replies([reply])
        return await deliver(read, request, self._clock, on_text)

    def tool(self, name: str, results: Callable[[], Iterable[Any]]) -> Callable[..., Any]:
        """The body of a tool, which gives the chosen result."""

        async def give(**_: Any) -> Any:
            chosen = self.take(_Choice(f"tool:{name}", one) for one in results())
            result, delay = split_delay(chosen)
            if delay:
                await self._clock.sleep(delay)
            return tool_result(result)

        return give


class _Search:
    """Runs of one machine that follow the prover's paths."""

    def __init__(self, source: Path, machine: Machine, own: Own) -> None:
        self._clock, self._questions = ManualClock(), machine
        self._script = _Script(self._clock)
        self._script.replies = self._replies
        self._words: list[Any] = []
        self._broken = ""
        given, known, family = specs_of(own), builtin(), list(machine.spec.family())
        named = {tool for spec in family for tool in spec.tools} - {*machine.spec.machines}
        named |= {s.named_tool for spec in family for s in spec.states.values() if s.named_tool}
        tools = {name: given.tools.get(name) or known.tools.get(name) for name in named}
        self.stands = {
            name: stand_in(name, tool, self._script.tool(name, self._results))
            for name, tool in tools.items()
            if tool is None or name in given.tools or tool.effect is not Effect.PURE
        }
        """The tools that are never called."""
        actions = {n: a if a.effect is Effect.PURE else _unrun(a) for n, a in given.actions.items()}
        self.own = replace(given, actions=actions)
        """The user's code without actions that have effects."""
        registry = replace(self.own, tools={**given.tools, **self.stands})
        self._machine = load(source, tools=[registry])
        self._parsing = [s for s in self._machine.spec.states.values() if s.traits.reads_reply]

    def keys_for(self, item: Item, runs: int) -> dict[str, Any] | str:
        """A scenario that shows a part, as plain data, or the reason why none was found."""
        sort = "edge" if item.kind == "rule" else item.kind
        path: tuple[str, ...] = ()
        states: tuple[str, ...] = (item.source,)
        try:
            answer = self._questions.query(f"reach {sort}:{item.id}", cancels=False)
            if not answer:
                return f"proven: {answer.reason}" if answer.holds is False else answer.reason
            path, states = answer.edges, (*answer.witness, item.source)
        except QueryFault:  # a signal, or an error that the file routes: no edge of a path
            pass
        spec = self._machine.spec
        leaving = [edge for edge in spec.edges() if edge.source in states]
        guards = [g for edge in leaving for g in (edge.when, spec.states[edge.source].of)]
        guards += [rule.when for rule in spec.rules if rule.id in (*path, item.id)]
        guards += [] if spec.approve is None else [spec.approve.when]
        self._words = list(dict.fromkeys(_constants(guard for guard in guards if guard)))
        guards += [rule.when for rule in spec.rules]
        starts = list(self._starts([guard for guard in guards if guard]))
        self._broken, tried, order = "", 0, len(starts)
        # The runs that follow the path farthest come first, then those of plain and few choices.
        plain = [_Choice("start", start) for start in starts]
        queue = [((0, ODD if n else 0, n), [start]) for n, start in enumerate(plain)]
        best: tuple[int, str] = (-1, "")
        while queue and tried < runs:
            (_, odd, _), chosen = heappop(queue)
            tried += 1
            played = self._play(chosen)
            if played is None:
                continue
            taken = [id for record in played.run.records for id in record.taken]
            far = _followed(path, taken)
            shows = item.key in _keys_of(self._machine, played.run)
            if shows and not played.menu:
                return self._keys(played)
            if far > best[0]:
                best = (far, played.run.state)
            for n, choice in enumerate(played.menu):
                order += 1
                cost = (-far - RECORDS * shows, odd + (ODD if n else 1), order)
                heappush(queue, (cost, [*chosen, choice]))
        where = f"; the nearest one got to `{best[1]}`" if best[1] else ""
        way = f" by the path {' → '.join(states[:-1])}" if path else ""
        return f"none of {say_count(tried, 'run')} got there{way}{where}{self._broken}"

    # one run --------------------------------------------------------------------------------

    def _play(self, chosen: Sequence[_Choice]) -> _Played | None:
        """A run with these choices; None if it refuses one of them."""
        script, clock = self._script, self._clock
        script.chosen, script.made, script.menu = chosen, [], ()
        clock.set(ManualClock().now())
        run = None
        try:
            start = script.take(())
            run = self._machine.start(model=script, clock=clock, **start)
            for _ in range(RECORDS):
                question = run.question if run.status == "paused" else None
                if question is not None:
                    answer = script.take(_Choice("send", one) for one in _answers(run))
                    if answer is not None:
                        script.made[-1] = _Choice("send", {
                            "after": run.facts.run.steps, "at": question.state, **answer,
                        })  # fmt: skip
                        run.send(answer["send"], answer.get("data", {}))
                if run.ended or run.advance() is None:
                    break
            else:
                return None
        except ScriptError as error:
            if not script.menu:
                self._broken = f"; {error}"
                return None
        except RunError:
            return None
        return None if run is None else _Played(run, script.menu, script.made)

    def _keys(self, played: _Played) -> dict[str, Any]:
        """A scenario of a run, without its machine."""
        made, result = played.made, played.run.result
        tools: dict[str, list[Any]] = {}
        for kind, value in made:
            if kind.startswith("tool:"):
                tools.setdefault(kind[5:], []).append(value)
        reason = {} if result.reason is None else {"reason": str(result.reason)}
        keys = {
            **made[0].value,
            "replies": [value for kind, value in made if kind == "reply"], "tools": tools,
            "events": [value for kind, value in made if kind == "send" and value is not None],
            "expect": {**reason, "kind": result.kind, "path": list(result.path)},
        }  # fmt: skip
        return {name: value for name, value in keys.items() if value}

    # menus ----------------------------------------------------------------------------------

    def _starts(self, guards: Sequence[Expression]) -> Iterator[dict[str, Any]]:
        """The plain start, then starts with another limit or variable that a guard reads."""
        spec = self._machine.spec
        plain = {"task": TASK, **({"submitter": "ann"} if spec.needs_submitter else {})}
        yield plain
        reads = dict.fromkeys(name for guard in guards for name in sorted(guard.reads))
        for root, _, name in (read.partition(".") for read in reads):
            if (root, name) == ("run", "task"):
                yield {**plain, "task": ""}
            elif root == "limits" and name in spec.limits:
                for value in LOW:
                    yield {**plain, "limits": {name: value}}
            elif root == "vars" and name in spec.vars:
                for value in (True, False, *self._words, self._words[:1]):
                    yield {**plain, "vars": {name: value}}

    def _replies(self, request: ModelRequest) -> Iterator[Any]:
        if request.output is not None:
            yield from (json.dumps(value) for value in self._values(request.output))
        else:
            yield from (_readable(self._machine.spec, state) for state in self._parsing)
            yield "Done."
            yield from (word for word in self._words if isinstance(word, str))
        for tool in request.tools:
            for value in self._values(tool["function"]["parameters"]):
                yield {"tool_calls": [{"name": tool["function"]["name"], "arguments": value}]}
        for category in Category:
            yield {"error": {"category": str(category), "message": "it failed"}}
        yield {"text": "Done.", "usage": {"prompt_tokens": 9, "completion_tokens": 9, "cost": 9.0}}
        yield {"text": "Done.", "delay": LATE}

    def _results(self) -> Iterator[Any]:
        yield "ok"
        yield {"error": "it failed"}
        yield from self._words
        yield {"stop": "enough"}
        yield {"delay": LATE, "result": "ok"}

    def _values(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        """The least value of a schema, then values that differ in one property."""
        try:
            least = least_value(schema)
        except NoLeastValueError as error:
            self._broken = f"; no value was made for a schema: {error}"
            return
        yield least
        properties: Mapping[str, Any] = schema.get("properties") or {}
        if not isinstance(least, dict):
            return
        validator, whole = Validator(schema), cast("dict[str, Any]", least)
        with suppress(NoLeastValueError):
            whole = least_value({**schema, "required": list(properties)})
            yield whole
        for name, part in properties.items():
            words: Sequence[Any] = part.get("enum", ()) if part not in (True, False) else ()
            for value in (*words, True, *self._words):
                if not validator.faults(one := {**whole, name: value}):
                    yield one


def _answers(run: Run) -> Iterator[dict[str, Any] | None]:
    """The answers that the wait of a run accepts, and silence."""
    question = run.question
    assert question is not None
    for event in question.answers:
        fields = {name: _field(type) for name, type in question.fields(event).items()}
        data = {name: value for name, value in fields.items() if value is not None}
        if question.calls and event == EDIT:
            data["calls"] = {
                call["key"]: {"arguments": json.loads(call["arguments"])}
                for call in question.calls[:1]
            }
        yield {"send": event, **({"data": data} if data else {})}
    yield None


def _readable(spec: MachineSpec, state: StateSpec) -> str:
    """A reply that a state which parses replies can read: one JSON value, or tags and fences."""
    whole: Any = {}
    texts: list[str] = []
    for name, given in state.args.items():
        rule = {"json": ""} if given.value == "json" else given.value
        value = _field(spec.vars[name.removeprefix("vars.")].type)
        if "json" in rule:
            *above, last = str(rule["json"] or "").split(".")
            inner = whole
            for part in above:
                inner = inner.setdefault(part, {})
            inner[last] = value
            whole = whole if last else value
        elif "fence" in rule:
            texts.append(f"```{rule['fence'] or ''}\nprint(1)\n```")
        else:
            text = "Status: ok" if rule.get("as") == "pairs" else str(value)
            texts.append(f"<{rule['tag']}>\n{text}\n</{rule['tag']}>")
    return "\n".join(texts) or json.dumps(whole)


def _field(type: Type) -> Any:
    """The least value of a field of an answer; None for one that may be left out."""
    if type.nullable:
        return None
    schema = schema_of_type(type)
    return least_value({**schema, "minLength": 1} if schema.get("type") == "string" else schema)


def _constants(guards: Iterable[Expression]) -> Iterator[Any]:
    """The texts that guards compare with, and the numbers next to theirs."""
    for guard in guards:
        for node in walk(guard.root):
            if isinstance(node, Const) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, Const) and isinstance(node.value, (int, float)):
                yield from (node.value, node.value + 1, node.value - 1)


def _followed(path: Sequence[str], taken: Iterable[str]) -> int:
    """How many edges of a path a run has taken, in their order."""
    far = 0
    for id in taken:
        far += far < len(path) and id == path[far]
    return far


def _unrun(action: ActionSpec) -> ActionSpec:
    """An action of the user that has effects, which is not run."""

    async def refuse(*_: Any, **__: Any) -> Any:
        raise ScriptError(f"the action `{action.name}` has effects, and is not run")

    return replace(action, run=refuse)

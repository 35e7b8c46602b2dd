"""`generate`: each scenario passes and shows the parts that it names; each other part has a reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import Context, action, catalog, load, tool
from chartloop.api import Machine
from chartloop.core.outcome import Outcome
from chartloop.scenarios import Generated, generate, run_scenario
from chartloop.studies.coverage.gather import Gathering
from tests.unit.test_least_value import CASES as SCHEMAS

KINDS = ("state", "edge", "rule", "reason")
CALLED: list[str] = []


@tool
def pay(to: str, usd: float) -> str:
    """Pay."""
    CALLED.append(f"{to} {usd}")
    return "paid"


@action(effect="paid")
async def file_it(ctx: Context) -> Outcome:
    """File it."""
    del ctx
    CALLED.append("filed")
    return Outcome()


def shown_by(machine: Machine, folder: Path, files: Any, own: Any = ()) -> dict[str, set[str]]:
    """The keys that the coverage of each file has, played anew; a failing file is an error."""
    out: dict[str, set[str]] = {}
    for file in files:
        report = run_scenario(folder / file, tools=own)
        assert report.passed, str(report)
        assert report.run is not None
        gathering = Gathering()
        gathering.know(machine.chart, report.run.machine.hash)
        gathering.add("r", report.run.machine.hash, report.run.records)
        covered = next(c for c in gathering.coverages() if c.machine == machine.name).covered
        out[file] = {c.item.key for c in covered if c.times and c.item.kind in KINDS}
    return out


def sound(made: Generated, machine: Machine, folder: Path, own: Any = ()) -> None:
    """Every scenario shows what it says, and every part is shown or left with a reason."""
    shown = shown_by(machine, folder, [one.file for one in made.written], own)
    for one in made.written:
        assert {part.replace(" ", ":", 1) for part in one.shows} <= shown[one.file], one
    seen = set[str]().union(*shown.values())
    left = {one.part.replace(" ", ":", 1) for one in made.left}
    assert all(one.why for one in made.left)
    assert not left & seen
    gathering = Gathering()
    gathering.know(machine.chart)
    every = {c.item.key for c in gathering.coverages()[0].covered if c.item.kind in KINDS}
    assert (seen & every) | left == every
    assert made.missing == len(every) == made.parts_in_all


def write(folder: Path, text: str) -> Path:
    path = folder / "it.yaml"
    path.write_text(text)
    return path


HEAD = "chartloop: 1\nmachine: it\nmodel: {name: scripted}\n"


class Case(NamedTuple):
    """A machine, and the parts that are left, each with a word of its reason."""

    id: str
    text: str
    left: Mapping[str, str] = {}


CASES = [
    Case("an-answer-silence-and-a-retry", HEAD + """\
limits: {steps: 9}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  think: {do: infer, retry: {times: 1, base: 1s}, failed: sorry, next: wait}
  wait: {ask: "OK?", on: {yes: done, no: think}, within: 1h, expired: sorry}
  sorry: {stop: error_threshold}
  done: {stop: completed}
"""),
    Case("a-case-for-each-word-of-a-schema", HEAD + """\
vars: {topic: ""}
states:
  read:
    do: infer
    with: {output: {type: object, properties: {topic: {enum: [refund, question]}, day: {type: string, format: date}}, required: [topic, day]}}
    save: {vars.topic: result.data.topic}
    next: route
  route: {ask: "Topic?", of: vars.topic, cases: {refund: a, question: b}, else: c}
  a: {stop: completed}
  b: {stop: completed}
  c: {stop: completed}
""", {"state c": "none of", "edge route.else": "none of"}),
    Case("a-variable-and-a-limit-at-the-start", HEAD + """\
vars: {n: 0, on: false}
limits: {few: 50}
rules: [{when: run.visits.think >= limits.few, stop: custom}]
states:
  think: {do: infer, next: [{when: vars.n > 7, to: many}, {when: vars.on, to: many}, {when: last.text == "again", to: think}, done]}
  many: {stop: no_progress}
  done: {stop: completed}
"""),
    Case("a-signal-of-a-rule-and-a-detour", HEAD + """\
limits: {tokens: 900}
rules:
  - {when: errors.total >= 1, signal: error_threshold}
  - {when: usage.total_tokens >= limits.tokens and run.visits.trim < 1, to: trim}
states:
  think: {do: infer, failed: next, next: done}
  trim: {do: checkpoint, next: return}
  done: {stop: completed}
"""),
    Case("a-guard-that-never-holds", HEAD + """\
ignore: [{code: CL326, reason: a test}, {code: CL304, reason: a test}, {code: CL329, reason: a test}]
states:
  think: {do: infer, next: [{when: run.steps < 0, to: done}, other]}
  other: {do: nothing, next: done}
  done: {stop: completed}
""", {"edge think.next.0": "proven: no path leads to"}),
    Case("a-state-that-no-path-leads-to", HEAD + """\
ignore: [{code: CL304, reason: a test}]
states:
  think: {do: infer, next: done}
  lost: {do: nothing, next: done}
  done: {stop: completed}
""", {"state lost": "proven: no path leads to `lost`", "edge lost.next.0": "proven: no path leads"}),
    Case("a-schema-without-a-value", HEAD + """\
states:
  think: {do: infer, with: {output: {type: object, properties: {n: {type: integer, allOf: [{minimum: 3}, {maximum: 2}]}}, required: [n]}}, next: done}
  done: {stop: completed}
""", dict.fromkeys(("state done", "edge think.next.0", "reason completed"), "no value was made for a schema: `n`: no value was found")),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_written_and_what_is_left(case: Case, tmp_path: Path) -> None:
    path = write(tmp_path, case.text)
    made = generate(path, tmp_path)
    sound(made, load(path), tmp_path)
    left = {one.part: one.why for one in made.left}
    assert left.keys() == case.left.keys(), left
    assert all(word in left[part] for part, word in case.left.items()), left
    again = generate(path, tmp_path)
    assert (again.written, again.missing) == ((), len(case.left))


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda case: case.id)
def test_a_reply_fits_an_ordinary_schema(schema: Any, tmp_path: Path) -> None:
    output = {"type": "object", "properties": {"v": schema.schema}, "required": ["v"]}
    if "$defs" in schema.schema:
        output |= {"$defs": schema.schema["$defs"]}
    think = {"do": "infer", "with": {"output": output}, "next": "done"}
    data = {"chartloop": 1, "machine": "it", "model": {"name": "scripted"},
            "states": {"think": think, "done": {"stop": "completed"}}}  # fmt: skip
    made = generate(write(tmp_path, json.dumps(data)), tmp_path)
    assert made.left == ()
    sound(made, load(tmp_path / "it.yaml"), tmp_path)


QUICK = ("agent", "geist_tick", "lifecycle", "step_choice", "team")


@pytest.mark.parametrize("name", QUICK)
def test_shipped_machines(name: str, tmp_path: Path) -> None:
    made = generate(catalog.find(name), tmp_path)
    assert made.written
    sound(made, load(name), tmp_path)


@pytest.mark.slow("plays thousands of runs")
@pytest.mark.parametrize("name", sorted(set(catalog.shipped_machines()) - set(QUICK)))
def test_the_other_shipped_machines(name: str, tmp_path: Path) -> None:
    made = generate(catalog.find(name), tmp_path)
    assert made.written
    sound(made, load(name), tmp_path)


CALLS = HEAD + """\
tools: [pay]
approve: {tools: [pay], by: the boss, not_by: submitter, edit: true, when: call.arguments.usd > 100}
states:
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""  # fmt: skip


def test_tools_are_never_called_and_approvals_are_answered(tmp_path: Path) -> None:
    CALLED.clear()
    path = write(tmp_path, CALLS)
    made = generate(path, tmp_path, [pay])
    assert not CALLED
    assert [one.part for one in made.left] == ["edge act_edited.next.1"]
    sound(made, load(path, tools=[pay]), tmp_path, [pay])


def test_an_action_with_effects_is_not_run(tmp_path: Path) -> None:
    CALLED.clear()
    text = (
        HEAD
        + "states:\n  think: {do: infer, next: file}\n  file: {do: file_it, next: done}\n  done: {stop: completed}\n"
    )
    path = write(tmp_path, text)
    made = generate(path, tmp_path, [file_it])
    assert not CALLED
    assert {one.part for one in made.left} >= {"state done", "edge file.next.0"}
    said = "the action `file_it` has effects, and is not run"
    assert all(one.why.endswith(said) for one in made.left)


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path, CASES[0].text)
    first = generate(path, tmp_path).written[0]
    mine = "machine: it.yaml\ntask: mine\nexpect: {reason: completed}\n"
    (tmp_path / first.file).write_text(mine)
    again = generate(path, tmp_path)
    assert (tmp_path / first.file).read_text() == mine
    assert all(one.file != first.file for one in again.written)


def test_a_scenario_names_the_machine_from_its_folder(tmp_path: Path) -> None:
    path = write(tmp_path, CASES[0].text)
    made = generate(path, tmp_path / "more" / "found")
    text = (tmp_path / "more" / "found" / made.written[0].file).read_text()
    assert 'machine: "../../it.yaml"' in text
    shipped = generate(catalog.find("lifecycle"), tmp_path / "shipped").written[0]
    assert "machine: lifecycle\n" in (tmp_path / "shipped" / shipped.file).read_text()

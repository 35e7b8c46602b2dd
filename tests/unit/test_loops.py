"""A state with `for` goes through a list in order: what it does, is drawn as, costs, and refuses."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from chartloop import load
from chartloop.core.errors import Finding, SpecError
from chartloop.language.dump import canonical

PLAN = """chartloop: 1
machine: m
model: {name: scripted}
vars: {plan: {type: "list[str]", value: []}%s}
output: {item: vars.step, at: vars.steps_at}
states:
  make: {do: infer, with: {output: {type: object, properties: {steps: {type: array, items: {type: string}}}, required: [steps]}},
         save: {vars.plan: result.data.steps}, next: steps}
  steps: {for: vars.step, in: vars.plan, %seach: carry_out, then: done}
  carry_out: {do: prompt, with: {user: "Do {{ vars.step }}", keep: true}, %snext: steps}
%s  done: {stop: completed}
"""


def plan(*, vars: str = "", most: str = "most: 5, ", more: str = "", states: str = "") -> str:
    return PLAN % (vars, most, more, states)


def reply(*items: Any) -> str:
    return json.dumps({"steps": list(items)})


def users(result: Any) -> list[str]:
    return [m["content"] for m in result.messages if m["role"] == "user"]


def errors(text: str) -> list[Finding]:
    with pytest.raises(SpecError) as caught:
        load(text)
    return [f for f in caught.value.findings if f.is_error]


@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_each_item_is_done_once_and_in_order(count: int) -> None:
    items = [f"item {n}" for n in range(count)]
    run = load(plan()).start("x", script=[reply(*items)])
    result = run.run()
    assert (result.reason, result.path.count("carry_out")) == ("completed", count)
    assert result.output == {"item": items[-1] if items else "", "at": count}
    assert [t.removeprefix("Do ") for t in users(result) if t.startswith("Do ")] == items
    assert run.replay().same


def test_a_list_longer_than_most_is_done_as_far_as_that() -> None:
    result = load(plan()).run("x", script=[reply(*"abcdefgh")])
    assert (result.path.count("carry_out"), result.output["item"]) == (5, "e")


def test_the_list_is_read_when_the_loop_begins() -> None:
    grown = plan(states="  grow: {set: {vars.plan: {append: '\"more\"'}}, next: steps}\n").replace(
        "keep: true}, next: steps", "keep: true}, next: grow"
    )
    assert load(grown).run("x", script=[reply("a", "b")]).path.count("carry_out") == 2


def test_a_new_list_inside_begins_the_loop_anew() -> None:
    text = plan(
        vars=", rounds: 0",
        states="""  judge: {ask: "Anew?", when: 'vars.step == "b" and vars.rounds < 1', then: replan, else: steps}
  replan: {do: nothing, set: {vars.plan: '["x", "y"]', vars.rounds: vars.rounds + 1}, next: steps}
""",
    ).replace("keep: true}, next: steps", "keep: true}, next: judge")
    result = load(text).run("x", script=[reply("a", "b", "c")])
    assert [t[3:] for t in users(result) if t.startswith("Do ")] == ["a", "b", "x", "y"]


def test_a_loop_that_was_left_begins_with_its_first_item_again() -> None:
    text = (
        plan(vars=", rounds: 0")
        .replace(
            "keep: true}, next: steps",
            "keep: true}, next: [{when: 'vars.step == \"b\" and vars.rounds < 1', to: out}, steps]",
        )
        .replace("  done:", "  out: {set: {vars.rounds: vars.rounds + 1}, next: make}\n  done:")
    )
    result = load(text).run("x", script=[reply("a", "b", "c"), reply("a", "b", "c")])
    assert [t[3:] for t in users(result) if t.startswith("Do ")] == ["a", "b", "a", "b", "c"]


NEST = """chartloop: 1
machine: m
vars: {out: {type: "list[str]", value: []}}
output: vars.out
states:
  rows: {for: vars.row, in: '[["a", "b"], [], ["c"]]', each: cells, then: done}
  cells: {for: vars.cell, in: vars.row, most: 3, each: keep, then: rows}
  keep: {%s set: {vars.out: {append: vars.cell}}, next: cells}
  done: {stop: completed}
"""


@pytest.mark.parametrize("body", ["do: nothing,", ""], ids=["action", "no-action"])
def test_a_loop_in_a_loop_goes_through_the_outer_item(body: str) -> None:
    machine = load(NEST % body)
    assert list(machine.run("x").output) == ["a", "b", "c"]
    assert machine.bound()["actions"].value == (9 if body else 0)


def test_a_detour_inside_the_loop_comes_back_to_the_next_item() -> None:
    text = plan(
        states="  aside: {do: nothing, next: return}\n",
    ).replace(
        "states:",
        "rules: [{when: 'run.visits.aside < 1 and run.steps > 1', to: aside}]\nstates:",
        1,
    )
    result = load(text).run("x", script=[reply("a", "b", "c")])
    assert "aside" in result.path
    assert [t[3:] for t in users(result) if t.startswith("Do ")] == ["a", "b", "c"]


def test_an_item_that_fails_goes_to_the_next() -> None:
    text = plan(more="failed: steps, ").replace("Do {{ vars.step }}", "Do {{ vars.plan[vars.n] }}")
    text = text.replace("value: []}", "value: []}, n: 7").replace("output:", "output:")
    result = load(text.replace("{item: vars.step, ", "{item: vars.step, n: vars.n, ")).run(
        "x", script=[reply("a", "b")]
    )
    assert (result.reason, result.path.count("carry_out")) == ("completed", 2)
    assert "index 7 is out of range: the list has 2 elements" in str(result.errors[0])


def test_the_bound_counts_the_items_and_says_what_cures_one_that_cannot() -> None:
    assert load(plan()).bound()["actions"].value == 6
    endless = load(
        plan(most="")
        .replace("do: prompt", "do: infer")
        .replace('user: "Do {{ vars.step }}", keep: true', "")
    )
    assert endless.bound()["actions"].value is None
    (found,) = [f for f in endless.findings if f.code == "CL316"]
    assert "write `most: 20` in `steps`" in found.hint


def test_an_endless_loop_round_a_list_names_what_is_paid_in_it() -> None:
    machine = load(
        """
chartloop: 1
machine: m
model: {name: scripted}
vars: {seen: {type: 'list[str]', value: []}}
states:
  begin: {do: receive, next: again}
  again: {do: nothing, next: each}
  each: {for: vars.one, in: [a], each: think, then: after}
  think: {do: infer, next: each, failed: z}
  after: {do: nothing, next: again}
  z: {stop: error}
""".lstrip()
    )
    (found,) = [f for f in machine.findings if f.code == "CL316"]
    assert "`think` can repeat without end" in found.message
    assert " → think → " in found.message


def test_a_written_list_bounds_itself_and_its_words_are_known() -> None:
    text = plan(most="").replace("in: vars.plan", "in: [red, green]")
    assert load(text).bound()["actions"].value == 3
    wrong = text.replace(
        "next: steps}\n  done", "next: [{when: 'vars.step == \"gren\"', to: done}, steps]}\n  done"
    )
    assert [f.code for f in errors(wrong)] == ["CL114"]


def test_the_canonical_form_is_the_same_machine() -> None:
    for text in (plan(), NEST % ""):
        machine = load(text)
        again = load(canonical(machine.spec))
        assert again.spec == machine.spec
        assert again.hash == machine.hash


class Wrong(NamedTuple):
    """A machine with a mistake in its loop, and where it is told."""

    change: tuple[str, str]
    code: str
    at: str


@pytest.mark.parametrize(
    "case",
    [
        Wrong(("in: vars.plan", "in: vars.plam"), "CL103", "vars.plam"),
        Wrong(("in: vars.plan", "in: run.steps"), "CL116", "run.steps"),
        Wrong(("in: vars.plan, ", ""), "CL202", "for"),
        Wrong((", then: done}\n  c", "}\n  c"), "CL202", "for"),
        Wrong(("each: carry_out", "each: cary_out"), "CL301", "cary_out"),
        Wrong(("then: done}\n  c", "then: doone}\n  c"), "CL301", "doone"),
        Wrong(("for: vars.step", "for: step"), "CL116", "step"),
        Wrong(("most: 5", "most: 0"), "CL116", "0"),
        Wrong(("most: 5", "most: run.task"), "CL104", "run.task"),
        Wrong(("most: 5", "do: nothing"), "CL207", "do"),
        Wrong(("vars: {plan", "vars: {steps_at: 1, plan"), "CL116", "steps"),
        Wrong(("vars: {plan", "vars: {step: 1, plan"), "CL104", "vars.step"),
        Wrong(("  done:", "  steps_next: {next: done}\n  done:"), "CL116", "steps"),
    ],
    ids=lambda case: case.change[1].strip()[:30],
)  # fmt: skip
def test_a_mistake_is_told_at_its_place(case: Wrong) -> None:
    text = plan()
    assert case.change[0] in text
    found = errors(text.replace(*case.change, 1))
    told = {(f.code, f.place.text[f.place.column - 1 :][: f.place.width]) for f in found}
    assert any(code == case.code and case.at in marked for code, marked in told), told

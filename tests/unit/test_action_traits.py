"""Actions say what they are: a built-in one that says less is refused, and nobody goes by names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest

import chartloop
from chartloop import SetupError, action, load, tool
from chartloop.actions import builtin, with_own
from chartloop.actions.declare import Name, action_spec, specs_of
from chartloop.actions.infer import complete
from chartloop.actions.registry import check_traits
from chartloop.core.conversation import user
from chartloop.core.outcome import Outcome
from chartloop.core.specs import ActionSpec, ArgSpec
from chartloop.core.traits import (
    ASKS_MODEL,
    BY_FIELDS,
    NO_ACTION,
    OUTSIDE,
    RUNS_CHILD,
    SURE,
    UNDECLARED,
    ActionTraits,
    Count,
)
from chartloop.core.types import STR
from chartloop.machine.abstract.signals import hands_down
from chartloop.run.context import Context

QUIET = BY_FIELDS
NEEDED = [field.name for field in fields(ActionTraits) if field.default is MISSING]


def made(traits: ActionTraits | None, **given: Any) -> ActionSpec:
    return ActionSpec("made_up", None, declares=traits, **given)


# what is declared ---------------------------------------------------------------------------


def test_every_built_in_action_declares_its_traits(subtests: pytest.Subtests) -> None:
    for name, spec in builtin().actions.items():
        with subtests.test(name):
            check_traits(spec)
            assert spec.is_builtin
            assert spec.traits is spec.declares


@pytest.mark.parametrize("trait", NEEDED)
def test_a_trait_that_is_left_out_is_named(trait: str) -> None:
    given = {name: getattr(QUIET, name) for name in NEEDED if name != trait}
    with pytest.raises(TypeError, match=f"'{trait}'"):
        ActionTraits(**given)


def test_an_action_without_traits_is_no_built_in_one() -> None:
    with pytest.raises(SetupError, match="`made_up` does not declare its traits"):
        check_traits(made(None))


class Wrong(NamedTuple):
    """Traits that the rest of a spec contradicts."""

    id: str
    trait: str
    says: dict[str, Any]
    spec: dict[str, Any]


TOOL = ArgSpec("which", "name", names="tool")
CHILD = ArgSpec("which", "name", names="machine")
WRONG = [
    Wrong("uses-a-model", "asks", {}, {"uses": frozenset({"model"})}),
    Wrong("may-use-a-model", "asks", {}, {"may_use": frozenset({"model"})}),
    Wrong("uses-no-model", "asks", {"asks": "reply"}, {}),
    Wrong("names-a-tool", "calls", {}, {"args": (TOOL,)}),
    Wrong("names-no-tool", "calls", {"calls": "named"}, {}),
    Wrong("names-a-child", "runs", {}, {"args": (CHILD,)}),
    Wrong(
        "names-children", "runs", {},
        {"args": (ArgSpec("children", "fields", fields=(CHILD,)),)},
    ),
    Wrong("names-no-child", "runs", {"runs": "one"}, {"may_wait": True}),
    Wrong("may-wait", "waits", {}, {"may_wait": True}),
    Wrong("never-waits", "waits", {"waits": ("for", 1.0)}, {}),
    Wrong("waits-by-no-field", "waits", {"waits": ("for", 1.0)}, {"may_wait": True}),
    Wrong("continues", "continues", {}, {"changes": frozenset({"run.continuations"})}),
    Wrong("never-continues", "continues", {"continues": "times"}, {}),
    Wrong("adopts-by-no-field", "adopts", {"adopts": "map"}, {}),
    Wrong(
        "asks-by-no-field", "asks_if", {"asks": "text", "asks_if": ("how", "so")},
        {"may_use": frozenset({"model"})},
    ),
    Wrong("is-no-inference", "step", {"step": "llm-inference"}, {}),
    Wrong("calls-no-tool", "step", {"step": "tool-call"}, {}),
    Wrong("edits-no-memory", "step", {"step": "memory-update"}, {}),
]  # fmt: skip


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.id)
def test_traits_that_the_spec_contradicts_are_refused(case: Wrong) -> None:
    spec = made(replace(QUIET, **case.says), **case.spec)
    with pytest.raises(SetupError, match=f"`made_up` declares `{case.trait}` as") as found:
        check_traits(spec)
    assert "chartloop.core.traits" in str(found.value)
    with pytest.raises(SetupError, match=case.trait):
        with_own(specs_of(spec))


def test_the_error_says_what_the_step_needs() -> None:
    with pytest.raises(SetupError) as found:
        check_traits(made(replace(QUIET, step="llm-inference")))
    assert "that is for an action that asks the model" in str(found.value)


def test_an_action_that_asks_for_a_text_can_be_a_step_of_inference() -> None:
    traits = replace(QUIET, asks="text", step="llm-inference")
    check_traits(made(traits, uses=frozenset({"model"})))


def test_traits_can_be_hashed_and_compared() -> None:
    counts = (Count("progress.cycles", 0, 1),)
    one, other = (replace(QUIET, counts=counts, asks_if=("how", "so")) for _ in range(2))
    assert hash(made(one).declares) == hash(other)
    assert one == other


# an application's own -----------------------------------------------------------------------


@action(name="nothing")
def own_nothing(ctx: Context) -> str:
    """Takes the name of a built-in action."""
    del ctx
    return "done"


@pytest.mark.parametrize("field", ["asks", "calls", "runs", "continues", "waits", "writes"])
def test_nothing_is_known_of_an_own_action(field: str) -> None:
    spec = specs_of(own_nothing).actions["nothing"]
    assert not spec.is_builtin
    assert getattr(spec.traits, field) == getattr(UNDECLARED, field)
    assert getattr(UNDECLARED, field) == getattr(NO_ACTION, field)


@action(traits=ASKS_MODEL, result=STR)
async def title(ctx: Context, text: str) -> Outcome:
    """Asks the model for a title."""
    made = await complete(ctx, [user(text)])
    return Outcome(result=made.reply.text, spent=made.spent)


TITLED = """chartloop: 1
machine: m
vars: {title: ""}
output: vars.title
states:
  read: {do: receive, next: name_it}
  name_it: {do: title, with: {text: "{{ run.task }}"}, save: {vars.title: result}, next: done}
  done: {end: completed}
"""


def test_an_own_action_that_promises_is_believed() -> None:
    machine = load(TITLED, tools=[title])
    assert "your own action" not in str(machine.bound())
    run = machine.start("Moby Dick", script=["A whale"], require_bound={"requests": 1})
    assert run.run().output == "A whale"
    assert run.facts.usage.llm_calls == 1


def test_promises_that_the_fields_contradict_are_refused() -> None:
    @action(traits=BY_FIELDS)
    def lend(ctx: Context, which: Annotated[str, Name("tool")]) -> None:
        """Says that it calls no tool, and names one."""

    with pytest.raises(SetupError, match="`lend` declares `calls` as 'none', but a field names"):
        load(TAKEN, tools=[lend])


class Completed(NamedTuple):
    """What follows for the spec from what is decided."""

    id: str
    traits: ActionTraits
    follows: dict[str, Any]


@pytest.mark.parametrize(
    "case",
    [
        Completed("reply", replace(ASKS_MODEL, asks="reply"), {"uses": {"model"}}),
        Completed("text", ASKS_MODEL, {"uses": set[str](), "may_use": {"model"}}),
        Completed("calls", replace(OUTSIDE, calls="all"), {"leaves": True, "may_wait": False}),
        Completed("child", RUNS_CHILD, {"own_deadline": True, "may_wait": True}),
        Completed("quiet", SURE, {"leaves": False, "own_deadline": False, "may_wait": False}),
    ],
    ids=lambda case: case.id,
)
def test_what_follows_from_promises(case: Completed) -> None:
    def act(ctx: Context) -> None: ...

    spec = action_spec(act, traits=case.traits)
    assert {name: getattr(spec, name) for name in case.follows} == case.follows


TAKEN = """chartloop: 1
machine: m
states:
  try: {do: nothing, next: done, failed: lost}
  lost: {end: error}
  done: {end: completed}
"""


def test_an_own_action_with_the_name_of_a_built_in_one_is_own() -> None:
    plain, taken = load(TAKEN), load(TAKEN, tools=[own_nothing])
    assert ["your own action" in str(m.bound()) for m in (plain, taken)] == [False, True]
    assert [bool(m.query("reach state:lost")) for m in (plain, taken)] == [False, True]


# children that tasks run --------------------------------------------------------------------


PARENT = """chartloop: 1
machine: parent
{machines}states:
  go: {{do: work, next: done}}
  done: {{end: completed}}
"""
KID = "machines:\n  kid: {states: {only: {do: nothing, next: over}, over: {end: completed}}}\n"


@pytest.mark.parametrize("machines", ["", KID], ids=["alone", "with-children"])
def test_a_task_can_be_handed_down_where_there_are_children(machines: str) -> None:
    spec = load(PARENT.format(machines=machines)).spec
    assert hands_down(spec, spec.states["go"]) is bool(machines)
    assert not hands_down(spec, spec.states["done"])


ASKS = """chartloop: 1
machine: asks
tools: [poke]
tasks: [one]
approve: {tools: [poke]}
states:
  hear: {do: receive, next: first}
  first: {do: infer, allow: [], next: go}
  go: {do: work, next: use}
  use: {do: call_tools, next: done}
  done: {end: completed}
"""


@tool
def poke() -> str:
    """Needs an approval."""
    return "ok"


def test_a_reply_to_a_task_may_ask_for_a_tool_that_nobody_was_shown() -> None:
    machine = load(ASKS, tools=[poke])
    assert machine.query("reach tool:poke")
    run = machine.start("t", script=["hi", {"tool_calls": [{"name": "poke", "arguments": {}}]}])
    run.run()
    run.send("accept")
    run.run()
    assert run.facts.usage.calls == {"poke": 1}


# nobody goes by names -----------------------------------------------------------------------


PACKAGE = Path(chartloop.__file__).parent
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if PACKAGE / "actions" not in path.parents]
COMMON = frozenset(
    {"checkpoint", "enqueue", "measure", "nothing", "notify", "parse", "prompt", "python",
     "report", "screen", "set", "signal", "tool", "work", "restore"}
)  # fmt: skip
"""Names of actions that are words with other meanings, too: these are only looked for beside
`action.name`."""
ALLOWED = {
    "language/approval.py: ask_approval": "`approve` is written out as a state with this action",
    "core/position.py: ask_approval": "the key under which a run keeps what it asked approval for",
    "machine/evolve.py: ask_user": "the key under which a run keeps its question",
}
"""What names an action outside of `actions`, and why."""


def is_name_of_action(node: ast.AST) -> bool:
    """Whether this is `action.name` or `state.action.name`."""
    if not isinstance(node, ast.Attribute) or node.attr != "name":
        return False
    of = node.value
    return "action" in (of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", ""))


def holds_name(node: ast.AST) -> bool:
    return any(map(is_name_of_action, ast.walk(node)))


def compared(tree: ast.AST) -> Iterator[int]:
    """The lines that compare the name of an action with anything but another action's."""
    known = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and holds_name(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def told(node: ast.AST) -> bool:
        return is_name_of_action(node) or (isinstance(node, ast.Name) and node.id in known)

    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(told, sides)) and not all(map(told, sides)):
                yield node.lineno
        elif isinstance(node, ast.Match) and told(node.subject):
            yield node.subject.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if is_name_of_action(node.func.value) and node.func.attr != "format":
                yield node.lineno


def written(tree: ast.AST) -> Iterator[str]:
    """The names of actions that stand in a file as texts of their own."""
    names = builtin().actions.keys() - COMMON
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names:
            yield node.value


@pytest.mark.slow("reads every file of the package")
def test_no_other_room_goes_by_the_name_of_an_action() -> None:
    found: list[str] = []
    for path in FILES:
        tree, name = ast.parse(path.read_text("utf-8")), path.relative_to(PACKAGE).as_posix()
        found += [f"{name}:{line} compares the name of an action" for line in compared(tree)]
        found += [f"{name}: {word}" for word in written(tree)]
    assert {*found} == ALLOWED.keys(), "ask a trait of the action: see `core.traits`"


class Sample(NamedTuple):
    """A line, and whether it goes by the name of an action."""

    text: str
    by_name: bool


@pytest.mark.parametrize(
    "sample",
    [
        Sample("x = action.name == 'work'", True),
        Sample("x = state.action.name in TABLE", True),
        Sample("x = 'work' == state.action.name", True),
        Sample("match state.action.name:\n    case 'set': pass", True),
        Sample("name = state.action.name if state.action else ''\nx = name == 'set'", True),
        Sample("x = action.name.startswith('run')", True),
        Sample("x = was.action.name != state.action.name", False),
        Sample("x = state.name == 'set'", False),
        Sample("x = f'`{action.name}` fails'", False),
        Sample("x = state.traits.calls == 'first'", False),
    ],
    ids=lambda sample: sample.text.replace("\n", " "),
)
def test_what_going_by_names_is(sample: Sample) -> None:
    assert any(compared(ast.parse(sample.text))) is sample.by_name

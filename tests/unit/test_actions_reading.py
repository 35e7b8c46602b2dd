"""`parse`, `adopt_proposal`, `set`, and `save`: what a model said, into variables."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from chartloop.core.errors import SpecError
from chartloop.core.outcome import Outcome
from chartloop.run.replay import replay
from tests.effort import calls
from tests.support import start
from tests.talks import machine, outcomes, talk, written

END = "  z: {stop: completed}\n"
VARS = 'vars: {s: first, n: 7, b: true, l: {type: "list[str]", value: [f]}, m: {type: "map[str]", value: {k: v}}, a: {type: any, value: x}, o: s}\n'
FIRST = {"s": "first", "n": 7, "b": True, "l": ["f"], "m": {"k": "v"}, "a": "x"}


class Parse(NamedTuple):
    """An entry of a `parse`, a reply, and what the variable gets; None: its first value."""

    id: str
    name: str
    entry: str
    reply: str
    value: Any = None


PARSES = [
    Parse("a tag", "s", "{tag: PLAN}", "x <PLAN> do it </PLAN> y", "do it"),
    Parse("a tag over lines", "s", "{tag: PLAN}", "<PLAN>\na\nb\n</PLAN>", "a\nb"),
    Parse("the first of two tags", "s", "{tag: PLAN}", "<PLAN>a</PLAN><PLAN>b</PLAN>", "a"),
    Parse("an empty tag", "s", "{tag: PLAN}", "<PLAN></PLAN>", ""),
    Parse("no tag", "s", "{tag: PLAN}", "nothing"),
    Parse("a tag that is never closed", "s", "{tag: PLAN}", "<PLAN>a"),
    Parse("a tag in another case", "s", "{tag: PLAN}", "<plan>a</plan>", "a"),
    Parse("an end before the beginning", "s", "{tag: PLAN}", "</PLAN> <PLAN> a"),
    Parse("a fence", "s", "{fence: python}", "x\n```python\nprint(1)\n```\ny", "print(1)"),
    Parse("a fence of another name", "s", "{fence: python}", "```py\n1\n```", "1"),
    Parse("a fence in capitals", "s", "{fence: python}", "```Python\n1\n```", "1"),
    Parse("another language", "s", "{fence: python}", "```ruby\n1\n```"),
    Parse("any fence", "s", '{fence: ""}', "```ruby\n1\n```", "1"),
    Parse("the second fence", "s", "{fence: python}", "```sh\nls\n```\n```python\n1\n```", "1"),
    Parse("a fence in a longer one", "s", "{fence: python}", "````python\n```\n1\n```\n````", "```\n1\n```"),
    Parse("tildes", "s", "{fence: python}", "~~~python\n1\n~~~", "1"),
    Parse("a fence that is never closed", "s", "{fence: python}", "```python\n1\n"),
    Parse("an indented fence", "s", "{fence: python}", "  ```python\n  1\n  ```", "  1"),
    Parse("JSON at the top", "m", "json", '{"a": "b"}', {"a": "b"}),
    Parse("JSON at a path", "n", "{json: a.b}", '{"a": {"b": 3}}', 3),
    Parse("JSON in a list", "s", "{json: a.1}", '{"a": ["x", "y"]}', "y"),
    Parse("JSON in a fence", "n", "{json: a}", 'so:\n```json\n{"a": 1}\n```', 1),
    Parse("JSON in a text", "n", "{json: a}", 'so it is {"a": 1}, I think', 1),
    Parse("JSON after a bracket", "n", "{json: a}", 'see [1 and {"a": 1}', 1),
    Parse("a path that is not there", "n", "{json: a.c}", '{"a": {"b": 3}}'),
    Parse("another type", "n", "{json: a}", '{"a": "1"}'),
    Parse("true is not a number", "n", "{json: a}", '{"a": true}'),
    Parse("a list", "l", "{json: a}", '{"a": ["x", "y"]}', ["x", "y"]),
    Parse("a list of something else", "l", "{json: a}", '{"a": [1]}'),
    Parse("NaN is not JSON", "a", "{json: a}", '{"a": NaN}'),
    Parse("an infinity is not JSON", "a", "{json: a}", '{"a": 1e999}'),
    Parse("JSON too deep", "a", "{json: a}", "[" * 100_000),
    Parse("not JSON", "a", "json", "nothing"),
    Parse("pairs", "m", "{tag: T, as: pairs}", "<T>Status: ok\n- **Next**: go\nand on\n</T>", {"Status": "ok", "Next": "go\nand on"}),
    Parse("no pairs", "m", "{tag: T, as: pairs}", "<T>nothing</T>", {}),
    Parse("JSON in a tag", "m", "{tag: T, as: json}", '<T>{"a": "b"}</T>', {"a": "b"}),
    Parse("a list in a tag", "l", "{tag: T, as: list}", "<T>- a\n* b\n\n c </T>", ["a", "b", "c"]),
    Parse("an empty reply", "s", "{tag: T}", ""),
]  # fmt: skip


def plain(value: Any) -> Any:
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value  # pyright: ignore[reportUnknownVariableType]


@pytest.mark.parametrize("case", PARSES, ids=lambda case: case.id)
def test_parse(case: Parse) -> None:
    body = (
        VARS
        + f"states:\n  a: {{do: infer, next: b}}\n  b: {{do: parse, with: {{vars.{case.name}: {case.entry}}}, next: z}}\n"
        + END
    )
    run = talk(body, [case.reply])
    assert run.run().reason == "completed"
    wanted = FIRST[case.name] if case.value is None else case.value
    assert plain(run.facts.vars[case.name]) == wanted
    assert run.facts.vars["o"] == "s"
    written(run)


@pytest.mark.parametrize(
    "case", [c for c in PARSES if c.entry.startswith("{")], ids=lambda case: case.id
)
def test_parse_what_is_required(case: Parse) -> None:
    entry = case.entry.replace("}", ", required: true}")
    body = (
        VARS
        + f"states:\n  a: {{do: infer, next: b}}\n  b: {{do: parse, with: {{vars.{case.name}: {entry}, vars.o: {{tag: O}}}}, failed: next, next: z}}\n"
        + END
    )
    run = talk(body, [case.reply + "\n<O>set</O>"])
    run.run()
    (outcome,) = outcomes(run, "b")
    assert outcome.ok == (case.value is not None)
    if outcome.error is not None:
        assert outcome.error.category == "RECOVERABLE"
        assert f"`vars.{case.name}`" in outcome.error.message
        assert (run.facts.vars["o"], run.facts.errors.consecutive) == ("s", 1)


def test_every_target_is_set_on_every_turn() -> None:
    body = (
        VARS
        + "states:\n  a: {do: infer, next: b}\n  b: {do: parse, with: {vars.s: {tag: S}, vars.o: {tag: O}}, next: [{when: usage.llm_calls >= 2, to: z}, {to: a}]}\n"
        + END
    )
    run = talk(body, ["<S>1</S>", "<O>2</O>"])
    run.run()
    assert (run.facts.vars["s"], run.facts.vars["o"]) == ("first", "2")


class Refused(NamedTuple):
    """An entry of a `parse` that can never give what its variable holds, or that says two things."""

    id: str
    name: str
    entry: str
    says: str


@pytest.mark.parametrize(
    "case", [
        Refused("a text for a number", "n", "{tag: N}", "this gives str, and `vars.n` is int"),
        Refused("a block for a list", "l", "{fence: sh}", "this gives str, and `vars.l` is list[str]"),
        Refused("pairs for a text", "s", "{tag: T, as: pairs}", "this gives map[str]"),
        Refused("a list for a map", "m", "{tag: T, as: list}", "this gives list[str]"),
        Refused("JSON as pairs", "m", "{json: a, as: pairs}", "`as` goes with `tag` or `fence`"),
        Refused("a path that is a number", "s", "{json: 0}", "`json` is a text"),
        Refused("a word for yes", "s", "{tag: T, required: sure}", "`required` is `true` or `false`"),
        Refused("two sources", "s", "{tag: T, fence: sh}", "an entry has one of"),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_an_entry_that_cannot_be_meant_is_refused(case: Refused) -> None:
    body = f"{VARS}states:\n  b: {{do: parse, with: {{vars.{case.name}: {case.entry}}}, next: z}}\n{END}"
    with pytest.raises(SpecError) as caught:
        machine(body)
    assert "error[CL404]" in str(caught.value)
    assert case.says in str(caught.value)
    assert "`chartloop info actions parse`" in str(caught.value)


class Adopt(NamedTuple):
    """A proposal, and the variables that take it over."""

    id: str
    proposal: str
    s: str
    o: str


@pytest.mark.parametrize(
    "case", [
        Adopt("both", '{"Status": "done", "Approach": "new"}', "done", "new"),
        Adopt("upper and lower case", '{"status": "done", "APPROACH": "new"}', "done", "new"),
        Adopt("what it leaves out stays", '{"Approach": "new"}', "first", "new"),
        Adopt("nothing", "{}", "first", "s"),
        Adopt("what nobody maps", '{"Other": "x"}', "first", "s"),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_adopt_proposal(case: Adopt) -> None:
    body = (
        VARS
        + "states:\n  a: {do: infer, next: b}\n  b: {do: parse, with: {vars.m: json}, next: c}\n  c: {do: adopt_proposal, with: {from: vars.m, map: {Status: vars.s, Approach: vars.o}}, next: z}\n"
        + END
    )
    run = talk(body, [case.proposal])
    run.run()
    assert (run.facts.vars["s"], run.facts.vars["o"]) == (case.s, case.o)
    assert run.facts.run.steps == 3
    assert run.facts.progress.recent == ("infer", "parse")  # it is upkeep


def test_adopting_into_a_variable_of_another_type_fails() -> None:
    body = (
        VARS
        + "states:\n  c: {do: adopt_proposal, with: {from: vars.m, map: {k: vars.n}}, failed: next, next: z}\n"
        + END
    )
    run = talk(body)
    run.run()
    assert run.facts.vars["n"] == 7
    assert run.facts.errors.total == 1


def test_set_as_an_action_of_its_own() -> None:
    body = (
        VARS
        + "states:\n  a: {do: set, with: {vars.n: vars.n + 1, vars.s: '\"x\"', vars.b: false}, next: z}\n"
        + END
    )
    run = talk(body)
    run.run()
    assert (run.facts.vars["n"], run.facts.vars["s"], run.facts.vars["b"]) == (8, "x", False)
    assert outcomes(run, "a")[0].result == {"n": 8, "s": "x", "b": False}


def test_a_map_goes_into_variables() -> None:
    with pytest.raises(SpecError, match="vars"):
        machine(
            VARS
            + "states:\n  c: {do: adopt_proposal, with: {from: vars.m, map: {k: s}}, next: z}\n"
            + END
        )


class Save(NamedTuple):
    """A `save`, what the action returns, and what the variable gets; None: the action fails."""

    id: str
    save: str
    result: Any
    value: Any = None


SAVES = [
    Save("a path", "{vars.a: result.x}", {"x": 1}, 1),
    Save("a path in a list", "{vars.a: 'result.x[1]'}", {"x": [1, 2]}, 2),
    Save("the whole", "{vars.a: result}", [1], [1]),
    Save("a missing key", "{vars.a: result.y}", {"x": 1}),
    Save("a missing item", "{vars.a: 'result.x[2]'}", {"x": [1, 2]}),
    Save("of nothing", "{vars.a: result.x}", None),
    Save("another type", "{vars.n: result.x}", {"x": "1"}),
    Save("a template", "{vars.s: 'is {{ result.x }}'}", {"x": 1}, "is 1"),
]


@pytest.mark.parametrize("case", SAVES, ids=lambda case: case.id)
def test_save(case: Save) -> None:
    body = VARS + f"states:\n  a: {{do: act, save: {case.save}, failed: next, next: z}}\n" + END
    run = start(body, {"a": [Outcome(result=case.result)]})
    run.run()
    name = case.save.split(".")[1].split(":")[0]
    assert plain(run.facts.vars[name]) == (FIRST[name] if case.value is None else case.value)
    assert run.facts.last.ok == (case.value is not None)
    if case.value is None:
        assert run.facts.last.error is not None
        assert (run.facts.last.error.category, run.facts.errors.consecutive) == ("RECOVERABLE", 1)


def test_save_runs_only_when_the_action_succeeded() -> None:
    body = VARS + "states:\n  a: {do: act, save: {vars.a: result.x}, failed: next, next: z}\n" + END
    failure = Outcome.failure("TRANSIENT", "boom").replace(result={"x": 1})
    run = start(body, {"a": [failure]})
    run.run()
    assert run.facts.vars["a"] == "x"
    assert run.facts.last.error is not None
    assert run.facts.last.error.message == "boom"


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize(
    "reply", ["```a\n" * 50_000, "<T>" * 80_000, " " * 250_000 + "x", "[" * 250_000, "{" * 250_000, "a:" * 100_000, "*" * 250_000, "a " * 100_000],
    ids=["fences", "tags", "spaces", "brackets", "braces", "pairs", "stars", "words"],
)  # fmt: skip
def test_a_hostile_reply_is_read_at_once(reply: str) -> None:
    body = (
        VARS
        + "states:\n  a: {do: infer, next: b}\n  b: {do: parse, with: {vars.s: {fence: python}, vars.m: {tag: T, as: pairs}, vars.a: json}, next: z}\n"
        + END
    )
    run = talk(body, [f"{reply}<T>{reply}</T>"])
    assert calls(run.run) < 1_000_000


def test_a_list_that_did_not_change_is_no_progress_live_and_replayed() -> None:
    body = (
        VARS
        + "states:\n  a: {do: infer, next: b}\n  b: {do: parse, with: {vars.l: {tag: T, as: list}}, next: z}\n"
        + END
    )
    run = talk(body, ["nothing"])
    run.run()
    assert run.facts.progress.stalled_steps == 2
    again = replay(run.machine.chart, written(run), run.id)
    assert again.same
    assert again.position.facts.progress == run.facts.progress

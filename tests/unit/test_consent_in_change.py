"""The effect of a change on consent: every word of `approve`, and every way around it, both ways.

Each row is a part of a file before and after. It says what is loosened; read backwards, from the
second file to the first, it says what is tightened.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop import Machine, load, tool
from chartloop.analysis.versions.diff.diff import Diff, diff


@tool(effect="pure")
def find(q: str) -> str:
    """Find."""
    return q


@tool
def refund(order: str, usd: float, note: str = "", urgent: bool = False) -> str:
    """Pay."""
    return f"{usd}"


@tool
def payout(usd: float, to: str) -> str:
    """Pay out."""
    return f"{usd} {to}"


@tool(effect="local")
def note(text: str) -> str:
    """Write a note."""
    return text


TOOLS = [find, refund, payout, note]
HEAD = "chartloop: 1\nmachine: desk\nmodel: openai/gpt-4o-mini\n"
STATES = """
rules: [{when: run.steps >= 20, stop: steps_limit}]
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""


def body(approve: str, more: str = "", tools: str = "find, refund") -> str:
    gate = f"approve: {{{approve}}}\n" if approve else ""
    return f"tools: [{tools}]\n{gate}{more}\n" + ("" if "states:" in more else STATES)


def gate(keys: str = "", tools: str = "refund", **more: str) -> str:
    return body(f"tools: [{tools}]" + (f", {keys}" if keys else ""), **more)


def when(condition: str, keys: str = "", **more: str) -> str:
    return gate(f"when: {condition!r}" + (f", {keys}" if keys else ""), **more)


def machine(text: str) -> Machine:
    return load(HEAD + text, tools=TOOLS)


def between(before: str, after: str) -> Diff:
    return diff(machine(before), machine(after))


def said(found: Diff) -> list[str]:
    return [str(one) for one in found.consent]


A = "call.arguments."
NO_TOOL = STATES.replace("act: {do: call_tools,", "act: {do: call_tools, allow: [find],")
KID = """
    states:
      go: {do: receive, next: think}
      think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: last}]}
      act: {do: call_tools, next: think}
      last: {end: completed}
"""


def with_child(*children: str, own: str = "") -> str:
    """A machine that runs children, each with these keys."""
    kids = "".join(
        f"  kid{n}:\n    about: A child\n    {keys}{KID}" for n, keys in enumerate(children)
    )
    states = "states:\n  go: {do: run_machine, with: {machine: kid0, task: x}, next: end}\n  end: {stop: completed}\n"
    return f"tools: [find]\n{own}machines:\n{kids}{states}"


GATED = "tools: [refund]\n    approve: {tools: [refund]}"
FREE = "tools: [refund]"


class Row(NamedTuple):
    """A file and a looser one: what is said, and what is said of the way back."""

    id: str
    before: str
    after: str
    loosened: str
    tightened: str


ROWS = [
    # which calls ask
    Row("dropped", gate(), body(""), "refund: no call asks any more", "refund: every call asks now"),
    Row("dropped-with-a-condition", when(A + "usd > 100"), body(""), "refund: usd > 100 no longer asks, as in `refund(usd=200)`", "refund: usd > 100 asks now, as in `refund(usd=200)`"),
    Row("condition-added", gate(), when(A + "usd > 100"), "refund: usd ≤ 100 no longer asks, as in `refund(usd=50)`", "refund: usd ≤ 100 asks now, as in `refund(usd=50)`"),
    Row("threshold", when(A + "usd > 100"), when(A + "usd > 1000"), "refund: 100 < usd ≤ 1000 no longer asks, as in `refund(usd=500)`", "refund: 100 < usd ≤ 1000 asks now, as in `refund(usd=500)`"),
    Row("threshold-below", when(A + "usd < 10"), when(A + "usd < 5"), "refund: 5 ≤ usd < 10 no longer asks", "refund: 5 ≤ usd < 10 asks now"),
    Row("boundary", when(A + "usd >= 100"), when(A + "usd > 100"), "refund: usd = 100 no longer asks, as in `refund(usd=100)`", "refund: usd = 100 asks now"),
    Row("turned-round", when("100 < call.arguments.usd"), when(A + "usd > 1000"), "refund: 100 < usd ≤ 1000 no longer asks", "refund: 100 < usd ≤ 1000 asks now"),
    Row("and-more", when(A + "usd > 100"), when(f"{A}usd > 100 and {A}urgent"), "refund: usd > 100 and not (usd > 100 and urgent) no longer asks, as in `refund(", "refund: usd > 100 and not (usd > 100 and urgent) asks now"),
    Row("or-less", when(f"{A}usd > 100 or {A}urgent"), when(A + "usd > 100"), "no longer asks, as in `refund(", "asks now, as in `refund("),
    Row("words", when(A + 'note in ["a", "b"]'), when(A + 'note in ["a"]'), 'refund: note in ["a", "b"] and not (note in ["a"]) no longer asks, as in `refund(note="b")`', "asks now"),
    Row("limit", when(A + "usd > limits.big", more="limits: {big: 100}"), when(A + "usd > limits.big", more="limits: {big: 1000}"), "refund: 100 < usd ≤ 1000 no longer asks, as in `refund(usd=500)`", "refund: 100 < usd ≤ 1000 asks now"),
    Row("limit-off", when(A + "usd > limits.big", more="limits: {big: 100}"), when(A + "usd > limits.big", more="limits: {big: null}"), "refund: usd > 100 no longer asks, as in `refund(usd=200)`", "refund: usd > 100 asks now"),
    Row("limit-off-tested", when(f"limits.big is not None and {A}usd > limits.big", more="limits: {big: 100}"), when(f"limits.big is not None and {A}usd > limits.big", more="limits: {big: null}"), "no longer asks, as in `refund(usd=200)`", "asks now"),
    Row("definition", when("big", more="define: {big: run.steps > 3}"), when("big", more="define: {big: run.steps > 5}"), "refund: 3 < run.steps ≤ 5 no longer asks", "refund: 3 < run.steps ≤ 5 asks now"),
    Row("one-of-two-tools", gate(tools="refund, payout", more="").replace("[find, refund]", "[find, refund, payout]"), gate().replace("[find, refund]", "[find, refund, payout]"), "payout: no call asks any more", "payout: every call asks now"),
    Row("by-tool-name", when('call.name == "refund" or call.name == "payout"', tools="refund, payout").replace("[find, refund]", "[find, refund, payout]"), when('call.name == "refund"', tools="refund, payout").replace("[find, refund]", "[find, refund, payout]"), 'payout: (call.name == "refund" or call.name == "payout") and not (call.name == "refund") no longer asks', "payout: "),
    # what an answer may do, and who gives it
    Row("by-gone", gate("by: the boss"), gate(), "refund: answers are no longer asked of `the boss`", "refund: answers are now asked of `the boss`"),
    Row("not_by-gone", gate("not_by: submitter"), gate(), "refund: who submitted the run may now accept it", "refund: who submitted the run can no longer accept it"),
    Row("within-longer", gate("within: 1h"), gate("within: 2h"), "refund: an answer may take 2 h instead of 1 h", "refund: an answer may take 1 h instead of 2 h"),
    Row("within-gone", gate("within: 1h"), gate(), "refund: an answer may take for ever instead of 1 h", "refund: an answer may take 1 h instead of for ever"),
    Row("within-by-a-limit", gate("within: limits.p", more="limits: {p: 1h}"), gate("within: limits.p", more="limits: {p: 2h}"), "refund: an answer may take 2 h", "refund: an answer may take 1 h"),
    Row("within-before-expired", gate("within: 2h, expired: done"), gate("within: 1h, expired: done"), "refund: an answer may take 1 h instead of 2 h", "refund: an answer may take 2 h instead of 1 h"),
    Row("expired", gate("within: 1h"), gate("within: 1h, expired: act"), "refund: without an answer in time the calls are not denied, the run goes to `act`", "refund: without an answer in time the calls are denied, the run no longer goes to `act`"),
    Row("remember", gate(), gate("remember: true"), "refund: an answer may also accept later equal calls", "refund: an answer no longer accepts later calls"),
    Row("edit", gate(), gate("edit: true"), "refund: an answer may change the call, or stand in for its result", "refund: an answer can no longer change the call"),
    Row("in_doubt-of-the-file", gate(), gate(more="in_doubt: retry"), "refund: a call in doubt is made again without asking", "refund: a person decides whether a call in doubt is made again"),
    Row("in_doubt-of-a-state", gate(more=STATES.replace("do: call_tools,", "do: call_tools, in_doubt: tell,")), gate(), "refund: a person decides whether a call in doubt is made again", "refund: a call in doubt is not made again, and nobody is asked"),
    Row("in_doubt-without-a-gate", body("tools: [find]", "in_doubt: ask"), body("tools: [find]", "in_doubt: retry"), "refund: a call in doubt is made again without asking", "refund: a person decides whether a call in doubt is made again"),
    # through children
    Row("in-a-child", with_child(GATED), with_child(FREE), "`kid0` → refund: no call asks any more", "`kid0` → refund: every call asks now"),
    Row("in-a-child-a-threshold", with_child("tools: [refund]\n    approve: {tools: [refund], when: call.arguments.usd > 100}"), with_child("tools: [refund]\n    approve: {tools: [refund], when: call.arguments.usd > 1000}"), "`kid0` → refund: 100 < usd ≤ 1000 no longer asks", "`kid0` → refund: 100 < usd ≤ 1000 asks now"),
    Row("in-a-child-not_by", with_child("tools: [refund]\n    approve: {tools: [refund], not_by: submitter}"), with_child(GATED), "`kid0` → refund: who submitted the run may now accept it", "`kid0` → refund: who submitted the run can no longer accept it"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_looser_file_is_said_to_be_looser(row: Row) -> None:
    found = between(row.before, row.after)
    assert [one.kind for one in found.consent if one.kind != "changed"] == ["loosened"], said(found)
    assert row.loosened in str(found.consent[0])
    assert found.loosened
    assert "; consent loosened" in found.verdict


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_way_back_is_tightened(row: Row) -> None:
    found = between(row.after, row.before)
    assert [one.kind for one in found.consent if one.kind != "changed"] == ["tightened"], said(
        found
    )
    assert row.tightened in str(found.consent[0])
    assert not found.loosened


READS_N = A + "usd > vars.n"
SETS_LATE = STATES.replace(
    "to: act}", "to: act}, {when: usage.llm_calls > 9, to: done, set: {vars.n: 2}}"
)
SETS_EARLY = STATES.replace(
    "{do: receive, next: think}", "{do: receive, next: think, set: {vars.n: 2}}"
)
SETS_LIMIT = SETS_EARLY.replace("vars.n: 2", "vars.n: limits.big")
GATED_BY_N = "tools: [refund]\n    vars: {n: 1}\n    approve: {tools: [refund], when: call.arguments.usd > vars.n}"
GATED_BY_LIMIT = (
    GATED_BY_N.replace("vars", "limits").replace("n: 1", "big: 1").replace(".n}", ".big}")
)

AROUND = [
    # a change whose way back is no tighter: something is new
    ("new-tool", gate(), gate().replace("[find, refund]", "[find, refund, payout]"), "payout: a new tool, whose calls ask nobody"),
    ("new-tool-partly", when(A + "usd > 100"), when(A + "usd > 100", tools="refund, payout").replace("[find, refund]", "[find, refund, payout]"), "payout: usd ≤ 100 no longer asks"),
    ("new-child", with_child(GATED), with_child(GATED, "tools: [payout]"), "`kid1` → payout: a new tool, whose calls ask nobody"),
    ("new-child-with-the-tool", with_child(GATED), with_child(GATED, FREE), "`kid1` → refund: a new tool, whose calls ask nobody"),
    ("named-by-a-state", gate(more=NO_TOOL, tools="find"), gate(more=STATES.replace("think: {do: infer", "pay: {do: tool, with: {name: refund, arguments: {order: a, usd: 1}}, next: think}\n  think: {do: infer").replace("ask: {do: receive, next: think", "ask: {do: receive, next: pay").replace("act: {do: call_tools,", "act: {do: call_tools, allow: [find],"), tools="find"), "refund: a new tool, whose calls ask nobody"),
    ("allowed-again", gate(more=NO_TOOL, tools="find"), gate(tools="find"), "refund: a new tool, whose calls ask nobody"),
    ("by-the-provider", gate(), gate(more=STATES.replace("think: {do: infer,", "think: {do: infer, with: {extra: {mcp_servers: []}},")), "model: its provider may execute tools itself, which no gate sees"),
    ("another-by", gate("by: the boss"), gate("by: the clerk"), "refund: answers are now asked of `the clerk` (whether that is stricter is not known)"),
    ("another-expired", gate("within: 1h, expired: act"), gate("within: 1h, expired: done"), "goes to `done` (whether"),
    ("a-variable-that-is-read", when('vars.trusted == "no"', more='vars: {trusted: "no"}'), when('vars.trusted == "no"', more='vars: {trusted: "yes"}'), "refund: `vars.trusted`, which `when` reads, is set in other ways"),
    ("a-variable-set-elsewhere", when(READS_N, more="vars: {n: 0}" + SETS_LATE), when(READS_N, more="vars: {n: 0}" + SETS_EARLY), "refund: `vars.n`, which `when` reads, is set in other ways"),
    ("a-variable-set-under-another-condition", when(READS_N, more="vars: {n: 0}" + SETS_LATE), when(READS_N, more="vars: {n: 0}" + SETS_LATE.replace("> 0, to: act", "> 1, to: act")), "refund: `vars.n`, which `when` reads, is set in other ways"),
    ("a-variable-made-of-a-limit", when(READS_N, more="limits: {big: 1}\nvars: {n: 0}" + SETS_LIMIT), when(READS_N, more="limits: {big: 9}\nvars: {n: 0}" + SETS_LIMIT), "refund: `vars.n`, which `when` reads, is set in other ways"),
    ("a-memory-block-that-is-read", when('memory.trust == "no"', more='memory: {trust: "no"}'), when('memory.trust == "no"', more='memory: {trust: "yes"}'), "refund: `memory.trust`, which `when` reads, is set in other ways"),
    ("a-variable-that-a-caller-may-set", when(READS_N, more="vars: {n: 1}\ninputs: {task: {}}"), when(READS_N, more="vars: {n: 1}\ninputs: {task: {}, n: {}}"), "refund: a caller may now set `vars.n`, which `when` reads"),
    ("a-variable-that-any-caller-may-set", when(READS_N, more="vars: {n: 1}\ninputs: {task: {}}"), when(READS_N, more="vars: {n: 1}"), "refund: a caller may now set `vars.n`, which `when` reads"),
    ("a-variable-that-the-parent-gives", with_child(GATED_BY_N), with_child(GATED_BY_N).replace("task: x", "task: x, vars: {n: 9}"), "`kid0` → refund: `vars.n`, which `when` reads, is set in other ways"),
    ("a-limit-that-the-parent-gives", with_child(GATED_BY_LIMIT).replace("task: x", "task: x, limits: {big: 1}"), with_child(GATED_BY_LIMIT).replace("task: x", "task: x, limits: {big: 9}"), "`kid0` → refund: `limits.big`, which `when` reads, is set in other ways"),
    ("a-limit-of-the-parent-that-it-gives", with_child(GATED_BY_LIMIT, own="limits: {big: 1}\n").replace("task: x", "task: x, limits: {big: limits.big}"), with_child(GATED_BY_LIMIT, own="limits: {big: 9}\n").replace("task: x", "task: x, limits: {big: limits.big}"), "`kid0` → refund: `limits.big`, which `when` reads, is set in other ways"),
    ("own-question", gate(), gate(more=STATES.replace("done: {stop", 'own: {do: ask_approval, with: {tools: [refund], wait: mine}, next: mine}\n  mine: {ask: "Ok?", on: {accept: act, deny: done}}\n  done: {stop').replace("to: done}", "to: own}")), "own: asks at a wait of the file, where `by` and `not_by` do not hold"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "says"), [row[1:] for row in AROUND], ids=[row[0] for row in AROUND]
)
def test_a_way_around_the_gate_is_loosened(before: str, after: str, says: str) -> None:
    found = between(before, after)
    (one,) = [one for one in found.consent if one.kind == "loosened"]
    assert says in str(one)


STRICTER = [
    ("a-new-variable-that-makes-more-calls-ask", when(A + "usd > 100"), when(A + "usd > 100 or vars.strict", more="vars: {strict: false}")),
    ("a-gate-that-reads-a-variable", body("", "vars: {n: 1}\ninstructions: '{{ vars.n }}'"), when(READS_N, more="vars: {n: 1}\ninstructions: '{{ vars.n }}'")),
    ("no-condition-on-a-variable-any-more", when(READS_N, more="vars: {n: 1}\ninstructions: '{{ vars.n }}'"), gate(more="vars: {n: 1}\ninstructions: '{{ vars.n }}'")),
    ("a-variable-that-a-caller-can-no-longer-set", when(READS_N, more="vars: {n: 1}"), when(READS_N, more="vars: {n: 1}\ninputs: {task: {}}")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after"), [row[1:] for row in STRICTER], ids=[row[0] for row in STRICTER]
)
def test_what_only_tightens_is_not_called_loosened(before: str, after: str) -> None:
    assert [one.kind for one in between(before, after).consent] == ["tightened"]


NEITHER = [
    ("a-variable-that-a-renamed-state-sets", when(READS_N, more="vars: {n: 0}" + SETS_EARLY), when(READS_N, more="renamed: {think: plan}\nvars: {n: 0}" + SETS_EARLY.replace("think", "plan"))),
    ("the-question", gate('ask: "May it?"'), gate('ask: "May it now?"')),
    ("another-way-to-write", when(A + "usd > 100"), when("100 < call.arguments.usd")),
    ("a-pure-tool", gate().replace("[find, refund]", "[refund]"), gate()),
    ("a-local-tool", gate(), gate().replace("[find, refund]", "[find, refund, note]")),
    ("a-new-tool-that-asks", gate(), gate(tools="refund, payout").replace("[find, refund]", "[find, refund, payout]")),
    ("a-tool-that-goes", gate(tools="refund, payout").replace("[find, refund]", "[find, refund, payout]"), gate()),
    ("a-limit-that-no-gate-reads", gate(more="limits: {big: 100}" + STATES.replace("steps >= 20", "steps >= limits.big")), gate(more="limits: {big: 1000}" + STATES.replace("steps >= 20", "steps >= limits.big"))),
    ("expired-is-renamed", gate("within: 1h, expired: done"), gate("within: 1h, expired: end", more="renamed: {done: end}" + STATES.replace("done", "end"))),
    ("tell-or-fail", gate(more="in_doubt: tell"), gate(more="in_doubt: fail")),
    ("without-any-gate", body(""), body("", tools="find, refund, payout")),
    ("a-child-that-goes", with_child(GATED, GATED), with_child(GATED)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after"), [row[1:] for row in NEITHER], ids=[row[0] for row in NEITHER]
)
def test_what_decides_no_call_is_neither(before: str, after: str) -> None:
    found = between(before, after)
    assert not [one for one in found.consent if one.kind != "changed"], said(found)
    assert "consent" not in found.verdict


def test_both_directions_are_two_sentences_with_their_own_arguments() -> None:
    found = between(when(A + "usd > 100"), when(A + "urgent"))
    loose, tight = found.consent
    assert (loose.kind, tight.kind) == ("loosened", "tightened")
    assert loose.says == "usd > 100 and not (urgent) no longer asks"
    assert tight.says == "urgent and usd ≤ 100 asks now"
    assert loose.arguments["urgent"] is False
    assert loose.arguments["usd"] > 100
    assert tight.arguments["urgent"] is True
    assert tight.arguments["usd"] <= 100


def test_a_rewritten_condition_says_that_the_same_calls_ask() -> None:
    (one,) = between(when(A + "usd > 100"), when("100 < call.arguments.usd")).consent
    assert one.kind == "changed"
    assert one.says == "written differently, the same calls ask"


def test_what_is_not_decided_is_said_and_counts_as_loosened() -> None:
    own = "call.arguments.note.{}('a')"
    found = between(when(own.format("startswith")), when(own.format("endswith")))
    assert found.loosened, said(found)

"""Words in quotes that name something: a misspelt one is an error at its place, any other is none."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop import load, tool
from chartloop.core.errors import Finding, SpecError

SCHEMA = "{type: object, properties: {topic: {enum: [refund, order]}, text: {type: string}}, required: [topic, text]}"

HEAD = """chartloop: 1
machine: m
model: {name: scripted}
tools: %s
limits: {steps: 9, n: 3}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}, {when: run.steps >= limits.n, signal: quota}]
reasons: {quota: {priority: 4, forced: true, status: error}}
vars: {topic: "", mode: fast, place: north, log: {type: "list[str]", value: []}, words: "", who: ann}
output: '[vars.topic, vars.mode, vars.place, vars.log, vars.words, vars.who]'
states:
  q: {do: receive, next: think}
  think:
    do: infer
    with: {output: %s}
    save: {vars.topic: result.data.topic, vars.words: result.data.text, vars.log: {append: result.data.topic}}
    next: turn
  turn: {set: {vars.mode: '"slow" if last.ok else vars.mode', vars.place: last.state}, next: judge}
  judge: {%s}
  act: {do: call_tools, next: think}
  z: {stop: completed}
"""


@tool
def buy_report(title: str) -> str:
    """Buy a report.

    Args:
        title: Which.
    """
    return title


@tool
def search(query: str) -> str:
    """Search.

    Args:
        query: For what.
    """
    return query


def findings(judge: str, tools: str = "[search, buy_report]") -> list[Finding]:
    text = HEAD % (tools, SCHEMA, judge)
    try:
        machine = load(text, tools=[buy_report, search])
    except SpecError as error:
        return [f for f in error.findings if f.is_error]
    return [f for f in machine.findings if f.code.startswith("CL11")]


def guard(text: str) -> str:
    return f"ask: Q?, when: '{text}', then: act, else: z"


class Word(NamedTuple):
    """A guard with a word of a machine, and what is said when the word is another."""

    guard: str
    meant: str
    wrong: str
    code: str = "CL111"


WORDS = [
    Word('any(c.name == "%s" for c in last.tool_calls)', "buy_report", "buy_reports"),
    Word('"%s" in last.tool_calls[0].name', "buy_report", "buy_report"),
    Word('all(c.name in ["search", "%s"] for c in last.tool_calls)', "buy_report", "by_report"),
    Word('len(last.tool_calls) > 0 and last.tool_calls[0].name == "%s"', "search", "serach"),
    Word('len(last.tool_calls) > 0 and last.tool_calls[0].name.startswith("%s")', "buy_", "by_"),
    Word('"%s" in progress.recent', "search", "serach"),
    Word('"%s" in progress.recent', "infer", "infere"),
    Word('count(s == "%s" for s in progress.recent) > 2', "call_tools", "cal_tools"),
    Word('last.state == "%s"', "think", "thnk"),
    Word('last.state != "%s"', "think", "thnk"),
    Word('last.state in ["q", "%s"]', "think", "thnk"),
    Word('last.action == "%s"', "infer", "infr"),
    Word('last.error is not None and last.error.state == "%s"', "think", "thik"),
    Word('errors.last is not None and errors.last.category == "%s"', "CRITICAL", "CRITICL"),
    Word('signals.top is not None and signals.top == "%s"', "quota", "qouta"),
    Word('"%s" in signals.reasons', "quota", "qouta"),
    Word('run.status == "%s"', "running", "runing"),
    Word('run.paused_from == "%s"', "debugging", "debuging"),
    Word('run.machine == "%s"', "m", "m"),
    Word('last.finish_reason == "%s"', "tool_calls", "tool_call", "CL114"),
    Word('vars.topic == "%s"', "refund", "refnd", "CL114"),
    Word('"order" != vars.topic and "%s" == vars.topic', "refund", "refnd", "CL114"),
    Word('"%s" in vars.log', "order", "oder", "CL114"),
    Word('vars.mode == "%s"', "slow", "slowe", "CL114"),
    Word('vars.mode == "%s"', "fast", "medium", "CL115"),
    Word('vars.place == "%s"', "think", "thinks", "CL114"),
    Word('vars.topic == "%s"', "", "other", "CL115"),
]


@pytest.mark.parametrize("case", WORDS, ids=lambda c: f"{c.guard} {c.wrong}")
def test_a_word_that_is_meant_loads_and_another_is_told_at_its_place(case: Word) -> None:
    assert findings(guard(case.guard % case.meant)) == []
    if case.wrong == case.meant:
        return
    found = findings(guard(case.guard % case.wrong))
    assert [f.code for f in found] == [case.code], found
    place = found[0].place
    assert case.wrong in place.text[place.column - 1 : place.column - 1 + place.width]
    assert f"`{case.meant}" in found[0].hint or not case.meant


@pytest.mark.parametrize(
    "text",
    [
        'vars.words == "anything"',  # a model writes it
        'vars.who == "bob"',  # a parameter: only a caller gives it
        'last.text == "yes"',
        'run.task == "stop"',
        "vars.topic == vars.mode",
        'vars.topic.lower() == "Refund"',
        'last.finish_reason == "end_turn"',  # another provider's word
        '"Refund" in vars.words',
    ],
)
def test_where_any_word_may_come_nothing_is_said(text: str) -> None:
    assert findings(guard(text)) == []


@pytest.mark.parametrize("tools", ['["*"]', "[]"])
def test_where_the_caller_brings_the_tools_only_a_misspelt_one_is_told(tools: str) -> None:
    near, far = (
        'any(c.name == "buy_reports" for c in last.tool_calls)',
        'any(c.name == "pay" for c in last.tool_calls)',
    )
    assert [f.code for f in findings(guard(near), tools)] == ["CL114"]
    assert findings(guard(far), tools) == []


def test_cases_over_a_variable_know_the_words_of_the_enum() -> None:
    found = findings("of: vars.topic, cases: {refnd: act, order: z, shipping: z}, else: z")
    assert [(f.code, f.hint) for f in found] == [("CL114", "did you mean `refund`?")]
    assert findings("of: vars.topic, cases: {refund: act, order: z}, else: z") == []
    assert [f.code for f in findings("of: last.state, cases: {thnk: act}, else: z")] == ["CL111"]


def test_a_template_knows_the_words_too() -> None:
    asked = "failed: z, do: prompt, with: {user: '{%% if vars.topic == \"%s\" %%}a{%% endif %%}'}, next: act"
    assert findings(asked % "refund") == []
    assert [f.code for f in findings(asked % "refnd")] == ["CL114"]


def test_a_caller_that_gives_a_like_word_may_say_so() -> None:
    text = HEAD % ("[search, buy_report]", SCHEMA, guard('vars.mode == "slower"'))
    accepted = "ignore: [{code: CL114, at: states.judge, reason: the shop gives it with --var}]\n"
    machine = load(text.replace("states:\n", accepted + "states:\n", 1), tools=[buy_report, search])
    assert [f.code for f in machine.findings] == []

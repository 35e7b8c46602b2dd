"""A guard that names what the machine has is never doubted; with one letter wrong it always is."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from chartloop import load, tool
from chartloop.core.errors import SpecError

WORDS = ("CL111", "CL114", "CL115")
quickly = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)  # fmt: skip


@tool
def buy_report(title: str) -> str:
    """Buy a report.

    Args:
        title: Which.
    """
    return title


class Named(NamedTuple):
    """A way to write a word in a guard, and the words that it may be."""

    guard: str
    words: tuple[str, ...]


_WORD = st.from_regex(r"[a-z]{4,9}", fullmatch=True)


@st.composite
def guards(draw: st.DrawFn, states: list[str], enum: list[str], reasons: list[str]) -> Named:
    """A comparison of a fact that names something."""
    kinds = (
        Named('last.state == "%s"', tuple(states)),
        Named('last.state in ["begin", "%s"]', tuple(states)),
        Named('any(c.name != "%s" for c in last.tool_calls)', ("buy_report",)),
        Named('"%s" in progress.recent', ("buy_report", "infer", "call_tools")),
        Named('last.action == "%s"', ("infer", "receive", "call_tools")),
        Named('"%s" in signals.reasons', (*reasons, "steps_limit", "completed")),
        Named('signals.top is not None and "%s" == signals.top', tuple(reasons)),
        Named('vars.topic == "%s"', tuple(enum)),
        Named('vars.copy in ["%s"]', tuple(enum)),
        Named('"%s" in vars.log', tuple(enum)),
        Named('not (named and vars.topic == "%s")', tuple(enum)),
    )
    return draw(st.sampled_from(kinds))


def misspelt(draw: Any, word: str) -> str:
    """The word with one letter left out, doubled, or exchanged with the next."""
    at = draw(st.integers(0, len(word) - 2))
    kind = draw(st.sampled_from(["out", "twice", "swap"]))
    if kind == "out":
        return word[:at] + word[at + 1 :]
    if kind == "twice":
        return word[: at + 1] + word[at:]
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def machine(guard: str, states: list[str], enum: list[str], reasons: list[str]) -> str:
    schema = {"type": "object", "required": ["topic"], "properties": {"topic": {"enum": enum}}}
    onward = [{"when": guard, "to": name} for name in states[:1]]
    body: dict[str, Any] = {
        "begin": {"do": "receive", "next": "think"},
        "think": {
            "do": "infer", "with": {"output": schema}, "next": "judge",
            "save": {"vars.topic": "result.data.topic", "vars.log": {"append": "result.data.topic"}},
        },
        "judge": {"set": {"vars.copy": "vars.topic"}, "next": [*onward, states[-1]]},
        "end": {"stop": "completed"},
    }  # fmt: skip
    body |= {name: {"do": "call_tools", "next": "end"} for name in states}
    return json.dumps({
        "chartloop": 1, "machine": "m", "model": {"name": "scripted"}, "tools": ["buy_report"],
        "vars": {"topic": "", "copy": "", "log": {"type": "list[str]", "value": []}},
        "define": {"named": "last.ok"},
        "reasons": {name: {"priority": 4} for name in reasons}, "states": body,
    }, indent=1)  # fmt: skip


def codes(text: str) -> list[str]:
    try:
        found = load(text, tools=[buy_report]).findings
    except SpecError as error:
        found = error.findings
    return [f.code for f in found if f.code in WORDS]


@pytest.mark.slow("tries hundreds of examples for seconds")
@quickly
@given(st.data())
def test_a_word_of_the_machine_is_taken_and_a_misspelt_one_is_told(data: st.DataObject) -> None:
    names = data.draw(st.lists(_WORD, min_size=5, max_size=8, unique=True))
    taken = {"begin", "think", "judge", "end", "named"}
    names = [n for n in names if n not in taken and not hasattr(json, n)]
    assume(len(names) >= 5)
    states, enum, reasons = names[:2], names[2:4], names[4:]
    guard, words = data.draw(guards(states, enum, reasons))
    word = data.draw(st.sampled_from(words))
    assert codes(machine(guard % word, states, enum, reasons)) == []
    wrong = misspelt(data.draw, word)
    known = {*names, *taken, *words, "infer", "receive", "buy_report"}
    assume(wrong not in known)  # two equal letters exchanged are no misspelling
    found = codes(machine(guard % wrong, states, enum, reasons))
    assert len(found) == 1, (guard, word, wrong, found)

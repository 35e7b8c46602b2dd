"""Exports for XState and SCXML: what stands in them, and that their libraries load and run them."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from chartloop.api import load
from chartloop.catalog import shipped_machines
from chartloop.interchange.scxml import NAMESPACE, to_scxml
from chartloop.interchange.xstate import LONGEST, to_xstate, xstate_config
from tests.exporting import Happening, Live, Oracle, Statemachine, resting, told
from tests.support import machine

SCXML = "{http://www.w3.org/2005/07/scxml}"
OURS = f"{{{NAMESPACE}}}"
SHIPPED = sorted(shipped_machines())


def document(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - our own


def states(body: str) -> dict[str, Any]:
    """The states of a machine in XState, those under rules beside the others."""
    found = xstate_config(machine(body))["states"]
    under = found.pop("under-rules", {"states": {}})
    return found | under["states"]


# the machines that ship ---------------------------------------------------------------------


def drives(live: Live) -> list[list[Happening]]:
    """Twenty drives of a machine: events that it has, and some of its guards at each."""
    chance = random.Random(live.chart.name)  # noqa: S311 - the same drives each time
    events = sorted(live.chart.step.triggers)
    names = sorted(live.names.values())

    def happening(event: str) -> Happening:
        share = chance.choice([0.05, 0.3])
        return Happening(event, frozenset(n for n in names if chance.random() < share))

    return [
        [happening("start"), *(happening(chance.choice(events)) for _ in range(30))]
        for _ in range(20)
    ]


@pytest.mark.node("xstate")
@pytest.mark.parametrize("name", SHIPPED)
def test_xstate_runs_a_shipped_machine(xstate: Oracle, name: str) -> None:
    made = load(name)
    live = Live(made)
    for happenings in drives(live):
        said = xstate.ask({"config": json.loads(to_xstate(made))}, happenings)
        assert resting(told(said), made.chart) == live.ways()
        path = [[state] for state in live.path(happenings)]
        assert said["path"][: len(path)] == path


@pytest.mark.node("@scion-scxml/scxml")
@pytest.mark.parametrize("name", SHIPPED)
def test_scion_runs_a_shipped_machine(scion: Oracle, name: str) -> None:
    made = load(name)
    live = Live(made)
    waits = made.spec.start not in made.chart.resting
    for happenings in drives(live):
        said = scion.ask({"document": to_scxml(made)}, happenings[0 if waits else 1 :])
        assert resting(told(said), made.chart) == live.ways()
        path = [["before-start"]] * waits + [[state] for state in live.path(happenings)]
        assert said["path"][: len(path)] == path


@pytest.mark.slow("takes seconds")
@pytest.mark.extra("statemachine", install='pip install -e ".[test-all]"')  # noqa: S610 - no Django
@pytest.mark.parametrize("name", SHIPPED)
def test_python_statemachine_runs_a_shipped_machine(name: str) -> None:
    made = load(name)
    live = Live(made)
    waits = made.spec.start not in made.chart.resting
    read = Statemachine(to_scxml(made))
    assert resting(read.ways(), made.chart) == live.ways()
    for happenings in drives(live):
        path = ["before-start"] * waits + live.path(happenings)
        assert read.path(happenings[0 if waits else 1 :])[: len(path)] == path


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize("name", SHIPPED)
def test_the_same_machine_gives_the_same_bytes(name: str) -> None:
    for write in (to_xstate, to_scxml):
        assert write(load(name)) == write(load(name))
        assert write(load(name), all=True) != write(load(name)) or name == "lifecycle"


@pytest.mark.slow("starts processes for seconds")
def test_no_order_depends_on_the_process() -> None:
    code = (
        "from chartloop import load\n"
        "from chartloop.interchange.scxml import to_scxml\n"
        "from chartloop.interchange.xstate import to_xstate\n"
        "made = load('moderator_full')\n"
        "print(ascii(to_xstate(made, all=True, status=True) + to_scxml(made, all=True)))\n"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


@pytest.mark.parametrize("name", SHIPPED)
def test_scxml_has_the_shape_that_the_w3c_gives_it(name: str) -> None:
    root = document(to_scxml(load(name), all=True, status=True))
    inside = {
        "scxml": {"datamodel", "state", "parallel", "final"},
        "datamodel": {"data"},
        "parallel": {"state"},
        "state": {"transition", "state", "final"},
        "transition": {"assign"},
    }
    attributes = {
        "scxml": {"version", "datamodel", "name", "initial"},
        "data": {"id"},
        "state": {"id", "initial"},
        "parallel": {"id"},
        "final": {"id"},
        "transition": {"event", "cond", "target"},
        "assign": {"location", "expr"},
    }
    ids = [found.get("id") for found in root.iter() if found.get("id")]
    assert len(ids) == len(set(ids))
    for found in root.iter():
        tag = found.tag.removeprefix(SCXML)
        assert {inner.tag.removeprefix(SCXML) for inner in found} <= inside.get(tag, set())
        given = {key for key in found.attrib if not key.startswith(OURS)}
        assert given <= attributes.get(tag, set())
        assert {found.get("target"), found.get("initial")} - {None} <= set(ids)


# what stands in them ------------------------------------------------------------------------

LOOP = """
limits: {steps: 9, tries: 2}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: errors.total >= 5, signal: error_rate}
  - {when: run.visits.b >= 2, to: aside, at: [b]}
  - {when: run.visits.b >= 3, to: aside, before: [b]}
states:
  a: {do: act, next: q}
  q: {ask: "On?", when: last.ok, then: b, else: {to: halt, set: {vars.n: vars.n + 1}}}
  b: {do: act, status: debugging, set: {vars.n: 0}, next: a}
  aside: {do: keep, next: return}
  halt: {stop: completed, next: tell}
  tell: {do: keep, next: over}
  over: {end: by_reason}
vars: {n: 1}
"""


def test_rules_stand_at_the_parent_once() -> None:
    parent = xstate_config(machine(LOOP))["states"]["under-rules"]
    checks = parent["on"]["check"]
    assert [(c["meta"]["edge"], c["target"]) for c in checks] == [("rules.0", "#m.over")]
    assert checks[0]["actions"] == [{"type": "chartloop.stop", "params": {"reason": "steps_limit"}}]
    assert parent["initial"] == "a"


def test_a_state_with_more_rules_has_them_all_in_order() -> None:
    found = states(LOOP)
    assert [c["meta"]["edge"] for c in found["b"]["on"]["check"]] == [
        "rules.0",
        "rules.2",
        "rules.3",
    ]
    assert "check" not in found["a"]["on"]


def test_a_rule_before_a_state_is_tried_where_a_decision_leads_there() -> None:
    edges = [way["meta"]["edge"] for way in states(LOOP)["q"]["always"]]
    assert edges == ["rules.3", "q.then", "q.else"]


def test_a_rule_that_only_signals_is_in_the_table_and_leads_nowhere() -> None:
    config = xstate_config(machine(LOOP))
    table = {rule["id"]: rule for rule in config["meta"]["chartloop"]["rules"]}
    assert table["rules.1"] == {
        "id": "rules.1", "guard": None, "text": "errors.total >= 5", "kind": "signal",
        "reason": "error_rate",
    }  # fmt: skip
    assert '"edge": "rules.1"' not in json.dumps(config)


def test_after_a_stop_there_are_no_rules() -> None:
    config = xstate_config(machine(LOOP))
    assert set(config["states"]) == {"under-rules", "halt", "tell", "over"}


def test_what_happens_on_entering_and_on_the_way_stands_in_order() -> None:
    found = states(LOOP)
    assert found["b"]["entry"] == [
        {"type": "chartloop.status", "params": {"status": "debugging"}},
        {"type": "chartloop.set", "params": {"vars.n": 0}},
        {"type": "act"},
    ]
    (_, _, otherwise) = found["q"]["always"]
    assert otherwise["actions"] == [{"type": "chartloop.set", "params": {"vars.n": "vars.n + 1"}}]


@pytest.mark.node("xstate")
def test_xstate_does_it_also_where_a_state_leads_to_itself(xstate: Oracle) -> None:
    body = """
vars: {n: 0}
states:
  a: {do: act, retry: {times: 1}, next: [{when: last.ok, to: a, set: {vars.n: 2}}, b]}
  b: {do: keep, status: debugging, set: {vars.n: 1}, next: done}
  done: {stop: completed}
"""
    going = [
        Happening(""), Happening("advance", frozenset({"a_retry"})),
        Happening("advance", frozenset({"a_next_0"})), Happening("advance"), Happening("advance"),
    ]  # fmt: skip
    said = xstate.ask({"config": xstate_config(machine(body))}, going)
    assert said["done"] == [
        ["act"], ["act"], ["chartloop.set", "act"],
        ["chartloop.status", "chartloop.set", "keep"], ["chartloop.stop"],
    ]  # fmt: skip


def test_a_rule_of_one_state_is_at_that_state() -> None:
    body = """
rules: [{when: last.ok, stop: custom, at: [a]}]
states: {a: {do: act, next: b}, b: {do: act, next: done}, done: {stop: completed}}
"""
    found = states(body)
    assert [way["meta"]["edge"] for way in found["a"]["on"]["check"]] == ["rules.0"]
    assert list(found["b"]["on"]) == ["advance"]


def test_scxml_says_the_same_in_attributes() -> None:
    root = document(to_scxml(machine(LOOP)))
    found = {state.get("id"): state for state in root.iter(f"{SCXML}state")}
    b = found["b"]
    assert (b.get(f"{OURS}status"), b.get(f"{OURS}set"), b.get(f"{OURS}do")) == (
        "debugging", '{"vars.n": 0}', "act",
    )  # fmt: skip
    ways = found["q"].findall(f"{SCXML}transition")
    assert [(w.get("cond"), w.get(f"{OURS}when"), w.get(f"{OURS}before")) for w in ways] == [
        ("holding && holding.rules_3", "run.visits.b >= 3", "b"),
        ("holding && holding.q_then", "last.ok", None),
        (None, None, None),
    ]


def test_what_the_engine_adds_is_there_when_it_is_asked_for() -> None:
    body = "states: {a: {do: act, next: done}, done: {stop: completed}}"
    plain = xstate_config(machine(body))
    assert set(plain["states"]) == {"a", "done"}
    every = xstate_config(machine(body), all=True)
    assert {"end-completed", "end-error"} <= set(every["states"])
    texts = [guard["text"] for guard in every["meta"]["chartloop"]["guards"].values()]
    assert "raised: critical_failure, error, guard_error" in texts


DEADLINES = """
limits: {short: 30s}
vars: {wanted: 5.0}
states:
  a: {ask: "?", on: {yes: b}, within: limits.short, expired: b}
  b: {ask: "?", on: {yes: c}, within: 99d, expired: c}
  c: {ask: "?", on: {yes: done}, within: "duration('1s') * vars.wanted / (vars.wanted - 5)", expired: done}
  done: {stop: completed}
"""


def test_deadlines_are_timers_where_they_are_known() -> None:
    found = states(DEADLINES)
    assert list(found["a"]["after"]) == ["30000"]
    assert list(found["b"]["after"]) == [str(LONGEST)]
    assert list(found["c"]["after"]) == ["c_within"]
    delays = xstate_config(machine(DEADLINES))["meta"]["chartloop"]["delays"]
    assert delays["a_within"] == {"text": "limits.short", "seconds": 30.0}
    assert delays["c_within"]["seconds"] is None
    root = document(to_scxml(machine(DEADLINES)))
    (a, *_) = root.iter(f"{SCXML}state")
    assert a.get(f"{OURS}within") == "limits.short"
    assert [t.get("event") for t in a.findall(f"{SCXML}transition")] == ["yes", "expired"]


# the status of the run ----------------------------------------------------------------------

STATUS = """
rules: [{when: run.steps >= 3, stop: steps_limit}]
states:
  running: {do: act, next: status}
  status: {ask: "Well?", on: {complete: state, pause: running}}
  state: {stop: completed}
"""
"""States and events with names that the status has, too."""

GOING = [
    Happening(""),
    Happening("status.start"),
    Happening("advance"),
    Happening("status.pause"),
    Happening("pause"),
    Happening("status.resume", frozenset({"paused_on_resume_0"})),
    Happening("advance"),
    Happening("complete"),
    Happening("status.complete"),
    Happening("status.complete", frozenset({"running_on_complete"})),
]
GONE = [
    {"running", "idle"}, {"running"}, {"status", "running"}, {"status", "paused"},
    {"running", "paused"}, {"running", "debugging"}, {"status", "debugging"},
    {"state", "debugging"}, {"state", "debugging"}, {"state", "debugging"},
]  # fmt: skip


@pytest.mark.node("xstate")
def test_xstate_runs_the_status_beside_the_state(xstate: Oracle) -> None:
    config = json.loads(to_xstate(machine(STATUS), status=True))
    said = xstate.ask({"config": config}, GOING)
    assert [set(at) for at in said["path"]] == GONE


@pytest.mark.node("@scion-scxml/scxml")
def test_scion_runs_the_status_beside_the_state(scion: Oracle) -> None:
    said = scion.ask({"document": to_scxml(machine(STATUS), status=True)}, GOING[1:])
    assert [{name.removeprefix("status-") for name in at} for at in said["path"]] == GONE


@pytest.mark.extra("statemachine", install='pip install -e ".[test-all]"')  # noqa: S610 - no Django
def test_python_statemachine_runs_the_status_beside_the_state() -> None:
    read = Statemachine(to_scxml(machine(STATUS), status=True))
    gone = [{name.removeprefix("status-") for name in at} for at in read.paths(GOING[1:])]
    assert gone == GONE


# hostile texts ------------------------------------------------------------------------------

HOSTILE = [
    '"', "'", "<", "]]>", "<!--", "&amp;", "&", "\\", "\\n", "\n", "a\tb", "\r\n", "</script>", "${x}",
    "\u202egnp.exe", "\u200b", "\x7f", "\x9b", "\u2028", "שלום", "مرحبا", "🎉", "e\u0301", "\ufeffx",
    "%s", "{{ 1 }}", "#m.done", "xstate.done", "__proto__", "constructor", "a" * 1900,
]  # fmt: skip


def quoted(text: str) -> str:
    """A text in YAML; beyond U+FFFF its escapes are not those of JSON."""
    return "".join(c if c > "\uffff" else json.dumps(c)[1:-1] for c in text).join('""')


def hostile(text: str) -> str:
    """A machine whose texts are hostile, and whose states are named as what others use."""
    written = quoted(text.replace("{", "{{").replace("}", "}}"))
    compared = re.sub(r"[\x7f-\x9f]", "", text)  # an expression takes no controls
    guard = quoted(f"last.text == {json.dumps(compared, ensure_ascii=False)}")
    return (
        f"title: {quoted(text)}\nstates:\n"
        f"  constructor: {{do: act, label: {written}, about: {quoted(text)}, next: default}}\n"
        f"  default:\n    ask: {written}\n    next:\n"
        f"    - {{when: {guard}, label: {written}, to: m}}\n    - constructor\n"
        "  m: {stop: completed}\n"
    )


@pytest.mark.node("xstate")
@pytest.mark.node("@scion-scxml/scxml")
def test_words_of_the_formats_are_names_of_states(xstate: Oracle, scion: Oracle) -> None:
    words = (
        "initial final parallel history state scxml transition on entry exit invoke always".split()
    )
    words += "after done error id type target constructor prototype default end class".split()
    ways = zip(words, [*words[1:], "over"], strict=True)
    body = "".join(f"  {word}: {{do: nothing, next: {to}}}\n" for word, to in ways)
    made = machine(f"states:\n{body}  over: {{stop: completed}}\n")
    live, going = Live(made), [Happening("")] + [Happening("advance")] * len(words)
    said = [
        xstate.ask({"config": json.loads(to_xstate(made))}, going),
        scion.ask({"document": to_scxml(made)}, going),
    ]
    assert [told(one) for one in said] == [live.ways()] * 2
    assert [one["path"][-1] for one in said] == [["over"]] * 2


@pytest.mark.node("xstate")
@pytest.mark.node("@scion-scxml/scxml")
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
def test_hostile_texts_come_back(xstate: Oracle, scion: Oracle, text: str) -> None:
    made = machine(hostile(text))
    live = Live(made)
    label = live.label("constructor")
    going = [
        Happening(""),
        Happening("advance"),
        Happening("advance", frozenset(live.names.values())),
    ]

    config = json.loads(to_xstate(made))
    said = xstate.ask({"config": config}, going)
    assert told(said) == live.ways()
    assert said["path"] == [["constructor"], ["constructor"], ["m"]]
    assert said["states"]["constructor"]["description"] == "\n\n".join(
        part for part in (label, made.spec.states["constructor"].about) if part
    )
    (guard,) = config["meta"]["chartloop"]["guards"].values()
    assert guard["text"] == made.spec.states["default"].edges[0].when.text  # type: ignore[union-attr]

    root = document(to_scxml(made))
    found = {state.get("id"): state for state in root.iter(f"{SCXML}state")}
    assert found["constructor"].get(f"{OURS}label") == label
    assert root.get(f"{OURS}title") == made.spec.title
    (way, _) = found["default"].findall(f"{SCXML}transition")
    assert way.get(f"{OURS}when") == guard["text"]
    assert scion.ask({"document": to_scxml(made)}, going[1:])["path"] == said["path"]


@pytest.mark.parametrize("sign", ["\u202e", "\u2066", "\u200b", "\x9b", "\u2028"], ids=ascii)
def test_a_character_that_nobody_sees_is_written_as_its_number(sign: str) -> None:
    made = machine(hostile(f"a{sign}b"))
    assert sign not in to_xstate(made)
    assert sign not in to_scxml(made)


@pytest.mark.slow("starts processes for seconds")
def test_what_no_xml_can_hold_becomes_a_replacement_sign() -> None:
    made = machine('title: "a\\u0001b"\nstates: {done: {stop: completed}}')
    assert made.spec.title == "a\x01b"
    assert document(to_scxml(made)).get(f"{OURS}title") == "a\ufffdb"
    assert json.loads(to_xstate(made))["description"] == "a\x01b"

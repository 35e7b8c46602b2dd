"""Laws of what is certain: an error about an action is true of every run.

Machines are drawn that make the mistakes which `check` names: a template of what is not there, a
part that no result has, an input that nothing brings. They are run although they have errors. An
error at a state means that every attempt of its action fails; so no error stands in a machine of
which some run ends without failing there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.analysis.checker import examine
from chartloop.api import Machine, lifecycle
from chartloop.language.load import load
from chartloop.machine.build import Chart
from chartloop.testing.clock import ManualClock

Data = dict[str, Any]
CERTAIN = ("CL118", "CL345", "CL363", "CL407")
"""The errors that say that an action fails in every run."""
TEXTS = (
    "{{ errors.last.message }}", "{{ last.error.message }}", "{{ last.answer.why }}",
    "{{ last.answer.none }}", "{{ last.result.text }}", "{{ last.result.data.t }}",
    "{{ last.result.data.o }}", "{{ last.result.output.count }}", "{{ last.result.output.text }}",
    "{{ last.result.step }}", "{{ last.result.children[0].text }}", "{{ last.result[0] }}",
    "{{ last.result.messages[0].content }}", "{{ last.result.operation }}", "{{ last.result }}",
    "{% if errors.last %}{{ errors.last.message }}{% endif %}",
    "{% if not last.ok %}{{ last.error.message }}{% endif %}",
    "{% if last.error is none %}{{ last.result.text }}{% else %}{{ errors.last.state }}{% endif %}",
    "{{ last.result.data.t | default('') }}", "{{ errors.last.message if errors.total > 0 else 1 }}",
    "{% if errors.last.message %}x{% endif %}", "{{ usage.cost | round(2) }}",
    "{% for one in vars.plan %}{{ last.error.message }}{% endfor %}",
    "{{ last.answer.why is defined and last.answer.why }}", "{{ queue.current.text }}",
    "{{ last.result.data.t ~ last.result.text }}", "{{ errors.last.message | default('') | upper }}",
)  # fmt: skip
"""What templates read: each is there in some of the drawn machines, at some of their states."""
GUARDS = (
    "last.ok", "not last.ok", "errors.last is not None", "errors.total > 0", "run.steps >= 2",
    "last.error is not None", "vars.n > 0", "last.answer is not None", 'last.text == "x"',
)  # fmt: skip
SCHEMA = {
    "type": "object", "required": ["t"],
    "properties": {"t": {"type": "string"}, "o": {"type": "string"}},
}  # fmt: skip
KID = {
    "model": {"name": "scripted", "context_window": 8000}, "output": {"count": "run.steps"},
    "limits": {"steps": 5}, "rules": [{"when": "run.steps >= limits.steps", "stop": "steps_limit"}],
    "states": {
        "a": {"do": "receive", "next": "b"}, "b": {"do": "nothing", "next": "c"},
        "c": {"stop": "completed"},
    },
}  # fmt: skip
_ACTIONS = (
    "nothing", "receive", "report", "report", "report", "prompt", "ask_user", "infer", "infer",
    "parse", "checkpoint", "restore", "call_tools", "update_memory", "run_machine", "run_machines",
)  # fmt: skip


@st.composite
def _action(draw: st.DrawFn) -> Data:
    """An action with its fields, and what it saves."""

    def some(**fields: Any) -> Data:
        return {name: value for name, value in fields.items() if draw(st.booleans())}

    what = draw(st.sampled_from(_ACTIONS))
    given: Data = {}
    match what:
        case "report" | "ask_user":
            given = {"text": draw(st.sampled_from(TEXTS))}
        case "prompt":
            given = {"user": draw(st.sampled_from(TEXTS))}
        case "infer":
            save = draw(st.sampled_from(["result.text", "{{ result.text }}"]))
            return {"do": what, "with": some(output=SCHEMA), **some(save={"vars.w": save})}
        case "parse":
            given = {"vars.w": {"tag": "W", "required": draw(st.booleans())}}
        case "update_memory":
            count, change = draw(st.sampled_from([1, 6, 12])), {"old": "Ann", "new": "Bobby-Joe"}
            text = draw(st.sampled_from([{"append": "x" * count}, change]))
            given = {"block": "human", **text}
        case "run_machine":
            more = some(task="x", share=["messages"], start=draw(st.sampled_from(["a", "b"])))
            part = draw(st.sampled_from(["count", "text"]))
            return {
                "do": what, "with": {"machine": "kid", **more},
                "save": {"vars.any": f"result.output.{part}"},
            }  # fmt: skip
        case "run_machines":
            each = draw(st.sampled_from(["[1]", '["a"]', "vars.ns", "vars.plan"]))
            given = {"machine": "kid", "each": each}
        case _:
            pass
    return {"do": what, **({"with": given} if given else {})}


@st.composite
def mistaken(draw: st.DrawFn) -> Data:
    """A small machine that may make one of the mistakes at any of its states."""
    names = [f"s{n}" for n in range(draw(st.integers(2, 5)))]
    targets = [*names, "done"]
    states: Data = {}
    for n, name in enumerate(names):
        onward = st.sampled_from([*names[n + 1 :], "done", *draw(st.sampled_from([targets, []]))])
        if draw(st.integers(0, 5)) == 0:
            to = {"to": draw(onward), "data": {"why": "str"}}
            states[name] = {"ask": "Q?", "on": {"yes": draw(onward), "no": to}}
            continue
        state = draw(_action())
        edges = [{"to": draw(onward)}]
        if draw(st.booleans()):
            edges.insert(0, {"when": draw(st.sampled_from(GUARDS)), "to": draw(onward)})
        failed = draw(st.sampled_from(["", "", "next", "edge"]))
        state |= {"failed": "next" if failed == "next" else draw(onward)} if failed else {}
        if draw(st.integers(0, 6)) == 0:
            state["retry"] = {"times": 1, "base": "0s", "on": ["TRANSIENT", "RECOVERABLE"]}
        states[name] = state | {"next": edges}
    rules: list[Data] = [{"when": "run.steps >= 12", "stop": "steps_limit"}]
    made: Data = {}
    if draw(st.integers(0, 3)) == 0:
        rules.append({"when": "run.steps == 2", "to": "side"})
        states["side"] = {
            "do": "report",
            "with": {"text": draw(st.sampled_from(TEXTS))},
            "next": "return",
        }
    if draw(st.integers(0, 3)) == 0:
        made["on_stop"] = "wrap"
        states["wrap"] = {
            "do": "report",
            "with": {"text": draw(st.sampled_from(TEXTS))},
            "next": "over",
        }
        states["over"] = {"end": "by_reason"}
    if draw(st.integers(0, 4)) == 0:
        made["on_error"] = draw(st.sampled_from(targets))
    states["done"] = {"stop": "completed"}
    return {
        "chartloop": 1, "machine": "m", "model": {"name": "scripted", "context_window": 8000},
        "vars": {
            "n": 0, "w": "", "plan": {"type": "list[str]", "value": ["a"]},
            "ns": {"type": "list[int]", "value": [1]}, "any": {"type": "any", "value": 0},
        },
        "memory": {"human": {"value": "Ann", "limit": 8}}, "machines": {"kid": KID},
        "rules": rules, "states": states, **made,
    }  # fmt: skip


_replies = st.lists(
    st.sampled_from(
        [
            "ok", "<W>w</W>", '{"t": "x"}', '{"t": "x", "o": "y"}',
            {"error": {"category": "TRANSIENT", "message": "m"}},
        ]
    ),
    min_size=1, max_size=5,
)  # fmt: skip
_STARTS: tuple[Data, ...] = (
    {}, {"task": "t"}, {"task": "t", "vars": {"n": 1}}, {"vars": {"ns": []}}, {"vars": {"plan": []}},
    {"task": "t", "memory": {"human": ""}},
)  # fmt: skip
"""What a caller may give."""


def _attempts(
    machine: Machine, replies: list[Any], answers: str, options: Data
) -> Iterator[tuple[str, bool]]:
    """Run a machine: the state of each action, and whether it succeeded, its `save` included."""
    run = machine.start(script=replies * 30, clock=ManualClock(), **options)
    for answer in answers:
        while (record := run.advance()) is not None:
            if record.kind == "step":
                yield record.state, run.facts.last.ok
        if run.ended or run.question is None:
            return
        run.send("yes") if answer == "y" else run.send("no", {"why": "w"})


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(mistaken(), _replies, st.text("yn", min_size=4, max_size=14), st.sampled_from(_STARTS))
@settings(max_examples=150, deadline=None)
def test_an_action_that_is_said_to_fail_always_does(
    data: Data, replies: list[Any], answers: str, options: Data
) -> None:
    loaded = load(json.dumps(data), "drawn.yaml", with_own(specs_of([])))
    assert loaded.spec is not None
    assert loaded.ok, [f.render() for f in loaded.findings]
    chart = Chart(loaded.spec, lifecycle())
    found = [f for f in examine(chart, loaded.tainted).findings if f.code in CERTAIN]
    for state, ok in _attempts(Machine(chart), replies, answers, options):
        if said := [f for f in found if f.at.startswith(f"states.{state}.")]:
            event(f"{said[0].code} came about")
            assert not ok, said[0].render()

"""What fails in every run is named before the run, and what people write correctly is not.

The table of mistakes has six columns, by where the mistake can be seen: what a tool returns, what is
written out, an argument that is missing, a limit, a value that may be None, and memory. Each row is
a file that fails or stops short whatever the model says. The table of correct files has the same
columns: each is close to a mistake.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal, NamedTuple, NotRequired

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from chartloop import tool
from chartloop.api import find_faults


class Who(TypedDict):
    """A result with two keys."""

    name: str
    age: int
    nick: NotRequired[str]


@dataclasses.dataclass
class Point:
    """A result that is made data."""

    x: int
    tags: list[str]


class Price(BaseModel):
    """A result of a library for models."""

    usd: float
    note: str | None = None


class Open(BaseModel, extra="allow"):
    """A result that may have more keys than it says."""

    usd: float


class Verdict(TypedDict):
    """What a screen reads."""

    verdict: Literal["pass", "redact", "stop"]
    reason: str


@tool
def search(text: str) -> str:
    """Find something."""
    return text


@tool
def charge(usd: float) -> str:
    """Charge a number."""
    return str(usd)


@tool
def count(text: str) -> int:
    """Count something."""
    return len(text)


@tool
def share(text: str) -> float:
    """Measure something."""
    return len(text) / 100


@tool
def words(text: str) -> list[str]:
    """Split something."""
    return text.split()


@tool
def people(text: str) -> list[Who]:
    """List somebody."""
    return [{"name": text, "age": 1}]


@tool
def info(text: str) -> dict[str, Any]:
    """Look something up."""
    return {"verdict": "pass", "reason": text}


@tool
def counts(text: str) -> dict[str, int]:
    """Count several things."""
    return {text: 1}


@tool
def who(text: str) -> Who:
    """Look somebody up."""
    return {"name": text, "age": 1}


@tool
def maybe(text: str) -> Who | None:
    """Look somebody up, who may not be there."""
    return {"name": text, "age": 1} if text else None


@tool
def point(text: str) -> Point:
    """Find a place."""
    return Point(1, [text])


@tool
def price(text: str) -> Price:
    """Find a price."""
    return Price(usd=len(text))


@tool
def opened(text: str) -> Open:
    """Find a price, and more."""
    return Open(usd=len(text))


@tool
def buy(usd: float, item: str) -> str:
    """Buy something."""
    return f"{item} for {usd}"


@tool
def anything(text: str) -> Any:
    """Give whatever it is."""
    return {"a": {"b": text}}


@tool
def unsaid(text: str):
    """Give whatever it is, and say nothing of it."""
    return {"a": [text]}


@tool
def kind(text: str) -> Literal["good", "bad"]:
    """Judge in one word."""
    return "good" if text else "bad"


@tool
def judge(text: str) -> Verdict:
    """Judge a text for a screen."""
    return {"verdict": "pass", "reason": text}


@tool
def note(text: str) -> None:
    """Write something down."""


OWN = [
    charge,
    search, count, share, words, people, info, counts, who, maybe, point, price, opened, buy,
    anything, unsaid, kind, judge, note,
]  # fmt: skip


class Case(NamedTuple):
    """A file, and the code of its finding; empty if there is none."""

    id: str
    body: str
    code: str = ""


HEAD = (
    "chartloop: 1\nmachine: m\nmodel: {name: scripted, context_window: 8000, "
    "input_cost_per_token: 0.1, output_cost_per_token: 0.1}\n"
)
DONE = "  done: {stop: completed}\n"
RULE = "limits: {steps: 30}\nrules: [{when: run.steps >= limits.steps, stop: steps_limit}]\n"
LOOP = """tools: [search]
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
"""
REASON = "reasons: {unsafe: {priority: 6, status: completed}}\n"
SAYS = "  say: {do: report, with: {text: '{{ vars }}'}, next: done}\n"


def called(name: str, after: str, *, var: str = "str", value: str = "''", more: str = "") -> str:
    """A file that calls a tool, and what is done with its result."""
    return (
        f"vars: {{r: {{type: '{var}', value: {value}}}}}\n{more}states:\n"
        f"  a: {{do: tool, with: {{name: {name}, arguments: {{text: x}}}}, {after}}}\n"
        "  say: {do: report, with: {text: '{{ vars.r }}'}, next: done}\n" + DONE
    )


def guarded(name: str, guard: str) -> str:
    """A file that decides by what a tool returned."""
    return (
        f"states:\n  a: {{do: tool, with: {{name: {name}, arguments: {{text: x}}}}, next: b}}\n"
        f"  b: {{when: '{guard}', then: done, else: other}}\n  other: {{stop: custom}}\n" + DONE
    )


def shown(name: str, text: str) -> str:
    """A file that prints what a tool returned."""
    return (
        f"states:\n  a: {{do: tool, with: {{name: {name}, arguments: {{text: x}}}}, next: b}}\n"
        f"  b: {{do: report, with: {{text: '{text}'}}, next: done}}\n" + DONE
    )


def constant(vars: str, state: str) -> str:
    """A file with variables that nothing changes."""
    return f"vars: {vars}\nstates:\n  a: {{{state}, next: done}}\n" + DONE


def queued(tasks: str) -> str:
    """A file that enqueues what it says, and works on it."""
    return (
        RULE + f"states:\n  e: {{do: enqueue, with: {{tasks: {tasks}}}, next: w}}\n"
        "  w: {do: work, next: [{when: queue.size > 0, to: w}, {to: done}]}\n" + DONE
    )


def worked(tasks: str) -> str:
    """A file with tasks of its own."""
    return (
        RULE + f"tools: [search, buy]\ntasks: {tasks}\nstates:\n"
        "  w: {do: work, next: [{when: queue.size > 0, to: w}, {to: done}]}\n" + DONE
    )


KID = """machines:
  kid:
    model: {name: scripted, context_window: 8000}
    inputs: {task: {}, n: {}}
    vars: {n: 1}
    instructions: "{{ vars.n }}"
    output: last.text
    states:
      q: {do: receive, next: t}
      t: {do: infer, next: done}
      done: {stop: completed}
"""


def ran(given: str, *, vars: str = "") -> str:
    """A file that runs a child which receives its task."""
    head = f"vars: {vars}\n" if vars else ""
    return (
        head
        + f"states:\n  a: {{do: run_machine, with: {{machine: kid{given}}}, next: done}}\n"
        + DONE
        + KID
    )


def several(each: str, *, vars: str = "") -> str:
    """A file that runs a child for each item."""
    head = f"vars: {vars}\n" if vars else ""
    return (
        head + "states:\n"
        f"  a: {{do: run_machines, with: {{machine: kid, each: {each}}}, next: done}}\n"
        + DONE
        + KID
    )


def screened(name: str, more: str = "") -> str:
    """A file whose screen is a tool."""
    return (
        REASON + "states:\n  ask: {do: receive, next: look}\n"
        f"  look: {{do: screen, with: {{tool: {name}, stop: unsafe{more}}}, next: think}}\n"
        "  think: {do: infer, next: done}\n" + DONE
    )


def timed(t: str, path: str, guard: str = "run.elapsed >= limits.t") -> str:
    """A file with a limit of time, and the only way through it."""
    return (
        f"limits: {{t: {t}}}\nrules: [{{when: {guard}, stop: time_limit}}]\nstates:\n{path}" + DONE
    )


def replied(schema: dict[str, Any]) -> str:
    """A file whose reply must fit a schema."""
    return (
        "states:\n  ask: {do: receive, next: t}\n"
        f"  t: {{do: infer, with: {{output: {json.dumps(schema)}}}, next: done}}\n" + DONE
    )


def remembered(block: str, *states: str) -> str:
    """A file with a memory block that its states edit, one after the other."""
    names = [f"m{n}" for n in range(len(states))]
    lines = [
        f"  {name}: {{do: update_memory, with: {{block: n, {given}}}, next: {after}}}\n"
        for name, given, after in zip(names, states, [*names[1:], "think"], strict=True)
    ]
    return (
        f"memory: {{n: {block}}}\nstates:\n  ask: {{do: receive, next: m0}}\n"
        + "".join(lines)
        + "  think: {do: infer, next: done}\n"
        + DONE
    )


def obj(required: list[str], **properties: Any) -> dict[str, Any]:
    """The schema of an object."""
    return {"type": "object", "required": required, "properties": properties}


def paid(vars: str, usd: str) -> str:
    """A file that calls a tool which takes a number."""
    return (
        f"vars: {vars}\nstates:\n"
        f"  a: {{do: tool, with: {{name: charge, arguments: {{usd: '{usd}'}}}}, next: done}}\n"
        + DONE
    )


def fed(what: str, given: str) -> str:
    """A file whose child needs what its parent gives it."""
    needs = {
        "tasks": "e: {do: enqueue, with: {tasks: vars.l}, next: w}\n      w: {do: work, next: [{when: queue.size > 0, to: w}, {to: done}]}",
        "index": "e: {when: 'vars.l[0] == 1', then: done, else: z}\n      z: {stop: custom}",
        "memory": "e: {do: update_memory, with: {block: b, old: Eve, new: Bob}, next: t}\n      t: {do: infer, next: done}",
        "limits": "e: {do: infer, next: t}\n      t: {do: infer, next: done}",
    }[what]  # fmt: skip
    own = {
        "tasks": "vars: {l: {type: 'list[any]', value: [1]}}",
        "index": "vars: {l: {type: 'list[int]', value: []}}",
        "memory": "memory: {b: ''}", "limits": "title: Kid",
    }[what]  # fmt: skip
    return (
        f"states:\n  a: {{do: run_machine, with: {{machine: kid, task: x{given}}}, next: done}}\n{DONE}"
        "machines:\n  kid:\n    model: {name: scripted, context_window: 8000}\n"
        f"    {own}\n    limits: {{s: {1 if what == 'limits' else 20}}}\n"
        "    rules: [{when: run.steps >= limits.s, stop: steps_limit}]\n"
        f"    states:\n      q: {{do: receive, next: e}}\n      {needs}\n    {DONE}"
    )


B = "{do: report, with: {text: x}, next: done}"
RETURNED = [
    Case("text-has-no-part", called("search", "save: {vars.r: result.text}, next: say"), "CL407"),
    Case("text-has-no-item", called("search", "save: {vars.r: 'result[0]'}, next: say"), "CL407"),
    Case(
        "text-into-number",
        called("search", "save: {vars.r: result}, next: say", var="int", value="0"),
        "CL104",
    ),
    Case(
        "text-into-list",
        called("search", "save: {vars.r: result}, next: say", var="list[str]", value="[]"),
        "CL104",
    ),
    Case(
        "text-into-map",
        called("search", "save: {vars.r: result}, next: say", var="map[any]", value="{}"),
        "CL104",
    ),
    Case("number-into-text", called("count", "save: {vars.r: result}, next: say"), "CL104"),
    Case("number-has-no-part", called("count", "save: {vars.r: result.value}, next: say"), "CL407"),
    Case("list-into-text", called("words", "save: {vars.r: result}, next: say"), "CL104"),
    Case("list-has-no-key", called("words", "save: {vars.r: result.first}, next: say"), "CL407"),
    Case(
        "list-of-texts-into-numbers",
        called("words", "save: {vars.r: result}, next: say", var="list[int]", value="[]"),
        "CL104",
    ),
    Case(
        "item-of-a-list-of-records",
        called("people", "save: {vars.r: 'result[0].nam'}, next: say"),
        "CL407",
    ),
    Case(
        "item-appended-of-another-type",
        called("words", "save: {vars.r: {append: result}}, next: say", var="list[str]", value="[]"),
        "CL104",
    ),
    Case("map-into-text", called("info", "save: {vars.r: result}, next: say"), "CL104"),
    Case(
        "map-of-numbers-into-text", called("counts", "save: {vars.r: result.a}, next: say"), "CL104"
    ),
    Case("map-has-no-item", called("info", "save: {vars.r: 'result[0]'}, next: say"), "CL407"),
    Case("record-misspelt", called("who", "save: {vars.r: result.nam}, next: say"), "CL407"),
    Case("record-into-text", called("who", "save: {vars.r: result}, next: say"), "CL104"),
    Case(
        "record-key-of-another-type",
        called("who", "save: {vars.r: result.age}, next: say"),
        "CL104",
    ),
    Case(
        "record-key-that-may-be-missing",
        called("who", "save: {vars.r: result.nick}, next: say"),
        "CL117",
    ),
    Case(
        "record-that-may-be-none",
        called("maybe", "save: {vars.r: result.name}, next: say"),
        "CL117",
    ),
    Case(
        "record-that-may-be-none-misspelt",
        called("maybe", "save: {vars.r: result.nam}, next: say"),
        "CL407",
    ),
    Case("dataclass-misspelt", called("point", "save: {vars.r: result.z}, next: say"), "CL407"),
    Case(
        "dataclass-list-of-texts",
        called("point", "save: {vars.r: result.tags.a}, next: say"),
        "CL407",
    ),
    Case("model-misspelt", called("price", "save: {vars.r: result.euro}, next: say"), "CL407"),
    Case(
        "model-field-into-text", called("price", "save: {vars.r: result.usd}, next: say"), "CL104"
    ),
    Case(
        "model-field-that-may-be-none",
        called("price", "save: {vars.r: result.note}, next: say"),
        "CL117",
    ),
    Case(
        "nothing-returned-has-no-part",
        called("note", "save: {vars.r: result.id}, next: say"),
        "CL407",
    ),
    Case("word-has-no-part", called("kind", "save: {vars.r: result.word}, next: say"), "CL407"),
    Case(
        "template-part-of-a-text",
        called("search", "save: {vars.r: '{{ result.text }}'}, next: say"),
        "CL406",
    ),
    Case(
        "template-misspelt-key",
        called("who", "save: {vars.r: '{{ result.nam }}'}, next: say"),
        "CL103",
    ),
    Case("guard-misspelt-key", guarded("who", 'last.result.nam == "x"'), "CL103"),
    Case("guard-part-of-a-text", guarded("search", 'last.result.text == "x"'), "CL103"),
    Case("guard-of-another-type", guarded("count", 'last.result == "x"'), "CL104"),
    Case("guard-word-that-is-not-returned", guarded("kind", 'last.result == "fine"'), "CL111"),
    Case("guard-that-is-not-true-or-false", guarded("count", "last.result"), "CL106"),
    Case("guard-of-what-may-be-none", guarded("maybe", 'last.result.name == "x"'), "CL105"),
    Case("print-misspelt-key", shown("who", "{{ last.result.nam }}"), "CL118"),
    Case("print-part-of-a-text", shown("search", "{{ last.result.text }}"), "CL118"),
    Case("print-item-of-a-number", shown("count", "{{ last.result[0] }}"), "CL118"),
    Case("print-key-that-may-be-missing", shown("who", "{{ last.result.nick }}"), "CL117"),
    Case(
        "set-to-another-type",
        called("count", "next: b") + "  b: {do: nothing, set: {vars.r: last.result}, next: say}\n",
        "CL104",
    ),
]
WRITTEN = [
    Case(
        "key-that-a-map-lacks",
        constant(
            "{mp: {type: 'map[str]', value: {a: x}}}", "do: report, with: {text: '{{ vars.mp.b }}'}"
        ),
        "CL343",
    ),
    Case(
        "key-in-the-instructions",
        "vars: {mp: {type: 'map[str]', value: {a: x}}}\ninstructions: '{{ vars.mp.b }}'\nstates:\n"
        "  ask: {do: receive, next: t}\n  t: {do: infer, next: done}\n" + DONE,
        "CL343",
    ),
    Case(
        "key-below-that-a-map-lacks",
        constant(
            "{mp: {type: 'map[any]', value: {a: {c: 1}}}}",
            "do: report, with: {text: '{{ vars.mp.a.d }}'}",
        ),
        "CL343",
    ),
    Case(
        "index-below-past-the-end",
        constant(
            "{mp: {type: 'map[any]', value: {a: [1, 2]}}}",
            "do: report, with: {text: '{{ vars.mp.a[2] }}'}",
        ),
        "CL343",
    ),
    Case(
        "key-in-a-guard",
        "vars: {mp: {type: 'map[int]', value: {a: 1}}}\nstates:\n  a: {when: vars.mp.b > 0, then: done, else: z}\n  z: {stop: custom}\n"
        + DONE,
        "CL343",
    ),
    Case(
        "key-in-a-set",
        "vars: {mp: {type: 'map[int]', value: {a: 1}}, n: 0}\nstates:\n  a: {do: nothing, set: {vars.n: vars.mp.b}, next: s}\n"
        "  s: {do: report, with: {text: '{{ vars.n }}'}, next: done}\n" + DONE,
        "CL343",
    ),
    Case(
        "key-in-the-output",
        "vars: {mp: {type: 'map[str]', value: {a: x}}}\noutput: vars.mp.b\nstates:\n  a: {do: nothing, next: done}\n"
        + DONE,
        "CL343",
    ),
    Case(
        "index-computed-past-the-end",
        "vars: {l: [1, 2], i: 2}\nstates:\n  a: {when: 'vars.l[vars.i] > 0', then: done, else: z}\n  z: {stop: custom}\n"
        + DONE,
        "CL343",
    ),
    Case(
        "smallest-of-nothing",
        "vars: {l: {type: 'list[int]', value: []}}\nstates:\n  a: {when: 'max(vars.l) > 0', then: done, else: z}\n  z: {stop: custom}\n"
        + DONE,
        "CL343",
    ),
    Case(
        "index-of-a-list-written-out",
        "vars: {n: 0}\nstates:\n  a: {do: nothing, set: {vars.n: '[1, 2][2]'}, next: s}\n"
        "  s: {do: report, with: {text: '{{ vars.n }}'}, next: done}\n" + DONE,
        "CL343",
    ),
    Case(
        "division-by-a-length-of-nothing",
        "vars: {l: {type: 'list[int]', value: []}}\nstates:\n  a: {when: '1 / len(vars.l) > 0', then: done, else: z}\n  z: {stop: custom}\n"
        + DONE,
        "CL343",
    ),
    Case("tasks-are-numbers", queued("[1, 2]"), "CL404"),
    Case("tasks-are-numbers-as-text", queued("'[1, 2]'"), "CL363"),
    Case("task-misspelt-key", queued('\'[{"txt": "a"}]\''), "CL363"),
    Case("task-misspelt-key-in-a-list", queued("[{txt: a}]"), "CL404"),
    Case("task-without-text", queued("[{id: a}]"), "CL404"),
    Case("task-with-empty-text", queued("[{text: ''}]"), "CL404"),
    Case("task-of-unknown-kind", queued('\'[{"text": "a", "kind": "second"}]\''), "CL363"),
    Case("task-by-nothing-known", queued('\'[{"text": "a", "by": {"human": "ann"}}]\''), "CL363"),
    Case("tasks-twice-one-id", queued("[{id: a, text: x}, {id: a, text: y}]"), "CL404"),
    Case("tasks-of-a-variable", "vars: {l: [1, 2]}\n" + queued("vars.l"), "CL364"),
    Case("each-misspelt-key", several("[{tsk: a}]"), "CL404"),
    Case("each-misspelt-key-as-text", several('\'[{"tsk": "a"}]\''), "CL363"),
    Case("each-task-is-a-number", several("'[{\"task\": 1}]'"), "CL363"),
    Case("each-vars-are-a-list", several("[{task: a, vars: [1]}]"), "CL404"),
    Case("each-of-a-variable", several("vars.l", vars="{l: [{tsk: a}]}"), "CL364"),
    Case("each-item-without-a-task", several("[{vars: {n: 1}}]"), "CL363"),
    Case("each-item-with-an-empty-task", several("['']"), "CL363"),
    Case("each-variable-that-the-child-lacks", several("[{task: a, vars: {m: 1}}]"), "CL103"),
    Case("each-variable-of-another-type", several("[{task: a, vars: {n: [1]}}]"), "CL404"),
]
MISSING = [
    Case("task-by-a-tool-with-two-arguments", worked("[{text: x, by: {tool: buy}}]"), "CL364"),
    Case(
        "task-enqueued-by-a-tool-with-two-arguments",
        queued('\'[{"text": "a", "by": {"tool": "buy"}}]\'').replace(
            "states:", "tools: [buy]\nstates:"
        ),
        "CL364",
    ),
    Case("screen-by-a-tool-without-text", screened("buy"), "CL341"),
    Case("screen-by-a-tool-that-returns-a-number", screened("count"), "CL341"),
    Case("screen-by-a-tool-that-returns-a-list", screened("words"), "CL341"),
    Case("screen-by-a-tool-that-returns-one-word", screened("kind"), "CL341"),
    Case("screen-by-a-tool-that-returns-another-record", screened("who"), "CL341"),
    Case("screen-by-a-tool-that-returns-nothing", screened("note"), "CL117"),
    Case("screen-by-a-tool-that-returns-numbers", screened("counts"), "CL341"),
    Case("screen-by-a-tool-that-returns-text", screened("search"), "CL117"),
    Case("screen-of-a-fact-without-braces", screened("judge", ", text: last.text"), "CL418"),
    Case("child-without-a-task", ran(""), "CL363"),
    Case("child-with-an-empty-task", ran(", task: ''"), "CL363"),
    Case("child-with-a-blank-task", ran(", task: ' '"), "CL363"),
    Case(
        "child-with-a-task-of-an-empty-variable",
        ran(", task: '{{ vars.t }}'", vars="{t: ''}"),
        "CL364",
    ),
    Case(
        "start-receives-what-inputs-leave-out",
        "inputs: {n: {}}\nvars: {n: 1}\ninstructions: '{{ vars.n }}'\nstates:\n  q: {do: receive, next: t}\n  t: {do: infer, next: done}\n"
        + DONE,
        "CL363",
    ),
    Case(
        "later-receives-what-inputs-leave-out",
        "inputs: {n: {}}\nvars: {n: 1}\nstates:\n  a: {do: report, with: {text: '{{ vars.n }}'}, next: q}\n  q: {do: receive, next: t}\n  t: {do: infer, next: done}\n"
        + DONE,
        "CL363",
    ),
]
LIMITED = [
    Case(
        "back-off-longer-than-the-run",
        timed("5s", "  a: {do: back_off, with: {base: 10s}, next: done}\n"),
        "CL347",
    ),
    Case(
        "two-back-offs-longer-than-the-run",
        timed(
            "5s",
            "  a: {do: back_off, with: {base: 3s}, next: b}\n  b: {do: back_off, with: {base: 3s}, next: done}\n",
        ),
        "CL347",
    ),
    Case(
        "back-off-of-a-limit",
        timed("5s, pause: 10s", "  a: {do: back_off, with: {base: limits.pause}, next: done}\n"),
        "CL347",
    ),
    Case(
        "back-off-longer-than-the-work",
        timed(
            "5s", "  a: {do: back_off, with: {base: 10s}, next: done}\n", "run.elapsed > limits.t"
        ),
        "CL347",
    ),
    Case(
        "no-time-for-a-model-call",
        timed("30ms", "  a: {do: receive, next: t}\n  t: {do: infer, next: done}\n"),
        "CL347",
    ),
    Case(
        "visits-above-steps",
        "limits: {steps: 12, visits: 50}\nrules:\n  - {when: run.steps >= limits.steps, stop: steps_limit}\n"
        "  - {when: run.visits.think >= limits.visits, stop: steps_limit}\n"
        + LOOP.replace("ask:", "ask:")
        + DONE,
        "CL330",
    ),
    Case(
        "visits-above-steps-in-the-rule-before",
        "rules:\n  - {when: run.visits.think >= 50, stop: steps_limit}\n"
        "  - {when: run.steps >= 12, stop: steps_limit}\n" + LOOP + DONE,
        "CL330",
    ),
    Case(
        "failures-above-steps",
        "limits: {steps: 12, errors: 50}\nrules:\n  - {when: run.steps >= limits.steps, stop: steps_limit}\n"
        "  - {when: errors.consecutive >= limits.errors, stop: error_threshold}\n"
        + LOOP.replace("do: infer,", "do: infer, failed: next,")
        + DONE,
        "CL330",
    ),
    Case(
        "visits-above-steps-on-an-edge",
        RULE
        + LOOP.replace(
            "{when: len(last.tool_calls) > 0, to: act}",
            "{when: run.visits.think >= 60, to: done}, {when: len(last.tool_calls) > 0, to: act}",
        )
        + DONE,
        "CL330",
    ),
    Case(
        "share-of-ninety",
        "limits: {steps: 12, ctx: 90}\nrules:\n  - {when: run.steps >= limits.steps, stop: steps_limit}\n"
        "  - {when: usage.context_ratio >= limits.ctx, stop: token_limit}\n" + LOOP + DONE,
        "CL330",
    ),
    Case(
        "share-of-a-failure-rate",
        "limits: {steps: 12, bad: 50}\nrules:\n  - {when: run.steps >= limits.steps, stop: steps_limit}\n"
        "  - {when: errors.rate >= limits.bad, stop: error_threshold}\n"
        + LOOP.replace("do: infer,", "do: infer, failed: next,")
        + DONE,
        "CL330",
    ),
    Case(
        "fewer-visits-than-items",
        "rules: [{when: run.visits.b >= 2, stop: steps_limit}]\nvars: {i: ''}\nstates:\n"
        '  a: {for: vars.i, in: \'["a", "b", "c", "d"]\', each: b, then: done}\n  b: {do: report, with: {text: \'{{ vars.i }}\'}, next: a}\n'
        + DONE,
        "CL347",
    ),
    Case(
        "fewer-steps-than-items-of-a-variable",
        "limits: {steps: 2}\nrules: [{when: run.steps >= limits.steps, stop: steps_limit}]\nvars: {i: '', l: [a, b, c]}\nstates:\n"
        "  a: {for: vars.i, in: vars.l, each: b, then: done}\n  b: {do: report, with: {text: '{{ vars.i }}'}, next: a}\n"
        + DONE,
        "CL347",
    ),
    Case(
        "reply-without-a-required-part",
        replied({**obj(["b"], a={"type": "string"}), "additionalProperties": False}),
        "CL363",
    ),
    Case("reply-of-no-word", replied(obj(["a"], a={"type": "string", "enum": [1, 2]})), "CL363"),
    Case(
        "reply-above-and-below",
        replied(obj(["a"], a={"type": "integer", "minimum": 5, "maximum": 3})),
        "CL363",
    ),
    Case(
        "reply-longer-and-shorter",
        replied(obj(["a"], a={"type": "string", "minLength": 5, "maxLength": 3})),
        "CL363",
    ),
    Case(
        "reply-with-more-items-than-it-may-have",
        replied(
            obj(
                ["a"],
                a={"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 2},
            )
        ),
        "CL363",
    ),
    Case(
        "reply-with-a-part-below-that-nothing-fits",
        replied(obj(["p"], p={**obj(["b"], a={"type": "string"}), "additionalProperties": False})),
        "CL363",
    ),
]
ABSENT = [
    Case(
        "output-of-an-error",
        "output: errors.last.message\nstates:\n  a: {do: report, with: {text: x}, next: done}\n"
        + DONE,
        "CL117",
    ),
    Case(
        "output-part-of-an-error",
        "output: {why: errors.last.message, n: run.steps}\nstates:\n  a: {do: report, with: {text: x}, next: done}\n"
        + DONE,
        "CL117",
    ),
    Case(
        "output-of-the-state-of-an-error",
        RULE + "output: errors.last.state\n" + LOOP + DONE,
        "CL117",
    ),
    Case(
        "money-that-is-left",
        RULE
        + LOOP.replace(
            "len(last.tool_calls) > 0", "len(last.tool_calls) > 0 and fleet.usd_left > 1"
        )
        + DONE,
        "CL105",
    ),
    Case(
        "tokens-that-are-left",
        RULE
        + LOOP.replace(
            "len(last.tool_calls) > 0", "fleet.tokens_left >= 1000 and len(last.tool_calls) > 0"
        )
        + DONE,
        "CL105",
    ),
    Case(
        "money-on-the-right",
        RULE
        + LOOP.replace(
            "len(last.tool_calls) > 0", "len(last.tool_calls) > 0 and 1 < fleet.usd_left"
        )
        + DONE,
        "CL105",
    ),
]
MEMORY = [
    Case(
        "replaced-twice",
        remembered("I am Ann", "old: Ann, new: Bob", "old: Ann, new: Bob"),
        "CL364",
    ),
    Case(
        "replaced-by-what-is-gone",
        remembered("I am Ann", "old: Ann, new: Bob", "old: I am Ann, new: x"),
        "CL364",
    ),
    Case(
        "never-there-on-one-of-two-ways",
        "memory: {n: I am Ann}\nstates:\n  ask: {do: receive, next: t}\n"
        "  t: {do: infer, next: [{when: len(last.text) > 3, to: m}, {to: done}]}\n"
        "  m: {do: update_memory, with: {block: n, old: Eve, new: Bob}, next: done}\n" + DONE,
        "CL364",
    ),
    Case("never-there", remembered("I am Ann", "old: Eve, new: Bob"), "CL364"),
    Case(
        "appended-past-the-limit", remembered("{value: 'aaaa', limit: 6}", "append: bbbb"), "CL364"
    ),
    Case(
        "appended-twice-past-the-limit",
        remembered("{value: 'aa', limit: 6}", "append: bb", "append: cc"),
        "CL364",
    ),
    Case(
        "replaced-past-the-limit",
        remembered("{value: 'I am Ann', limit: 9}", "old: Ann, new: Bobby"),
        "CL364",
    ),
    Case("longer-than-its-block", remembered("{value: '', limit: 3}", "append: aaaa"), "CL363"),
    Case(
        "appended-for-each-item",
        "memory: {n: {value: '', limit: 6}}\nvars: {i: ''}\nstates:\n  ask: {do: receive, next: a}\n"
        "  a: {for: vars.i, in: [a, b, c, d], each: m, then: think}\n  m: {do: update_memory, with: {block: n, append: xx}, next: a}\n"
        "  think: {do: infer, next: done}\n" + DONE,
        "CL364",
    ),
    Case(
        "replaced-for-each-item",
        "memory: {n: I am Ann}\nvars: {i: ''}\nstates:\n  ask: {do: receive, next: a}\n"
        "  a: {for: vars.i, in: [a, b], each: m, then: think}\n  m: {do: update_memory, with: {block: n, old: Ann, new: Bob}, next: a}\n"
        "  think: {do: infer, next: done}\n" + DONE,
        "CL364",
    ),
]
GIVEN = [
    Case("argument-of-a-variable", paid("{n: ten}", "{{ vars.n }}"), "CL364"),
    Case("argument-of-a-list", paid("{n: [1]}", "{{ vars.n }}"), "CL364"),
    Case("argument-without-braces", paid("{n: 1}", "vars.n"), "CL341"),
    Case("argument-that-the-child-is-not-given", fed("tasks", ""), "CL364"),
    Case("argument-that-inputs-do-not-list", "inputs: {task: {}}\n" + paid("{n: ten}", "{{ vars.n }}"), "CL364"),
]  # fmt: skip
MISTAKES = [*GIVEN, *RETURNED, *WRITTEN, *MISSING, *LIMITED, *ABSENT, *MEMORY]


@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case.id)
def test_a_mistake_that_fails_in_every_run_is_named(case: Case) -> None:
    _, findings = find_faults(HEAD + case.body, tools=OWN)
    codes = [f.code for f in findings]
    assert case.code in codes, "\n\n".join(f.render() for f in findings) or "nothing was found"
    assert len({(f.place.line, f.place.column) for f in findings}) == len(findings)


CORRECT = [
    Case("argument-that-a-caller-may-give", paid("{n: ''}", "{{ vars.n }}")),
    Case("argument-of-a-number-as-text", paid("{n: '10'}", "{{ vars.n }}")),
    Case("argument-of-a-caller", "inputs: {task: {}, n: {}}\n" + paid("{n: ''}", "{{ vars.n }}").replace("states:\n", "states:\n  q: {do: receive, next: a}\n")),
    Case("tasks-of-a-caller", "inputs: {tasks: {}, l: {}}\nvars: {l: [1, 2]}\n" + queued("vars.l")),
    Case("index-of-a-caller", "inputs: {l: {}}\nvars: {l: {type: 'list[int]', value: []}}\nstates:\n  a: {when: 'vars.l[0] > 0', then: done, else: z}\n  z: {stop: custom}\n" + DONE),
    Case("memory-of-a-caller", "inputs: {task: {}, memory.n: {}}\n" + remembered("''", "old: Ann, new: Bob")),
    Case("tasks-of-a-parent", fed("tasks", ", vars: {l: '[\"a\"]'}")),
    Case("index-of-a-parent", fed("index", ", vars: {l: '[1]'}")),
    Case("memory-of-a-parent", fed("memory", ", memory: {b: Eve}")),
    Case("limit-of-a-parent", fed("limits", ", limits: {s: 9}")),
    Case("text-into-text", called("search", "save: {vars.r: result}, next: say")),
    Case("number-into-number", called("count", "save: {vars.r: result}, next: say", var="int", value="0")),
    Case("number-into-float", called("count", "save: {vars.r: result}, next: say", var="float", value="0")),
    Case("number-of-seconds", called("share", "save: {vars.r: result}, next: say", var="duration", value="0s")),
    Case("number-as-a-share", called("share", "save: {vars.r: result}, next: say", var="fraction", value="0%")),
    Case("number-printed-into-text", called("count", "save: {vars.r: '{{ result }}'}, next: say")),
    Case("list-into-list", called("words", "save: {vars.r: result}, next: say", var="list[str]", value="[]")),
    Case("list-into-any-list", called("people", "save: {vars.r: result}, next: say", var="list[any]", value="[]")),
    Case("list-of-records-into-maps", called("people", "save: {vars.r: result}, next: say", var="list[map[any]]", value="[]")),
    Case("name-of-the-first", called("people", "save: {vars.r: 'result[0].name'}, next: say")),
    Case("word-of-a-list", called("words", "save: {vars.r: {append: 'result[0]'}}, next: say", var="list[str]", value="[]")),
    Case("map-key-of-any-type", called("info", "save: {vars.r: result.reason}, next: say")),
    Case("map-of-any-into-texts", called("info", "save: {vars.r: result}, next: say", var="map[str]", value="{}")),
    Case("map-of-numbers", called("counts", "save: {vars.r: result}, next: say", var="map[int]", value="{}")),
    Case("record-key", called("who", "save: {vars.r: result.name}, next: say")),
    Case("record-into-map", called("who", "save: {vars.r: result}, next: say", var="map[any]", value="{}")),
    Case("record-that-may-be-none-into-any", called("maybe", "save: {vars.r: result}, next: say", var="any", value="null")),
    Case("dataclass-field", called("point", "save: {vars.r: result.tags}, next: say", var="list[str]", value="[]")),
    Case("model-field", called("price", "save: {vars.r: result.usd}, next: say", var="float", value="0")),
    Case("model-with-more-keys", called("opened", "save: {vars.r: result.note}, next: say")),
    Case("unknown-result", called("anything", "save: {vars.r: result.a.b}, next: say")),
    Case("result-that-is-not-said", called("unsaid", "save: {vars.r: 'result.a[0]'}, next: say")),
    Case("nothing-returned-is-done", called("note", "save: {vars.r: result}, next: say")),
    Case("word-into-text", called("kind", "save: {vars.r: result}, next: say")),
    Case("guard-of-a-key", guarded("who", "last.result.age > 3")),
    Case("guard-of-a-word", guarded("kind", 'last.result == "good"')),
    Case("guard-of-what-may-be-none-tested", guarded("maybe", 'last.result is not None and last.result.name == "x"')),
    Case("guard-of-a-length", guarded("words", "len(last.result) > 1")),
    Case("print-a-key", shown("who", "{{ last.result.name }}")),
    Case("print-a-key-with-a-default", shown("who", "{{ last.result.nick | default(0) }}")),
    Case("print-what-may-be-none-tested", shown("maybe", "{% if last.result %}{{ last.result.name }}{% endif %}")),
    Case("print-all-records", shown("people", "{% for one in last.result %}{{ one.name }}{% endfor %}")),
    Case("key-of-a-map", constant("{mp: {type: 'map[str]', value: {a: x}}}", "do: report, with: {text: '{{ vars.mp.a }}'}")),
    Case("key-of-a-map-with-a-default", constant("{mp: {type: 'map[str]', value: {a: x}}}", "do: report, with: {text: '{{ vars.mp.b | default(0) }}'}")),
    Case("key-of-a-map-tested", constant("{mp: {type: 'map[str]', value: {a: x}}}", "do: report, with: {text: '{% if vars.mp.b is defined %}{{ vars.mp.b }}{% endif %}'}")),
    Case("key-of-a-map-tested-by-in", "vars: {mp: {type: 'map[int]', value: {a: 1}}}\nstates:\n  a: {when: '\"b\" in vars.mp and vars.mp.b > 0', then: done, else: z}\n  z: {stop: custom}\n" + DONE),
    Case("key-of-a-map-that-a-tool-fills", called("info", "save: {vars.r: result}, next: b", var="map[any]", value="{}")
         + "  b: {do: report, with: {text: '{{ vars.r.reason }}'}, next: say}\n"),
    Case("index-tested", "vars: {l: [1, 2], i: 2}\nstates:\n  a: {when: 'vars.i < len(vars.l) and vars.l[vars.i] > 0', then: done, else: z}\n  z: {stop: custom}\n" + DONE),
    Case("tasks-are-texts", queued("[a, b]")),
    Case("tasks-are-records", queued("[{text: a, kind: improvement, acceptance: it works}]")),
    Case("task-is-one-text", queued("'\"a\"'")),
    Case("tasks-of-a-variable", "vars: {l: [a, b]}\n" + queued("vars.l")),
    Case("tasks-of-no-tasks", queued("'[]'")),
    Case("tasks-of-a-reply", RULE + "states:\n  ask: {do: receive, next: p}\n"
         "  p: {do: infer, with: {output: {type: object, properties: {t: {type: array, items: {type: string}}}, required: [t]}}, next: e}\n"
         "  e: {do: enqueue, with: {tasks: last.result.data.t}, next: w}\n  w: {do: work, next: [{when: queue.size > 0, to: w}, {to: done}]}\n" + DONE),
    Case("each-texts", several("[a, b]")),
    Case("each-records", several("[{task: a, vars: {n: 2}}]")),
    Case("each-of-a-variable", several("vars.l", vars="{l: [a, b]}")),
    Case("each-of-an-empty-variable", several("vars.l", vars="{l: {type: 'list[str]', value: []}}")),
    Case("task-by-a-tool", worked("[{text: x, by: {tool: search}}]")),
    Case("task-by-a-prompt", worked("[{text: x, by: {prompt: 'do it'}}]")),
    Case("screen-by-a-judge", screened("judge")),
    Case("screen-by-a-map", screened("info")),
    Case("screen-by-anything", screened("anything")),
    Case("screen-by-what-is-not-said", screened("unsaid")),
    Case("screen-of-a-template", screened("judge", ", text: '{{ run.task }}'")),
    Case("child-with-a-task", ran(", task: a")),
    Case("child-with-a-task-of-a-variable", ran(", task: '{{ vars.t }}'", vars="{t: a}")),
    Case("child-with-a-task-of-the-run", ran(", task: '{{ run.task }}'")),
    Case("inputs-with-messages", "inputs: {messages: {}}\nstates:\n  q: {do: receive, next: t}\n  t: {do: infer, next: done}\n" + DONE),
    Case("inputs-without-task-and-optional", "inputs: {n: {}}\nvars: {n: 1}\ninstructions: '{{ vars.n }}'\nstates:\n  q: {do: receive, with: {optional: true}, next: t}\n  t: {do: infer, next: done}\n" + DONE),
    Case("inputs-without-task-and-a-prompt", "inputs: {n: {}}\nvars: {n: 1}\nstates:\n  q: {do: prompt, with: {user: '{{ vars.n }}'}, next: t}\n  t: {do: infer, next: done}\n" + DONE),
    Case("back-off-within-the-run", timed("30s", "  a: {do: back_off, with: {base: 10s}, next: done}\n")),
    Case("back-off-only-after-a-failure", timed("5s, steps: 9", "  a: {do: receive, next: t}\n  t: {do: infer, failed: w, next: done}\n  w: {do: back_off, with: {base: 10s}, next: t}\n").replace("rules: [", "rules: [{when: run.steps >= limits.steps, stop: steps_limit}, ")),
    Case("back-off-cut-at-its-longest", timed("5s", "  a: {do: back_off, with: {base: 1s, most: 2s}, next: done}\n")),
    Case("time-for-a-model-call", timed("30s", "  a: {do: receive, next: t}\n  t: {do: infer, next: done}\n")),
    Case("visits-below-steps", "limits: {steps: 12, visits: 5}\nrules:\n  - {when: run.steps >= limits.steps, stop: steps_limit}\n"
         "  - {when: run.visits.think >= limits.visits, stop: steps_limit}\n" + LOOP + DONE),
    Case("failures-below-steps", "limits: {steps: 12, errors: 3}\nrules:\n  - {when: run.steps >= limits.steps, stop: steps_limit}\n"
         "  - {when: errors.consecutive >= limits.errors, stop: error_threshold}\n" + LOOP.replace("do: infer,", "do: infer, failed: next,") + DONE),
    Case("share-in-percent", "limits: {steps: 12, ctx: 90%}\nrules:\n  - {when: run.steps >= limits.steps, stop: steps_limit}\n"
         "  - {when: usage.context_ratio >= limits.ctx, stop: token_limit}\n" + LOOP + DONE),
    Case("more-visits-than-items", "rules: [{when: run.visits.b >= 6, stop: steps_limit}]\nvars: {i: ''}\nstates:\n"
         "  a: {for: vars.i, in: '[\"a\", \"b\", \"c\", \"d\"]', each: b, then: done}\n  b: {do: report, with: {text: '{{ vars.i }}'}, next: a}\n" + DONE),
    Case("reply-with-its-parts", replied({**obj(["a"], a={"type": "string"}), "additionalProperties": False})),
    Case("reply-with-free-parts", replied(obj(["b"], a={"type": "string"}))),
    Case("reply-of-a-word-or-nothing", replied(obj(["a"], a={"enum": ["x", None]}))),
    Case("reply-by-a-pattern", replied(obj(["a"], a={"type": "string", "pattern": "^[A-Z]{2}-[0-9]+(?<!0)$"}))),
    Case("reply-between-two-numbers", replied(obj(["a"], a={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}))),
    Case("output-of-an-error-tested", "output: 'errors.last.message if errors.last is not None else \"\"'\nstates:\n  a: {do: report, with: {text: x}, next: done}\n" + DONE),
    Case("output-that-may-be-none", "output: usage.cost\nstates:\n  a: {do: report, with: {text: x}, next: done}\n" + DONE),
    Case("output-of-a-text", RULE + "output: last.text\n" + LOOP + DONE),
    Case("money-that-is-left-tested", RULE + LOOP.replace("len(last.tool_calls) > 0", "len(last.tool_calls) > 0 and (fleet.usd_left is None or fleet.usd_left > 1)") + DONE),
    Case("cost-that-is-not-known-yet", RULE.replace("steps: 30", "steps: 30, usd: 1.0").replace("]", ", {when: usage.cost >= limits.usd, stop: cost_limit}]") + LOOP + DONE),
    Case("replaced-and-replaced-back", remembered("I am Ann", "old: Ann, new: Bob", "old: Bob, new: Ann")),
    Case("replaced-one-after-the-other", remembered("Ann and Ann", "old: Ann and, new: Bob and", "old: Ann, new: Bob")),
    Case("appended-within-the-limit", remembered("{value: 'aa', limit: 9}", "append: bb", "append: cc")),
    Case("appended-and-shortened", remembered("{value: 'aaaa', limit: 6}", "old: aaaa, new: a", "append: bbbb")),
    Case("replaced-on-one-of-two-ways", "memory: {n: I am Ann}\n" + RULE + LOOP.replace("{to: done}", "{to: m}")
         + "  m: {do: update_memory, with: {block: n, old: Ann, new: Bob}, next: [{when: len(last.text) > 3, to: m2}, {to: done}]}\n"
         + "  m2: {do: update_memory, with: {block: n, old: Bob, new: Ann}, next: think}\n" + DONE),
    Case("replaced-once-in-a-loop-and-left-by-its-failure", "memory: {n: I am Ann}\n" + RULE + LOOP.replace("next: think}\n", "next: m}\n")
         + "  m: {do: update_memory, with: {block: n, old: Ann, new: Bob}, failed: next, next: think}\n" + DONE),
    Case("appended-for-each-item-within-the-limit", "memory: {n: {value: '', limit: 20}}\nvars: {i: ''}\nstates:\n  ask: {do: receive, next: a}\n"
         "  a: {for: vars.i, in: [a, b, c, d], each: m, then: think}\n  m: {do: update_memory, with: {block: n, append: xx}, next: a}\n"
         "  think: {do: infer, next: done}\n" + DONE),
    Case("map-that-a-caller-gives", "inputs: {mp: {}}\n" + constant("{mp: {type: 'map[str]', value: {}}}", "do: report, with: {text: '{{ vars.mp.a }}'}")),
    Case("list-that-a-caller-gives", "inputs: {l: {}}\n" + constant("{l: {type: 'list[str]', value: []}}", "do: report, with: {text: '{{ vars.l[0] }}'}")),
    Case("divisor-that-a-caller-gives", "inputs: {n: {}}\nvars: {n: 0}\nstates:\n  a: {when: '1 / vars.n > 0', then: done, else: z}\n  z: {stop: custom}\n" + DONE),
    Case("task-that-a-caller-gives", "inputs: {t: {}}\n" + ran(", task: '{{ vars.t }}'", vars="{t: ''}")),
    Case("items-that-a-caller-gives", "inputs: {l: {}}\n" + several("vars.l", vars="{l: ['']}")),
    Case("block-that-a-caller-gives", "inputs: {task: {}, memory.n: {}}\n" + remembered("''", "old: Ann, new: Bob")),
    Case("tools-before-any-reply", "tools: [search]\nvars: {x: 0}\n" + RULE
         + "states:\n  a: {do: call_tools, with: {on_error: fail}, next: [{when: vars.x > 2, to: b}, {to: done}]}\n  b: {do: infer, next: a}\n" + DONE),
]  # fmt: skip


@pytest.mark.parametrize("case", CORRECT, ids=lambda case: case.id)
def test_a_correct_file_has_no_finding(case: Case) -> None:
    machine, findings = find_faults(HEAD + case.body, tools=OWN)
    assert not findings, "\n\n".join(f.render() for f in findings)
    assert machine is not None


def test_what_a_check_cannot_read_is_left_alone() -> None:
    """A rule over steps by a definition, and a task of a tool whose text is not known."""
    named = (
        "limits: {steps: 20}\ndefine: {long: run.steps >= 3}\nrules:\n"
        "  - {when: long, stop: time_limit}\n  - {when: run.steps >= limits.steps, stop: steps_limit}\n"
        "states:\n  a: {do: infer, next: done}\n"
    )
    tasks = (
        "states:\n  q: {do: enqueue, with: {tasks: [{by: {tool: search}}]}, next: w}\n"
        "  w: {do: work, failed: next, next: done}\n"
    )
    for text in (named, tasks):
        find_faults(HEAD + text + DONE, tools=[search])

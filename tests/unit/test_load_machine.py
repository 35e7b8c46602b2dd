"""What a file may say about its machine: one case for each sentence of "language", section 1."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from chartloop import load
from chartloop.core.types import parse_type
from chartloop.language.spec import MachineSpec
from tests.found import END, HEAD, STATES, Fault, Says, expect, found, spec, value, whole

USES = "rules: [{when: run.steps >= limits.x, stop: steps_limit}]\n"
USES_TIME = "rules: [{when: run.elapsed >= limits.x, stop: time_limit}]\n"
USES_SHARE = "rules: [{when: usage.context_ratio >= limits.x, stop: custom}]\nmodel: {name: scripted, context_window: 9}\n"


def _limit(spec: MachineSpec) -> Any:
    limit = spec.limits["x"]
    return str(limit.type), limit.value


def _var(spec: MachineSpec) -> Any:
    return str(spec.vars["x"].type), spec.vars["x"].value


SAYS: list[Says[MachineSpec]] = [
    Says("for-people", "title: T\nabout: A\nsource: s.md\nmetadata: {k: [1, {b: null}]}\n", lambda s: (s.title, s.about, s.source, s.metadata), ("T", "A", "s.md", {"k": [1, {"b": None}]})),
    Says("instructions-are-a-template", "memory: {who: me}\ninstructions: I am {{ memory.who }}\n", lambda s: s.instructions and s.instructions.reads, {"memory.who"}),
    Says("instructions-read-definitions", "define: {far: run.steps + 1}\ninstructions: '{{ far }}'\n", lambda s: s.instructions and s.instructions.reads, {"far"}),
    Says("model-whole", "model: {name: x/y, temperature: 0, top_p: 1, max_tokens: 4_096, stop: [a], seed: 7, stream: true, timeout: 1m, context_window: 128_000, input_cost_per_token: 0.1, output_cost_per_token: 2, fallbacks: [z], extra: {top_k: [1]}}\n",
         lambda s: s.model, {"name": "x/y", "temperature": 0.0, "top_p": 1.0, "max_tokens": 4096, "stop": ["a"], "seed": 7, "stream": True, "timeout": 60.0, "context_window": 128_000, "input_cost_per_token": 0.1, "output_cost_per_token": 2.0, "fallbacks": ["z"], "extra": {"top_k": [1]}}),
    Says("model-stop-one-text", "model: {name: scripted, stop: END}\n", lambda s: s.model["stop"], "END"),
    Says("variables-of-the-environment-only-for-servers", "model: {name: '${MODEL}'}\n", lambda s: s.model["name"], "${MODEL}"),
    Says("tools-in-their-order", "tools: [conversation_search, send_message]\n", lambda s: s.tools, ("conversation_search", "send_message")),
    Says("memory-short", "memory: {persona: I am.}\n", lambda s: (s.memory["persona"].value, s.memory["persona"].limit), ("I am.", None)),
    Says("memory-long", "memory: {p: {value: v, limit: 1_000, label: L, template: '{{ label }}={{ value }}'}}\n", lambda s: (s.memory["p"].value, s.memory["p"].limit, s.memory["p"].label, value(s.memory["p"].template)), ("v", 1000, "L", "{{ label }}={{ value }}")),
    Says("tasks", "tasks: [{text: one}, {id: t, text: two, kind: improvement, acceptance: seen, by: {tool: send_message}}]\n",
         lambda s: s.tasks, ({"id": "task_1", "text": "one", "kind": "primary", "acceptance": ""}, {"id": "t", "text": "two", "kind": "improvement", "acceptance": "seen", "by": {"tool": "send_message"}})),
    Says("tasks-as-texts", "tasks: [one, {text: two}]\n", lambda s: [(t["id"], t["text"], t["kind"]) for t in s.tasks or () if not isinstance(t, str)], [("task_1", "one", "primary"), ("task_2", "two", "primary")]),
    Says("tasks-in-a-file", "tasks: {file: tasks.yaml}\n", lambda s: s.tasks, "tasks.yaml"),
    Says("limit-number", "limits: {x: 50}\n" + USES, _limit, ("int", 50)),
    Says("limit-grouped", "limits: {x: 1_000_000}\n" + USES, _limit, ("int", 1_000_000)),
    Says("limit-float", "limits: {x: 0.5}\n" + USES, _limit, ("float", 0.5)),
    Says("limit-bool", "limits: {x: true}\nrules: [{when: limits.x, stop: custom}]\n", _limit, ("bool", True)),
    Says("limit-day", "limits: {x: 1d}\n" + USES_TIME, _limit, ("duration", 86_400.0)),
    Says("limit-hours", "limits: {x: 24h}\n" + USES_TIME, _limit, ("duration", 86_400.0)),
    Says("limit-mixed", "limits: {x: 1h30m}\n" + USES_TIME, _limit, ("duration", 5_400.0)),
    Says("limit-seconds", "limits: {x: 60s}\n" + USES_TIME, _limit, ("duration", 60.0)),
    Says("limit-milliseconds", "limits: {x: 250ms}\n" + USES_TIME, _limit, ("duration", 0.25)),
    Says("limit-share", "limits: {x: 95%}\n" + USES_SHARE, _limit, ("fraction", 0.95)),
    Says("limit-words", "limits: {x: [a, b]}\nrules: [{when: last.text in limits.x, stop: custom}]\n", _limit, ("list[str]", ("a", "b"))),
    Says("limit-off", "limits: {x: {type: duration, value: null}}\n" + USES_TIME, _limit, ("duration | None", None)),
    Says("limit-off-in-short", "limits: {x: null}\n" + USES, _limit, ("float | None", None)),
    Says("limit-typed", "limits: {x: {type: duration, value: 30m}}\n" + USES_TIME, _limit, ("duration | None", 1_800.0)),
    Says("var-text", "vars: {x: ''}\n", _var, ("str", "")),
    Says("var-text-that-looks-like-a-duration", "vars: {x: 30m}\n", _var, ("str", "30m")),
    Says("var-number", "vars: {x: 3}\n", _var, ("int", 3)),
    Says("var-float", "vars: {x: 0.5}\n", _var, ("float", 0.5)),
    Says("var-bool", "vars: {x: false}\n", _var, ("bool", False)),
    Says("var-list", "vars: {x: {type: 'list[str]', value: []}}\n", _var, ("list[str]", ())),
    Says("var-list-that-is-not-empty", "vars: {x: [1, 2]}\n", _var, ("list[int]", (1, 2))),
    Says("var-map", "vars: {x: {type: 'map[int]', value: {k: 1}}}\n", _var, ("map[int]", {"k": 1})),
    Says("var-nested", "vars: {x: {type: 'map[list[float]]', value: {k: [1, 2.5]}}}\n", _var, ("map[list[float]]", {"k": (1.0, 2.5)})),
    Says("var-duration", "vars: {x: {type: duration, value: 30m}}\n", _var, ("duration", 1_800.0)),
    Says("var-fraction", "vars: {x: {type: fraction, value: 95%}}\n", _var, ("fraction", 0.95)),
    Says("var-any-keeps-text", "vars: {x: {type: any, value: 30m}}\n", _var, ("any", "30m")),
    Says("define", "define: {far: run.steps > 5}\n", lambda s: (value(s.define["far"]), str(s.define["far"].type)), ("run.steps > 5", "bool")),
    Says("define-is-typed-where-it-is-used", "define: {kind: errors.last.category}\nrules: [{when: errors.last is not None and kind == 'CRITICAL', stop: error}]\n", lambda s: len(s.rules), 1),
    Says("reason-of-its-own", "reasons: {bored: {priority: 3, forced: false, status: error}}\n", lambda s: (s.reasons["bored"].priority, s.reasons["bored"].forced, s.reasons["bored"].status), (3, False, "error")),
    Says("reason-redefined", "reasons: {custom: {priority: 0}}\n", lambda s: s.reasons["custom"].priority, 0),
    Says("reason-with-nothing-said", "reasons: {bored: }\n", lambda s: s.reasons["bored"].priority, 7),
    Says("first-state-is-the-start", "", lambda s: s.start, "a"),
    Says("start-names-another", "start: b\nstates:\n  a: {do: nothing, next: z}\n  b: {do: nothing, next: a}\n" + END, lambda s: s.start, "b"),
    Says("child-machine", "machines: {kid: {limits: {n: 1}, states: {q: {do: nothing, next: e}, e: {end: completed}}, rules: [{when: run.steps >= limits.n, stop: custom}]}}\n", lambda s: (s.machines["kid"].start, s.machines["kid"].base), ("q", ("machines", "kid"))),
    Says("on-stop", "on_stop: r\n" + STATES + "  r: {do: report, next: e}\n  e: {end: by_reason}\n", lambda s: s.on_stop, "r"),
    Says("on-error-edge", "vars: {n: 0}\non_error: {to: r, set: {vars.n: vars.n + 1}}\n" + STATES + "  r: {do: report, next: z}\n", lambda s: s.on_error and (s.on_error.target, len(s.on_error.set)), ("r", 1)),
    Says("in-doubt-by-the-call", "", lambda s: s.in_doubt, None),
    Says("in-doubt-ask", "in_doubt: ask\n", lambda s: s.in_doubt, "ask"),
    Says("output-one", "output: last.text\n", lambda s: value(s.output), "last.text"),
    Says("output-several", "output: {n: run.steps, why: signals.top}\n", lambda s: {k: value(v) for k, v in s.output.items()} if isinstance(s.output, dict) else None, {"n": "run.steps", "why": "signals.top"}),
    Says("agent", "agent: bob\n", lambda s: s.agent, "bob"),
    Says("ignore", "ignore: [{code: CL316, at: states.a, reason: fine}]\n", lambda s: [(i.code, i.at, i.reason) for i in s.ignore], [("CL316", "states.a", "fine")]),
    Says("deviations", "source: d.md\ndeviations: [{difference: d, reason: r}]\n", lambda s: [(d.difference, d.reason) for d in s.deviations], [("d", "r")]),
    Says("renamed", "renamed: {old: a}\n", lambda s: s.renamed, {"old": "a"}),
    Says("yaml-1.2-words-are-texts", "vars: {x: off}\n" + "states:\n  a: {ask: Q?, on: {yes: z, no: z, on: z}}\n" + END, lambda s: (s.vars["x"].value, [e.trigger for e in s.states["a"].edges]), ("off", ["yes", "no", "on"])),
]  # fmt: skip


@pytest.mark.parametrize("case", SAYS, ids=lambda case: case.id)
def test_says(case: Says[MachineSpec]) -> None:
    assert case.reads(spec(case.body)) == case.means


@pytest.mark.parametrize("name", "bool int float str duration fraction list[T] map[T] any".split())
def test_every_type_can_be_declared(name: str) -> None:
    text = name.replace("T", "str")
    first = {
        "bool": "true",
        "str": "''",
        "list[str]": "[]",
        "map[str]": "{}",
        "duration": "1s",
        "fraction": "5%",
        "any": "null",
    }
    got = spec(f"vars: {{x: {{type: '{text}', value: {first.get(text, '1')}}}}}\n").vars["x"].type
    assert got == parse_type(text)


FAULTS = [
    Fault("no-version", "«machine»: m\n", "CL202", "lacks the key `chartloop`", "first line"),
    Fault("another-version", "chartloop: «2»\nmachine: m\n", "CL206", "version 2", "`chartloop: 1`"),
    Fault("version-is-a-text", "chartloop: «'1'»\nmachine: m\n", "CL206", "`1`", "`chartloop: 1`"),
    Fault("version-is-not-first", "machine: m\n«chartloop»: 1\n", "CL206", "not the first key"),
    Fault("no-name", "«chartloop»: 1\n", "CL202", "lacks the key `machine`", "machine: my_agent"),
    Fault("bad-name", "chartloop: 1\nmachine: «My Agent»\n", "CL204", "`My Agent`", "`my_agent`"),
    Fault("name-is-a-number", "chartloop: 1\nmachine: «4»\n", "CL203", "takes text, not a number"),
    Fault("title-is-a-number", "title: «1.10»\n", "CL210", "as the number 1.1", '"1.10"'),
    Fault("model-name-is-a-number", "model: {name: «4»}\n", "CL210", "`4` is a number", '"4"'),
    Fault("title-is-a-bool", "title: «true»\n", "CL203", "not true or false", '"true"'),
    Fault("instructions-unknown-fact", "instructions: 'Hi {{ «run.taks» }}'\n", "CL103", "run.taks", "run.task"),
    Fault("model-unknown-key", "model: {name: scripted, «temprature»: 1}\n", "CL201", "temprature", "`temperature`"),
    Fault("flag-of-the-model-is-a-text", 'model: {name: scripted, stream: «"true"»}\n', "CL203", "takes true or false, not text", "`stream: true`"),
    Fault("model-out-of-range", "model: {name: scripted, temperature: «3»}\n", "CL203", "at most 2"),
    Fault("model-without-a-name", "«model»: {temperature: 1}\n", "CL202", "`model` lacks the key `name`"),
    Fault("model-tokens", "model: {name: scripted, max_tokens: «many»}\n", "CL209", "not a whole number"),
    Fault("model-timeout-without-a-unit", "model: {name: scripted, timeout: «60»}\n", "CL209", "not a duration above zero", "`60s`"),
    Fault("a-key-in-place-of-its-name", "model: {name: scripted, api_key_env: «sk-abc-123»}\n", "CL203", "never the key"),
    Fault("unknown-tool", "tools: [«send_mesage»]\n", "CL405", "send_mesage", "`send_message`"),
    Fault("tool-of-a-server", "tools: [«files.read»]\n", "CL405", "no MCP server `files`", "mcp_servers"),
    Fault("tool-twice", "tools: [send_message, «send_message»]\n", "CL211", "named twice"),
    Fault("servers-both", "mcp_servers: {«files»: {command: run, url: 'http://b'}}\n", "CL207", "has both", "runs already"),
    Fault("servers-unknown-key", "mcp_servers: {files: {«comand»: run}}\n", "CL201", "comand", "`command`"),
    Fault("block-over-its-limit", "memory: {p: {value: «abcd», limit: 3}}\n", "CL404", "over its 3", "raise"),
    Fault("block-template-reads-only-itself", "memory: {p: {template: '{{ «run» }}'}}\n", "CL103", "run"),
    Fault("task-kind", "tasks: [{text: t, kind: «secondary»}]\n", "CL208", "secondary"),
    Fault("task-by", "tasks: [{text: t, by: {«shell»: x}}]\n", "CL201", "shell", "`prompt`"),
    Fault("task-by-two", "tasks: [{text: t, «by»: {prompt: x, tool: send_message}}]\n", "CL207", "one of `tool`"),
    Fault("task-by-unknown-tool", "tasks: [{text: t, by: {tool: «sendd»}}]\n", "CL405", "sendd"),
    Fault("task-number", "tasks: [one, «2»]\n", "CL203", "`tasks.1` takes text"),
    Fault("task-empty", "tasks: [«\" \"»]\n", "CL203", "task 1 has no text", "what is to be done"),
    Fault("task-without-text", "tasks: [«{id: x}»]\n", "CL202", "lacks the key `text`"),
    Fault("task-id-twice", "tasks: [{text: t, id: x}, «{text: u, id: x}»]\n", "CL211", "`x` is named twice"),
    Fault("limit-below-zero", "limits: {x: «-1»}\n" + USES, "CL209", "cannot be `-1`"),
    Fault("typed-limit-below-zero", "limits: {x: {type: int, value: «-1»}}\n" + USES, "CL209", "is below 0, which no limit may be"),
    Fault("limit-is-no-quantity", "limits: {x: «soon»}\n" + USES, "CL209", "cannot be `soon`", "`30m`"),
    Fault("limit-without-end", "limits: {x: «.inf»}\n" + USES, "CL209", "`.inf` is not a quantity", "null"),
    Fault("limit-of-no-type", "limits: {x: {type: «time», value: 1}}\n" + USES, "CL209", "`time` is not a type", "duration"),
    Fault("limit-of-a-type-for-variables", "limits: {x: {type: «any», value: 1}}\n" + USES, "CL209", "not a type of a limit"),
    Fault("limit-of-another-type", "limits: {x: {type: duration, value: «95%»}}\n" + USES_TIME, "CL209", "`95%` is not of type duration", "`30m`"),
    Fault("limit-without-a-unit", "limits: {x: {type: duration, value: «30»}}\n" + USES_TIME, "CL209", "not of type duration", "`30s`"),
    Fault("fraction-meant-as-percent", "limits: {x: {type: fraction, value: «95»}}\n" + USES_SHARE, "CL209", "not of type fraction", "`95%`"),
    Fault("limits-is-no-mapping", "limits: «5»\n" + USES, "CL203", "takes a mapping", "{steps: 50}"),
    Fault("limit-with-a-bad-name", "limits: {«Max-Steps»: 5}\n", "CL204", "`Max-Steps`", "`max_steps`"),
    Fault("empty-list-without-a-type", "vars: {x: «[]»}\n", "CL209", "must name its type", "list[str]"),
    Fault("empty-variable", "vars: {«x»: }\n", "CL209", "must name its type"),
    Fault("map-without-a-type", "vars: {x: «{k: 1}»}\n", "CL203", "a map names its type", "map[int]"),
    Fault("first-value-of-another-type", "vars: {x: {type: int, value: «a»}}\n", "CL104", "`a` is not of type int"),
    Fault("variable-of-no-type", "vars: {x: {type: «text», value: a}}\n", "CL209", "`text` is not a type", "str"),
    Fault("definition-with-an-unknown-fact", "define: {far: «usage.tokenz» > 5}\nrules: [{when: far, stop: custom}]\n", "CL103", "usage.tokenz", "usage.total_tokens"),
    Fault("definitions-in-a-circle", "define: {p: «q», q: p}\nrules: [{when: p > 1, stop: custom}, {when: q > 2, stop: custom}]\n", "CL112", "defined by itself"),
    Fault("definition-that-hides-facts", "define: {«usage»: run.steps}\n", "CL204", "has a meaning already"),
    Fault("definition-that-is-a-word-of-python", "define: {«if»: run.steps}\n", "CL204", "has a meaning already"),
    Fault("reason-highest", "reasons: {«highest»: {priority: 1}}\n", "CL204", "`highest` is not a reason"),
    Fault("reason-priority", "reasons: {r: {priority: «12»}}\n", "CL203", "at most 9"),
    Fault("empty-states", "«states»: {}\n", "CL302", "has no states"),
    Fault("unknown-start", "start: «c»\nstates:\n  a: {do: nothing, next: z}\n  z: {stop: completed}\n", "CL303", "unknown state `c`"),
    Fault("child-without-states", "machines: {kid: {«states»: {}}}\n", "CL302", "`kid` has no states"),
    Fault("child-with-a-version", "machines: {kid: {«chartloop»: 1, states: {e: {end: completed}}}}\n", "CL201", "chartloop"),
    Fault("child-with-a-dead-end", "ignore: [{code: CL353, reason: later}]\nmachines: {kid: {states: {a: {do: nothing, next: [{when: last.ok, to: e}, b]}, «b»: {do: nothing}, e: {end: completed}}}}\n", "CL305", "`b` has no outgoing edge"),
    Fault("unknown-on-stop", "on_stop: «reprot»\n" + STATES + "  report: {do: report, next: z}\n", "CL301", "reprot", "`report`"),
    Fault("on-error-with-a-guard", "on_error: {to: z, «when»: last.ok}\n", "CL207", "under `on_error`"),
    Fault("in-doubt", "in_doubt: «maybe»\n", "CL208", "maybe"),
    Fault("output-unknown", "output: {n: «run.stepz»}\n", "CL103", "run.stepz", "run.steps"),
    Fault("ignore-unknown", "ignore: [{code: «CL999», reason: r}]\n", "CL325", "no finding `CL999`"),
    Fault("ignore-an-error", "ignore: [{code: «CL301», reason: r}]\n", "CL325", "cannot be accepted"),
    Fault("ignore-without-a-reason", "ignore: [«{code: CL316}»]\n", "CL202", "lacks the key `reason`"),
    Fault("deviations-of-nothing", "«deviations»: [{difference: d, reason: r}]\n", "CL202", "needs `source`"),
    Fault("renamed-to-nowhere", "renamed: {old: «b»}\n", "CL301", "unknown state `b`"),
    Fault("renamed-and-still-there", "renamed: {«a»: z}\n", "CL207", "still a state"),
    Fault("unknown-key", "«limts»: {x: 5}\n" + USES, "CL201", "limts", "`limits`"),
    Fault("word-of-another-tool", "«initial»: a\n", "CL201", "initial", "`start`"),
    Fault("not-alike-enough", "states: {a: {do: receive, «catch»: b}, b: {end: completed}}\n", "CL201", "catch", "`on_error` is a key of the machine"),
    Fault("key-of-another-place", "«warn_at»: 80%\n", "CL201", "warn_at", "key of a state"),
]  # fmt: skip


@pytest.mark.parametrize("case", FAULTS, ids=lambda case: case.id)
def test_fault(case: Fault) -> None:
    expect(case)


def test_a_file_without_states() -> None:
    finding = found(HEAD + "about: nothing\n")[0]
    assert (finding.code, finding.place.line) == ("CL302", 1)


def test_a_key_of_secrets_is_not_repeated() -> None:
    finding = found(HEAD + "model: {name: scripted, api_key_env: sk-abc-123}\n" + STATES)[0]
    assert "sk-abc" not in finding.message + finding.hint


class Replaced(NamedTuple):
    """Definitions of a file, and what the caller puts in their place."""

    id: str
    given: dict[str, str]
    code: str
    says: str
    caret: str


DEFINES = "define: {far: run.steps > 5, near: not far}\nrules: [{when: far, stop: custom}]\n"


def test_a_definition_can_be_replaced() -> None:
    replaced = spec(DEFINES, define={"far": "run.steps > 9"})
    assert replaced.define["far"].text == "run.steps > 9"
    assert replaced.rules[0].when.bounds[0].bound_text == "9"


@pytest.mark.parametrize(
    "case",
    [
        Replaced("unknown-name", {"fra": "True"}, "CL103", "defines no `fra`", "True"),
        Replaced("syntax", {"far": "run.steps >"}, "CL101", "cannot be read", "e"),
        Replaced("unknown-fact", {"far": "run.stepz > 1"}, "CL103", "run.stepz", "run.stepz"),
    ],
    ids=lambda case: case.id,
)
def test_a_fault_in_a_replacement_is_shown_where_it_was_given(case: Replaced) -> None:
    findings = found(whole(DEFINES), define=case.given)
    name, text = next(iter(case.given.items()))
    assert [f.code for f in findings] == [case.code]
    place = findings[0].place
    assert case.says in findings[0].message
    assert (place.file, place.line, place.text) == (f"--define {name}", 1, text)
    if case.id != "syntax":
        assert text[place.column - 1 :][: place.width] == case.caret


def test_a_replacement_does_not_reach_child_machines() -> None:
    body = (
        DEFINES
        + "machines: {kid: {define: {far: run.steps > 1}, states: {a: {do: nothing, next: [{when: far, to: e}, e2]}, e: {end: completed}, e2: {end: error}}}}\n"
    )
    made = spec(body, define={"far": "run.steps > 9"})
    assert made.machines["kid"].define["far"].text == "run.steps > 1"


def test_a_machine_may_be_json_in_one_line() -> None:
    text = json.dumps(
        {
            "chartloop": 1,
            "machine": "m" * 60,
            "states": {"z": {"label": "x" * 300, "stop": "completed"}},
        }
    )
    assert "\n" not in text
    assert load(text).name == "m" * 60


class Hidden(NamedTuple):
    """Several faults of which none may hide another."""

    id: str
    body: str
    at: list[str]


@pytest.mark.parametrize(
    "case",
    [
        Hidden(
            "a-wrong-word-in-a-list",
            "states: {a: {do: nothing, retry: {times: 1, on: [NEVER]}, next: z, in_doubt: 5}, z: {stop: nowhere}}\n",
            ["states.a.retry.on.0", "states.a.in_doubt", "states.z.stop"],
        ),
        Hidden("two-keys-that-lack", "ignore: [{at: x}]\n" + STATES, ["ignore.0", "ignore.0"]),
        Hidden("beside-a-required-one", "rules: [{when: [1], warn_at: [2]}]\n" + STATES, ["rules.0.when", "rules.0.warn_at"]),
        Hidden("the-name-of-a-child", "machines: {kid: [1]}\n" + STATES, ["machines.kid"]),
        Hidden("a-loop-without-its-way-on", "vars: {i: 0}\nstates: {a: {for: vars.i, in: '[1]', each: z, then: [1]}, z: {stop: completed}}\n", ["states.a.then"]),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_no_fault_of_the_shape_hides_another_or_makes_one(case: Hidden) -> None:
    assert [f.at for f in found(HEAD + case.body) if f.is_error] == case.at

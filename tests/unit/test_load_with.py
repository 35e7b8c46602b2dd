"""What an action is given and what is kept of it: "language", section 8, and 6 on results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chartloop.core.specs import ActionSpec, ArgSpec
from chartloop.core.types import ANY, COUNT, DURATION, INT, STR, map_of, struct
from chartloop.language.spec import Given, StateSpec
from tests.found import END, Fault, Says, expect, spec, value

RESULT = struct({"n": INT, "text": STR, "words": map_of(STR), "free": ANY}, keyed=True)
DO_IT = ActionSpec(
    "do_it", None, (
        ArgSpec("text", "text", STR), ArgSpec("texts", "texts"), ArgSpec("value", "value", INT),
        ArgSpec("values", "values"), ArgSpec("word", "enum", STR, choices=("one", "two")),
        ArgSpec("tool", "name", STR, names="tool"), ArgSpec("state", "name", STR, names="state"),
        ArgSpec("var", "name", STR, names="variable"), ArgSpec("time", "duration", DURATION),
        ArgSpec("data", "data", map_of(STR)), ArgSpec("whole", "value", COUNT, about="How many."),
    ),
    result=RESULT,
)  # fmt: skip
VARS = "vars: {n: 0, f: 0.0, s: '', d: {type: duration, value: 1s}, l: {type: 'list[str]', value: []}, m: {type: map, value: {}}, x: {type: any, value: 0}}\n"


def act(body: str, before: str = VARS) -> str:
    """A file with a state that does `do_it`."""
    return f"{before}states:\n  a: {{do: do_it, {body}, next: z}}\n{END}"


def given(body: str) -> str:
    """The same with one field under `with`."""
    return act(f"with: {{{body}}}")


def arg(name: str) -> Callable[[StateSpec], Any]:
    def read(state: StateSpec) -> Any:
        found: Given = state.args[name]
        return found.kind, value(found.value)

    return read


SAYS: list[Says[StateSpec]] = [
    Says("text-is-a-template", given("text: 'At {{ run.steps }}'"), arg("text"), ("text", "At {{ run.steps }}")),
    Says("texts-are-templates", given("texts: {a: '{{ run.task }}', b: [1, x]}"), lambda s: value(s.args["texts"].value["a"]), "{{ run.task }}"),
    Says("value-is-an-expression", given("value: run.steps + 1"), arg("value"), ("value", "run.steps + 1")),
    Says("value-as-it-stands", given("value: 1_000"), arg("value"), ("constant", 1000)),
    Says("values-are-expressions", given("values: {a: vars.n, b: 2}"), lambda s: {k: (g.kind, value(g.value)) for k, g in s.args["values"].value.items()}, {"a": ("value", "vars.n"), "b": ("constant", 2)}),
    Says("word", given("word: two"), arg("word"), ("constant", "two")),
    Says("name-of-a-tool", given("tool: send_message"), arg("tool"), ("constant", "send_message")),
    Says("name-of-a-state", given("state: z"), arg("state"), ("constant", "z")),
    Says("name-of-a-variable", given("var: vars.n"), arg("var"), ("constant", "vars.n")),
    Says("duration", given("time: 30m"), arg("time"), ("constant", 1800.0)),
    Says("duration-by-an-expression", given("time: vars.d * 2"), arg("time"), ("value", "vars.d * 2")),
    Says("data-as-it-stands", given("data: {a: '{{ x }}'}"), arg("data"), ("data", {"a": "{{ x }}"})),
    Says("save-a-part", act("save: {vars.n: result.n, vars.x: 'result.free.a[0].b'}"), lambda s: [(x.target, x.path) for x in s.save], [("vars.n", ("n",)), ("vars.x", ("free", "a", 0, "b"))]),
    Says("save-the-whole", act("save: {vars.m: result}"), lambda s: s.save[0].path, ()),
    Says("save-a-template", act("save: {vars.s: '{{ result.text }}!'}"), lambda s: value(s.save[0].template), "{{ result.text }}!"),
    Says("save-append", act("save: {vars.l: {append: result.text}}"), lambda s: (s.save[0].append, s.save[0].path), (True, ("text",))),
    Says("save-a-whole-number-as-a-number", act("save: {vars.f: result.n}"), lambda s: s.save[0].path, ("n",)),
    Says("save-what-is-not-known", act("save: {vars.n: result.free}"), lambda s: s.save[0].path, ("free",)),
    Says("parse-into-variables", "vars: {plan: '', code: ''}\nstates:\n  a: {do: parse, with: {vars.plan: {tag: PLAN}, vars.code: {fence: python}}, next: z}\n" + END, lambda s: sorted(s.args), ["vars.code", "vars.plan"]),
    Says("set-variables", "vars: {n: 0}\nstates:\n  a: {do: set, with: {vars.n: vars.n + 1}, next: z}\n" + END, arg("vars.n"), ("value", "vars.n + 1")),
    Says("output-types-the-result", "vars: {n: 0}\nstates:\n  a: {do: infer, with: {output: {type: object, properties: {n: {type: integer}}, required: [n]}}, save: {vars.n: result.data.n}, next: z}\n" + END, lambda s: str(s.result.field("data")), "{n}"),
    Says("update-a-block", "memory: {who: x}\nstates:\n  a: {do: update_memory, with: {block: who, append: y}, next: z}\n" + END, arg("block"), ("constant", "who")),
    Says("signal-a-reason", "states:\n  a: {do: signal, with: {reason: custom}, next: z}\n" + END, arg("reason"), ("constant", "custom")),
    Says("limits-of-a-child", "machines: {kid: {limits: {n: 3, t: 5m}, rules: [{when: run.steps >= limits.n or run.elapsed >= limits.t, stop: custom}], states: {e: {end: completed}}}}\nstates:\n  a: {do: run_machine, with: {machine: kid, limits: {n: 1, t: 30m}}, next: z}\n" + END, lambda s: [g.value for g in s.args["limits"].value.values()], [1, "30m"]),
    Says("last-result-is-typed", act("next: [{when: last.result.n > 3, to: z}, z], about: x").replace(", next: z}", "}"), lambda s: len(s.edges), 2),
]  # fmt: skip


@pytest.mark.parametrize("case", SAYS, ids=lambda case: case.id)
def test_says(case: Says[StateSpec]) -> None:
    assert case.reads(spec(case.body, own=[DO_IT]).states["a"]) == case.means


INFER = "states:\n  a: {do: infer, with: {output: %s}, next: z}\n" + END
FAULTS = [
    Fault("unknown-field", given("«txt»: x"), "CL402", "has no field `txt`", "`text`"),
    Fault("field-of-none", "states:\n  a: {do: save_run, with: {«x»: 1}, next: z}\n" + END, "CL402", "has no field `x`", "it takes none"),
    Fault("missing-field", "states:\n  a: {do: «signal», next: z}\n" + END, "CL403", "needs `reason`"),
    Fault("missing-field-beside-another", "states:\n  a: {do: signal, «with»: {message: hi}, next: z}\n" + END, "CL403", "needs `reason`"),
    Fault("text-is-a-number", given("text: «1.10»"), "CL210", "`1.10` is a number", 'quote it: `"1.10"`'),
    Fault("text-is-a-list", given("text: «[a]»"), "CL404", "`text` takes text"),
    Fault("text-is-empty", given("«text»: "), "CL404", "`text` is empty"),
    Fault("template-unknown-fact", given("text: '{{ «run.stepz» }}'"), "CL103", "run.stepz"),
    Fault("template-with-a-power", given("text: '{{ run.steps «**» 2 }}'"), "CL406", ""),
    Fault("texts-is-a-text", given("texts: «x»"), "CL404", "a mapping or a list"),
    Fault("texts-unknown-fact", given("texts: {a: [x, '{{ «run.stepz» }}']}"), "CL103", "run.stepz"),
    Fault("value-of-another-type", given("value: «last.text»"), "CL104", "this is str, where int is wanted"),
    Fault("value-is-a-bool", given("value: «true»"), "CL404", "`True` is not of type int"),
    Fault("value-is-nothing", given("«whole»: "), "CL404", "nothing is not of type int", "How many."),
    Fault("flag-is-a-text", "states:\n  a: {do: prompt, with: {user: x, keep: «\"true\"»}, next: z}\n" + END, "CL404", "`keep` takes true or false, not text", "`keep: true`"),
    Fault("values-is-a-text", given("values: «x»"), "CL404", "a mapping of expressions"),
    Fault("word-unknown", given("word: «tow»"), "CL404", "not one of one, two", "`two`"),
    Fault("tool-unknown", given("tool: «send_mesage»"), "CL405", "send_mesage", "`send_message`"),
    Fault("name-is-a-number", given("tool: «5»"), "CL404", "the name of a tool"),
    Fault("state-unknown", given("state: «nowhere»"), "CL301", "nowhere"),
    Fault("variable-unknown", given("var: «vars.q»"), "CL103", "unknown variable `vars.q`"),
    Fault("duration-without-a-unit", given("time: «30»"), "CL209", "not a duration", "`30s`"),
    Fault("duration-is-a-list", given("time: «[1s]»"), "CL404", "takes a duration"),
    Fault("data-is-a-text", given("data: «x»"), "CL404", "takes a mapping"),
    Fault("output-is-a-text", INFER % "«json»", "CL414", "unknown class `json`"),
    Fault("type-of-a-schema-is-a-mapping", INFER % "{type: «{type: object}»}", "CL413", "is not a type of JSON Schema", "array, boolean"),
    Fault("type-of-a-schema-is-a-list-of-mappings", INFER % "{type: «[string, {a: 1}]»}", "CL413", "is not a type of JSON Schema", "array, boolean"),
    Fault("required-of-a-schema-holds-no-name", INFER % "{type: object, required: [«{a: 1}»]}", "CL413", "is not of type"),
    Fault("enum-of-a-schema-is-a-number", INFER % "{enum: «5»}", "CL413", "`enum` is not what JSON Schema takes"),
    Fault("output-is-no-schema", INFER % "«{name: str}»", "CL413", "takes a JSON Schema"),
    Fault("output-of-no-type", INFER % "{type: «text»}", "CL413", "`text` is not a type"),
    Fault("output-properties", INFER % "{type: object, properties: {n: «int»}}", "CL413", "is not of type"),
    Fault("block-unknown", "memory: {who: x}\nstates:\n  a: {do: update_memory, with: {block: «whom», append: y}, next: z}\n" + END, "CL103", "unknown memory block `whom`", "`who`"),
    Fault("signal-unknown", "states:\n  a: {do: signal, with: {reason: «customm»}, next: z}\n" + END, "CL408", "customm", "`custom`"),
    Fault("parse-into-nothing", "vars: {plan: ''}\nstates:\n  a: {do: parse, with: {«vars.plam»: {tag: PLAN}}, next: z}\n" + END, "CL103", "vars.plam", "`vars.plan`"),
    Fault("parse-entry", "vars: {plan: ''}\nstates:\n  a: {do: parse, with: {vars.plan: «{tg: PLAN}»}, next: z}\n" + END, "CL404", "unknown key `tg`"),
    Fault("parse-without-vars", "vars: {plan: ''}\nstates:\n  a: {do: parse, with: {«plan»: {tag: PLAN}}, next: z}\n" + END, "CL402", "has no field `plan`", "write `vars.NAME`"),
    Fault("save-unknown-variable", act("save: {«vars.q»: result.n}"), "CL407", "vars.q"),
    Fault("save-no-part", act("save: {vars.n: «last.text»}"), "CL407", "not part of the result", "`result.part`"),
    Fault("save-a-constant", act("save: {vars.n: «5»}"), "CL407", "not part of the result"),
    Fault("save-unknown-part", act("save: {vars.n: «result.m»}"), "CL407", "the result has no `m`", "`n`"),
    Fault("save-index-of-a-mapping", act("save: {vars.n: «'result[0]'»}"), "CL407", "the result has no `0`"),
    Fault("save-another-type", act("save: {vars.n: «result.text»}"), "CL104", "this is str, and `vars.n` takes int", "declare `vars.n` as str"),
    Fault("save-a-template-as-a-number", act("save: {vars.n: «'{{ result.n }}'»}"), "CL104", "this is str"),
    Fault("save-append-to-a-number", act("save: {vars.n: {append: «result.n»}}"), "CL407", "not a list"),
    Fault("save-append-another-type", act("save: {vars.l: {append: «result.n»}}"), "CL104", "this is int"),
    Fault("save-a-map-as-a-list", act("save: {vars.l: «result.words»}"), "CL104", "this is map[str]", "declare `vars.l` as map[str]"),
    Fault("save-template-unknown", act("save: {vars.s: '{{ «result.txt» }}'}"), "CL103", "result.txt"),
    Fault("last-result-has-no-such-field", act("about: x, failed: z").replace("next: z", "next: [{when: «last.result.q» > 3, to: z}, z]"), "CL103", "has no `q`"),
    Fault("last-result-of-two-actions", VARS + "states:\n  a: {do: do_it, next: [{when: last.ok, to: b}, c]}\n  b: {do: nothing, next: c}\n  c: {ask: Q?, when: «last.result».n > 3, then: z, else: z}\n" + END, "CL110", "not known"),
]  # fmt: skip


@pytest.mark.parametrize("case", FAULTS, ids=lambda case: case.id)
def test_fault(case: Fault) -> None:
    expect(case, own=[DO_IT])

"""Where data goes: what is declared, what is asked, and what an answer says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from chartloop import Context, LimitError, Machine, SetupError, SpecError, action, load, tool
from chartloop.analysis.proofs.query import QueryFault
from chartloop.core.specs import DataUse, ToolSpec
from chartloop.language.server_tools import ServerSpec, tool_of
from chartloop.language.tool_lock import LockedTool


@tool(data={"from": "untrusted"})
def fetch(text: str) -> str:
    """Read a page."""
    return text


@tool(data={"reads": "private"})
def crm(text: str) -> str:
    """Look up."""
    return text


@tool(data={"sends": "out"})
def mail(text: str) -> str:
    """Send."""
    return text


@tool(data={"from": "trusted"})
def judge(text: str) -> str:
    """Let pass."""
    return '{"verdict": "pass", "reason": "it is harmless"}'


@tool
def silent(text: str) -> str:
    """Say nothing of itself."""
    return text


@tool(data={"from": "trusted"})
def context_reader(_ctx: Context, text: str) -> str:
    """Read whatever the run holds."""
    return text


@tool(data={"sends": "out"})
def mail_all(_ctx: Context, note: str) -> str:
    """Send whatever the run holds."""
    return note


@action(effect="pure")
def own(ctx: Context) -> str:
    """Do something."""
    return ctx.facts.last.text


@action(data={"reads": "private"}, changes="vars.v")
def said(ctx: Context) -> str:
    """Do something that it says."""
    return ctx.facts.last.text


TOOLS = [fetch, crm, mail, judge, silent, context_reader, mail_all, own, said]


def machine(states: str, **more: str) -> Machine:
    """A machine of these states, with further keys."""
    keys = {
        "tools": "[fetch, crm, mail]", "inputs": "{task: {from: trusted}}", "vars": '{v: "", w: ""}',
        "memory": '{m: ""}', **more,
    }  # fmt: skip
    head = "chartloop: 1\nmachine: m\nmodel: {name: scripted}\nlimits: {steps: 9}\n"
    rules = "rules: [{when: run.steps >= limits.steps, stop: steps_limit}]\n"
    text = head + rules + "".join(f"{k}: {v}\n" for k, v in keys.items())
    return load(text + "states:\n" + states + "  done: {stop: completed}\n", tools=TOOLS)


def screened(after: str, fields: str) -> str:
    """The loop of a model and its tools, with a screen after these actions."""
    loop = LOOP + f"  look: {{do: screen, with: {{stop: custom, {fields}}}, next: think}}\n"
    for name in after.split():
        loop = loop.replace(f"do: {name}, next: think", f"do: {name}, next: look")
    return loop


LOOP = """\
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
"""


def line(*states: str) -> str:
    """States one after the other."""
    return "".join(
        f"  s{n}: {{{body}, next: {f's{n + 1}' if n + 1 < len(states) else 'done'}}}\n"
        for n, body in enumerate(states)
    )


def call(name: str, text: str, save: str = "") -> str:
    kept = f", save: {{vars.{save}: result}}" if save else ""
    return f'do: tool, with: {{name: {name}, arguments: {{text: "{text}"}}}}{kept}'


GET, SEND = call("fetch", "x", "v"), call("mail", "{{ vars.v }}")


class Case(NamedTuple):
    """A machine, a query, and its answer."""

    id: str
    states: str
    query: str
    word: str
    more: Mapping[str, str] = {}


BY = "tool: judge, clears: [untrusted]"
CASES = [
    Case("a-loop", LOOP, "no flow untrusted to mail", "no"),
    Case("another-label", LOOP, "no flow private to mail", "no"),
    Case("any-sender", LOOP, "no flow private to out", "no"),
    Case("a-trusted-input-of-that-name", LOOP, "no flow input:task to mail", "no"),
    Case("from-one-tool", LOOP, "no flow tool:crm to fetch", "no"),
    Case("not-offered-together", LOOP.replace("act: {do: call_tools",
         "act: {do: call_tools, allow: [crm]"), "no flow untrusted to mail", "yes"),
    Case("never-offered", LOOP.replace("do: infer", "do: infer, allow: [fetch]"), "no flow untrusted to mail", "yes"),
    Case("an-input", LOOP, "no flow untrusted to mail", "no",
         {"tools": "[mail]", "inputs": "{task: {from: untrusted}}"}),
    Case("nothing-but-a-trusted-input", LOOP, "no flow untrusted to mail", "yes", {"tools": "[mail]"}),
    Case("undeclared-tool", LOOP, "no flow untrusted to mail", "unknown", {"tools": "[silent, mail]"}),
    Case("undeclared-sender", LOOP, "no flow untrusted to out", "unknown", {"tools": "[silent, fetch]"}),
    Case("undeclared-inputs", LOOP, "no flow untrusted to mail", "unknown", {"tools": "[mail]", "inputs": ""}),
    Case("the-file-declares", LOOP, "no flow untrusted to mail", "yes",
         {"tools": "[silent, mail]", "data": "{silent: {reads: private}}"}),
    Case("the-file-takes-away", LOOP, "no flow untrusted to mail", "yes",
         {"tools": "[fetch, mail]", "data": "{fetch: {from: trusted}}"}),
    Case("approved", LOOP, "no flow untrusted to mail", "yes", {"approve": "{tools: [mail]}"}),
    Case("approved-if", LOOP, "no flow untrusted to mail", "no",
         {"approve": "{tools: [mail], when: 'call.arguments.text == \"a\"'}"}),
    Case("approved-for-later-calls-too", LOOP, "no flow untrusted to mail", "no",
         {"approve": "{tools: [mail], remember: true}"}),
    Case("another-is-approved", LOOP, "no flow untrusted to mail", "no", {"approve": "{tools: [crm]}"}),
    Case("a-variable", line(GET, SEND), "no flow untrusted to mail", "no"),
    Case("a-variable-set-anew", line(GET, "do: nothing, set: {vars.v: '\"\"'}", SEND), "no flow untrusted to mail", "yes"),
    Case("another-variable", line(GET, call("mail", "{{ vars.w }}")), "no flow untrusted to mail", "yes"),
    Case("a-copy", line(GET, "do: set, with: {vars.w: vars.v}", call("mail", "{{ vars.w }}")), "no flow untrusted to mail", "no"),
    Case("memory", line(GET, 'do: update_memory, with: {block: m, append: "{{ vars.v }}"}',
         call("mail", "{{ memory.m }}")), "no flow untrusted to mail", "no"),
    Case("a-prompt-of-its-own", line(call("fetch", "x"), 'do: prompt, with: {user: hi}', "do: infer",
         call("mail", "{{ last.text }}")), "no flow untrusted to mail", "yes"),
    Case("a-prompt-that-is-not-kept", line(GET, 'do: prompt, with: {user: "{{ vars.v }}"}', "do: infer",
         "do: infer", "do: prompt, with: {user: hi}", "do: infer", call("mail", "{{ last.text }}")),
         "no flow untrusted to mail", "yes"),
    Case("a-prompt-with-it", line(GET, 'do: prompt, with: {user: "{{ vars.v }}"}', "do: infer",
         call("mail", "{{ last.text }}")), "no flow untrusted to mail", "no"),
    Case("instructions", line(GET, "do: infer", call("mail", "{{ last.text }}")),
         "no flow untrusted to mail", "no", {"instructions": '"{{ vars.v }}"'}),
    Case("a-guard-is-no-flow", "  s0: {" + GET + ', next: s1}\n  s1: {ask: "Q?", when: vars.v == "a", '
         "then: s2, else: done}\n  s2: {" + call("mail", "hi") + ", next: done}\n",
         "no flow untrusted to mail", "yes"),
    Case("cleaned", line(GET, 'do: nothing, with: {input: {x: "{{ vars.v }}"}}, save: {vars.w: result.x}',
         call("mail", "{{ vars.w }}")), "no flow untrusted to mail unless s1", "yes"),
    Case("cleaned-by-a-tool", line(GET, call("crm", "{{ vars.v }}", "w"), call("mail", "{{ vars.w }}")),
         "no flow untrusted to mail unless s1", "yes"),
    Case("the-tool-that-cleans-has-a-label", line(GET, call("crm", "{{ vars.v }}", "w"), call("mail", "{{ vars.w }}")),
         "no flow private to mail unless s1", "no"),
    Case("the-tool-that-cleans-is-given-it", line(GET, call("crm", "{{ vars.v }}", "w")),
         "no flow untrusted to crm unless s1", "no"),
    Case("cleaned-beside-it", line(GET, 'do: nothing, with: {input: {x: "{{ vars.v }}"}}, save: {vars.w: result.x}',
         SEND), "no flow untrusted to mail unless s1", "no"),
    Case("a-tool-that-reads-all", line(GET, call("context_reader", "x", "w"), call("mail", "{{ vars.w }}")),
         "no flow untrusted to mail", "no"),
    Case("a-tool-that-is-given-all", line(GET, "do: tool, with: {name: mail_all, arguments: {note: hi}}"),
         "no flow untrusted to mail_all", "no"),
    Case("a-tool-that-is-given-all-and-approved", LOOP, "no flow untrusted to out", "no",
         {"tools": "[fetch, mail_all]", "approve": "{tools: [mail_all]}"}),
    Case("a-tool-that-is-given-all-of-a-harmless-run", line("do: tool, with: {name: mail_all, arguments: {note: hi}}"),
         "no flow untrusted to mail_all", "yes", {"inputs": "{task: {from: trusted}, tasks: {from: trusted}}"}),
    Case("own-action", line(GET, "do: own, save: {vars.w: result}", call("mail", "{{ vars.w }}")),
         "no flow private to mail", "unknown"),
    Case("own-action-that-declares", line(GET, "do: said, save: {vars.w: result}", call("mail", "{{ vars.w }}")),
         "no flow private to mail", "no"),
    Case("own-action-declared-in-the-file", line(GET, "do: own, save: {vars.w: result}", call("mail", "{{ vars.w }}")),
         "no flow private to mail", "yes",
         {"data": "{own: {from: untrusted}}", "inputs": "{task: {from: trusted}, tasks: {from: trusted}}"}),
    Case("an-answer", '  s0: {on: {yes: {to: s1, data: {note: str}, set: {vars.v: last.answer.note}}}}\n  s1: {'
         + SEND + ", next: done}\n", "no flow untrusted to mail", "unknown"),
    Case("a-declared-answer", '  s0: {on: {yes: {to: s1, data: {note: str}, set: {vars.v: last.answer.note}}}}\n  s1: {'
         + SEND + ", next: done}\n", "no flow untrusted to mail", "yes", {"inputs": "{answer: {from: trusted}}"}),
    Case("notify-sends-the-task", line("do: notify, with: {text: It is done.}"), "no flow private to out", "no",
         {"inputs": "{task: {reads: private}}"}),
    Case("notify-sends-the-task-alone", line(GET, "do: notify, with: {text: It is done.}"), "no flow untrusted to out", "yes"),
    Case("notify-sends", line(GET, 'do: notify, with: {text: "{{ vars.v }}"}'), "no flow untrusted to out", "no"),
    Case("screened", screened("receive call_tools", BY), "no flow untrusted to mail", "yes"),
    Case("screened-by-the-model", screened("receive call_tools", "look_for: orders, clears: [untrusted]"),
         "no flow untrusted to mail", "yes"),
    Case("a-run-stops-before-the-screen-and-the-next-goes-on", screened("call_tools", BY),
         "no flow untrusted to mail", "no"),
    Case("screened-for-another-label", screened("receive call_tools", BY), "no flow private to mail", "no"),
    Case("screened-for-none", screened("receive call_tools", "tool: judge"), "no flow untrusted to mail", "no"),
    Case("its-text-still-comes-from-the-tool", screened("receive call_tools", BY), "no flow tool:fetch to mail", "no"),
    Case("the-screen-is-given-it", screened("receive call_tools", BY), "no flow untrusted to tool:judge", "no"),
    Case("screened-before-it-comes", screened("receive", BY), "no flow untrusted to mail", "no"),
    Case("a-screened-input", screened("receive", BY), "no flow untrusted to mail", "yes",
         {"tools": "[mail]", "inputs": "{task: {from: untrusted}}"}),
    Case("what-came-before-the-reply-stays", "  ask: {do: receive, next: think}\n  think: {do: infer, next: look}\n"
         "  look: {do: screen, with: {stop: custom, " + BY + "}, next: again}\n"
         "  again: {do: infer, next: send}\n  send: {" + call("mail", "{{ last.text }}") + ", next: done}\n",
         "no flow untrusted to mail", "no", {"inputs": "{task: {from: untrusted}}"}),
    Case("a-failed-screen-lets-nothing-pass", screened("receive call_tools", BY).replace(
         "next: think}\n  done", "failed: next, next: think}\n  done").replace(
         "clears: [untrusted]}, next: think", "clears: [untrusted]}, failed: next, next: think"),
         "no flow untrusted to mail", "no"),
    Case("a-text-that-has-left", line(GET, 'do: screen, with: {stop: custom, text: "{{ vars.v }}", ' + BY +
         '}, save: {vars.v: result.text}', SEND), "no flow untrusted to mail", "yes"),
    Case("what-was-taken-out-of-it", line(GET, 'do: screen, with: {stop: custom, text: "{{ vars.v }}", ' + BY +
         '}, save: {vars.v: result.reason}', SEND), "no flow untrusted to mail", "no"),
    Case("a-text-beside-it", line(GET, 'do: screen, with: {stop: custom, text: "{{ vars.v }}", ' + BY +
         '}, save: {vars.w: result.text}', SEND), "no flow untrusted to mail", "no"),
    Case("a-text-that-is-still-in-the-conversation", LOOP.replace("act: {do: call_tools, next: think",
         "act: {do: call_tools, next: look") + '  look: {do: screen, with: {stop: custom, text: '
         '"{{ last.result }}", ' + BY + '}, next: think}\n', "no flow untrusted to mail", "no"),
    Case("a-prompt-that-is-kept-goes-with-the-conversation", line("do: receive", "do: prompt, with: {user: hi, keep: true}",
         "do: infer", call("mail", "{{ last.text }}")), "no flow untrusted to mail", "no", {"inputs": "{task: {from: untrusted}}"}),
    Case("essentials-hold-the-task", line("do: prune_context, with: {strategy: essentials}", "do: infer",
         call("mail", "{{ last.text }}")), "no flow untrusted to mail", "no", {"inputs": "{task: {from: untrusted}}"}),
    Case("the-next-run", line(call("mail", "{{ memory.m }}"), GET, 'do: update_memory, with: {block: m, append: "{{ vars.v }}"}'),
         "no flow untrusted to mail", "no"),
]  # fmt: skip


def helper(tools: str) -> str:
    """A child machine that a model may call, with tools of its own."""
    return (
        "{helper: {model: {name: scripted}, inputs: {task: {}}, limits: {steps: 9}, output: last.text, "
        f"tools: {tools}, rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}], states: {{"
        "ask: {do: receive, next: think}, done: {stop: completed}, act: {do: call_tools, next: think}, "
        "think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}}}}"
    )


READS = {"tools": "[helper, mail]", "machines": helper("[crm]")}
MAILS = {"tools": "[fetch, helper]", "machines": helper("[mail]")}
OF_CHILDREN = [
    Case("a-child-that-reads", LOOP, "no flow private to mail", "no", READS),
    Case("a-child-of-another-label", LOOP, "no flow untrusted to mail", "yes", READS),
    Case("from-a-child", LOOP, "no flow tool:helper to mail", "no", READS),
    Case("a-child-that-is-not-offered", LOOP.replace("do: infer", "do: infer, allow: [mail]"), "no flow private to mail", "yes", READS),
    Case("a-child-that-sends", LOOP, "no flow untrusted to mail", "no", MAILS),
    Case("what-a-child-is-given", LOOP, "no flow untrusted to helper", "no", MAILS),
    Case("a-child-that-is-approved", LOOP, "no flow untrusted to mail", "yes", {**MAILS, "approve": "{tools: [helper]}"}),
]  # fmt: skip


@pytest.mark.parametrize("case", [*CASES, *OF_CHILDREN], ids=lambda case: case.id)
def test_a_flow(case: Case) -> None:
    assert machine(case.states, **case.more).query(case.query).word == case.word


def test_an_answer_shows_the_way() -> None:
    found = machine(line(GET, SEND)).query("no flow untrusted to mail")
    assert found.reason == (
        "untrusted text can reach tool `mail`: tool `fetch` → `vars.v` after `s0` → tool `mail`"
    )
    assert found.witness == ("s0", "s1", "done")
    assert found.edges == ("s0.next.0", "s1.next.0")
    assert "is no flow" in str(found.assumptions)
    assert found.draw().bundle()


def test_what_a_person_accepts_is_named_where_anything_may_send() -> None:
    asked = machine(LOOP, approve="{tools: [mail]}")
    found = asked.query("no flow untrusted to out")
    assert found.word == "yes"
    assert found.reason.endswith("on no path, besides calls of `mail`, which a person accepts")
    assert "besides" not in machine(line("do: infer")).query("no flow untrusted to out").reason


CHILD = """{
    model: {name: scripted}, tools: [%s], limits: {steps: 5},
    rules: [{when: run.steps >= limits.steps, stop: steps_limit}],
    states: {a: {do: receive, next: b}, b: {do: infer, next: c}, c: {do: call_tools, next: d},
             d: {do: infer, next: e}, e: {stop: completed}}}"""


@pytest.mark.parametrize(
    ("tools", "states", "word"),
    [
        ("mail", line(GET, 'do: run_machine, with: {machine: child, task: "{{ vars.v }}"}'), "no"),
        ("mail", line(GET, "do: run_machine, with: {machine: child, task: hi}"), "yes"),
        ("fetch", line("do: run_machine, with: {machine: child, task: hi}, "
                       "save: {vars.v: result.text}", SEND), "no"),
        ("fetch", line("do: run_machine, with: {machine: child, task: hi, share: [messages]}",
                       "do: infer", call("mail", "{{ last.text }}")), "no"),
        ("fetch", line("do: run_machine, with: {machine: child, task: hi}", "do: infer",
                       call("mail", "{{ last.text }}")), "yes"),
        ("crm", line("do: run_machine, with: {machine: child, task: hi}, "
                     "save: {vars.v: result.text}", SEND), "yes"),
    ],
)  # fmt: skip
def test_a_child_is_on_the_way(tools: str, states: str, word: str) -> None:
    made = machine(states, machines="{child: " + CHILD % tools + "}", tools="[fetch, crm, mail]")
    found = made.query("no flow untrusted to mail")
    assert found.word == word, found.reason


KID = """{kid: {
    inputs: {task: {from: trusted}},
    states: {hello: {do: tool, with: {name: mail, arguments: {text: hello}}, next: ok},
             raw: {do: tool, with: {name: mail, arguments: {text: "{{ run.task }}"}}, next: ok},
             ok: {stop: completed}}}}"""


@pytest.mark.parametrize(
    ("how", "word"),
    [
        ("do: run_machine, with: {machine: kid, task: '{{ vars.v }}', start: raw}", "no"),
        ("do: run_machine, with: {machine: kid, task: hi, start: raw}", "yes"),
        (("do: run_machines, with: {children: {one: {machine: kid, task: hi}, "
         "two: {machine: kid, task: '{{ vars.v }}', start: raw}}}"), "no"),
    ],
)  # fmt: skip
def test_a_child_is_followed_from_each_state_at_which_it_is_started(how: str, word: str) -> None:
    made = machine(line(GET, how), machines=KID, ignore="[{code: CL304, at: kid, reason: started}]")
    for target in ("mail", "out"):
        found = made.query(f"no flow untrusted to {target}")
        assert found.word == word, found.reason


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no flow secret to mail", "no tool `secret`"),
        ("no flow private to mial", "`mial`"),
        ("no flow private to ask", "`ask`"),
        ("no flow private to mail unless nowhere", "no state `nowhere`"),
        ("no flow private mail", "is not a query"),
        ("no flow input:tsk to mail", "no input `tsk`"),
        ("no flow input:vars.v to mail", "no input `vars.v`"),
        ("no flow input:memory.n to mail", "no input `memory.n`"),
    ],
)
def test_what_is_no_query(text: str, said: str) -> None:
    with pytest.raises(QueryFault, match=said):
        machine(LOOP).query(text)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"vars": {"v": "x"}}, "v"), ({"memory": {"m": "x"}}, "memory.m"),
        ({"messages": [{"role": "user", "content": "hi"}]}, "messages"), ({"tasks": ["a"]}, "tasks"),
    ],
)  # fmt: skip
def test_a_run_is_given_what_inputs_declare(given: Any, name: str) -> None:
    with pytest.raises(LimitError, match=f"`{name}` is no input of machine `m`") as error:
        machine(LOOP).start("hi", script=["ho"], **given)
    assert error.value.hint == "its `inputs` are `task`"
    assert machine(LOOP, inputs=f"{{task: {{from: trusted}}, {name}: {{from: trusted}}}}").start(
        "hi", script=["ho"], **given
    )


def test_words_are_checked() -> None:
    with pytest.raises(SetupError, match="`from` is `untrusted` or `trusted`, not `nobody`"):
        load("agent", tools=[tool(data={"from": "nobody"})(lambda_like())])
    with pytest.raises(SetupError, match="what is pure sends nothing"):
        load("agent", tools=[tool(effect="pure", data={"sends": "out"})(lambda_like())])
    with pytest.raises(SpecError, match="unknown input `tusk`"):
        machine(LOOP, inputs="{tusk: {from: trusted}}")
    with pytest.raises(SpecError, match="unknown tool `fotch`"):
        machine(LOOP, data="{fotch: {from: trusted}}")


def lambda_like() -> Any:
    """A new function, since each is declared once."""

    def one(text: str) -> str:
        """Something."""
        return text

    return one


@pytest.mark.parametrize(
    ("claims", "labels", "out"),
    [
        ({}, (), False), ({"openWorldHint": False}, (), False),
        ({"openWorldHint": True}, ("untrusted",), True),
        ({"openWorldHint": True, "readOnlyHint": True}, ("untrusted",), False),
        ({"readOnlyHint": True}, (), False),
    ],
)  # fmt: skip
def test_a_server_only_adds_labels(claims: Any, labels: tuple[str, ...], out: bool) -> None:
    made: ToolSpec = tool_of(ServerSpec("web"), LockedTool("get", annotations=claims))
    assert (made.data.labels, made.data.sends_out, made.data.declared) == (labels, out, False)


def test_a_file_is_written_back() -> None:
    made = machine(LOOP, data="{fetch: {from: trusted, reads: private}}")
    assert made.spec.data == {"fetch": DataUse("private", "trusted")}
    again = load(made.canonical(), tools=TOOLS)
    assert (again.spec.data, again.spec.inputs) == (made.spec.data, made.spec.inputs)


# the next run ---------------------------------------------------------------------------------

LATER = line(call("mail", "{{ vars.v }}"), call("crm", "x", save="v"))
"""It sends first, and reads what is private later."""


def test_a_way_into_the_next_run_says_so() -> None:
    made = machine(LATER)
    found = made.query("no flow private to mail")
    assert found.reason.endswith("`vars.v` after `s1` → in the next run tool `mail`")
    alone = made.query("no flow private to mail in one run")
    assert alone
    assert alone.reason == "private text reaches tool `mail` on no path of one run"
    assert "nothing that an earlier run left is in it" in alone.assumptions


def test_both_conditions_of_a_flow() -> None:
    clean = "do: nothing, with: {input: {x: '{{ vars.w }}'}}, save: {vars.v: result.x}"
    made = machine(line(call("mail", "{{ vars.v }}"), call("crm", "x", save="w"), clean))
    assert made.query("no flow private to mail").holds is False
    assert made.query("no flow private to mail unless s2")
    assert made.query("no flow private to mail unless state:s2 in one run")


def test_a_file_that_is_never_continued_leaves_nothing() -> None:
    made = machine(LATER, continues="never")
    assert made.query("no flow private to mail")
    assert load(made.canonical(), tools=[fetch, crm, mail]).spec.continues == "never"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("no flow private to state:s0", "write `action:tool`"), ("no flow private to s1", "write `action:tool`"),
        ("no flow private to edge:s0.next.0", "write `tool:NAME`, or `out`"),
        ("no flow private to reason:custom", "write `tool:NAME`, or `out`"),
    ],
)  # fmt: skip
def test_a_flow_ends_at_what_can_be_given_text(text: str, hint: str) -> None:
    with pytest.raises(
        QueryFault, match="text flows to a tool, an action or `out`, not to the"
    ) as at:
        machine(LATER).query(text)
    assert at.value.hint == hint


def test_what_an_action_is_given_is_asked_for_any_of_them() -> None:
    states = line("do: nothing, with: {input: {x: '{{ vars.v }}'}}", call("crm", "x", save="v"))
    made = machine(states)
    assert made.query("no flow private to action:nothing").holds is False
    assert made.query("no flow private to action:nothing in one run")


def test_an_answer_is_an_input_like_others() -> None:
    wait = "  w: {on: {ok: {to: s0, data: {note: str}, set: {vars.v: last.answer.note}}}}\n"
    states = wait + line(call("mail", "{{ vars.v }}"))
    assert machine(states).query("no flow input:answer to mail").holds is False

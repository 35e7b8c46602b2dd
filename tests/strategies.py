"""Small valid machines, and what may happen to a run of one.

A machine is drawn as plain data, so that a failing example can be read and pasted. It may loop,
fork, wait, retry, make detours and raise errors in its guards; it never has two states that
only pass in a circle.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from chartloop.core.facts import ToolCall
from chartloop.core.outcome import Blocked, Outcome, Reply, Spent
from chartloop.core.reasons import REASONS, StopSignal

Data = dict[str, Any]

_GUARDS = (
    "run.steps >= {n}", "run.visits.{s} >= {n}", "usage.total_tokens >= limits.tokens",
    "errors.consecutive >= {n}", "errors.total >= {n}", "last.ok", "not last.ok", "vars.n > {n}",
    "vars.flag", "not vars.flag and run.steps < {n}", "progress.stalled_steps >= {n}",
    "signals.count > 0", "run.elapsed >= limits.time", "errors.rate > 50 / 100",
    "usage.cost >= limits.cost", "10 / vars.n > 2", 'vars.word == "b" or vars.n == {n}',
    "run.steps >= limits.off", "count(c.name == 'x' for c in last.tool_calls) >= {n}",
)  # fmt: skip
_REASONS = sorted(REASONS)
_SETS: tuple[Data, ...] = (
    {"vars.n": "vars.n + 1"}, {"vars.n": "0"}, {"vars.flag": True}, {"vars.flag": "not vars.flag"},
    {"vars.word": '"b"'}, {"vars.list": {"append": "vars.word"}}, {"vars.n": "vars.n + 1", "vars.flag": False},
)  # fmt: skip


@st.composite
def guards(draw: st.DrawFn, states: list[str]) -> str:
    """A guard over the facts of such a machine."""
    text = draw(st.sampled_from(_GUARDS))
    return text.format(n=draw(st.integers(0, 4)), s=draw(st.sampled_from(states)))


@st.composite
def edges(draw: st.DrawFn, targets: list[str], states: list[str], *, guarded: bool) -> Any:
    """One edge, short or long."""
    to = draw(st.sampled_from(targets))
    if not guarded and draw(st.booleans()):
        return to
    edge: Data = {"to": to}
    if guarded:
        edge["when"] = draw(guards(states))
    if draw(st.integers(0, 4)) == 0:
        edge["set"] = draw(st.sampled_from(_SETS))
    if draw(st.integers(0, 7)) == 0:
        edge["label"] = draw(st.sampled_from(["why", "limit {limits.tokens:,}", "a\\nb"]))
    return edge


@st.composite
def nexts(draw: st.DrawFn, targets: list[str], states: list[str]) -> Any:
    """A `next`: guarded edges, then a plain one."""
    count = draw(st.integers(0, 2))
    if count == 0:
        return draw(edges(targets, states, guarded=False))
    found = [draw(edges(targets, states, guarded=True)) for _ in range(count)]
    return [*found, draw(edges(targets, states, guarded=False))]


@st.composite
def moving(draw: st.DrawFn, names: list[str], onward: list[str]) -> Data:
    """The job of a state that passes, decides or waits."""
    out: Data = {}
    job = draw(st.sampled_from(["pass", "decide", "cases", "wait", "next"]))
    if job == "pass":
        out["next"] = draw(edges(onward, names, guarded=False))
    elif job == "decide":
        out |= {"ask": "Q?", "when": draw(guards(names))}
        out |= {k: draw(edges(onward, names, guarded=False)) for k in ("then", "else")}
    elif job == "cases":
        out |= {"ask": "Which?", "of": '"a" if vars.flag else "b"'}
        out["cases"] = {k: draw(edges(onward, names, guarded=False)) for k in ("a", "b")}
    elif job == "wait":
        out["on"] = {e: draw(edges(onward, names, guarded=False)) for e in ("yes", "no")}
        if draw(st.booleans()):
            out |= {"within": "30s", "expired": draw(st.sampled_from(onward))}
    else:
        out |= {"ask": "Next?", "next": draw(nexts(onward, names))}
    return out


@st.composite
def states(draw: st.DrawFn, name: str, names: list[str], acting: list[str]) -> Data:
    """One state. Passing and deciding ones lead to acting states or ends only."""
    ends = ["done", "stopped"]
    onward = [*acting, *ends]
    out: Data = {}
    if name in acting:
        out["do"] = draw(st.sampled_from(["act", "keep"]))
        out["next"] = draw(nexts([*names, *ends], names))
        if draw(st.integers(0, 3)) == 0:
            out["failed"] = draw(st.sampled_from(["next", *onward]))
        if draw(st.integers(0, 3)) == 0:
            out["retry"] = {
                "times": draw(st.integers(1, 3)),
                "base": draw(st.sampled_from(["0s", "2s"])),
            }
    else:
        out |= draw(moving(names, onward))
    if draw(st.integers(0, 3)) == 0:
        out["set"] = draw(st.sampled_from(_SETS))
    if draw(st.integers(0, 5)) == 0:
        out["status"] = draw(st.sampled_from(["running", "debugging"]))
    if draw(st.integers(0, 3)) == 0:
        out["label"] = draw(st.sampled_from(["A box", "two\nlines", "≥ {limits.time}"]))
    return out


@st.composite
def rules(draw: st.DrawFn, names: list[str], acting: list[str], kinds: list[str]) -> Data:
    """One rule."""
    rule: Data = {"when": draw(guards(names))}
    kind = draw(st.sampled_from(kinds))
    if kind == "detour":
        rule["to"] = "detour"
        cover = draw(st.sampled_from(["", "at", "before"]))
        if cover:
            rule[cover] = [draw(st.sampled_from(acting))]
        return rule
    rule[kind] = draw(st.sampled_from(_REASONS))
    if kind == "stop" and draw(st.integers(0, 2)) == 0:
        rule["to"] = "ended"
    if kind == "stop" and draw(st.integers(0, 3)) == 0:
        rule["at"] = [draw(st.sampled_from(names))]
    return rule


@st.composite
def machines(draw: st.DrawFn) -> Data:
    """A whole machine as plain data."""
    names = [f"s{n}" for n in range(draw(st.integers(1, 5)))]
    acting = [n for n in names if draw(st.booleans())] or [names[0]]
    body = {n: draw(states(n, names, acting)) for n in names}
    if draw(st.integers(0, 2)) == 0:
        body["fork"] = {"all": ["left", "right"]}
        join = draw(st.sampled_from(acting))
        for side in ("left", "right"):
            stop = draw(st.sampled_from(["stopped", "done", join]))
            body[side] = {"ask": "Q?", "when": draw(guards(names)), "then": stop, "else": join}
        body[draw(st.sampled_from(acting))]["next"] = "fork"
    said = draw(st.sampled_from(["", "n is {{ vars.n }}", "{{ 1 / vars.n }} of {{ run.steps }}"]))
    body["done"] = {"stop": "completed", "message": said}
    body["stopped"] = {"stop": draw(st.sampled_from(_REASONS)), "next": "ended"}
    body["ended"] = {"end": draw(st.sampled_from(["by_reason", "completed", "error"]))}
    detours = draw(st.booleans())
    kinds = ["stop", "stop", "signal", *(["detour"] if detours else [])]
    if detours:
        back: Any = "return"
        if draw(st.integers(0, 2)) == 0:  # one of several: the order of the file decides
            some = [{"when": draw(guards(names)), "to": to} for to in ("return", names[0])]
            back = [*draw(st.permutations(some)), {"to": draw(st.sampled_from(names))}]
        body["detour"] = {"do": draw(st.sampled_from(["act", "keep"])), "next": back}
    out: Data = {
        "chartloop": 1, "machine": "generated",
        "limits": {"tokens": 100, "time": "40s", "cost": 0.5, "off": {"type": "int", "value": None}},
        "vars": {"n": 1, "flag": False, "word": "a", "list": {"type": "list[str]", "value": []}},
        "rules": [draw(rules(names, acting, kinds)) for _ in range(draw(st.integers(0, 4)))],
        "states": body,
    }  # fmt: skip
    if detours:
        out["rules"].append({"when": draw(guards(names)), "to": "detour"})
    if draw(st.integers(0, 3)) == 0:
        out["on_stop"] = "report"
        body["report"] = {"do": "keep", "next": "ended"}
    if draw(st.integers(0, 3)) == 0:
        out["on_error"] = draw(st.sampled_from(acting))
    if draw(st.integers(0, 3)) == 0:
        out["resume_at"] = [draw(st.sampled_from(acting))]
    return out


_CALL = ToolCall("c", "x", "{}")
outcomes = st.sampled_from(
    [
        Outcome(), Outcome(), Outcome(result={"a": 1}),
        Outcome.failure("TRANSIENT", "again"), Outcome.failure("RECOVERABLE", "help"),
        Outcome.failure("CRITICAL", "no", timed_out=True),
        Outcome(reply=Reply("hi"), spent=Spent(1, 20, 10, 0.2), messages=({"role": "assistant", "content": "hi"},)),
        Outcome(reply=Reply("", "tool_calls", (_CALL,)), spent=Spent(1, 30, 5)),
        Outcome(signals=(StopSignal(REASONS["custom"], "from a tool"),)),
        Outcome(signals=(StopSignal(REASONS["stop_requested"]),)),
        Outcome(continued=2), Outcome(forgiven=True), Outcome(tool_errors=("x: bad",)),
        Outcome(changes={"vars.n": 0}), Outcome(changes={"vars.n": 3}, progressed=True), Outcome(rewrite=()),
    ]
)  # fmt: skip
"""What an action may return."""

happenings = st.lists(
    st.one_of(
        outcomes,
        st.just(Blocked(None, "child")),
        st.sampled_from(["pause", "resume", "cancel", "edit"]),
    ),
    max_size=30,
)
"""What may happen to a run, one after the other."""

ticks = st.sampled_from([0.0, 0.5, 7.0, 35.0, -20.0])
"""How a clock may move between two happenings."""


# machines that cost something ---------------------------------------------------------------

_BUDGETS = (
    "run.visits.{s} >= limits.few and not (run.elapsed >= limits.time and whim({n}))",
    "errors.total >= limits.few and run.elapsed < limits.time",
    "run.elapsed >= limits.time",
    "run.steps >= limits.steps", "usage.llm_calls >= limits.few", "usage.total_tokens >= limits.tokens",
    "errors.total >= limits.few", "run.visits.{s} >= {n}", "usage.tool_calls >= limits.few",
    "usage.cost >= limits.cost", "vars.rounds >= limits.few", "run.steps * 2 > limits.steps + 3",
    "run.steps >= limits.steps or whim(vars.rounds)", "run.elapsed >= limits.time",
)  # fmt: skip
_WHIMS = (
    "whim(vars.rounds)",
    "last.ok",
    "not last.ok",
    "len(last.tool_calls) > 0",
    "errors.consecutive >= 2",
)


@st.composite
def costly_guards(draw: st.DrawFn, states: list[str]) -> str:
    """A guard that may be a budget."""
    text = draw(st.sampled_from((*_BUDGETS, *_WHIMS)))
    return text.format(n=draw(st.integers(1, 3)), s=draw(st.sampled_from(states)))


@st.composite
def costly_states(draw: st.DrawFn, name: str, names: list[str]) -> Data:
    """A state that works, decides, waits or backs off, with edges that often lead back."""
    ends = [*names, "done", "stopped"]
    onward = st.sampled_from(ends)
    job = draw(
        st.sampled_from(
            ["infer", "infer", "tools", "nothing", "back_off", "wait", "child", "again"]
        )
    )
    out: Data = {}
    match job:
        case "wait":
            out["on"] = {"yes": draw(onward), "no": draw(onward)}
            if draw(st.booleans()):
                out |= {"within": "30s", "expired": draw(onward)}
            return out
        case "infer":
            out["do"] = "infer"
            if draw(st.booleans()):
                out["retry"] = {
                    "times": draw(st.integers(1, 2)),
                    "base": draw(st.sampled_from(["0s", "2s"])),
                    "on": ["TRANSIENT"],
                }
        case "tools":
            out["do"] = draw(st.sampled_from(["call_tools", "call_tool"]))
        case "child":
            out |= {"do": "run_machine", "with": {"machine": "child", "task": "x"}}
        case "again":
            out |= {"do": "continue_run"}
        case _:
            out["do"] = job
    guarded = [
        {
            "when": draw(costly_guards(names)),
            "to": draw(onward),
            **({"set": {"vars.rounds": "vars.rounds + 1"}} if draw(st.integers(0, 3)) == 0 else {}),
        }
        for _ in range(draw(st.integers(0, 2)))
    ]
    out["next"] = [*guarded, draw(onward)] if guarded else draw(onward)
    if draw(st.integers(0, 2)) == 0:
        out["failed"] = draw(st.sampled_from(["next", *ends]))
    if draw(st.integers(0, 3)) == 0:
        out["set"] = {"vars.rounds": "vars.rounds + 1"}
    return out


@st.composite
def costly_rules(draw: st.DrawFn, names: list[str]) -> Data:
    """A rule that stops, makes a detour or only signals."""
    rule: Data = {"when": draw(costly_guards(names))}
    kind = draw(st.sampled_from(["stop", "stop", "stop", "signal", "detour"]))
    if kind == "detour":
        return rule | {"to": draw(st.sampled_from(["aside", *names]))} | (
            {"before": [draw(st.sampled_from(names))]} if draw(st.booleans()) else {}
        )  # fmt: skip
    rule[kind] = "custom"
    if kind == "stop" and draw(st.integers(0, 3)) == 0:
        rule[draw(st.sampled_from(["at", "before"]))] = [draw(st.sampled_from(names))]
    return rule


_THINGS = st.lists(st.sampled_from("ab"), max_size=4)


@st.composite
def costly_loops(draw: st.DrawFn, name: str, names: list[str]) -> Data:
    """A loop over a list, with a call for each item, that may be left, failed in or begun anew."""
    inside, after = f"{name}_do", f"{name}_after"
    onward = st.sampled_from([*names, "done", name])
    loop: Data = {"for": f"vars.{name}", "each": inside, "then": after}
    loop["in"] = draw(st.one_of(st.just("vars.things"), _THINGS.filter(bool)))
    if draw(st.integers(0, 3)):
        loop["most"] = draw(st.sampled_from([1, 2, 3, "limits.few", "limits.few + 1"]))
    leave = {"when": draw(costly_guards(names)), "to": draw(onward)}
    work: Data = {"do": draw(st.sampled_from(["infer", "nothing"])), "next": name}
    if draw(st.booleans()):
        work["next"] = [leave, name]
    if draw(st.integers(0, 3)) == 0:
        work["set"] = {"vars.things": {"append": '"c"'}}
    if draw(st.integers(0, 2)) == 0:
        work["failed"] = name
    return {name: loop, inside: work, after: {"do": "nothing", "next": draw(onward)}}


@st.composite
def costly_machines(draw: st.DrawFn) -> Data:
    """A machine with loops through model calls, tools, waits and children, and some budgets."""
    names = [f"s{n}" for n in range(draw(st.integers(1, 4)))]
    body = {n: draw(costly_states(n, names)) for n in names}
    if "do" not in body["s0"]:
        body["s0"] = {"do": "infer", "next": draw(st.sampled_from(names))}
    if draw(st.integers(0, 3)) == 0:
        join = draw(st.sampled_from(names))
        body["fork"] = {"all": ["left", "right"]}
        for side in ("left", "right"):
            stop = draw(st.sampled_from(["stopped", "done", join]))
            body[side] = {
                "ask": "Q?",
                "when": draw(costly_guards(names)),
                "then": stop,
                "else": join,
            }
        body["s0"]["next"] = "fork"
    if draw(st.booleans()):
        body |= draw(costly_loops(f"s{len(names)}", names))
        for name in names:
            if "next" in body[name] and draw(st.booleans()):
                body[name]["next"] = f"s{len(names)}"
    tools = draw(st.sampled_from([["poke"], ["poke"], ["poke", "child"]]))
    if "child" in tools:
        body["s0"] = {"do": "infer", "failed": "next", "next": "acts"}
        acts = draw(st.sampled_from(["call_tools", "call_tool"]))
        body["acts"] = {
            "do": acts,
            "failed": "next",
            "next": draw(st.sampled_from([*names, "done"])),
        }
    body["aside"] = {"do": draw(st.sampled_from(["infer", "nothing"])), "next": "return"}
    body["done"] = (
        {"stop": "completed", "next": "wrap"} if draw(st.booleans()) else {"stop": "completed"}
    )
    body["wrap"] = {"do": draw(st.sampled_from(["infer", "report"])), "next": "ended"}
    body["stopped"] = {"stop": "custom", "next": "wrap"}
    body["ended"] = {"end": "by_reason"}
    rules = [draw(costly_rules(names)) for _ in range(draw(st.integers(0, 3)))]
    if draw(st.booleans()):
        rules.append({"when": "run.steps >= limits.steps", "stop": "steps_limit"})
    out: Data = {
        "chartloop": 1, "machine": "costly",
        "model": {"name": "scripted", "context_window": 5, "max_tokens": 2,
                  "input_cost_per_token": 0.5, "output_cost_per_token": 2.0},
        "tools": tools,
        "limits": {"steps": draw(st.integers(0, 5)), "few": draw(st.integers(1, 3)), "tokens": draw(st.integers(1, 12)),
                   "cost": 3.5, "time": "40s"},
        "vars": {"rounds": 0, "things": {"type": "list[str]", "value": draw(_THINGS)}},
        "rules": rules, "states": body,
        "machines": {"child": {
            "model": {"name": "scripted", "context_window": 5, "max_tokens": 2,
                      "input_cost_per_token": 0.5, "output_cost_per_token": 2.0},
            "limits": {"tokens": draw(st.integers(1, 9)), "steps": draw(st.integers(1, 4))},
            "rules": [{"when": "usage.total_tokens >= limits.tokens", "stop": "token_limit"},
                      {"when": "run.steps >= limits.steps", "stop": "steps_limit"}],
            "states": {"talk": {"do": "infer", "failed": "next", "next": "talk"}},
        }},
    }  # fmt: skip
    if draw(st.integers(0, 3)) == 0:  # nobody knows how long a call is
        del out["model"]["context_window"], out["model"]["max_tokens"]
    if draw(st.integers(0, 3)) == 0:
        out["on_stop"] = "stopped"
    if draw(st.integers(0, 3)) == 0:
        out["on_error"] = draw(st.sampled_from(names))
    return out


# machines with every kind of mistake --------------------------------------------------------

_SUBJECTS: tuple[tuple[tuple[str, ...], tuple[Data, ...]], ...] = (
    (
        ("run.steps >= limits.few", "run.visits.{s} >= {n}", "run.steps >= limits.few and errors.total >= {n}",
         "vars.n >= {n}", "vars.n < {n}", "vars.n / limits.few > 1", "last.ok", "whim({n})"),
        ({"do": "nothing"}, {"do": "set", "with": {"vars.n": "vars.n + 1"}}, {"do": "measure"},
         {"do": "report", "with": {"text": "{{ vars.n }} of {{ last.text }}"}}),
    ),
    (
        ("usage.llm_calls >= limits.few", "usage.total_tokens >= limits.most", 'last.text == "hi"',
         'last.finish_reason == "stop"', "len(last.tool_calls) > 0", "errors.consecutive >= limits.few"),
        ({"do": "infer"}, {"do": "receive"}, {"do": "infer", "with": {"tool_choice": "required"}},
         {"do": "prompt", "with": {"user": "{{ memory.note }} {{ 1 / vars.n }}"}}, {"do": "call_tools"}),
    ),
    (
        ("usage.tool_calls >= limits.few", "usage.calls.poke >= limits.few", "progress.repeats >= {n}",
         "last.wants_memory", "len(memory.note) > {n}", "signals.count > 0"),
        ({"do": "tool", "with": {"name": "poke"}}, {"do": "call_tool"}, {"do": "infer"},
         {"do": "update_memory"}, {"do": "update_memory", "with": {"block": "note", "append": "x"}}),
    ),
    (
        ("queue.size > 0", "queue.size > 0", "queue.done >= {n}", "queue.failed >= limits.few"),
        ({"do": "work"}, {"do": "work", "with": {"attempts": 1}}, {"do": "nothing"},
         {"do": "enqueue", "with": {"tasks": '"b"'}}, {"do": "checkpoint"}, {"do": "restore"}),
    ),
    (
        ("errors.total >= limits.few", "errors.retries >= {n}", "run.elapsed >= limits.time", "not last.ok",
         "run.idle >= limits.time", "progress.cycles >= {n}", "errors.rate > 50 / 100"),
        ({"do": "back_off", "with": {"base": "10s"}}, {"do": "apply_fix"}, {"do": "measure"},
         {"do": "nothing"}, {"do": "infer"}),
    ),
    (
        ("run.continuations < {n}", "signals.count > 0", "usage.llm_calls >= limits.few", "run.steps >= {n}"),
        ({"do": "continue_run"}, {"do": "signal", "with": {"reason": "custom"}}, {"do": "infer"},
         {"do": "run_machine", "with": {"machine": "kid", "task": "x"}},
         {"do": "run_machine", "with": {"machine": "kid", "task": "x", "share": ["queue", "messages"]}}),
    ),
)  # fmt: skip
"""What guards may ask, with the actions that have to do with it."""
_TASKS: tuple[Any, ...] = (
    None, None, [], ["a"], ["a", "b", "c"], [{"text": "a", "by": {"tool": "poke"}}],
    [{"text": "a", "by": {"machine": "kid"}}, "b"],
)  # fmt: skip


@st.composite
def mistaken_states(
    draw: st.DrawFn, name: str, names: list[str], done: list[Data], guards: list[str]
) -> Data:
    """A state that acts, waits or decides, and mostly leads on."""
    later = names[names.index(name) + 1 :]
    onward = st.sampled_from([*later, *later, "done", *names, "bad"])

    def asked() -> str:
        guard = draw(st.sampled_from(guards))
        return guard.format(n=draw(st.integers(0, 3)), s=draw(st.sampled_from(names)))

    job = draw(st.sampled_from(["act", "act", "act", "act", "wait", "decide"]))
    if job == "decide":
        return {"ask": "Q?", "when": asked(), "then": draw(onward), "else": draw(onward)}
    if job == "wait":
        wait: Data = {"on": {"yes": draw(onward), "no": draw(onward)}}
        if draw(st.booleans()):
            wait |= {"within": "30s", "expired": draw(onward)}
        return wait
    out: Data = dict(draw(st.sampled_from(done)))
    guarded = [{"when": asked(), "to": draw(onward)} for _ in range(draw(st.integers(0, 2)))]
    out["next"] = [*guarded, {"to": draw(onward)}] if guarded else draw(onward)
    if draw(st.integers(0, 2)) == 0:
        out["failed"] = draw(st.one_of(st.just("next"), onward))
    if draw(st.integers(0, 5)) == 0:
        out["retry"] = {"times": draw(st.integers(1, 2)), "base": "0s"}
    if draw(st.integers(0, 4)) == 0:
        out["set"] = {"vars.n": draw(st.sampled_from(["vars.n + 1", "0"]))}
    if draw(st.integers(0, 5)) == 0:
        out["within"] = draw(st.sampled_from(["5ms", "30s", "limits.time"]))
    return out


@st.composite
def mistaken_machines(draw: st.DrawFn) -> Data:
    """A machine of any actions in any order, with limits that may be 0: most have a mistake.

    It is about one or two subjects, so that guards and actions meet one another.
    """
    names = [f"s{n}" for n in range(draw(st.integers(1, 5)))]
    about = draw(st.lists(st.sampled_from(_SUBJECTS), min_size=1, max_size=2))
    guards = [guard for asked, _ in about for guard in asked]
    done = [action for _, actions in about for action in actions]
    body = {n: draw(mistaken_states(n, names, done, guards)) for n in names}
    if draw(st.integers(0, 3)) == 0:
        body |= {
            "each": {"for": "vars.item", "in": ["a", "b", "c"], "each": "item", "then": "done"},
            "item": {"do": draw(st.sampled_from(["nothing", "infer"])), "next": "each"},
        }
        body[names[-1]] = {"do": "nothing", "next": "each"}
    body |= {"done": {"stop": "completed"}, "bad": {"stop": "custom"}}
    rules: list[Data] = []
    for _ in range(draw(st.integers(0, 3))):
        guard = draw(st.sampled_from(guards))
        when = guard.format(n=draw(st.integers(0, 3)), s=draw(st.sampled_from(names)))
        kind = draw(st.sampled_from(["stop", "stop", "stop", "signal"]))
        rules.append({"when": when, kind: "custom"})
        if draw(st.integers(0, 3)) == 0:
            rules[-1][draw(st.sampled_from(["at", "before"]))] = [draw(st.sampled_from(names))]
    kid: Data = {
        "limits": {"few": draw(st.integers(0, 2))}, "model": {"name": "scripted"},
        "rules": [{"when": "run.steps >= limits.few", "stop": "steps_limit"}],
        "states": {"a": {"do": draw(st.sampled_from(["infer", "nothing"])), "next": "z"},
                   "z": {"stop": "completed"}},
    }  # fmt: skip
    out: Data = {
        "chartloop": 1, "machine": "mistaken", "model": {"name": "scripted", "context_window": 50},
        "limits": {"few": draw(st.integers(0, 3)), "most": draw(st.integers(0, 20)),
                   "time": draw(st.sampled_from(["0s", "40s"]))},
        "vars": {"n": draw(st.integers(0, 2))}, "rules": rules, "states": body,
        "machines": {"kid": kid},
    }  # fmt: skip
    if draw(st.booleans()):
        out["tools"] = ["poke"]
    if (tasks := draw(st.sampled_from(_TASKS))) is not None:
        out["tasks"] = tasks
    if "memory.note" in str(out) or "'note'" in str(out):
        out["memory"] = {"note": draw(st.sampled_from(["", "known"]))}
    return out


# small machines with waits ------------------------------------------------------------------

_SMALL_GUARDS = (
    "run.steps >= {n}", "errors.total >= {n}", "last.ok", "vars.n >= {n}", "run.visits.s0 >= {n}",
    "errors.consecutive >= limits.few", "usage.llm_calls >= {n}", "vars.flag",
)  # fmt: skip


@st.composite
def small_machines(draw: st.DrawFn) -> Data:
    """Few states, small numbers: short enough that every run can be made."""
    names = [f"s{n}" for n in range(draw(st.integers(1, 3)))]
    onward = st.sampled_from([*names, "done", "stopped"])

    def guard_text() -> str:
        return draw(st.sampled_from(_SMALL_GUARDS)).format(n=draw(st.integers(1, 3)))

    body: Data = {}
    for name in names:
        job = (
            draw(st.sampled_from(["infer", "infer", "nothing", "wait"]))
            if name != "s0"
            else "infer"
        )
        if job == "wait":
            body[name] = {"on": {"yes": draw(onward), "no": draw(onward)}}
            if draw(st.booleans()):
                body[name] |= {"within": "30s", "expired": draw(onward)}
            continue
        ways: list[Any] = [
            {"when": guard_text(), "to": draw(onward)} for _ in range(draw(st.integers(0, 2)))
        ]
        if draw(st.booleans()):
            ways = [
                {**way, "set": {"vars.n": "vars.n + 1", "vars.flag": "not vars.flag"}}
                for way in ways
            ]
        body[name] = {"do": job, "next": [*ways, draw(onward)]}
        if draw(st.booleans()):
            body[name]["failed"] = "next"
    rules = [
        {"when": guard_text(), draw(st.sampled_from(["stop", "signal"])): "custom"}
        for _ in range(draw(st.integers(0, 2)))
    ]
    body |= {"done": {"stop": "completed"}, "stopped": {"stop": "stagnation"}}
    return {
        "chartloop": 1, "machine": "small", "model": {"name": "scripted"},
        "limits": {"few": draw(st.integers(1, 3))}, "vars": {"n": 0, "flag": False},
        "rules": rules, "states": body,
    }  # fmt: skip

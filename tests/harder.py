"""Machines of shapes that `strategies.costly_machines` does not make, for the law of the bound.

Detours that wait, decide, or interrupt each other; signals that rules raise and guards count;
children at once, given lists, computed limits or variables; retries of every category; waits and
work behind a stop; forks whose branches decide twice; limits that are off; guards that ask for
less, for equality, or for the rest of a division.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Data = dict[str, Any]
MODEL: Data = {
    "name": "scripted", "context_window": 5, "max_tokens": 2,
    "input_cost_per_token": 0.5, "output_cost_per_token": 2.0,
}  # fmt: skip

GUARDS = (
    "run.steps >= limits.steps", "run.steps == limits.steps", "run.steps < limits.steps",
    "run.steps % 3 == 0", "run.steps // 2 >= limits.few", "limits.few - run.visits.{s} <= 0",
    "not run.visits.{s} < limits.few", "run.visits.{s} != {n}", "errors.total >= limits.few",
    "errors.total < limits.few or last.ok", "usage.total_tokens >= limits.tokens",
    "usage.total_tokens + 3 >= limits.tokens * 2", "usage.total_tokens < 12 - limits.tokens",
    "usage.llm_calls >= limits.few and errors.total == 0", "usage.tool_calls >= limits.few",
    "usage.calls.poke >= {n}", "usage.completion_tokens >= limits.few", "vars.rounds >= limits.few",
    "vars.rounds == {n}", "min(vars.rounds, run.steps) >= {n}", "max(vars.rounds, run.steps) >= {n}",
    "abs(run.steps - limits.few) <= 1", "(run.steps if last.ok else errors.total) >= limits.few",
    "signals.count >= {n}", "signals.count < {n}", "signals.count == 0", "signals.continued",
    "run.continuations >= {n}", "run.elapsed >= limits.time", "run.elapsed < limits.time",
    "errors.consecutive >= {n}", "errors.rate > 0.5", "limits.off is not None",
    "run.steps >= limits.off", "last.ok", "not last.ok", "len(last.tool_calls) > 0", "whim({n})",
    "whim({n}) or run.steps >= limits.steps", "whim({n}) and usage.llm_calls < limits.few",
    "vars.mood == 'good'", "round(run.steps / 2) >= limits.few", "2 <= run.steps <= limits.few",
    "usage.cost is not None and usage.cost >= limits.cost", "usage.cost >= limits.cost",
)  # fmt: skip


@st.composite
def guards(draw: st.DrawFn, names: list[str]) -> str:
    """Some guard of the table; of each machine a few, so that they meet one another."""
    pool = draw(st.shared(st.lists(st.sampled_from(GUARDS), min_size=1, max_size=4), key="pool"))
    parts = [draw(st.sampled_from(pool)) for _ in range(draw(st.sampled_from([1, 1, 1, 2])))]
    said = [p.format(n=draw(st.integers(1, 3)), s=draw(st.sampled_from(names))) for p in parts]
    return draw(st.sampled_from([" and ", " or "])).join(f"({p})" for p in said)


@st.composite
def edges(draw: st.DrawFn, names: list[str], ends: list[str], most: int = 2) -> Any:
    """What is under `next`: a state, or guarded edges before it."""
    onward = st.sampled_from(ends)
    guarded: list[Any] = []
    for _ in range(draw(st.integers(0, most))):
        edge: Data = {"when": draw(guards(names)), "to": draw(onward)}
        match draw(st.integers(0, 7)):
            case 0:
                edge["set"] = {"vars.rounds": f"vars.rounds + {draw(st.integers(1, 2))}"}
            case 1:
                edge |= {"stop": "custom", "to": "wrap"}
            case 2:
                edge["set"] = {"vars.mood": "'good'"}
            case _:
                pass
        guarded.append(edge)
    return [*guarded, draw(onward)] if guarded else draw(onward)


CHILDREN: list[Data] = [
    {"machine": "child", "task": "x"},
    {"machine": "child", "task": "x", "limits": {"tokens": "limits.tokens"}},
    {"machine": "child", "task": "x", "limits": {"steps": "run.steps + 1"}},
    {"machine": "child", "task": "x", "vars": {"n": 2}},
    {"machine": "child", "task": "x", "vars": {"n": "vars.rounds"}},
    {"machine": "child", "start": "again"},
    {"machine": "grandparent", "task": "x"},
]
SEVERAL: list[Data] = [
    {"machine": "child", "each": '["a", run.task]'},
    {"machine": "child", "each": '[{"task": "x", "vars": {"n": 0 - 3}}]'},
    {"children": {"a": CHILDREN[0], "b": CHILDREN[1]}},
    {"children": {"a": CHILDREN[3], "b": CHILDREN[0]}, "wait_for": "any"},
]


def doing(action: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Data]:
    """A state that does an action with these fields."""
    if not fields:
        return st.just({"do": action})
    return st.fixed_dictionaries({"do": st.just(action), "with": st.fixed_dictionaries(fields)})


JOBS: dict[str, st.SearchStrategy[Data]] = {
    "infer": doing("infer"), "call_tools": doing("call_tools"), "call_tool": doing("call_tool"),
    "nothing": doing("nothing"), "report": doing("report"), "measure": doing("measure"),
    "run_machine": st.sampled_from(CHILDREN).map(lambda w: {"do": "run_machine", "with": w}),
    "run_machines": st.sampled_from(SEVERAL).map(lambda w: {"do": "run_machines", "with": w}),
    "continue_run": doing("continue_run", times=st.integers(0, 3)),
    "signal": doing("signal", reason=st.just("custom")),
    "prune": doing("prune_context", strategy=st.just("summarize")),
    "tool": doing("tool", name=st.just("poke")),
    "work": doing("work", attempts=st.integers(1, 2)),
    "back_off": doing("back_off", base=st.sampled_from(["1s", "20s"])),
}  # fmt: skip
"""What a state may do, by a word for it."""
OFTEN = ("infer", "infer", "wait", "decide", "pass")
EVERY = ["TRANSIENT", "RECOVERABLE", "CRITICAL"]


@st.composite
def waits(draw: st.DrawFn, names: list[str], ends: list[str]) -> Data:
    """A state that waits for one of two answers, and perhaps not for ever."""
    onward = st.sampled_from(ends)
    out: Data = {"on": {"yes": draw(edges(names, ends, 1)), "no": draw(onward)}}
    if draw(st.booleans()):
        out |= {"within": draw(st.sampled_from(["30s", "limits.time"])), "expired": draw(onward)}
    return out


@st.composite
def bodies(
    draw: st.DrawFn, names: list[str], ends: list[str], *, jobs: tuple[str, ...] = (*JOBS, *OFTEN)
) -> Data:
    """A state of some job."""
    job, onward = draw(st.sampled_from(jobs)), st.sampled_from(ends)
    if job == "wait":
        return draw(waits(names, ends))
    if job == "decide":
        return {"ask": "Q?", "when": draw(guards(names)), "then": draw(onward),
                "else": draw(onward)}  # fmt: skip
    if job == "pass":
        return {"next": draw(edges(names, ends))}
    out: Data = dict(draw(JOBS[job]))
    if job in ("infer", "call_tools", "work", "run_machine") and draw(st.booleans()):
        out["retry"] = {
            "times": draw(st.integers(1, 3)), "base": draw(st.sampled_from(["0s", "2s"])),
            "on": draw(st.sampled_from([EVERY, EVERY[:1], EVERY[1:]])),
        }  # fmt: skip
    out["next"] = draw(edges(names, ends))
    if draw(st.booleans()):
        out["failed"] = draw(st.sampled_from(["next", *ends]))
    if draw(st.integers(0, 3)) == 0:
        out["set"] = {"vars.rounds": "vars.rounds + 1"}
    return out


@st.composite
def rules(draw: st.DrawFn, names: list[str], number: int) -> Data:
    """A rule that stops, signals or makes one of the detours."""
    rule: Data = {"when": draw(guards(names))}
    match draw(st.sampled_from(["stop", "stop", "signal", "signal", "detour"])):
        case "stop":
            rule |= {"stop": draw(st.sampled_from(["custom", "token_limit"]))}
            if draw(st.booleans()):
                rule |= {"to": draw(st.sampled_from(["stopped", "wrap"]))}
        case "signal":
            return rule | {"signal": draw(st.sampled_from(["custom", "other"]))}
        case _:
            rule |= {"to": draw(st.sampled_from([f"aside{number}", "aside0"]))}
    if draw(st.integers(0, 2)) == 0:
        rule[draw(st.sampled_from(["at", "before"]))] = [draw(st.sampled_from(names))]
    return rule


def child(tokens: int, steps: int) -> Data:
    """A child that goes round until one of its budgets, or its variable, says that it is enough."""
    return {
        "model": MODEL, "vars": {"n": 0}, "tools": ["poke"],
        "limits": {"tokens": tokens, "steps": steps, "few": 2},
        "rules": [{"when": "usage.total_tokens >= limits.tokens", "stop": "token_limit"},
                  {"when": "run.steps >= limits.steps", "stop": "steps_limit"}],
        "states": {
            "talk": {"do": "infer", "failed": "next", "next": "enough",
                     "set": {"vars.n": "vars.n + 1"}},
            "enough": {"ask": "Q?", "when": "vars.n >= limits.few", "then": "over", "else": "talk"},
            "again": {"do": "infer", "failed": "next", "next": "talk"},
            "over": {"stop": "completed"},
        },
    }  # fmt: skip


@st.composite
def harder_machines(draw: st.DrawFn) -> Data:
    """See the module."""
    names = [f"s{n}" for n in range(draw(st.integers(1, 4)))]
    ends = [*names, "done", "stopped"]
    states = {n: draw(bodies(names, ends)) for n in names}
    if draw(st.integers(0, 2)) == 0:
        states["s0"] = {"do": "infer", "next": "fork"}
        join = draw(st.sampled_from(names[1:] or names))
        states["fork"] = {"all": ["left", "right"]}
        for side in ("left", "right"):
            stop = draw(st.sampled_from(["stopped", "done", join, f"{side}2"]))
            states[side] = {"ask": "Q?", "when": draw(guards(names)), "then": stop, "else": join}
            states[f"{side}2"] = {"ask": "Q?", "when": draw(guards(names)), "then": "stopped",
                                  "else": join}  # fmt: skip
    found = [draw(rules(names, n)) for n in range(draw(st.integers(0, 4)))]
    for number in range(4):  # a detour of one state, or of two
        jobs = ("infer", "nothing", "wait", "back_off", "run_machine", "continue_run", "decide")
        aside = draw(bodies(names, [f"aside{number}b"], jobs=jobs))
        if isinstance(aside.get("next"), str) and draw(st.booleans()):
            aside["next"] = "return"
        states[f"aside{number}"] = aside
        states[f"aside{number}b"] = {"do": "infer", "failed": "next", "next": "return"}
    states["done"] = {"stop": "completed", "next": "wrap"} if draw(st.booleans()) else {"stop": "completed"}  # fmt: skip
    states["wrap"] = draw(bodies(names, ["wrap2", "ended"], jobs=("infer", "report", "wait", "decide", "back_off")))  # fmt: skip
    states["wrap"].pop("retry", None)
    states["wrap2"] = {"do": "infer", "next": "ended"}
    states["stopped"] = {"stop": "custom", "next": "wrap"}
    states["ended"] = {"end": "by_reason"}
    if draw(st.booleans()):
        found.append({"when": "run.steps >= limits.steps", "stop": "steps_limit"})
    out: Data = {
        "chartloop": 1, "machine": "harder", "model": MODEL,
        "tools": draw(st.sampled_from(
            [["poke"], ["poke"], ["poke", "child"], ["child", "grandparent", "poke"]]
        )),
        "reasons": {"other": {"priority": 7}, "custom": {"priority": 6}},
        "limits": {"steps": draw(st.integers(0, 6)), "few": draw(st.integers(1, 3)),
                   "tokens": draw(st.integers(1, 12)), "cost": 3.5, "time": "40s", "off": None},
        "vars": {"rounds": draw(st.integers(-1, 1)), "mood": "bad"},
        "rules": found, "states": states,
        "tasks": [{"text": "a"}, {"text": "b", "by": {"tool": "poke"}},
                  {"text": "c", "by": {"machine": "child"}}],
        "machines": {
            "child": child(draw(st.integers(1, 9)), draw(st.integers(1, 5))),
            "grandparent": {
                "model": MODEL, "limits": {"tokens": draw(st.integers(1, 20))},
                "rules": [{"when": "usage.total_tokens >= limits.tokens", "stop": "token_limit"}],
                "states": {
                    "a": {"do": "run_machine", "with": {"machine": "child", "task": "y"},
                          "failed": "next", "next": "b"},
                    "b": {"ask": "Q?", "when": "run.visits.a >= 2", "then": "c", "else": "a"},
                    "c": {"stop": "completed"},
                },
                "machines": {"child": child(draw(st.integers(1, 9)), 3)},
            },
        },
    }  # fmt: skip
    if draw(st.integers(0, 2)) == 0:
        out["on_stop"] = draw(st.sampled_from(["stopped", "wrap"]))
    if draw(st.integers(0, 2)) == 0:
        out["on_error"] = draw(st.sampled_from(names))
    return out

"""The machines that are measured: two small ones, and one of 45 states."""

from __future__ import annotations

from random import Random
from typing import Any

from chartloop.api import Machine, load

RULES = """\
limits:
  {steps: 1_000_000, tokens: 1_000_000_000, time: 1000d, stalled: 10_000_000, errors: 3, cost: 99.5}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: usage.total_tokens >= limits.tokens, stop: token_limit, warn_at: 80%}
  - {when: run.working >= limits.time, stop: time_limit}
  - {when: progress.stalled_steps >= limits.stalled, stop: no_progress}
  - {when: errors.consecutive >= limits.errors, stop: error_threshold}
  - {when: usage.cost >= limits.cost, stop: cost_limit}
"""

STEPS = f"""\
chartloop: 1
machine: steps
vars: {{last: 5000}}
model: {{name: openai/none}}
{RULES}
states:
  think: {{do: nothing, next: act}}
  act:
    do: nothing
    next:
      - {{when: run.steps >= vars.last, to: done}}
      - {{to: think}}
  done: {{stop: completed}}
"""
"""A loop of two actions that do nothing, six rules, one guarded edge: only the engine is left."""

TALK = f"""\
chartloop: 1
machine: talk
vars: {{turns: 10}}
model: {{name: scripted}}
{RULES}
states:
  receive: {{do: receive, next: think}}
  think:
    do: infer
    next:
      - {{when: usage.llm_calls >= vars.turns, to: done}}
      - {{to: think}}
  done: {{stop: completed}}
"""
"""So many model calls in a row."""


def many_states(count: int = 45) -> str:
    """A file of `count` states in the shape of document 003: questions, answers, stops."""
    body: list[str] = []
    asked = (count - 5) // 2
    for n in range(asked):
        after = f"q{n + 1}" if n + 1 < asked else "work"
        body.append(
            f'  q{n}: {{ask: "Question {n}\\n≥ {{limits.l{n}:,}}?", '
            f"when: run.steps + {n} >= limits.l{n}, then: s{n}, else: {after}}}"
        )
        body.append(f'  s{n}: {{label: "STOP:\\nReason {n}", stop: steps_limit, next: report}}')
    limits = ", ".join(f"l{n}: {1000 - n}" for n in range(asked))  # each can be reached
    return "\n".join(
        [
            "chartloop: 1", "machine: many", f"limits: {{{limits}}}", "states:",
            "  start: {label: Start, next: q0}", *body,
            "  work: {label: Work, do: nothing, next: q0}",
            "  report: {label: Report, do: nothing, next: save}",
            "  save: {label: Save, do: nothing, next: end}", "  end: {end: by_reason}", "",
        ]
    )  # fmt: skip


def hard(states: int = 1_000, edges: int = 5) -> str:
    """A file made to be hard to check: every state leads to so many others, all by guards."""
    chance = Random(1)  # noqa: S311 - the same file each time
    body: list[str] = []
    for n in range(states - 1):
        ways = [
            f"{{when: run.steps + vars.x > {chance.randrange(40)} and run.visits.s{to} < "
            f"{chance.randrange(9)}, to: s{to}}}"
            for to in (chance.randrange(states) for _ in range(edges - 1))
        ]
        body.append(f"  s{n}: {{do: nothing, next: [{', '.join(ways)}, s{n + 1}]}}")
    return "\n".join(
        [
            "chartloop: 1", "machine: hard", "limits: {n: 50}", "vars: {x: 0}",
            "rules: [{when: run.steps >= limits.n, stop: steps_limit}]", "states:", *body,
            f"  s{states - 1}: {{stop: completed}}", "",
        ]
    )  # fmt: skip


def decisions(states: int = 1_000, edges: int = 5) -> str:
    """The same of decisions behind each other: what holds at one is known at the next."""
    chance = Random(1)  # noqa: S311 - the same file each time
    body: list[str] = []
    for n in range(states):
        ways: list[str] = []
        for _ in range(edges - 1):
            to = chance.randrange(n + 1, min(states + 1, n + 30))
            guard = f"vars.x + {chance.randrange(9)} * vars.y > {chance.randrange(99)}"
            ways.append(
                f"{{when: {guard} or run.steps < {chance.randrange(9)}, "
                f"to: {f'd{to}' if to < states else 'done'}}}"
            )
        after = f"d{n + 1}" if n + 1 < states else "done"
        body.append(f"  d{n}: {{next: [{', '.join(ways)}, {after}]}}")
    return "\n".join(
        [
            "chartloop: 1", "machine: decisions", "vars: {x: 0, y: 0}", "states:",
            "  work: {do: nothing, next: d0}", *body, "  done: {stop: completed}", "",
        ]
    )  # fmt: skip


def dense(states: int, edges: int) -> str:
    """A machine in which each state leads to several others, and one rule cuts every loop."""
    body: list[str] = []
    for n in range(states):
        ways = ", ".join(
            f"{{when: run.visits.s{(n * 7 + k) % states} >= {k + 2}, "
            f"to: s{(n * 13 + k * 31) % states}}}"
            for k in range(edges // states - 1)
        )
        following = (n + 1) % states
        body.append(f"  s{n}: {{do: infer, failed: next, next: [{ways}, s{following}]}}")
    return "\n".join(
        [
            "chartloop: 1", "machine: dense", "model: {name: scripted}", "limits: {steps: 50}",
            "rules: [{when: run.steps >= limits.steps, stop: steps_limit}]", "states:", *body, "",
        ]
    )  # fmt: skip


def forks(count: int = 200) -> str:
    """Forks behind each other, each with two branches that meet in a decision before the next."""
    body: list[str] = []
    for n in range(count):
        following = f"f{n + 1}" if n + 1 < count else "a"
        body += [
            f"  f{n}: {{all: [x{n}, y{n}]}}",
            f"  x{n}: {{ask: Q, when: last.ok, then: m{n}, else: z}}",
            f"  y{n}: {{ask: Q, when: last.wants_memory, then: m{n}, else: z}}",
            f"  m{n}: {{ask: Q, when: last.ok, then: {following}, else: z}}",
        ]
    head = ["chartloop: 1", "machine: forks", "model: {name: scripted}", "states:"]
    return "\n".join([*head, "  a: {do: infer, next: f0}", *body, "  z: {stop: completed}", ""])


def detours(count: int = 8) -> str:
    """Detours that may each interrupt the others: the order in which they do so decides."""
    rules = [f"{{when: usage.total_tokens >= {n + 1}, to: d{n}}}" for n in range(count)]
    body = [f"  d{n}: {{do: infer, failed: next, next: return}}" for n in range(count)]
    head = [
        "chartloop: 1",
        "machine: detours",
        "model: {name: scripted}",
        f"rules: [{', '.join(rules)}]",
    ]
    return "\n".join([*head, "states:", "  a: {do: infer, failed: next, next: a}", *body, ""])


def complete(states: int = 60) -> str:
    """Every state leads to every other, by guards, and no budget cuts anything."""
    body: list[str] = []
    for n in range(states):
        ways = ", ".join(
            f"{{when: run.visits.s{to} >= {to + 2}, to: s{to}}}" for to in range(states)
        )
        body.append(f"  s{n}: {{do: infer, failed: next, next: [{ways}, s{(n + 1) % states}]}}")
    head = ["chartloop: 1", "machine: complete", "model: {name: scripted}", "states:"]
    return "\n".join([*head, *body, ""])


def machine(text: str, **options: Any) -> Machine:
    """The machine of a text."""
    return load(text, **options)


def ruled(rules: int = 500) -> str:
    """A machine of three states in which many rules may hold at the same moment."""
    limits = "".join(f", l{n}: {n + 2}" for n in range(rules))
    body = [
        f"  - {{when: vars.n + run.steps >= limits.l{n} and usage.llm_calls > {n % 7}, "
        "stop: custom}"
        for n in range(rules)
    ]
    return "\n".join(
        [
            "chartloop: 1", "machine: ruled", "model: {name: scripted}", "vars: {n: 0}",
            f"limits: {{steps: 50{limits}}}", "rules:",
            "  - {when: run.steps >= limits.steps, stop: steps_limit}", *body, "states:",
            "  hear: {do: receive, next: think}",
            "  think:",
            "    do: infer",
            "    set: {vars.n: vars.n + 1}",
            '    next: [{when: last.text == "again", to: think}, done]',
            "  done: {stop: completed}", "",
        ]
    )  # fmt: skip

"""The machines that are measured: two small ones, and one of 45 states."""

from __future__ import annotations

from typing import Any

from interlock.api import Machine, load

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
interlock: 1
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
interlock: 1
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
    limits = ", ".join(f"l{n}: {1000 + n}" for n in range(asked))
    return "\n".join(
        [
            "interlock: 1", "machine: many", f"limits: {{{limits}}}", "states:",
            "  start: {label: Start, next: q0}", *body,
            "  work: {label: Work, do: nothing, next: q0}",
            "  report: {label: Report, do: nothing, next: save}",
            "  save: {label: Save, do: nothing, next: end}", "  end: {end: by_reason}", "",
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
            "interlock: 1", "machine: dense", "model: {name: scripted}", "limits: {steps: 50}",
            "rules: [{when: run.steps >= limits.steps, stop: steps_limit}]", "states:", *body, "",
        ]
    )  # fmt: skip


def machine(text: str, **options: Any) -> Machine:
    """The machine of a text."""
    return load(text, **options)

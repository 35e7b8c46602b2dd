"""The files that `chartloop new` writes.

Small on purpose: every line is one that the user will want to change.
"""

from __future__ import annotations

from string import Template

TASK = "How many words has: the quick brown fox?"

MACHINE = Template("""\
# yaml-language-server: $$schema=machine.schema.json
chartloop: 1
machine: $name
title: $title
instructions: |
  Answer in one sentence. Count with your tools, never in your head.
model: {name: openai/gpt-4o-mini}
tools: [count_words]                     # from tools.py
limits: {steps: 20, tokens: 20_000, time: 5m}

rules:                                   # checked after every action; the highest priority wins
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: usage.total_tokens >= limits.tokens, stop: token_limit, warn_at: 80%}
  - {when: run.working >= limits.time, stop: time_limit}

states:                                  # a run starts at the first
  receive: {do: receive, next: think}
  think:
    do: infer
    retry: {times: 2, on: [TRANSIENT]}
    next:                                # the first edge whose guard holds is taken
      - {when: len(last.tool_calls) > 0, label: tool calls, to: act}
      - {label: an answer, to: done}
  act: {do: call_tools, next: think}
  done: {stop: completed}
""")

TOOLS = '''\
"""Tools of the new machine. The model reads their types and docstrings."""

from chartloop import tool


@tool(effect="pure")
def count_words(text: str) -> int:
    """Count the words of a text.

    Args:
        text: The text, as it was given.
    """
    return len(text.split())
'''

_REPLIES = """\
replies:
  - text: Let me count.
    tool_calls: [{name: count_words, arguments: {text: the quick brown fox}}]
    usage: {prompt_tokens: 90, completion_tokens: 12}
  - text: It has 4 words.
    usage: {prompt_tokens: 115, completion_tokens: 6}
"""

REPLIES = f"""\
# What a model might say, one reply for each call: to try the machine with no key and no network.
{_REPLIES}"""

SCENARIO = f"""\
# A run and its expected result; `chartloop test` and pytest play it.
machine: machine.yaml
task: "{TASK}"
tools: {{count_words: [4]}}                # results of the tool, in place of its code
{_REPLIES}expect:
  reason: completed
  path: [receive, think, act, think, done]
  facts: {{usage.tool_calls: 1, run.steps: 4}}
  output: It has 4 words.
"""

GITIGNORE = """\
.chartloop/
__pycache__/
"""


def files(name: str, title: str, schema: str) -> dict[str, str]:
    """The files of a new folder, by name."""
    return {
        "machine.yaml": MACHINE.substitute(name=name, title=title),
        "tools.py": TOOLS,
        "replies.yaml": REPLIES,
        f"{name}.scenario.yaml": SCENARIO,
        "machine.schema.json": schema,
        ".gitignore": GITIGNORE,
    }


COMMANDS = (
    f'chartloop run machine.yaml "{TASK}" --tools tools.py --script replies.yaml',
    "chartloop why last",
    "chartloop test",
)
"""The commands that `new` suggests, to be run inside the folder."""

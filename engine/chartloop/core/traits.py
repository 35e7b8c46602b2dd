"""The traits of actions: what other code may know about an action without doing it.

Proofs, what-ifs, recorders and the list of steps decide by traits, never by an
action's name, so that they understand every action that declares its traits.

Belongs here: the traits and their values. Never: the traits of an action (`actions`), or what
follows from them.

Source: 004 "Step Types"; docs/language.md, "Your own tools, actions and guards".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

Asks = Literal["never", "reply", "text", "task"]
"""What an action requests from the model, with at most one call.

`reply`: the run's next reply, with the tools of the state; the action fails only if no reply came
or a field rejects it. `text`: a text for its own use, without tools; the call is optional, and the
action may fail after it. `task`: whatever the next task of the queue requires.
"""

Calls = Literal["none", "all", "first", "memory", "named", "task"]
"""The tool calls that an action executes.

`all`: those of the newest reply; `first`: the first of them; after either no call is open.
`memory`: those that edit memory, or none if a field names a block. `named`: the tool that a field
names. `task`: any tool, by the next task of the queue.
"""

Runs = Literal["none", "one", "several", "calls", "task"]
"""The child machines that an action runs.

`one`, `several`: those that its fields name. `calls`: those that the newest reply calls as tools;
no action declares it, a state that offers such tools has it. `task`: the one that the next task of
the queue names.
"""

Fails = Literal["never", "by_fields", "by_world"]
"""What can make an action fail, apart from a deadline.

`never`: nothing, if it has no fields. `by_fields`: its fields and the data of the run. `by_world`:
also a tool, a child, a sandbox, the model or the caller.
"""

Writes = Literal["", "report", "snapshot"]
"""Files that an action writes for people and tools: a report, a snapshot of the run."""

StepType = Literal["user-message", "llm-inference", "tool-call", "memory-update", "system"]


class Count(NamedTuple):
    """A counter that an action raises, besides those that follow from its other traits."""

    counter: str
    least: int
    most: int
    on: Literal["ok", "failed", "both"] = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTraits:
    """The promises of an action. The first four have no default: whoever promises says each.

    `actions.declare` completes them by what it reads from the action's signature.
    """

    asks: Asks
    calls: Calls
    runs: Runs
    fails: Fails
    asks_if: tuple[str, Any] | None = None
    """For `text`: a field and the value with which the action calls the model."""
    counts: tuple[Count, ...] = ()
    writes: Writes = ""
    sets_prompt: bool = False
    """Whether the next `reply` answers messages of this action instead of the conversation."""
    step: StepType = "system"
    """The type of its steps in the list of steps."""
    waits: tuple[str, float] | None = None
    """The field that bounds the action's own wait, and its default in seconds."""
    continues: str = ""
    """The field with the number of times in a run that it defers stop signals; default 1."""
    reads_reply: bool = False
    """Whether it reads the newest reply's text, by the rules of its `with` for each variable."""
    reads: frozenset[str] | None = None
    """The parts of the run whose text it reads, besides what its `with` names and what follows from
    other traits: ``messages``, ``queue``, ``vars.*`` ... None: any of them."""
    adopts: str = ""
    """The field whose values are the variables that it sets."""
    one_of: tuple[str, ...] = ()
    """Fields of which a state writes exactly one: it decides which of `calls`, `runs` and `asks`
    holds there, by whether it names a tool, a machine or neither."""
    screens: tuple[str, str] | None = None
    """For one that takes from a text what must not pass: the field with the labels of data that the
    rest loses, and the field with the text; without that, the messages since the newest reply."""

    def chosen(self, *, tool: bool, machine: bool) -> ActionTraits:
        """The traits where one of several fields is written: see `one_of`."""
        return replace(
            self, calls="named" if tool else "none", runs="one" if machine else "none",
            asks="never" if tool or machine else self.asks, step="tool-call" if tool else "system",
        )  # fmt: skip


SURE = ActionTraits(asks="never", calls="none", runs="none", fails="never")
"""Of an action that stays inside and, without fields, cannot fail."""
BY_FIELDS = ActionTraits(asks="never", calls="none", runs="none", fails="by_fields")
"""Of an action that stays inside: only its fields and the run's data can make it fail."""
OUTSIDE = ActionTraits(asks="never", calls="none", runs="none", fails="by_world")
"""Of an action that may fail for whatever is outside of the run."""
ASKS_MODEL = ActionTraits(asks="text", calls="none", runs="none", fails="by_world")
"""Of an action that makes at most one model call, for a text of its own."""
RUNS_CHILD = ActionTraits(asks="never", calls="none", runs="one", fails="by_world")
"""Of an action that runs the child machine which a field names."""

UNDECLARED = OUTSIDE
"""The traits of an action that promises nothing: see `ActionSpec.is_builtin`."""
NO_ACTION = SURE
"""The traits of a state without an action."""

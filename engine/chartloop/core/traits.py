"""The traits of actions: what other code may know about an action without doing it.

Proofs, simulations, what-ifs, recorders and the list of steps decide by traits, never by an
action's name, so that they understand every action that declares its traits.

Belongs here: the traits and their values. Never: the traits of an action (`actions`), or what
follows from them.

Source: 004 "Step Types"; design "language", sections 2 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass
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

Runs = Literal["none", "one", "several", "task"]
"""The child machines that an action runs: the one that its fields name, several of them, or the
one that the next task of the queue names."""

Fails = Literal["never", "by_fields", "by_world"]
"""What can make an action fail, apart from a deadline.

`never`: nothing, if it has no fields. `by_fields`: its fields and the data of the run. `by_world`:
also a tool, a child, a sandbox, the model or the caller.
"""

Writes = Literal["", "report", "snapshot"]
"""Files that an action writes for people and tools: a report, a snapshot of the run."""

StepType = Literal["user-message", "llm-inference", "tool-call", "memory-update", "system"]

Family = Literal["model", "tools", "child", "work", "prune", "pure", "report", "own", "wait"]
"""How a simulation plays an action.

`model` draws a reply; `tools` draws the results of a reply's calls; `child` draws the results of
children; `work` draws how a task ends; `prune` shortens the conversation; `pure` does the action
itself, which has no effects; `report` draws only whether it fails; `own` draws a result; `wait` is
not an action.
"""


class Count(NamedTuple):
    """A counter that an action raises, besides those that follow from its other traits."""

    counter: str
    least: int
    most: int
    on: Literal["ok", "failed", "both"] = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTraits:
    """The traits of a built-in action. The first six have no default: every action sets them."""

    asks: Asks
    calls: Calls
    runs: Runs
    fails: Fails
    step: StepType
    """The type of its steps in the list of steps."""
    family: Family
    asks_if: tuple[str, Any] | None = None
    """For `text`: a field and the value with which the action calls the model."""
    waits: tuple[str, float] | None = None
    """The field that bounds the action's own wait, and its default in seconds."""
    continues: str = ""
    """The field with the number of times in a run that it defers stop signals; default 1."""
    counts: tuple[Count, ...] = ()
    writes: Writes = ""
    sets_prompt: bool = False
    """Whether the next `reply` answers messages of this action instead of the conversation."""
    reads_reply: bool = False
    """Whether it reads the newest reply's text, by the rules of its `with` for each variable."""
    data: frozenset[str] = frozenset()
    """The parts of the run that it reads besides its `with`, for `proofs.flow`: ``messages``,
    ``queue``, ``vars.*`` ..."""
    data_kept: frozenset[str] = frozenset()
    """The parts that it writes, besides those that follow from what it changes and supplies."""
    adopts: str = ""
    """The field whose values are the variables that it sets."""


UNDECLARED = ActionTraits(
    asks="never", calls="none", runs="none", fails="by_world", step="system", family="own"
)
"""The traits of an application's own action. They promise nothing: see `ActionSpec.is_builtin`."""

NO_ACTION = ActionTraits(
    asks="never", calls="none", runs="none", fails="never", step="system", family="wait"
)
"""The traits of a state without an action."""

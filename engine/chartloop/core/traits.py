"""The traits of actions: everything that other code may ask about one without doing it.

Proofs, simulations, what-ifs, recorders and the list of steps decide by these traits, never by an
action's name: an action that is declared with its traits is known to all of them.

Belongs here: the questions and their answers. Never: which action answers what (`actions`), or
what follows from an answer.

Source: 004 "Step Types"; design "language", sections 2 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Asks = Literal["never", "reply", "text", "task"]
"""What an action asks the model for, with one call at most.

`reply` the run's next reply, offering the tools of the state; it fails only where none came, or
where a field judged it. `text` a text for its own use, with no tools offered: it may ask, and may
fail after the answer. `task` what the next task of the queue says.
"""

Calls = Literal["none", "all", "first", "memory", "named", "task"]
"""Which tool calls an action executes.

`all` those of the newest reply, `first` the first of them: after either no call is open. `memory`
those that edit memory, or none where a field names a block. `named` the tool that a field names.
`task` any tool, as the next task of the queue says.
"""

Runs = Literal["none", "one", "several", "task"]
"""Which child machines an action runs: the one that its fields name, several of them, or the one
that the next task of the queue names."""

Fails = Literal["never", "by_fields", "by_world"]
"""What can make an action fail, next to a deadline.

`never`: without fields, nothing. `by_fields`: its fields and what the run holds. `by_world`: what
a tool, a child, a sandbox, the model or the caller gives, too.
"""

Writes = Literal["", "report", "snapshot"]
"""Files that an action writes for people and tools: a report, a snapshot of the run."""

StepType = Literal["user-message", "llm-inference", "tool-call", "memory-update", "system"]

Family = Literal["model", "tools", "child", "work", "prune", "pure", "said", "own", "wait"]
"""How a simulation plays an action.

`model` draws a reply; `tools` draws what comes of the calls of a reply; `child` draws what children
come to; `work` draws how a task ends; `prune` shortens the conversation; `pure` does the action
itself, which has no effects; `said` draws nothing but whether it fails; `own` draws a result;
`wait` is not an action.
"""


class Count(NamedTuple):
    """A counter that an action moves, beside those that follow from its other traits."""

    counter: str
    least: int
    most: int
    on: Literal["ok", "failed", "both"] = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTraits:
    """The traits of a built-in action. The first six have no default: each action answers them."""

    asks: Asks
    calls: Calls
    runs: Runs
    fails: Fails
    step: StepType
    """The type of its steps in the list of steps."""
    family: Family
    asks_if: tuple[str, Any] | None = None
    """With `text`: it asks only where this field has this value."""
    waits: tuple[str, float] | None = None
    """The field that bounds how long the action itself waits, and the seconds without it."""
    continues: str = ""
    """It puts stop signals off, as often in a run as this field says; once by default."""
    counts: tuple[Count, ...] = ()
    writes: Writes = ""
    sets_prompt: bool = False
    """The next `reply` answers messages that this action made, not the conversation."""
    reads_reply: bool = False
    """It reads the newest reply's text, by the rules that its `with` has for each variable."""
    adopts: str = ""
    """The field whose values are the variables that it sets."""


UNDECLARED = ActionTraits(
    asks="never", calls="none", runs="none", fails="by_world", step="system", family="own"
)
"""Of an application's own action. Nothing is known of it: ask `ActionSpec.is_builtin` first."""

NO_ACTION = ActionTraits(
    asks="never", calls="none", runs="none", fails="never", step="system", family="wait"
)
"""Of a state that does nothing."""

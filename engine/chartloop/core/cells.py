"""Cells: the parts of a run that hold text, for questions about where data goes.

A fact names its cell in `core.facts`, an action those that it reads in its traits. Each variable,
memory block and limit is a cell too: ``vars.x``. How text comes in and goes out stands here: as
cells, or as why there is none, which is what an answer assumes.

Source: docs/data.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Cell = str


class CellSpec(NamedTuple):
    """A row of `CELLS`."""

    words: str
    carried: bool = False
    """Whether a run leaves it to the next one."""


NEWEST: Cell = "messages.newest"
"""The messages since the newest reply. Whatever reads the conversation reads it too, and whatever
may put a reply after it leaves in `messages` what it held."""
CELLS: Mapping[Cell, CellSpec] = {
    "messages": CellSpec("the conversation", carried=True),
    NEWEST: CellSpec("the conversation", carried=True),
    "reply": CellSpec("the reply", carried=True),
    "model": CellSpec("the model's name"),
    "result": CellSpec("the result"),
    "answer": CellSpec("the answer"),
    "error": CellSpec("the error"),
    "signals": CellSpec("the signals and warnings"),
    "queue": CellSpec("the queue"),
    "task": CellSpec("the task"),
    "prompt": CellSpec("the prompt"),
    "checkpoint": CellSpec("the checkpoint"),
    "session": CellSpec("the variables of its code"),
}
"""The cells of every machine. `prompt`: what `prompt` made for the next reply; `session`: the
variables of code in the sandbox."""
OWN = ("vars", "memory", "limits")
"""The roots under which a machine has cells of its own."""


def is_carried(cell: Cell) -> bool:
    """Whether a run leaves the cell to the next one."""
    return CELLS[cell].carried if cell in CELLS else not cell.startswith("limits.")


MODEL = "what is sent to a model stays with its provider"
KEPT = "traces, the journal, questions and partial results stay with whoever runs it"
NAMES = "ids, metadata, limits and reasons, as a caller or a tool gives them, are no text of a run"
BY_HAND = (
    "no text comes in but by the `inputs`: not by `run.set`, an edited journal or a stop's message"
)
ASSUMED = (MODEL, KEPT, NAMES, BY_HAND)
"""Answers about data assume these: they say why some doors need no cell."""
_OF_ACTION, _NO_TEXT = "the action that calls it: a query may name it", "it holds no text"

Way = tuple[Cell, ...] | str
"""The cells that text comes into, or the reason for their absence."""
ENTRIES: Mapping[str, Way] = {
    "start.task": ("task",), "start.files": ("task",), "start.messages": ("messages", "reply"),
    "start.tasks": ("queue",), "start.vars": ("vars",), "start.memory": ("memory",),
    "start.limits": ("limits",), "start.agent": NAMES, "start.session": NAMES,
    "start.submitter": NAMES, "start.metadata": NAMES, "start.plugins": "names of the file",
    "start.start": "a name of the file", "start.depth": _NO_TEXT, "start.context_window": _NO_TEXT,
    "answer": ("answer", "messages", NEWEST, "reply"), "enqueue": ("queue",), "edit": BY_HAND,
    "stop": BY_HAND, "blocked": KEPT, "drop": NAMES, "expired": _NO_TEXT, "pause": _NO_TEXT,
    "resume": _NO_TEXT, "step": "what its action gives: it reads cells, and is a source itself",
}  # fmt: skip
"""How text comes into a run: the fields of its start, and the other kinds of records. A parent may
fill what a caller may, and limits."""
PORTS: Mapping[str, str] = {
    "Model.complete": MODEL, "Model.prepare": MODEL, "Model.context_window": MODEL,
    "Sandbox.run": _OF_ACTION, "Notifier.notify": _OF_ACTION, "ToolServers.call": _OF_ACTION,
    "ToolClient.sample": "the words of the server that asks", "Tokenizer.count": _NO_TEXT,
    "ToolServers.let_go": NAMES, "ToolServers.in_flight": NAMES, "ToolServers.asks": NAMES,
    "Cancel.is_requested": KEPT, "Tracer.run": KEPT, "Tracer.model_call": KEPT,
    "Tracer.tool_call": KEPT, "Tracer.flush": _NO_TEXT, "RunTracer.action": KEPT,
    "RunTracer.record": KEPT, "RunTracer.rest": KEPT, "Clock.follow": _NO_TEXT,
    "Clock.sleep": _NO_TEXT, "Clock.deadline": _NO_TEXT,
}  # fmt: skip
"""The receivers of text that a run hands to its ports, by each method that takes anything."""

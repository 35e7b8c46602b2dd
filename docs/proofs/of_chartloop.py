"""The three loops in chartloop: what `check` and `bound` say of them, and a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from loops import LIMIT, Library, Model

from chartloop import load
from chartloop.api import find_faults
from chartloop.run.ports import ModelReply, ModelRequest, OnText

HERE = Path(__file__).resolve().parent
RULE = (
    f"rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]\nlimits: {{steps: {LIMIT}}}\n"
)


class Port:
    """Our model, behind chartloop's port."""

    suspends = False

    def __init__(self, model: Model) -> None:
        self.model = model

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Nothing can fail later."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """It has none."""
        return None

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """The next reply."""
        return ModelReply(self.model.ask(), (), "stop", 1, 1)


def text_of(loop: str, *, limited: bool) -> str:
    """The file, with a limit and the rule that enforces it."""
    text = (HERE / f"{loop}.yaml").read_text("utf-8")
    return text.replace("states:", f"{RULE}states:") if limited else text


def says(loop: str, *, limited: bool) -> list[str]:
    """What `chartloop check` and `chartloop bound` say before a run."""
    text = text_of(loop, limited=limited)
    machine, findings = find_faults(text)
    said = [f"{f.severity.value}[{f.code}]: {f.message}" for f in findings] or ["no mistakes"]
    if machine is not None:
        found = machine.bound()
        said += [f"bound: {n.replace('_', ' ')}: {found[n].text}" for n in ("actions", "requests")]
    return said


def build(loop: str, model: Model, *, limited: bool) -> Callable[[], object]:
    """A machine. `SpecError` where the file has an error."""
    machine = load(text_of(loop, limited=limited))
    run = machine.start("go", model=Port(model))
    return lambda: run.run().reason


LIBRARY = Library("chartloop", "chartloop", "the rule run.steps >= limits.steps", build, says)

"""What a view reads of a run and what an order does with it, whoever made the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from chartloop.core.columns import Line
from chartloop.core.facts import Facts
from chartloop.core.records import Record
from chartloop.core.types import Type
from chartloop.language.spec import MachineSpec
from chartloop.machine.build import Chart
from chartloop.machine.explain import Explanation
from chartloop.run.breakpoints import Breakpoints
from chartloop.run.events import Event
from chartloop.run.result import Result
from chartloop.run.session import Session
from chartloop.view.picture import Picture


class StepDisplay(Protocol):
    """Where the person who steps a run sees what comes of it. Called from the thread that steps."""

    @property
    def width(self) -> int:
        """Columns for tables."""
        ...

    def say(self, line: Line) -> None:
        """Show a line."""
        ...

    def hear(self, text: str) -> None:
        """Show a piece of a model's text, as it comes."""
        ...

    def stand(self, run: SteppedRun) -> None:
        """Show where the run stands."""
        ...

    def look(self, picture: Picture, here: str) -> None:
        """Show the flowchart, and where the run is in it."""
        ...

    def wants_to_stop(self) -> bool:
        """Whether the person asked that the run stop before its next action."""
        ...


class SteppedMachine(Protocol):
    """What is read of the machine. `api.Machine` is one."""

    chart: Chart

    @property
    def name(self) -> str: ...
    @property
    def spec(self) -> MachineSpec: ...


class SteppedRun(Protocol):
    """A run that can be stepped and asked. `api.Run` is one; its words are described there."""

    session: Session
    breakpoints: Breakpoints

    @property
    def machine(self) -> SteppedMachine: ...
    @property
    def id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def facts(self) -> Facts: ...
    @property
    def ended(self) -> bool: ...
    @property
    def result(self) -> Result: ...
    @property
    def answers(self) -> Mapping[str, Mapping[str, Type]]: ...
    @property
    def records(self) -> list[Record]: ...
    def step(self) -> Record | None: ...
    def advance(self) -> Record | None: ...
    def run(self, *, until: str | None = None) -> Result: ...
    def send(
        self, event: str, data: Mapping[str, Any] | None = None, *, wait: str = ""
    ) -> object: ...
    def pause(self) -> None: ...
    def cancel(self) -> None: ...
    def resume(self) -> None: ...
    def set(self, name: str, value: Any) -> Record: ...
    def back(self, records: int = 1) -> Any: ...
    def fork(self, at: int | None = None) -> Any: ...
    def why(self, seq: int | None = None) -> Explanation: ...
    def draw(self) -> Picture: ...
    def listen(self, callback: Callable[[Event], None]) -> Callable[[], None]: ...

"""Executes what a page asks for: one thing at a time, and never on the page's own thread.

Two threads. The controller takes orders, answers them and says what is to be shown; a driver does
the actions, so that a page can ask for a pause meanwhile. Every order ends in an answer: what went
wrong is told to the page, whatever it was. What others do with the run, in a cell of the notebook,
is shown too.

Belongs here: who waits for whom. Never: a widget, a socket, the look of anything.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from chartloop.api import Run
from chartloop.core.errors import ChartloopError, StatusError
from chartloop.core.records import Record
from chartloop.notebook.panel.panel_picture import PanelPicture
from chartloop.run.events import Event, Recorded
from chartloop.run.sanitize import sound_text
from chartloop.view_model.build import decision_of, head_of, view_run
from chartloop.view_model.orders import (
    Answer,
    Cancel,
    Driving,
    Order,
    Pause,
    RunUntil,
    Show,
    Step,
    Why,
    number_of,
    order_of,
)
from chartloop.view_model.perform import drive, perform
from chartloop.view_model.run_view import Json

Publish = Callable[[Json], None]
"""Shows the page what has changed: parts of the board, by name."""

BUTTONS = ("step", "run", "set", "cancel", "back")
"""Orders whose buttons are disabled while they cannot be given. The others are always there."""
OFTEN = 0.1
"""Seconds between two looks at a run that is driven."""
BROKEN_OFF: Json = {"message": "the action was broken off", "hint": "Step starts it again"}
_log = logging.getLogger(__name__)


class Controller:
    """Executes the orders for a run. `take` never blocks or raises; `close` ends its thread."""

    def __init__(self, run: Run, publish: Publish) -> None:
        self.run = run
        self._publish = publish
        self._picture = PanelPicture()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._asked: Driving | None = None
        """The order that the driver is carrying out."""
        self._cancelled = False
        """Whether what is driven is to continue to the end that a cancel leads to."""
        self._fault: Json | None = None
        """The error of the newest order, until the next one succeeds."""
        self._looking = False
        self._shown = ""
        """The id of the run that is on the page."""
        self._seq: int | None = None
        """The record whose decision is shown; None for the newest."""
        self._stop = run.listen(self._hear)
        self._thread = threading.Thread(target=self._work, name="chartloop panel", daemon=True)
        self._thread.start()
        self.take({"do": "show"})

    def take(self, message: object) -> None:
        """An order of the page. What comes of it is published."""
        self._jobs.put(partial(self._obey, message))

    def flush(self) -> None:
        """At the end of a cell: show a run that went elsewhere without a record of it."""
        if self.run.id != self._shown:
            self.take({"do": "show"})

    def close(self) -> None:
        """Take no more orders, and hear no more of the run. What is being done is finished."""
        self._stop()
        self._jobs.put(None)

    def settle(self, timeout: float = 30.0) -> bool:
        """Wait until everything that was asked for is done and shown; whether it was in time."""
        end, found = time.monotonic() + timeout, queue.SimpleQueue[bool]()
        with suppress(queue.Empty):
            while (left := end - time.monotonic()) > 0:
                self._jobs.put(lambda: found.put(self._asked is None and not self._looking))
                if found.get(timeout=left):
                    return True
                time.sleep(OFTEN / 10)
        return False

    # orders ---------------------------------------------------------------------------------

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # noqa: BLE001  told to the page: the controller continues
                self._tell({"fault": fault_of(error), "busy": ""})

    def _tell(self, changed: Json) -> None:
        """Show the page something. Where there is no page any more the run continues without."""
        try:
            self._publish(_sendable(changed))
        except Exception:  # noqa: BLE001  whatever a page does, it is not the run's
            _log.exception("the panel of run `%s` could not show something", self.run.id)

    def _obey(self, message: object) -> None:
        number = number_of(message)
        try:
            order = order_of(message)
            self._refuse_while_driven(order)
            self._fault = None
            self._carry_out(order)
        except Exception as error:  # noqa: BLE001  told to who asked
            self._fault = fault_of(error)
        self._tell({"fault": self._fault, "heard": number})

    def _refuse_while_driven(self, order: Order) -> None:
        if self._is_driven and not isinstance(order, (Pause, Cancel, Show)):
            raise StatusError("the run is being driven at this moment", hint="pause it first")

    @property
    def _is_driven(self) -> bool:
        """By the driver, or by someone else: in a cell, or at another panel."""
        return self._asked is not None or self.run.session.turn.is_held

    def _carry_out(self, order: Order) -> None:
        match order:
            case Cancel() if self._is_driven:
                self._cancel(order)
            case Step() | RunUntil() | Cancel() | Answer():
                self._start(order)
            case Pause():
                self._pause()
            case Why(seq):
                self._tell({"why": self._decision(self.run.records, seq)})
                self._seq = seq
            case Show():
                self._show()
            case _:
                self._follow(perform(self.run, order))
                self._show()

    def _follow(self, run: Run) -> None:
        """Show this run from now on: after a fork another one."""
        self._seq = None
        if run is not self.run:
            self._stop()
            self.run, self._stop = run, run.listen(self._hear)

    def _pause(self) -> None:
        if not self._is_driven:
            raise StatusError("the run rests already", hint="a pause is for a run that is driven")
        self.run.pause()
        self._tell({"busy": "pausing after this action"})

    def _cancel(self, order: Cancel) -> None:
        """Of a run that is driven: who drives it hears of it before the next action."""
        self.run.cancel(order.reason, order.message)
        self._cancelled = self._asked is not None
        self._tell({"busy": "cancelling after this action"})

    # driving --------------------------------------------------------------------------------

    def _start(self, order: Driving) -> None:
        self._asked, self._seq = order, None
        self._tell({"busy": "running"})
        driver = threading.Thread(
            target=self._drive, args=(order,), name="chartloop panel driver", daemon=True
        )
        driver.start()

    def _drive(self, order: Driving) -> None:
        """On its own thread: an action takes as long as it takes."""
        fault: Json | None = BROKEN_OFF
        try:
            drive(self.run, order)
            fault = None
        except Exception as error:  # noqa: BLE001  told to who asked
            fault = fault_of(error)
        finally:  # a tool may even ask the thread to exit
            self._jobs.put(partial(self._driven, fault))

    def _driven(self, fault: Json | None) -> None:
        self._asked, self._fault = None, fault
        cancelled, self._cancelled = self._cancelled, False
        if cancelled and not self.run.ended:
            self._start(RunUntil())
        else:
            self._show()

    # showing --------------------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        """Wherever the run is driven: only remembers that there is something to look at."""
        if isinstance(event, Recorded):
            self._look_soon()

    def _look_soon(self) -> None:
        if not self._looking:
            self._looking = True
            self._jobs.put(self._look)

    def _look(self) -> None:
        """Show what is seen of a run while it is driven, and everything once it rests."""
        self._looking = False
        if not self._is_driven:
            self._show()
            return
        self._tell({**head_of(self.run).to_dict(), "paint": self._picture.paint(self.run)})
        time.sleep(OFTEN)
        if self._asked is None:  # who drives it does not say when it rests
            self._look_soon()

    def _show(self) -> None:
        """Show everything of a run that rests."""
        if self._is_driven:
            self._look_soon()
            return
        records, self._shown = self.run.records, self.run.id
        view = view_run(self.run, records, decision=decision_of(self.run, records, self._seq))
        cannot = {name: why for name, why in view.refusals.items() if name in BUTTONS}
        self._tell(
            {
                **view.to_dict(),
                **self._picture.sheet(self.run),
                "cannot": cannot,
                "busy": "",
                "fault": self._fault,
            }
        )

    def _decision(self, records: list[Record], seq: int | None) -> Json | None:
        found = decision_of(self.run, records, seq)
        return None if found is None else found.to_dict()


def _sendable(changed: Json) -> Json:
    """The same without halves of characters, which no page could be sent."""
    text = json.dumps(changed, ensure_ascii=False)
    sound = sound_text(text)
    return changed if sound is text else json.loads(sound)


def fault_of(error: Exception) -> Json:
    """An error in words for the panel."""
    if isinstance(error, ChartloopError):
        return {"message": error.message, "hint": error.hint}
    _log.warning("an order of the panel failed", exc_info=error)
    return {"message": f"{type(error).__name__}: {error}", "hint": ""}

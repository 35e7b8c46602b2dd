"""The controller of a panel: it carries out orders, one at a time, off the page's own thread.

There are two threads. The controller takes orders, replies to them and publishes the view; a driver
does the actions, so that the page can ask for a pause meanwhile. Every order gets a reply, with its
error if it failed. Changes made to the run elsewhere, in a cell of the notebook, are shown too.

Belongs here: threads and their order. Never: a widget, a socket, the look of anything.
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
from chartloop.run.events import Event, Recorded
from chartloop.run.sanitize import sound_text
from chartloop.ui.notebook.panel.panel_picture import PanelPicture
from chartloop.ui.view_model.build import decision_of, head_of, view_run
from chartloop.ui.view_model.orders import (
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
from chartloop.ui.view_model.perform import drive, perform
from chartloop.ui.view_model.run_view import Json

Publish = Callable[[Json], None]
"""Sends the page the changed parts of the board, by name."""

BUTTONS = ("step", "run", "set", "cancel", "back")
"""Orders whose buttons are disabled while they are refused."""
INTERVAL = 0.1
"""Seconds between two updates while a run is driven."""
BROKEN_OFF: Json = {"message": "the action was broken off", "hint": "Step starts it again"}
_log = logging.getLogger(__name__)


class Controller:
    """Carries out the orders for a run. `take` never blocks or raises; `close` ends its thread."""

    def __init__(self, run: Run, publish: Publish) -> None:
        self.run = run
        self._publish = publish
        self._picture = PanelPicture()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._asked: Driving | None = None
        """The order that the driver is carrying out."""
        self._cancelled = False
        """Whether a cancelled run is to be driven on to its end."""
        self._fault: Json | None = None
        """The error of the newest order, until the next one succeeds."""
        self._looking = False
        self._shown = ""
        """The id of the run on the page."""
        self._seq: int | None = None
        """The record whose decision is on the page; None for the newest."""
        self._stop = run.listen(self._hear)
        self._thread = threading.Thread(target=self._work, name="chartloop panel", daemon=True)
        self._thread.start()
        self.take({"do": "show"})

    def take(self, message: object) -> None:
        """Queue an order of the page. Its result is published."""
        self._jobs.put(partial(self._obey, message))

    def flush(self) -> None:
        """At the end of a cell: show a run that was replaced without a record."""
        if self.run.id != self._shown:
            self.take({"do": "show"})

    def close(self) -> None:
        """Take no more orders and stop listening. Orders in the queue are finished."""
        self._stop()
        self._jobs.put(None)

    def settle(self, timeout: float = 30.0) -> bool:
        """Wait until all orders are done and shown; returns False after `timeout` seconds."""
        end, settled = time.monotonic() + timeout, queue.SimpleQueue[bool]()
        with suppress(queue.Empty):
            while (left := end - time.monotonic()) > 0:
                self._jobs.put(lambda: settled.put(self._asked is None and not self._looking))
                if settled.get(timeout=left):
                    return True
                time.sleep(INTERVAL / 10)
        return False

    # orders ---------------------------------------------------------------------------------

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # noqa: BLE001  shown on the page: the controller continues
                self._send({"fault": fault_of(error), "busy": ""})

    def _send(self, changed: Json) -> None:
        """Publish a change. An error of the page is logged, and the run continues."""
        try:
            text = json.dumps(changed, ensure_ascii=False)
            sound = sound_text(text)  # a lone surrogate cannot be encoded
            self._publish(changed if sound is text else json.loads(sound))
        except Exception:  # noqa: BLE001  a fault of the page must not stop the run
            _log.exception("the panel of run `%s` could not show something", self.run.id)

    def _obey(self, message: object) -> None:
        number = number_of(message)
        try:
            order = order_of(message)
            self._carry_out(order)
        except Exception as error:  # noqa: BLE001  shown on the page
            self._fault = fault_of(error)
        self._send({"fault": self._fault, "heard": number})

    @property
    def _is_driven(self) -> bool:
        """Whether it is being driven, by this driver, in a cell or in another panel."""
        return self._asked is not None or self.run.session.turn.is_held

    def _carry_out(self, order: Order) -> None:
        if self._is_driven and not isinstance(order, (Pause, Cancel, Show)):
            raise StatusError("the run is being driven at this moment", hint="pause it first")
        self._fault = None
        match order:
            case Cancel() if self._is_driven:  # it stops before the next action
                self.run.cancel(order.reason, order.message)
                self._cancelled = self._asked is not None
                self._send({"busy": "cancelling after this action"})
            case Step() | RunUntil() | Cancel() | Answer():
                self._start(order)
            case Pause():
                if not self._is_driven:
                    message = "the run rests already"
                    raise StatusError(message, hint="a pause is for a run that is driven")
                self.run.pause()
                self._send({"busy": "pausing after this action"})
            case Why(seq):
                decision = decision_of(self.run, self.run.records, seq)
                self._send({"why": None if decision is None else decision.to_dict()})
                self._seq = seq
            case Show(whole):
                self._show(whole=whole)
            case _:
                run = perform(self.run, order)
                self._seq = None
                if run is not self.run:  # after a fork it is the new one
                    self._stop()
                    self.run, self._stop = run, run.listen(self._hear)
                self._show()

    # driving --------------------------------------------------------------------------------

    def _start(self, order: Driving) -> None:
        self._asked, self._seq = order, None
        self._send({"busy": "running"})
        driver = threading.Thread(
            target=self._drive, args=(order,), name="chartloop panel driver", daemon=True
        )
        driver.start()

    def _drive(self, order: Driving) -> None:
        """Drive the run, on a thread of its own."""
        fault: Json | None = BROKEN_OFF
        try:
            drive(self.run, order)
            fault = None
        except Exception as error:  # noqa: BLE001  shown on the page
            fault = fault_of(error)
        finally:  # a tool may even raise SystemExit
            self._jobs.put(partial(self._end_drive, fault))

    def _end_drive(self, fault: Json | None) -> None:
        self._asked, self._fault = None, fault
        cancelled, self._cancelled = self._cancelled, False
        if cancelled and not self.run.ended:
            self._start(RunUntil())
        else:
            self._show()

    # showing --------------------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        """Queue an update after each record, on whichever thread the run is driven."""
        if isinstance(event, Recorded):
            self._update_soon()

    def _update_soon(self) -> None:
        if not self._looking:
            self._looking = True
            self._jobs.put(self._update)

    def _update(self) -> None:
        """Show the head and the picture of a driven run, the whole view once it rests."""
        self._looking = False
        if not self._is_driven:
            self._show()
            return
        self._send({**head_of(self.run).to_dict(), "paint": self._picture.paint(self.run)})
        time.sleep(INTERVAL)
        if self._asked is None:  # another driver does not report when the run rests
            self._update_soon()

    def _show(self, *, whole: bool = False) -> None:
        """Show the whole view of a run, once it rests; `whole` opens a long question."""
        if self._is_driven:
            self._update_soon()
            return
        records, self._shown = self.run.records, self.run.id
        view = view_run(self.run, records, decision=decision_of(self.run, records, self._seq))
        opened: Json = {"shown": ""}
        if whole and (asked := self.run.question) is not None:
            opened = {
                "question": asked.text, "about": asked.about, "rest": 0, "shown": asked.digest,
                "calls": asked.to_dict()["calls"],
            }  # fmt: skip
        cannot = {name: why for name, why in view.refusals.items() if name in BUTTONS}
        self._send(
            {
                **view.to_dict(),
                **opened,
                **self._picture.sheet(self.run),
                "cannot": cannot,
                "busy": "",
                "fault": self._fault,
            }
        )


def fault_of(error: Exception) -> Json:
    """An error in words for the panel."""
    if isinstance(error, ChartloopError):
        return {"message": error.message, "hint": error.hint}
    _log.warning("an order of the panel failed", exc_info=error)
    return {"message": f"{type(error).__name__}: {error}", "hint": ""}

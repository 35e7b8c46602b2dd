"""Carries out what a page asks for: one thing at a time, and never on the page's own thread.

Two threads. The desk takes orders, answers them and says what is to be shown; while an action is
done, a driver does it, so that a page can still ask for a pause. Every order ends in an answer:
what went wrong is told to the page, whatever it was. What others do with the run, in a cell of
the notebook, is shown too.

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
from typing import Any

from chartloop.core.errors import ChartloopError, StatusError
from chartloop.core.records import Record
from chartloop.language.values import read_value
from chartloop.notebook.panel.board import Json, board, decision, head
from chartloop.notebook.panel.orders import (
    Answer,
    Back,
    Cancel,
    Driving,
    Order,
    Pause,
    Run,
    Set,
    Show,
    Step,
    Why,
    number_of,
    order_of,
)
from chartloop.notebook.panel.picture import Paper
from chartloop.notebook.panel.stepped import Stepped
from chartloop.run.events import Event, Recorded
from chartloop.run.sanitize import sound_text

Publish = Callable[[Json], None]
"""Shows the page what has changed: parts of the board, by name."""

OFTEN = 0.1
"""Seconds between two looks at a run that is driven."""
BROKEN_OFF: Json = {"message": "the action was broken off", "hint": "Step begins it again"}
_log = logging.getLogger(__name__)


class Desk:
    """The desk of one run. `take` never blocks and never raises; `close` ends its thread."""

    def __init__(self, run: Stepped, publish: Publish) -> None:
        self.run = run
        self._publish = publish
        self._paper = Paper()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._asked: Driving | None = None
        """What the driver does now."""
        self._cancelled = False
        """Whether what is driven is to go on to the end that a cancel leads to."""
        self._fault: Json | None = None
        """What went wrong with the newest order, until the next one goes well."""
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
            except Exception as error:  # noqa: BLE001  told to the page: the desk goes on
                self._tell({"fault": fault_of(error), "busy": ""})

    def _tell(self, changed: Json) -> None:
        """Show the page something. Where there is no page any more the run goes on without."""
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
        """By the driver, or by somebody else: in a cell, or at another panel."""
        return self._asked is not None or self.run.session.turn.taken

    def _carry_out(self, order: Order) -> None:
        match order:
            case Cancel() if self._is_driven:
                self._cancel()
            case Step() | Run() | Cancel() | Answer():
                self._start(order)
            case Pause():
                self._pause()
            case Back(records):
                self.run.back(records)
                self._seq = None
                self._show()
            case Set(name, value):
                self.run.set(name, self._value(name, value))
                self._show()
            case Why(seq):
                self._tell({"why": self._decision(self.run.records, seq)})
                self._seq = seq
            case Show():
                self._show()

    def _pause(self) -> None:
        if not self._is_driven:
            raise StatusError("the run rests already", hint="a pause is for a run that is driven")
        self.run.pause()
        self._tell({"busy": "pausing after this action"})

    def _cancel(self) -> None:
        """Of a run that is driven: who drives it hears of it before the next action."""
        self.run.cancel()
        self._cancelled = self._asked is not None
        self._tell({"busy": "cancelling after this action"})

    def _value(self, name: str, text: str) -> Any:
        """The value of a limit or a variable, by its type; whether it fits is the run's to say."""
        spec = self.run.machine.spec
        root, _, field = name.partition(".")
        declared = {"limits": spec.limits, "vars": spec.vars}.get(root, {}).get(field)
        return read_value(declared.type, text.strip()) if declared is not None else text

    # driving --------------------------------------------------------------------------------

    def _start(self, order: Driving) -> None:
        self._asked, self._seq = order, None
        self._tell({"busy": "running"})
        driver = threading.Thread(
            target=self._drive, args=(order,), name="chartloop panel driver", daemon=True
        )
        driver.start()

    def _drive(self, order: Driving) -> None:
        """On a thread of its own: an action takes as long as it takes."""
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
            self._start(Run())
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
        self._tell({**head(self.run), "paint": self._paper.paint(self.run)})
        time.sleep(OFTEN)
        if self._asked is None:  # who drives it does not say when it rests
            self._look_soon()

    def _show(self) -> None:
        """Show everything of a run that rests."""
        if self._is_driven:
            self._look_soon()
            return
        records, self._shown = self.run.records, self.run.id
        self._tell(
            {
                **board(self.run, records),
                **self._paper.sheet(self.run),
                "why": self._decision(records, self._seq),
                "busy": "",
                "fault": self._fault,
            }
        )

    def _decision(self, records: list[Record], seq: int | None) -> Json | None:
        if not records:
            return None
        number = records[-1].seq if seq is None else seq
        return decision(self.run.why(number), number)


def _sendable(changed: Json) -> Json:
    """The same without halves of characters, which no page could be sent."""
    text = json.dumps(changed, ensure_ascii=False)
    sound = sound_text(text)
    return changed if sound is text else json.loads(sound)


def drive(run: Stepped, order: Driving) -> None:
    """Do what was asked for, to where the run rests again."""
    if isinstance(order, Answer):
        run.send(order.event, answer_data(run, order), wait=order.wait)
        run.advance()
        return
    if isinstance(order, Cancel):
        run.cancel()
        run.run()
        return
    if run.ended:
        raise StatusError("the run has ended", hint="Back takes its last record back")
    paused = _was_paused(run)
    if paused:
        run.resume()
    if isinstance(order, Run):
        run.run(until=order.until or None)
        return
    if run.step() is None:
        raise StatusError("the run waits", hint="answer its question, or wait until it is due")


def _was_paused(run: Stepped) -> bool:
    """Whether it rests because somebody asked for that: not at a wait, and not in a back-off."""
    position = run.session.position
    blocked = position.blocked_on or position.wake_at is not None
    return position.status == "paused" and not blocked and not run.answers


def answer_data(run: Stepped, order: Answer) -> dict[str, Any]:
    """The fields of an answer, each read by its type; whether they fit is the run's to say."""
    types = run.answers.get(order.event, {})
    read: dict[str, Any] = {}
    for name, typed in order.data.items():
        type = types.get(name)
        if isinstance(typed, bool) or type is None:
            read[name] = typed
        else:
            blank = type.nullable and not typed.strip()
            read[name] = None if blank else read_value(type, typed)
    return read


def fault_of(error: Exception) -> Json:
    """What went wrong, for people."""
    if isinstance(error, ChartloopError):
        return {"message": error.message, "hint": error.hint}
    _log.warning("an order of the panel failed", exc_info=error)
    return {"message": f"{type(error).__name__}: {error}", "hint": ""}

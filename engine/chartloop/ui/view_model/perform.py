"""Carries out orders, until the run rests again.

Belongs here: what each order does. Never: threads, permissions, views.
"""

from __future__ import annotations

from typing import Any

from chartloop.api import Run
from chartloop.core.errors import StatusError
from chartloop.language.spec import MachineSpec
from chartloop.language.values import read_value
from chartloop.run.breakpoints import Breakpoint
from chartloop.ui.view_model.orders import (
    Answer,
    Back,
    Break,
    Cancel,
    Driving,
    Enqueue,
    Fork,
    Order,
    Pause,
    Resume,
    RunUntil,
    Set,
    Show,
    Step,
    Why,
    is_held,
    waits_for_answer,
)


def perform(run: Run, order: Order) -> Run:
    """Carry out an order; returns the run to continue, which after a fork is the new one.

    Returns when the run rests, and raises the run's errors. `Why` and `Show` only ask for a view.
    """
    match order:
        case RunUntil() if waits_for_answer(run):
            raise StatusError("the run waits for an answer", hint="answer its question")
        case Step() | RunUntil() | Cancel() | Answer():
            drive(run, order)
        case Pause():
            run.pause()
        case Resume():
            if not is_held(run):
                raise StatusError("the run is not paused", hint="Step goes on")
            run.resume()
        case Enqueue(tasks):
            run.enqueue(tasks)
        case Back(records):
            run.back(records)
        case Fork(at):
            return fork(run, at)
        case Set(name, text):
            run.set(name, typed_value(run.machine.spec, name, text))
        case Break(at):
            toggle_breakpoint(run, at)
        case Why() | Show():
            pass
    return run


def drive(run: Run, order: Driving) -> None:
    """Do the actions of an order."""
    if isinstance(order, Answer):
        run.send(order.event, answer_data(run, order), wait=order.wait, shown=order.shown)
        run.advance()
        return
    if isinstance(order, Cancel):
        run.cancel(order.reason, order.message)
        run.run()
        return
    if run.ended:
        raise StatusError("the run has ended", hint="Back takes its last record back")
    if is_held(run):
        run.resume()
    if isinstance(order, RunUntil):
        run.run(until=order.until or None)
        return
    if run.step() is None:
        raise StatusError("the run waits", hint="answer its question, or wait until it is due")


def answer_data(run: Run, order: Answer) -> dict[str, Any]:
    """The fields of an answer, each parsed by its type; the run validates them."""
    types = run.answers.get(order.event, {})
    data: dict[str, Any] = {}
    for name, typed in order.data.items():
        type = types.get(name)
        if not isinstance(typed, str) or type is None:
            data[name] = typed
        else:
            blank = type.nullable and not typed.strip()
            data[name] = None if blank else read_value(type, typed)
    return data


def fork(run: Run, at: int | None) -> Run:
    """Fork the run and copy its breakpoints; returns the new run."""
    new = run.fork(at=at)
    for point in run.breakpoints:
        new.breakpoints.add(point.text)
    return new


def typed_value(spec: MachineSpec, name: str, text: str) -> Any:
    """A value as typed, parsed by its declared type; the run validates it."""
    root, _, field = name.partition(".")
    declared = {"limits": spec.limits, "vars": spec.vars}.get(root, {}).get(field)
    return text if declared is None else read_value(declared.type, text.strip())


def toggle_breakpoint(run: Run, at: str) -> Breakpoint | None:
    """Set a breakpoint, or remove it if it is set; returns the new breakpoint, if any."""
    if at in run.breakpoints:
        run.breakpoints.remove(at)
        return None
    return run.breakpoints.add(at)

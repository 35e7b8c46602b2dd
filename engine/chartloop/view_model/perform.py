"""Executes an order, to where the run rests again.

Belongs here: what each order does. Never: threads, who may give an order, what is shown then.
"""

from __future__ import annotations

from typing import Any

from chartloop.api import Run
from chartloop.core.errors import StatusError
from chartloop.language.spec import MachineSpec
from chartloop.language.values import read_value
from chartloop.run.breakpoints import Breakpoint
from chartloop.view_model.orders import (
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
    """Execute an order; the run to continue, which after a fork is another one.

    It returns when the run rests, and raises what is wrong. `Why` and `Show` ask for a view: they
    change nothing.
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
    """Do an action, or as many as the order takes."""
    if isinstance(order, Answer):
        run.send(order.event, answer_data(run, order), wait=order.wait)
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
    """The fields of an answer, each read by its type; whether they fit is the run's to say."""
    types = run.answers.get(order.event, {})
    data: dict[str, Any] = {}
    for name, typed in order.data.items():
        type = types.get(name)
        if isinstance(typed, bool) or type is None:
            data[name] = typed
        else:
            blank = type.nullable and not typed.strip()
            data[name] = None if blank else read_value(type, typed)
    return data


def fork(run: Run, at: int | None) -> Run:
    """Go on as a new run, with the breakpoints of the old one."""
    made = run.fork(at=at)
    for point in run.breakpoints:
        made.breakpoints.add(point.text)
    return made


def typed_value(spec: MachineSpec, name: str, text: str) -> Any:
    """A typed value, read by its declared type; whether it fits is for the run to decide."""
    root, _, field = name.partition(".")
    declared = {"limits": spec.limits, "vars": spec.vars}.get(root, {}).get(field)
    return text if declared is None else read_value(declared.type, text.strip())


def toggle_breakpoint(run: Run, at: str) -> Breakpoint | None:
    """Set a breakpoint, or take it away where it is set: the one that is set now."""
    if at in run.breakpoints:
        run.breakpoints.remove(at)
        return None
    return run.breakpoints.add(at)

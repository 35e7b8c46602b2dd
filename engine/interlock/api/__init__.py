"""The composition root: the public `Machine` and `Run`, and what is wired behind them.

Everything else in the package is a part; here the parts become one thing to use:

    machine = load("agent")
    run = machine.start("What is 2 + 2?", script=["4"])
    print(run.run().explain())
"""

from interlock.api.loading import (
    Examined,
    Own,
    check,
    child_file,
    draw,
    examine,
    examine_text,
    find_faults,
    load,
)
from interlock.api.machine import Machine, lifecycle
from interlock.api.run import Run, StartOptions, new_run_id
from interlock.api.values import check_answer
from interlock.api.wiring import PortOptions, suspends
from interlock.language.values import limit_value, var_value

__all__ = [
    "Examined",
    "Machine",
    "Own",
    "PortOptions",
    "Run",
    "StartOptions",
    "check",
    "check_answer",
    "child_file",
    "draw",
    "examine",
    "examine_text",
    "find_faults",
    "lifecycle",
    "limit_value",
    "load",
    "new_run_id",
    "suspends",
    "var_value",
]

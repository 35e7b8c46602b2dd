"""The composition root: the public `Machine` and `Run`, wired to their components.

Start here:

machine = load("agent")
run = machine.start("What is 2 + 2?", script=["4"])
print(run.run().explain())
"""

from chartloop.api.loader import (
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
from chartloop.api.machine import Machine, lifecycle
from chartloop.api.run import Run, StartOptions, new_run_id
from chartloop.api.wiring import PortOptions, suspends
from chartloop.language.values import limit_value, var_value

__all__ = [
    "Examined",
    "Machine",
    "Own",
    "PortOptions",
    "Run",
    "StartOptions",
    "check",
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

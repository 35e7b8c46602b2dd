"""Arguments and options that several commands share.

Belongs here: which go together, and their order in the help. Never: the options themselves
(`options`), or what is done with their values.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import get_annotations
from typing import Any, TypeVar

import click

from chartloop.cli import completion
from chartloop.cli.options import PAIR, CommonOption, FilterOptions, RunOptions

F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]


def together(*decorators: Decorator[Any]) -> Decorator[Any]:
    """Combine decorators into one; help lists their options in this order."""

    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def options_of(record: type[RunOptions], *names: str) -> Decorator[Any]:
    """Options of a record for a command: those named, or all that the record itself declares."""
    found = record.__dataclass_fields__
    named = names or [n for n in get_annotations(record) if "flags" in found[n].metadata]
    return together(*(_option(name, **found[name].metadata) for name in named))


def _option(name: str, flags: tuple[str, ...], names_of: str = "", **how: Any) -> Decorator[Any]:
    if names_of:
        runs = names_of == "runs"
        how["shell_complete"] = completion.runs if runs else completion.pairs(names_of)
    return click.option(*flags, name, **how)


def format_option(*words: str) -> Decorator[Any]:
    """The option `--format` with these choices; the first is the default."""
    choice = click.Choice(words or ("text", "json"))
    return click.option(
        "--format", type=choice, default=choice.choices[0], cls=CommonOption,
        help="How results are printed.",
    )  # fmt: skip


machine_argument = click.argument("machine", shell_complete=completion.machines)
run_argument = click.argument("run", shell_complete=completion.runs)
file_option = click.option(
    "--machine", "file", metavar="FILE", help="Use this file instead of the recorded machine."
)
tools_option = options_of(RunOptions, "tools", "plugins")
"""Sources of tools, actions and guards besides the built-in ones."""
define_option = options_of(RunOptions, "define")
trust_option = options_of(RunOptions, "trust")
journal_option = options_of(RunOptions, "journal")


def require_option(name: str) -> Decorator[Any]:
    """An option that requires a proven bound on a figure."""
    return click.option(
        name, "required", type=PAIR, multiple=True,
        help="Require a proof that no run exceeds this figure: usd=2, calls=30, tokens=50_000,"
        " actions, tool_calls, waiting (seconds). Repeatable.",
    )  # fmt: skip


draw_option = options_of(RunOptions, "drawing")
take_over_option = options_of(RunOptions, "take_over")
memory_option = options_of(RunOptions, "in_memory")
model_options = options_of(RunOptions, "script", "model", "api_base", "clock")
tasks_option = options_of(RunOptions, "tasks")
message_id_option = options_of(RunOptions, "message_id")
limit_option = options_of(RunOptions, "limit")
var_option = options_of(RunOptions, "var")
value_options = options_of(RunOptions, "limit", "var", "memory", "tasks")
name_options = options_of(RunOptions, "run_id", "tenant", "agent", "session", "submitter")
priority_option = options_of(RunOptions, "priority")
start_options = together(
    model_options, tools_option, value_options, define_option, trust_option, journal_option,
    memory_option, name_options,
)  # fmt: skip
"""What a command that starts a run takes."""
of_runs = options_of(FilterOptions)
"""Filters for the runs of a journal."""
notify_option = options_of(RunOptions, "notify")


watch_options = options_of(RunOptions, "no_input", "verbose")

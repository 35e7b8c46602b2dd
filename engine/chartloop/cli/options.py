"""Command-line options, as typed records.

A field of a record says all of an option: what is typed, its type, its default and its help.
`RunOptions` holds the options that many commands share. A command with options of its own extends
it with a record in its own module; `parameters.options_of` adds them to the command, and
`pass_options` hands them over::

    @dataclass(frozen=True, kw_only=True, repr=False, eq=False)
    class PlotOptions(RunOptions):
        plot: str | None = option("--plot", metavar="PATH", help="Plot the distributions.")

Nobody compares or prints records, so they are made without `eq` and `repr`: a command makes several
as it starts. A field has the name of click's parameter; an option that no record declares raises
`TypeError` when the command is called. Belongs here: the declarations. Never: what is done with the
values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from functools import wraps
from typing import Any, Literal, TypeVar

import click
from click.core import ParameterSource

from chartloop.core.strict_json import LARGEST
from chartloop.core.units import parse_duration

R = TypeVar("R")


class Pair(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]  only since click 8.3
    """``NAME=VALUE``, as text on both sides."""

    name = "name=value"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "NAME=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value  # pyright: ignore[reportUnknownVariableType]
        name, sign, text = str(value).partition("=")
        if not sign or not name.strip():
            self.fail(f"`{value}` is not NAME=VALUE", param, ctx)
        return name.strip(), text.strip()


PAIR = Pair()


class Age(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]  only since click 8.3
    """A duration as machine files write it: ``30d``, ``12h``."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = value if isinstance(value, float) else parse_duration(str(value))
        if seconds is None:
            self.fail(f"`{value}` is not a duration: write 30d, 12h or 90m", param, ctx)
        return seconds


AGE = Age()


class Amount(click.FloatRange):
    """A number that is neither negative nor without a bound."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        amount = super().convert(value, param, ctx)
        if math.isnan(amount):
            self.fail(f"`{value}` is not a number", param, ctx)
        return amount


AMOUNT = Amount(0, LARGEST)


def at_least(least: int) -> click.IntRange:
    """A whole number of an order."""
    return click.IntRange(least, LARGEST)


class RunId(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]  only since click 8.3
    """A run id that is easy to type and cannot be mistaken for an option, a path or `last`."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "last" or not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,99}", value, re.ASCII):
            message = "an id has letters, digits and . _ -, starts with a letter or digit"
            self.fail(f"{value!r}: {message}, and is not `last`", param, ctx)
        return value


RUN_ID = RunId()


class CommonOption(click.Option):
    """An option that most commands share.

    It may also be given before the command. The help of the group explains it; the help of a
    command names all that it takes in one line.
    """

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The line of help, at the last of these options; None at the others."""
        if ctx.parent is None:
            return super().get_help_record(ctx)
        shared = [option for option in ctx.command.params if isinstance(option, CommonOption)]
        if self is not shared[-1]:
            return None
        named = [super(CommonOption, option).get_help_record(ctx) for option in shared]
        flags = ", ".join(record[0] for record in named if record is not None)
        return flags, "`chartloop --help` explains them."

    def consume_value(
        self, ctx: click.Context, opts: Mapping[str, Any]
    ) -> tuple[Any, ParameterSource]:
        """The value that is given after the command, else the one before it; lists are joined."""
        value, source = super().consume_value(ctx, opts)
        before = ctx.meta.get(_BEFORE, dict[str, Any]())
        if self.name not in before:
            return value, source
        ctx.meta[_TAKEN].add(self.name)
        if source is not ParameterSource.COMMANDLINE:
            return before[self.name], ParameterSource.COMMANDLINE
        return ((*before[self.name], *value) if self.multiple else value), source


_BEFORE, _TAKEN = "chartloop.before", "chartloop.taken"
"""The keys of `meta` for the common options before the command, and for those that it has taken."""


def keep_common(ctx: click.Context, given: Mapping[str, Any]) -> None:
    """Keep the common options that are given before the command, for the command."""
    typed = ParameterSource.COMMANDLINE
    ctx.meta[_BEFORE] = {n: v for n, v in given.items() if ctx.get_parameter_source(n) is typed}
    ctx.meta[_TAKEN] = set[str]()


def _refuse_untaken(ctx: click.Context) -> None:
    """Raise `UsageError` for a common option before a command that does not take it."""
    if untaken := ctx.meta.get(_BEFORE, {}).keys() - ctx.meta.get(_TAKEN, set()):
        flags = [o.opts[-1] for o in ctx.find_root().command.params if o.name in untaken]
        ctx.fail(f"`{ctx.command_path}` takes no {', '.join(flags)}")


def option(*flags: str, default: Any = MISSING, **how: Any) -> Any:
    """A field of a record that is an option, declared as for `click.option`.

    `names_of` is what a shell completes: `runs`, or the ``NAME=`` of a section of the machine.
    """
    given = {} if default is MISSING else {"default": default}
    absent = () if how.get("multiple") else False if how.get("is_flag") else None
    return field(default=given.get("default", absent), metadata={"flags": flags, **given, **how})


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RunOptions:
    """The options for loading, running and printing."""

    format: str | None = "text"
    """See `parameters.format_option`. None: chosen by the suffix of the output file."""
    tools: tuple[str, ...] = option(
        "--tools", multiple=True, cls=CommonOption, metavar="SOURCE",
        help="Your tools, actions, guards and classes: tools.py, a module, or either with :NAME."
        " Repeatable.",
    )  # fmt: skip
    plugins: tuple[str, ...] = option(
        "--plugin",
        multiple=True,
        cls=CommonOption,
        metavar="NAME",
        help="An installed plugin to load. Repeatable.",
    )
    define: tuple[tuple[str, str], ...] = option(
        "--define", type=PAIR, multiple=True, metavar="NAME=EXPR",
        names_of="define", help="Replace a named expression of the file.",
    )  # fmt: skip
    trust: bool = option(
        "--trust", is_flag=True, help="Let the file name hosts, keys, and paths outside its folder."
    )
    script: str | None = option(
        "--script", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
        help="Scripted replies in place of a model.",
    )  # fmt: skip
    model: str | None = option(
        "--model", metavar="NAME", help="Use this model instead of the file's: provider/name."
    )
    api_base: str | None = option(
        "--api-base", metavar="URL", help="Base URL of the model provider."
    )
    clock: str = option(
        "--clock", type=click.Choice(["system", "simulated"]), default="system",
        help="`simulated`: waits pass at once.",
    )  # fmt: skip
    journal: str | None = option(
        "--journal", cls=CommonOption, type=click.Path(dir_okay=False), metavar="PATH|URL",
        envvar="CHARTLOOP_JOURNAL",
        help="The journal's file, or the URL of a PostgreSQL database. Default:"
        " .chartloop/journal.db of the project, the nearest parent folder with .chartloop/ or"
        " pyproject.toml, else this folder.",
    )  # fmt: skip
    in_memory: bool = option(
        "--in-memory", is_flag=True,
        help="Keep no journal: the run is gone when the command ends.",
    )  # fmt: skip
    take_over: bool = option(
        "--take-over", is_flag=True,
        help="Take the run over from the process that drives it; that process stops. A call in"
        " flight may be paid for twice.",
    )  # fmt: skip
    branch: bool = option(
        "--branch", is_flag=True,
        help="With --continue: start another conversation, although one goes on from there.",
    )  # fmt: skip
    notify: str | None = option(
        "--notify", metavar="URL",
        help="Post the messages of `notify` to this webhook, as JSON, with the bearer token in"
        " CHARTLOOP_NOTIFY_SECRET if there is one. Default: print and log them.",
    )  # fmt: skip
    no_input: bool = option(
        "--no-input", is_flag=True, help="Never ask: a run that waits exits with 4."
    )
    verbose: bool = option(
        "-v", "--verbose", is_flag=True, help="Print a line on stderr for each record."
    )
    limit: tuple[tuple[str, str], ...] = option(
        "--limit", type=PAIR, multiple=True, names_of="limits",
        help="Override a limit: steps=20, time=5m, tokens=off.",
    )  # fmt: skip
    var: tuple[tuple[str, str], ...] = option(
        "--var", type=PAIR, multiple=True, names_of="vars",
        help="The initial value of a variable.",
    )  # fmt: skip
    memory: tuple[tuple[str, str], ...] = option(
        "--memory", type=PAIR, multiple=True, names_of="memory",
        help="The initial text of a memory block.",
    )  # fmt: skip
    tasks: str | None = option(
        "--tasks", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
        help="Tasks for the queue: a YAML list, as `tasks` in a machine file.",
    )  # fmt: skip
    run_id: str | None = option(
        "--run-id", type=RUN_ID, metavar="ID", help="The run's id. Default: a random one."
    )
    if_exists: Literal["refuse", "use"] | None = option(
        "--if-exists", type=click.Choice(["refuse", "use"]),
        help="For a --run-id that has a run: report an error, or use that run.",
    )  # fmt: skip
    tenant: str | None = option(
        "--tenant", metavar="NAME", help="Whose run it is. Its id begins with this name: NAME:ID."
    )
    agent: str | None = option("--agent", metavar="ID", help="The agent that this run belongs to.")
    session: str | None = option(
        "--session", metavar="ID", help="The session that this run belongs to."
    )
    submitter: str | None = option(
        "--submitter", metavar="NAME",
        help="Who submits the run. Default: your user name, if a gate of the file asks"
        " (`not_by: submitter`).",
    )  # fmt: skip
    priority: int | None = option(
        "--priority", type=click.IntRange(1, 9), metavar="N",
        help="When workers take the run up, of all that are due: 1 first, 9 last. A lower number"
        " goes before all higher ones, so with enough runs of 1 those of 9 wait for as long as"
        " there are any. Default: 5.",
    )  # fmt: skip
    required: tuple[tuple[str, str], ...] = ()
    """Figures that no run may exceed. See `parameters.require_option`."""
    message_id: str | None = option(
        "--key",
        metavar="KEY",
        help="A message that repeats this key is ignored; another one under it is an error.",
    )
    drawing: str | None = option(
        "--draw", type=click.Path(dir_okay=False), metavar="FILE",
        help="Draw a run that shows the result on the machine: .svg, .png, .mmd, .txt, .dot.",
    )  # fmt: skip

    @property
    def is_json(self) -> bool:
        """Whether results are printed as data, not as text."""
        return self.format not in ("text", None)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FilterOptions(RunOptions):
    """Filters for the runs of a journal."""

    status: str | None = option(
        "--status", help="Only runs with this status.",
        type=click.Choice("idle running paused debugging completed error".split()),
    )  # fmt: skip
    tenant: str | None = option("--tenant", metavar="NAME", help="Only runs of this tenant.")
    agent: str | None = option("--agent", metavar="ID", help="Only runs of this agent.")
    session: str | None = option("--session", metavar="ID", help="Only runs of this session.")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RunCommandOptions(RunOptions):
    """The options of `run`, once or over a file of tasks."""

    inputs: str | None = option(
        "--inputs", type=click.Path(exists=True, dir_okay=False, allow_dash=True),
        metavar="FILE.jsonl", help="Run once for each line of a file; - is stdin.",
    )  # fmt: skip
    concurrency: int = option(
        "--concurrency", type=click.IntRange(1, 1000), metavar="N", default=4, show_default=True,
        help="With --inputs: run this many at once.",
    )  # fmt: skip
    totals: tuple[str, ...] = option(
        "--total-limit", multiple=True, metavar="tokens=N,cost=USD,steps=N",
        help="With --inputs: start no new run once all together have spent this much.",
    )  # fmt: skip
    files: tuple[str, ...] = option(
        "--file", multiple=True, metavar="PATH",
        help="An image (PNG, JPEG, GIF, WebP), PDF or text to send with TASK. Repeatable.",
    )  # fmt: skip
    continues: str | None = option(
        "--continue", metavar="RUN", names_of="runs",
        help="A finished run to continue: TASK becomes the next message; conversation, memory and "
        "variables are carried over.",
    )  # fmt: skip


def pass_options(record: type[RunOptions]) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Pass a command its options as one record, `options`, and other parameters by name."""
    names = record.__dataclass_fields__.keys()

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        @wraps(command)
        def call(*args: Any, **given: Any) -> R:
            _refuse_untaken(click.get_current_context())
            parameters = {name: value for name, value in given.items() if name not in names}
            values = {name: value for name, value in given.items() if name in names}
            return command(*args, **parameters, options=record(**values))

        return call

    return decorate


def common_options(group: Callable[..., R]) -> Callable[..., R]:
    """Give the group of all commands the options that most of them share."""
    group = click.option(
        "--format", cls=CommonOption, metavar="FORMAT",
        help="How results are printed: text, json and, for some commands, jsonl or csv.",
    )(group)  # fmt: skip
    for name in ("journal", "plugins", "tools"):
        how = dict(RunOptions.__dataclass_fields__[name].metadata)
        group = click.option(*how.pop("flags"), name, **how)(group)
    return group

"""Arguments and options that several commands share.

Belongs here: their names, help texts and parsing. Never: the record that holds their values
(`options`), or what is done with these.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from chartloop.cli import completion
from chartloop.core.durability import DURABILITIES
from chartloop.core.units import parse_duration

F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]


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


class RunId(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]  only since click 8.3
    """A run id that is easy to type and cannot be mistaken for an option, a path or `last`."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "last" or not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,99}", value, re.ASCII):
            message = "an id has letters, digits and . _ -, starts with a letter or digit"
            self.fail(f"{value!r}: {message}, and is not `last`", param, ctx)
        return value


RUN_ID = RunId()


def together(*decorators: Decorator[Any]) -> Decorator[Any]:
    """Combine decorators into one; help lists their options in this order."""

    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def format_option(*words: str) -> Decorator[Any]:
    """The option `--format` with these choices; the first is the default."""
    choice = click.Choice(words or ("text", "json"))
    return click.option(
        "--format", type=choice, default=choice.choices[0], help="How results are printed."
    )


machine_argument = click.argument("machine", shell_complete=completion.machines)
run_argument = click.argument("run", shell_complete=completion.runs)
file_option = click.option(
    "--machine", "file", metavar="FILE", help="Use this file instead of the recorded machine."
)
tools_option = together(
    click.option(
        "--tools", multiple=True, metavar="SOURCE",
        help="Your tools, actions, guards and classes: tools.py, a module, or either with :NAME."
        " Repeatable.",
    ),
    click.option(
        "--plugin", "plugins", multiple=True, metavar="NAME",
        help="An installed plugin to load. Repeatable.",
    ),
)  # fmt: skip
"""Sources of tools, actions and guards besides the built-in ones."""
define_option = click.option(
    "--define", type=PAIR, multiple=True, metavar="NAME=EXPR",
    shell_complete=completion.pairs("define"), help="Replace a named expression of the file.",
)  # fmt: skip
trust_option = click.option(
    "--trust", is_flag=True, help="Let the file name hosts, keys, and paths outside its folder."
)
journal_option = click.option(
    "--journal", type=click.Path(dir_okay=False), metavar="PATH|URL", envvar="CHARTLOOP_JOURNAL",
    help="The journal's file, or the URL of a PostgreSQL database. Default: .chartloop/journal.db"
    " of the project, the nearest parent folder with .chartloop/ or pyproject.toml, else this"
    " folder.",
)  # fmt: skip

durability_option = click.option(
    "--durability", type=click.Choice(DURABILITIES), envvar="CHARTLOOP_DURABILITY",
    help="Recorded steps survive the end of the process, including kill -9 (process, the default),"
    " or a loss of power as well (power: each write waits for the disk).",
)  # fmt: skip


def require_option(name: str) -> Decorator[Any]:
    """An option that requires a proven bound on a figure."""
    return click.option(
        name, "required", type=PAIR, multiple=True,
        help="Require a proof that no run exceeds this figure: usd=2, calls=30, tokens=50_000,"
        " actions, tool_calls, waiting (seconds). Repeatable.",
    )  # fmt: skip


draw_option = click.option(
    "--draw", "drawing", type=click.Path(dir_okay=False), metavar="FILE",
    help="Draw a run that shows the result on the machine: .svg, .png, .mmd, .txt, .dot.",
)  # fmt: skip
take_over_option = click.option(
    "--take-over", is_flag=True,
    help="Take the run over from the process that drives it; that process stops. A call in flight"
    " may be paid for twice.",
)  # fmt: skip
memory_option = click.option(
    "--in-memory", is_flag=True, help="Keep no journal: the run is gone when the command ends."
)
model_options = together(
    click.option(
        "--script", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
        help="Scripted replies in place of a model.",
    ),
    click.option(
        "--model", metavar="NAME", help="Use this model instead of the file's: provider/name."
    ),
    click.option("--api-base", metavar="URL", help="Base URL of the model provider."),
    click.option(
        "--clock", type=click.Choice(["system", "simulated"]), default="system",
        help="`simulated`: waits pass at once.",
    ),
    click.option(
        "--otel", is_flag=True, envvar="CHARTLOOP_OTEL",
        help="Export spans and metrics with OpenTelemetry, configured by the variables OTEL_*.",
    ),
)  # fmt: skip
tasks_option = click.option(
    "--tasks", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="Tasks for the queue: a YAML list, as `tasks` in a machine file.",
)  # fmt: skip
message_id_option = click.option(
    "--id", "message_id", metavar="ID",
    help="Idempotency key: repeated messages with it are ignored.",
)  # fmt: skip
limit_option = click.option(
    "--limit", type=PAIR, multiple=True, shell_complete=completion.pairs("limits"),
    help="Override a limit: steps=20, time=5m, tokens=off.",
)  # fmt: skip
var_option = click.option(
    "--var", type=PAIR, multiple=True, shell_complete=completion.pairs("vars"),
    help="The initial value of a variable.",
)  # fmt: skip
value_options = together(
    limit_option,
    var_option,
    click.option(
        "--memory", type=PAIR, multiple=True, shell_complete=completion.pairs("memory"),
        help="The initial text of a memory block.",
    ),
    tasks_option,
)  # fmt: skip
name_options = together(
    click.option(
        "--run-id", type=RUN_ID, metavar="ID", help="The run's id. Default: a random one."
    ),
    click.option(
        "--tenant",
        metavar="NAME",
        help="Whose run it is. Its id begins with this name: NAME:ID.",
    ),
    click.option("--agent", metavar="ID", help="The agent that this run belongs to."),
    click.option("--session", metavar="ID", help="The session that this run belongs to."),
    click.option(
        "--submitter",
        metavar="NAME",
        help="Who submits the run. Default: your user name, if a gate of the file asks"
        " (`not_by: submitter`).",
    ),
)
priority_option = click.option(
    "--priority", type=click.IntRange(1, 9), metavar="N",
    help="When workers take the run up, of all that are due: 1 first, 9 last. A lower number goes"
    " before all higher ones, so with enough runs of 1 those of 9 wait for as long as there are"
    " any. Default: 5.",
)  # fmt: skip
start_options = together(
    model_options, tools_option, value_options, define_option, trust_option, journal_option,
    durability_option, memory_option, name_options,
)  # fmt: skip
"""What a command that starts a run takes."""
of_runs = together(
    click.option(
        "--status", help="Only runs with this status.",
        type=click.Choice("idle running paused debugging completed error".split()),
    ),
    click.option("--tenant", metavar="NAME", help="Only runs of this tenant."),
    click.option("--agent", metavar="ID", help="Only runs of this agent."),
    click.option("--session", metavar="ID", help="Only runs of this session."),
)  # fmt: skip
"""Filters for the runs of a journal."""
notify_options = together(
    click.option(
        "--notify", metavar="URL",
        help="Post the messages of `notify` to this webhook, as JSON. Default: print and log them.",
    ),
    click.option(
        "--notify-secret", metavar="VARIABLE",
        help="With --notify: the environment variable whose value is sent as a bearer token.",
    ),
)  # fmt: skip


def grace_option(seconds: float) -> Decorator[Any]:
    """The option `--grace`, with its default."""
    return click.option(
        "--grace", type=click.FloatRange(min=0), metavar="SECONDS", default=seconds,
        show_default=True,
        help="How long actions in progress may go on after SIGTERM. A paid call that is cut then is"
        " in doubt.",
    )  # fmt: skip


server_options = together(
    tools_option, trust_option, model_options, notify_options, journal_option, durability_option
)
"""The options that all servers share, whatever their protocol."""
watch_options = together(
    click.option("--no-input", is_flag=True, help="Never ask: a run that waits exits with 4."),
    click.option("-v", "--verbose", is_flag=True, help="Print a line on stderr for each record."),
)

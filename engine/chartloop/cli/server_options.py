"""The options of `serve`, `mcp` and `worker`.

Never here: what is done with them (`run_factory.server_settings`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from chartloop.cli import parameters
from chartloop.cli.options import RunOptions, option


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ServerOptions(RunOptions):
    """The options that `serve` and `mcp` share, in the words of `serve`."""

    machines: tuple[str, ...] = option(
        "--machines", multiple=True, required=True, metavar="FOLDER",
        type=click.Path(exists=True, file_okay=False),
        help="A folder whose machine files are served. Repeatable.",
    )  # fmt: skip
    names: tuple[str, ...] = option(
        "--name", multiple=True, metavar="HOST",
        help="Another host name of the server. Repeatable.",
    )  # fmt: skip
    proxies: tuple[str, ...] = option(
        "--proxy", multiple=True, metavar="ADDRESS",
        help="A proxy whose X-Forwarded-For names the caller. Repeatable.",
    )  # fmt: skip
    workers: int = option(
        "--workers", type=click.IntRange(0, 64), default=1, show_default=True,
        help="Threads that drive runs. 0: start, show and answer runs; `chartloop worker` drives"
        " them.",
    )  # fmt: skip
    token_file: str | None = option(
        "--token-file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
        help="Tokens, one per line. Required for an address that other computers reach.",
    )  # fmt: skip
    url: str = option(
        "--url", metavar="URL", default="",
        help="Where people reach the server, for links to questions: https://agents.example.com.",
    )  # fmt: skip
    ask_to: tuple[str, ...] = option(
        "--ask-to", multiple=True, metavar="PERSON",
        help="With --notify and --url: post each question to the webhook, with a link that lets"
        " this person answer it once. Repeatable.",
    )  # fmt: skip
    grace: float = 5.0
    """See `grace_option`."""


def grace_option(seconds: float) -> parameters.Decorator[Any]:
    """The option `--grace`, with its default."""
    return click.option(
        "--grace", type=click.FloatRange(min=0), metavar="SECONDS", default=seconds,
        show_default=True,
        help="How long actions in progress may go on after SIGTERM. A paid call that is cut then is"
        " in doubt.",
    )  # fmt: skip


server_options = parameters.together(
    parameters.tools_option, parameters.trust_option, parameters.model_options,
    parameters.notify_option, parameters.options_of(ServerOptions, "url", "ask_to"),
    parameters.journal_option,
)  # fmt: skip
"""The options that all servers share, whatever their protocol."""

"""`chartloop serve`: serve machines and runs over HTTP."""

from __future__ import annotations

from dataclasses import dataclass

import click

from chartloop.cli import parameters
from chartloop.cli.late import at_first_use
from chartloop.cli.options import option, pass_options
from chartloop.cli.server_options import ServerOptions, grace_option, server_options
from chartloop.core.errors import SetupError

with at_first_use(__name__):
    from chartloop import extras
    from chartloop.cli import run_factory


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ServeOptions(ServerOptions):
    """The options of `serve`."""

    host: str = option(
        "--host", default="127.0.0.1", show_default=True, help="The address to listen on."
    )
    port: int = option(
        "--port",
        type=click.IntRange(0, 65_535),
        default=8000,
        show_default=True,
        help="The port to listen on; 0: any free port.",
    )


@click.command(
    epilog="""\b
Examples:
  chartloop serve --machines machines/ --tools tools.py
  chartloop serve --machines machines/ --workers 0
  chartloop serve --machines machines/ --host 0.0.0.0 --name agents.example.com --token-file tokens

\b
A line of the token file is SCOPE TOKEN [NAME]. Scopes: `read` shows runs; `drive` also starts,
drives and answers them; `edit` also changes limits, forks runs and takes records back.

\b
Everything is in the journal: you may kill a server at any moment, and the next one continues its
runs. Several servers may share one journal.
"""
)
@parameters.options_of(ServerOptions, "machines")
@parameters.options_of(ServeOptions)
@parameters.options_of(ServerOptions, "names", "proxies", "workers", "token_file")
@grace_option(5.0)
@server_options
@pass_options(ServeOptions)
def serve(options: ServeOptions) -> None:
    """Serve machines and runs over HTTP."""
    try:
        from chartloop.hosting.server.serve import (  # noqa: PLC0415  the door of an extra
            serve as serve_for_ever,
        )
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "uvicorn", "starlette"):
            raise
        message = "the server needs the extra `server`"
        raise SetupError(message, hint=extras.install("server")) from error
    serve_for_ever(run_factory.server_settings(options, host=options.host, port=options.port))

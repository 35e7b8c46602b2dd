"""`chartloop serve`: serve machines and runs over HTTP."""

from __future__ import annotations

from dataclasses import dataclass

import click

from chartloop.cli import parameters
from chartloop.cli.options import ServerOptions, pass_options
from chartloop.core.errors import SetupError


@dataclass(frozen=True, kw_only=True)
class ServeOptions(ServerOptions):
    """The options of `serve`."""

    host: str = "127.0.0.1"
    port: int = 8000


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
@click.option(
    "--machines", multiple=True, required=True, metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False),
    help="A folder whose machine files are served. Repeatable.",
)  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8000, show_default=True,
    help="The port to listen on; 0: any free port.",
)  # fmt: skip
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="HOST",
    help="Another host name of the server. Repeatable.",
)
@click.option(
    "--proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="A proxy whose X-Forwarded-For names the caller. Repeatable.",
)
@click.option(
    "--workers", type=click.IntRange(0, 64), default=1, show_default=True,
    help="Threads that drive runs. 0: start, show and answer runs; `chartloop worker` drives them.",
)  # fmt: skip
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Tokens, one per line. Required for an address that other computers reach.",
)
@parameters.grace_option(5.0)
@parameters.server_options
@pass_options(ServeOptions)
def serve(options: ServeOptions) -> None:
    """Serve machines and runs over HTTP."""
    from chartloop.cli.run_factory import server_settings
    from chartloop.extras import install

    try:
        from chartloop.server.serve import serve as serve_for_ever
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "uvicorn", "starlette"):
            raise
        message = "the server needs the extra `server`"
        raise SetupError(message, hint=install("server")) from error
    serve_for_ever(server_settings(options, host=options.host, port=options.port))

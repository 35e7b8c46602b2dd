"""`chartloop mcp`: offer machines as tools to other agents."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

import click

from chartloop.cli import parameters
from chartloop.cli.late import at_first_use
from chartloop.cli.options import option, pass_options
from chartloop.cli.server_options import ServerOptions, grace_option, server_options
from chartloop.core.errors import SetupError

with at_first_use(__name__):
    from chartloop import extras
    from chartloop.cli import run_factory


class Address(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]  only since click 8.3
    """``HOST:PORT``, or ``PORT`` for 127.0.0.1."""

    name = "host:port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value  # pyright: ignore[reportUnknownVariableType]
        host, _, port = str(value).rpartition(":")
        if not (port.isascii() and port.isdecimal() and int(port) < 65_536):
            self.fail(f"`{value}` is not HOST:PORT", param, ctx)
        return host.strip("[]") or "127.0.0.1", int(port)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class McpOptions(ServerOptions):
    """The options of `mcp`."""

    machines: tuple[str, ...] = option(
        "--machines",
        multiple=True,
        required=True,
        metavar="FOLDER",
        type=click.Path(exists=True, file_okay=False),
        help="A folder whose machine files become tools. Repeatable.",
    )
    http: tuple[str, int] | None = option(
        "--http",
        type=Address(),
        metavar="HOST:PORT",
        help="Serve over streamable HTTP, at /mcp. Default: over stdin and stdout.",
    )
    names: tuple[str, ...] = option(
        "--name",
        multiple=True,
        metavar="HOST",
        help="With --http: another host name of the server. Repeatable.",
    )
    proxies: tuple[str, ...] = option(
        "--proxy",
        multiple=True,
        metavar="ADDRESS",
        help="With --http: a proxy whose X-Forwarded-For names the caller. Repeatable.",
    )
    workers: int = option(
        "--workers",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        help="Threads that drive runs.",
    )
    token_file: str | None = option(
        "--token-file",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="With --http: tokens, one per line. Required for an address that other computers"
        " reach.",
    )


@click.command(
    epilog="""\b
Examples:
  chartloop mcp --machines machines/ --tools tools.py
  chartloop mcp --machines machines/ --journal runs.db --http 127.0.0.1:8001

\b
A client starts the first server itself and talks to it over stdin and stdout. The second server is
at http://127.0.0.1:8001/mcp. docs/mcp-server.md shows how to configure clients.

\b
Everything is in the journal: you may kill a server at any moment, and the next one on the same
journal continues its runs.
"""
)
@parameters.options_of(McpOptions)
@grace_option(5.0)
@server_options
@pass_options(McpOptions)
def mcp(options: McpOptions) -> None:
    """Offer machines as tools to other agents, over the Model Context Protocol."""
    try:
        from chartloop.hosting.mcp_server.transports import (  # noqa: PLC0415  the door of an extra
            serve_http,
            serve_stdio,
        )
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "uvicorn"):
            raise
        message = "`chartloop mcp` needs the extra `mcp`"
        raise SetupError(message, hint=extras.install("mcp")) from error
    if options.http is not None:
        serve_http(_settings(options))
        return
    if options.names or options.token_file or options.proxies:
        raise click.UsageError("--name, --proxy and --token-file go with --http")
    with redirect_stdout(sys.stderr):  # stdout belongs to the protocol, and tool modules may print
        settings = _settings(options)
    serve_stdio(settings)


def _settings(options: McpOptions) -> Any:
    host, port = options.http or ("127.0.0.1", 0)
    return run_factory.server_settings(options, host=host, port=port, face="chartloop mcp")

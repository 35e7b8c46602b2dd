"""An MCP server over streamable HTTP: pays money back."""

import os

from mcp.server import MCPServer

server = MCPServer("payments", log_level="WARNING")


@server.tool()
def refund(number: str, usd: float) -> str:
    """Pay the price of an order back."""
    return f"{usd:.2f} USD paid back for {number}"


@server.tool()
def charge(number: str, usd: float) -> str:
    """Charge a customer. The machine does not name this tool: it is never offered."""
    return f"{usd:.2f} USD charged for {number}"


if __name__ == "__main__":
    server.run("streamable-http", port=int(os.environ.get("PAYMENTS_PORT", "8123")))

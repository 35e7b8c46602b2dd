"""An MCP server over stdio: what customers have ordered."""

from mcp.server import MCPServer

server = MCPServer("orders", log_level="WARNING")
ORDERS = {"A17": {"item": "desk lamp", "usd": 49.0, "state": "arrived broken"}}


@server.tool()
def find(number: str) -> dict[str, str | float]:
    """Find an order by its number."""
    return ORDERS.get(number, {"state": "there is no such order"})


@server.tool()
def count() -> int:
    """How many orders there are."""
    return len(ORDERS)


if __name__ == "__main__":
    server.run()

"""What the buyer may call. Types and docstrings are what the model reads."""

from chartloop import tool


@tool(effect="pure")
def search(query: str) -> str:
    """Search the web.

    Args:
        query: What to look for.
    """
    return f"Three pages mention {query!r}; the figures are in a paid report, `Lithium 2026`."


@tool
def buy_report(title: str, usd: float) -> str:
    """Buy a report. It costs money.

    Args:
        title: The report's title.
        usd: Its price.
    """
    return f"{title}, bought for {usd:.2f} USD: demand rises by 12 % a year."

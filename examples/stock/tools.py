"""Tools of a small shop: what is in stock, and ordering more."""

from __future__ import annotations

import csv
from pathlib import Path

from chartloop import tool

STOCK = Path(__file__).with_name("stock.csv")


@tool(effect="pure")
def look_up(name: str) -> dict[str, str]:
    """Look up what is in stock.

    Args:
        name: What the item is called.
    """
    with STOCK.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["name"] == name:
                return row
    raise LookupError(f"no item is called {name!r}")


@tool
def order(sku: str, count: int) -> str:
    """Order items from the wholesaler. This costs money.

    Args:
        sku: The number of the item, as it stands in the stock.
        count: How many to order.
    """
    return f"ordered: {count} of {sku}"

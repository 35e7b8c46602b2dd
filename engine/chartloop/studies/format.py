"""Amounts of money and shares as text, as all studies print them."""

from __future__ import annotations


def say_usd(usd: float) -> str:
    """Format an amount of USD without its unit: in cents, or with two digits where smaller."""
    if usd == 0 or abs(usd) >= 0.0995:
        return f"{usd:,.2f}"
    return f"{usd:.2g}" if abs(usd) >= 1e-4 else f"{usd:.1e}"


def percent(share: float) -> str:
    """Format a share of 0 to 1 as a percentage, never rounded up to 100% or down to 0%."""
    if 0.995 <= share < 1 or 0 < share < 0.005:
        return f"{share * 100:.2g}%" if share < 0.5 else f"{share * 100:.4g}%"
    return f"{share * 100:.0f}%"

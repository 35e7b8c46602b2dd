"""How studies say amounts."""

from __future__ import annotations


def say_usd(usd: float) -> str:
    """An amount of USD without its unit: cents, and as many digits as a small one needs."""
    if usd == 0 or abs(usd) >= 0.0995:
        return f"{usd:,.2f}"
    return f"{usd:.2g}" if abs(usd) >= 1e-4 else f"{usd:.1e}"


def percent(share: float) -> str:
    """A share, never rounded up to all or down to none."""
    if 0.995 <= share < 1 or 0 < share < 0.005:
        return f"{share * 100:.2g}%" if share < 0.5 else f"{share * 100:.4g}%"
    return f"{share * 100:.0f}%"

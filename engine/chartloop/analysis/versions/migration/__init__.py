"""Upgrades: which recorded runs may continue with an edited file, and why others may not."""

"""Upgrades: which recorded runs may continue with an edited file, why others may not."""

"""Upgrades: which recorded runs may go on with an edited file, why others may not."""

"""Figures over many recorded runs: reasons, states, limits, failures, and their plots."""

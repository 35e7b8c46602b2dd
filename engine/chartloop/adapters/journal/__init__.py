"""Journals: where the records of runs are kept."""

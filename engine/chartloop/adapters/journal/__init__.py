"""Journals: storage for the records of runs."""

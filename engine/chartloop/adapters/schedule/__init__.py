"""Schedules that are an engine's, beside the rows of the journal."""

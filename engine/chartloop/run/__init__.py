"""Stepping: ports, journal, loop, replay. Effects happen here and only through ports."""

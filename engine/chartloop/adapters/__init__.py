"""The real components behind the ports of `run.ports` and `run.journal`, one per module.

A heavy library is imported by exactly one module, on first use.
"""

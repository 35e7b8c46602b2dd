"""One real component per file, each behind a port of `run.ports` or `run.journal`.

A heavy library is imported by the one file that is its door, when it is first needed.
"""

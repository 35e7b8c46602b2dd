"""Coverage: which parts of a machine its runs have gone through, and which never.

    records ──collect──────▶ counts by item ──coverage──▶ Coverage: table, JSON, sums, heat map
    chart ────targets──────▶ all items that runs can cover

Belongs here: counting and showing. Never: running a machine, a journal, a command.
"""

"""Coverage: which parts of a machine its runs have gone through, and which never.

    records ──collect──────▶ counts by item ──coverage──▶ Coverage: table, JSON, sums, heat map
    chart ────targets──────▶ all items that runs can cover
          ────unreachable──▶ those that no run can reach, proven by the checker

Belongs here: counting and showing. Never: running a machine, a journal, a command.
"""

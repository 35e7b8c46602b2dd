"""Coverage: which parts of a machine its runs have gone through, and which never.

    records ──seeing──▶ counts by item ──coverage──▶ Coverage: table, JSON, sums, heat map
    chart ───items───▶ everything there is to see
          ───reach───▶ what no run can come to, proven by the checker

Belongs here: counting and showing. Never: running a machine, a journal, a command.
"""

"""Agents in chartloop, each step in a PostgreSQL: with `inline`, the tool on the driving thread.

python benchmarks/fleet_in_chartloop.py inline URL AGENTS TURNS
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from loop import USER, Loop
from loop_in_chartloop import Stub, machine

from chartloop.adapters.journal.postgres import PostgresJournal


async def main(url: str, agents: int, turns: int) -> None:
    """Run them all at once."""
    loop, journal = Loop(turns), PostgresJournal(url)
    made = machine(loop)
    await made.arun(USER["content"], model=Stub(Loop(2), 0), journal=journal)
    loop.model_calls = loop.tool_calls = 0
    before = time.perf_counter()
    runs = (made.arun(USER["content"], model=Stub(loop, 0), journal=journal) for _ in range(agents))
    ends = await asyncio.gather(*runs)
    seconds = time.perf_counter() - before
    assert all(end.reason == "completed" for end in ends), ends[0]
    loop.prove(agents)
    print(json.dumps({"steps/s": agents * (2 * turns - 1) / seconds}))


if __name__ == "__main__":
    url, agents, turns = sys.argv[-3:]
    asyncio.run(main(url, int(agents), int(turns)))

"""The agents in LangGraph 1, with its Postgres saver: each step written before the next one.

python benchmarks/fleet_in_langgraph.py URL AGENTS TURNS
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from loop import Loop
from loop_in_langgraph import graph, start, thread
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool


async def main(url: str, agents: int, turns: int) -> None:
    """Run them all at once."""
    usual = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(url, min_size=4, max_size=10, kwargs=usual) as pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        loop = Loop(turns)
        made = graph(loop, saver, pause=0)
        await graph(Loop(2), saver, pause=0).ainvoke(start(), thread(-1), durability="sync")
        before = time.perf_counter()
        runs = (made.ainvoke(start(), thread(n), durability="sync") for n in range(agents))
        await asyncio.gather(*runs)
        seconds = time.perf_counter() - before
    loop.prove(agents)
    print(json.dumps({"steps/s": agents * (2 * turns - 1) / seconds}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))

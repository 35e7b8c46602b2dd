"""A server in a process of its own, for `bounds.py`: it tells what a request took of it.

    python benchmarks/bounds_server.py FOLDER

Its journal is FOLDER/journal.db, its machines are in FOLDER/machines. Prints its port. The line
`begin` on its standard input forgets what was measured; each other line is answered with what was
since, as JSON: the longest callback of the web loop in seconds of processor time, the rows of the
journal, the scans, and the most memory in MB. It ends with its standard input.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
import time
from pathlib import Path

from serving_server import SlowModel

from chartloop.hosting.server.serve import Server
from chartloop.hosting.settings import Limits, Settings

RESET_PEAK = "5"
"""What Linux takes in `clear_refs` to forget the most memory that a process has had."""


def peak() -> int:
    """The most memory that this process has had since it was reset, in MB."""
    found = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text("utf-8"))
    return int(found[1]) // 1_000 if found else 0


def main(folder: Path) -> None:
    """Serve until the standard input ends."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1_024)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    settings = Settings(
        machines=(folder / "machines",), journal=folder / "journal.db",
        components={"model": SlowModel(turns=0, pause=0)},
        limits=Limits(rate=1e6, burst=1_000_000, watchers=1_000),
    )  # fmt: skip
    server = Server(settings, log_level="error")

    def answer() -> None:
        while not server.started:
            time.sleep(0.01)
        print(listener.getsockname()[1], flush=True)
        metrics, turns = server.metrics, server.metrics.turns
        assert turns is not None  # asyncio's own loop
        rows = scans = 0
        for line in sys.stdin:
            if line.strip() == "begin":
                Path("/proc/self/clear_refs").write_text(RESET_PEAK, "utf-8")
                rows, scans = metrics.lanes.rows, metrics.lanes.scans
                turns.longest = 0.0
            found = {
                "longest": turns.longest, "peak": peak(),
                "rows": metrics.lanes.rows - rows, "scans": metrics.lanes.scans - scans,
            }  # fmt: skip
            print(json.dumps(found), flush=True)
        server.should_exit = True

    threading.Thread(target=answer, daemon=True).start()
    server.run(sockets=[listener])


if __name__ == "__main__":
    main(Path(sys.argv[1]))

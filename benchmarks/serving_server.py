"""A server in a process of its own, with a scripted model that takes 50 ms.

    python benchmarks/serving_server.py FOLDER WORKERS

Its journal is FOLDER/journal.db. Prints its port; answers each line of its standard input with the
seconds of processor time that it has used, the line `memory` with its memory and the most that it
has had, in MB. It ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chartloop import tool
from chartloop.core.facts import ToolCall
from chartloop.hosting.server.serve import Server
from chartloop.hosting.settings import Limits, Settings
from chartloop.run.ports import ModelReply, ModelRequest

PAUSE = 0.05
TURNS = 20
TEXT = "The quick brown fox jumps over the lazy dog. " * 5
LONG = "A page of a book that an agent looks something up in. " * 150
"""8 kB: what fills the buffers of who reads nothing."""
MACHINE = """\
chartloop: 1
machine: loop
tools: [look_up]
model: {name: scripted}
limits: {steps: 10_000, tokens: 100_000_000, time: 1h}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: usage.total_tokens >= limits.tokens, stop: token_limit, warn_at: 80%}
  - {when: run.working >= limits.time, stop: time_limit}
states:
  question: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: use}, {to: done}]}
  use: {do: call_tools, next: think}
  done: {stop: completed}
"""


@tool(blocking=False)
def look_up(word: str) -> str:
    """Look a word up.

    Args:
        word: What to look up.
    """
    return LONG if word == "long" else TEXT


class SlowModel:
    """Answers after 50 ms: twenty times with a call of a tool, then with a text."""

    suspends = True

    def __init__(self, turns: int = TURNS, pause: float = PAUSE) -> None:
        self._turns, self._pause = turns, pause

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Nothing is missing."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """Not known."""
        return None

    async def complete(self, request: ModelRequest, on_text: Any = None) -> ModelReply:
        """The next turn: which one is counted in the conversation."""
        if self._pause:
            await asyncio.sleep(self._pause)
        turn = len(request.messages) // 2
        if turn >= self._turns:
            return ModelReply("That is all.", prompt_tokens=200, completion_tokens=4)
        task = str(request.messages[0].get("content", ""))
        call = ToolCall(f"call_{turn}", "look_up", json.dumps({"word": task.rpartition(" ")[2]}))
        return ModelReply("", (call,), prompt_tokens=200, completion_tokens=20)


def settings_of(folder: Path, workers: int) -> Settings:
    """The usual settings, with room for what is measured."""
    machines = folder / "machines"
    machines.mkdir(exist_ok=True)
    (machines / "loop.yaml").write_text(MACHINE)
    return Settings(
        machines=(machines,), journal=folder / "journal.db", tools=[look_up], workers=workers,
        components={"model": SlowModel()},
        limits=Limits(rate=1e6, burst=1_000_000, watchers=400, at_once=256),
    )  # fmt: skip


def memory() -> str:
    """The memory that this process has, and the most that it has had, in MB. Linux only."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    kilobytes = [re.search(rf"{name}:\s*(\d+)", status) for name in ("VmRSS", "VmHWM")]
    return " ".join(str(int(found[1]) // 1_000) for found in kilobytes if found)


def main(folder: Path, workers: int) -> None:
    """Serve until the standard input ends."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
    # as on the sockets that uvicorn opens itself: else an answer of two parts waits 40 ms
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server = Server(settings_of(folder, workers), log_level="warning")

    def answer() -> None:
        while not server.started:
            time.sleep(0.01)
        print(listener.getsockname()[1], flush=True)
        for line in sys.stdin:
            print(memory() if line.strip() == "memory" else time.process_time(), flush=True)
        server.should_exit = True

    threading.Thread(target=answer, daemon=True).start()
    server.run(sockets=[listener])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

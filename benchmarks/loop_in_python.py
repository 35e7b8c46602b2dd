"""The floor: the loop by hand, and with one row of SQLite for each step."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from loop import PAUSE, USER, Library, Loop, Message, main


def memory(loop: Loop) -> Callable[[], object]:
    def run() -> list[Message]:
        messages, turn, tokens, steps = [USER], 0, 0, 0
        while not loop.spent(steps, tokens):
            turn += 1
            reply = loop.answer(turn)
            messages.append(reply)
            steps, tokens = steps + 1, tokens + reply["usage"]["total_tokens"]
            if not reply["tool_calls"]:
                break
            for call in reply["tool_calls"]:
                messages.append(loop.use(call))
                steps += 1
        return messages

    return run


class Log:
    """A table of messages, committed one by one."""

    def __init__(self, folder: Path) -> None:
        self.rows = sqlite3.connect(folder / "log.db", isolation_level=None)
        self.rows.execute("pragma journal_mode=WAL")
        self.rows.execute("pragma synchronous=NORMAL")
        self.rows.execute(
            "create table message (run, number, body, primary key (run, number)) without rowid"
        )

    def write(self, run: int, number: int, message: Message) -> None:
        self.rows.execute(
            "insert into message values (?, ?, ?)", (run, number, json.dumps(message))
        )


async def logged(loop: Loop, log: Log | None, number: int, pause: float | None) -> None:
    """The loop with a log, and with a model that takes its time."""
    messages: list[Message] = []
    turn = tokens = steps = 0

    def keep(message: Message) -> None:
        messages.append(message)
        if log is not None:
            log.write(number, len(messages), message)

    keep(USER)
    while not loop.spent(steps, tokens):
        turn += 1
        if pause is not None:
            await asyncio.sleep(pause)
        reply = loop.answer(turn)
        keep(reply)
        steps, tokens = steps + 1, tokens + reply["usage"]["total_tokens"]
        if not reply["tool_calls"]:
            break
        for call in reply["tool_calls"]:
            keep(loop.use(call))
            steps += 1


def disk(loop: Loop, folder: Path) -> Callable[[], object]:
    log = Log(folder)

    def run() -> None:
        with closing(log.rows):
            asyncio.run(logged(loop, log, 0, None))

    return run


def agents(loop: Loop, count: int, folder: Path | None = None) -> Callable[[], Awaitable[Any]]:
    log = None if folder is None else Log(folder)
    return lambda: asyncio.gather(*(logged(loop, log, n, PAUSE) for n in range(count)))


if __name__ == "__main__":
    main(Library(memory, agents, disk, agents))

"""Tools that give what a scenario says, call by call, instead of running their code.

A result is any data; `{error: text}` is a failure that the model is told, and
`{stop: message}`, with a `reason` or without, asks the run to stop. `{returns: {text, ok, result,
changes, partial, progressed, category}}` is what a tool says that returns a `ToolResult`, and
`{delay: 3s, result: ...}` any of these after a while on the run's clock.

A tool that is known keeps its description, its arguments and their checks, its effect: only its
code is not run. One that is not known takes any arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from chartloop.core.errors import ScriptError
from chartloop.core.outcome import ToolResult
from chartloop.core.specs import ToolSpec
from chartloop.core.units import read_duration
from chartloop.run.exceptions import AgentStop
from chartloop.run.ports import Clock


class ScriptedTool:
    """The results of one tool, given in order, and how many were asked for."""

    def __init__(self, name: str, results: tuple[Any, ...], clock: Clock | None = None) -> None:
        self.name = name
        self.results = results
        self.asked = 0
        self._clock = clock

    def spec(self, known: ToolSpec | None) -> ToolSpec:
        """The tool as a machine may name it."""
        return stand_in(self.name, known, self._give)

    async def _give(self, **arguments: Any) -> Any:
        """The next result. `ScriptError` when there is none left."""
        self.asked += 1
        if self.asked > len(self.results):
            given = json.dumps(arguments, ensure_ascii=False, default=str)
            raise ScriptError(
                f"tool `{self.name}` has {len(self.results)} scripted results,"
                f" and call {self.asked} was made, with {given[:200]}"
            )
        result, delay = late(self.results[self.asked - 1])
        if delay and self._clock is not None:
            await self._clock.sleep(delay)
        return given_result(result)


def late(result: Any) -> tuple[Any, float]:
    """A result as a scenario writes it, and the seconds after which it comes."""
    if isinstance(result, dict):
        fields = cast(dict[str, Any], result)
        seconds = read_duration(fields.get("delay"))
        if seconds is not None and set(fields) == {"delay", "result"}:
            return fields["result"], seconds
    return cast(Any, result), 0.0


def stand_in(name: str, known: ToolSpec | None, give: Callable[..., Any]) -> ToolSpec:
    """A tool whose results come from elsewhere; one that is not known takes any arguments."""
    if known is None:
        known = ToolSpec(name, "", {"type": "object"}, _any_arguments, give)
    return replace(known, call=give, blocking=False, suspends=True, wants_context=False)


def given_result(result: Any) -> Any:
    """A result as a scenario writes it, to what a tool gives. `AgentStop` where it says so."""
    if not isinstance(result, dict):
        return result
    fields = cast(dict[str, Any], result)
    if "error" in fields and set(fields) <= {"error", "category", "progressed"}:
        more = {name: value for name, value in fields.items() if name != "error"}
        return ToolResult(f"error: {fields['error']}", ok=False, **more)
    if set(fields) == {"returns"} and isinstance(fields["returns"], dict):
        return _whole(cast(dict[str, Any], fields["returns"]))
    if "stop" in fields and set(fields) <= {"stop", "reason"}:
        raise AgentStop(str(fields["stop"]), reason=str(fields.get("reason", "stop_requested")))
    return fields


def _whole(said: dict[str, Any]) -> Any:
    if "text" not in said or not set(said) <= set(_PARTS):
        return {"returns": said}  # it is data of that name
    given: dict[str, Any] = {**said, **{n: tuple(said.get(n, ())) for n in ("partial", "warnings")}}
    return ToolResult(**given)


_PARTS = ("text", "ok", "result", "changes", "partial", "progressed", "category", "warnings")


def _any_arguments(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the arguments are not JSON: {error}") from None
    if not isinstance(read, dict):
        raise ValueError("the arguments are not JSON object")  # noqa: TRY004  goes to the model
    return cast(dict[str, Any], read)

"""Tools that return the scripted results of a scenario, call by call, instead of running.

A result is any data. `{error: text}` is a failure that is reported to the model; `{stop: message}`,
with an optional `reason`, asks the run to stop. `{returns: {text, ok, result, changes, partial,
progressed, category}}` is a whole `ToolResult`, and `{delay: 3s, result: ...}` is any of these
after a delay on the run's clock.

A declared tool keeps its description, its effect, and its arguments with their checks; only its
code does not run. An undeclared one takes any arguments.
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
    """The results of one tool in order, with a counter of its calls."""

    def __init__(self, name: str, results: tuple[Any, ...], clock: Clock | None = None) -> None:
        self.name = name
        self.results = results
        self.calls = 0
        self._clock = clock

    def spec(self, known: ToolSpec | None) -> ToolSpec:
        """The tool's spec for a machine, based on the declared tool if there is one."""
        return stand_in(self.name, known, self._give)

    async def _give(self, **arguments: Any) -> Any:
        """Return the next result. `ScriptError` if there is none left."""
        self.calls += 1
        if self.calls > len(self.results):
            text = json.dumps(arguments, ensure_ascii=False, default=str)
            raise ScriptError(
                f"tool `{self.name}` has {len(self.results)} scripted results,"
                f" and call {self.calls} was made, with {text[:200]}"
            )
        result, delay = split_delay(self.results[self.calls - 1])
        if delay and self._clock is not None:
            await self._clock.sleep(delay)
        return tool_result(result)


def split_delay(result: Any) -> tuple[Any, float]:
    """Split a scripted result into the result itself and its delay in seconds."""
    if isinstance(result, dict):
        fields = cast(dict[str, Any], result)
        seconds = read_duration(fields.get("delay"))
        if seconds is not None and set(fields) == {"delay", "result"}:
            return fields["result"], seconds
    return cast(Any, result), 0.0


def stand_in(name: str, known: ToolSpec | None, give: Callable[..., Any]) -> ToolSpec:
    """A tool whose results come from `give`; an undeclared one takes any arguments."""
    if known is None:
        known = ToolSpec(name, "", {"type": "object"}, _any_arguments, give)
    return replace(
        known, call=give, blocking=False, suspends=True, wants_context=False, stand_in=True
    )


def tool_result(result: Any) -> Any:
    """Convert a scripted result to the return value of a tool. Raises `AgentStop` for `stop`."""
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


def _whole(parts: dict[str, Any]) -> Any:
    if "text" not in parts or not set(parts) <= set(_PARTS):
        return {"returns": parts}  # plain data that happens to have this key
    lists = {name: tuple(parts.get(name, ())) for name in ("partial", "warnings")}
    fields: dict[str, Any] = {**parts, **lists}
    return ToolResult(**fields)


_PARTS = ("text", "ok", "result", "changes", "partial", "progressed", "category", "warnings")


def _any_arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the arguments are not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise ValueError("the arguments are not a JSON object")  # noqa: TRY004  goes to the model
    return cast(dict[str, Any], arguments)

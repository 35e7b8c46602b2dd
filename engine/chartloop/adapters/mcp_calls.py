"""Calls of MCP tools that stay in flight while the server's questions are answered.

Belongs here: one such call, from its start to its result, even if the run is paused meanwhile.
Never: the protocol, a connection (`adapters.mcp_servers`).
Source: MCP 2025-11-25 and 2026-07-28, "Elicitation", "Sampling".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, NamedTuple, Protocol

from chartloop.core.outcome import ToolResult
from chartloop.language.server_tools import ServerSpec
from chartloop.run.elicitation import ACTIONS, Form, RequestIds, content_of
from chartloop.run.ports import SampleRequest, SamplingRefused, ToolClient
from chartloop.run.sync import loop_thread


class Connection(Protocol):
    """The part of a server's connection that a call needs."""

    server: ServerSpec
    calls: set[Call]
    """Its calls in flight."""

    async def call(
        self, tool: str, arguments: Mapping[str, Any], call: Call | None = None
    ) -> ToolResult:
        """Make the call."""
        ...


ASKING: ContextVar[Call | None] = ContextVar("asking", default=None)
"""The call in whose task the client handles a request of the server."""


class Sample(NamedTuple):
    """A model call that a server has requested."""

    request: SampleRequest
    reply: asyncio.Future[Any]


class Call:
    """One call, which stays in flight while the server's questions are answered.

    All methods but `settle` run on the loop thread.
    """

    _numbers = count()

    def __init__(self, connection: Connection, tool: str, client: ToolClient) -> None:
        self.number = next(self._numbers)
        self.time: asyncio.Timeout | None = None
        self.warnings: list[str] = []
        self._connection = connection
        self._tool = tool
        self._client = client
        self._answers = dict(client.answers)
        self._open: dict[str, tuple[Form, asyncio.Future[Mapping[str, Any]]]] = {}
        self._samples: deque[Sample] = deque()
        self._ids = RequestIds()
        self._asked = 0
        self._held = 0
        self._left = 0.0
        self._changed = asyncio.Event()
        self._task: asyncio.Task[ToolResult] | None = None

    @property
    def asks(self) -> bool:
        """Whether the call waits for an answer to a question."""
        return bool(self._open) and self._task is not None and not self._task.done()

    async def start(self, arguments: Mapping[str, Any]) -> None:
        """Make the call."""
        self._task = asyncio.create_task(self._run(arguments))
        self._task.add_done_callback(lambda _: self._changed.set())

    async def _run(self, arguments: Mapping[str, Any]) -> ToolResult:
        ASKING.set(self)
        self._connection.calls.add(self)
        try:
            return await self._connection.call(self._tool, arguments, self)
        finally:
            self._connection.calls.discard(self)

    async def take_up(self, client: ToolClient) -> None:
        """Continue when the action is called again: pass new answers to the server."""
        self._client = client
        self._answers = dict(client.answers)
        for form, answer in list(self._open.values()):
            if form.id in self._answers and not answer.done():
                answer.set_result(self._read(form, self._answers[form.id]))
        await asyncio.sleep(0)

    async def next(self) -> ToolResult | Form | Sample:
        """The next event of the call: its result, a question or a model call."""
        assert self._task is not None
        while True:
            self._changed.clear()
            if self._task.done():
                return self._task.result()
            if self._samples:
                return self._samples.popleft()
            if question := next((f for f, a in self._open.values() if not a.done()), None):
                return question
            await self._changed.wait()

    def warn(self, text: str) -> None:
        """Add a warning about the call for operators."""
        self.warnings.append(f"{self._client.tool}: {text}")

    # questions

    async def elicit(self, text: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Wait for the answer to a form: its `action`, and its `content` if accepted."""
        form = Form(
            self._ids.next(self._client.key, text, schema), self._client.action,
            self._connection.server.name, text, schema,
        )  # fmt: skip
        if form.id in self._answers:
            return self._read(form, self._answers[form.id])
        self._asked += 1
        allowed = self._connection.server.elicitation
        if self._asked > allowed.questions:
            self.warn(f"declined: it may ask {allowed.questions} questions in one call")
            return {"action": "decline"}
        if self._client.asks_nobody:
            self.warn(f"declined, for no one can answer here: {text}")
            return {"action": "decline"}
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[form.id] = form, answer
        self._changed.set()
        with self._hold():
            try:
                # the run enforces the deadline itself; this is for a run without a driver
                async with asyncio.timeout(allowed.within + _GRACE):
                    return await answer
            except TimeoutError:
                return self._read(form, {"action": "cancel", "expired": True})
            finally:
                del self._open[form.id]

    def _read(self, form: Form, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert a recorded answer for the server."""
        action = answer.get("action")
        if answer.get("expired"):
            self.warn(f"no answer came in time to: {form.text}")
        if action not in ACTIONS or action != "accept":
            return {"action": action if action in ACTIONS else "cancel"}
        return {"action": action, "content": content_of(form, answer.get("content") or {})}

    # model calls

    async def sample(self, request: SampleRequest) -> Mapping[str, Any]:
        """Wait for the model's reply. Raises `SamplingRefused`."""
        sample = Sample(request, asyncio.get_running_loop().create_future())
        self._samples.append(sample)
        self._changed.set()
        with self._hold():
            return await sample.reply

    def settle(self, sample: Sample, reply: Mapping[str, Any] | SamplingRefused) -> None:
        """Set the reply of a model call. Called from the run's own loop."""

        def give() -> None:
            if sample.reply.done():
                return
            if isinstance(reply, SamplingRefused):
                sample.reply.set_exception(reply)
            else:
                sample.reply.set_result(reply)

        loop_thread().call_soon_threadsafe(give)

    @contextmanager
    def _hold(self) -> Generator[None]:
        """Suspend the call's timeout while chartloop keeps the server waiting."""
        now, time = asyncio.get_running_loop().time, self.time
        if not self._held and time is not None and (at := time.when()) is not None:
            self._left = at - now()
            with contextlib.suppress(RuntimeError):
                time.reschedule(None)
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            if not self._held and time is not None and not time.expired():
                with contextlib.suppress(RuntimeError):  # the call has ended meanwhile
                    time.reschedule(now() + self._left)

    def cancel(self) -> None:
        """Cancel the call."""
        if self._task is not None:
            self._task.cancel()


_GRACE = 5.0
"""The seconds after a question's deadline at which it is cancelled here."""


async def first_answer(
    calls: Sequence[Call], text: str, schema: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The first answer to a question that may belong to several calls."""
    questions = [asyncio.ensure_future(call.elicit(text, schema)) for call in calls]
    try:
        done, _ = await asyncio.wait(questions, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done)).result()
    finally:
        for task in questions:
            task.cancel()


def sample_request(params: Any, mask: Callable[[Any], Any]) -> SampleRequest | str:
    """A server's request as messages for the model, or the reason why it is not supported."""
    if params.tools:
        return "it offers the model tools of its own"
    messages: list[Mapping[str, Any]] = []
    if params.system_prompt:
        messages.append({"role": "system", "content": params.system_prompt})
    for message in params.messages:
        parts = message.content_as_list
        if any(part.type != "text" for part in parts):
            return "its messages hold something else than text"
        messages.append({"role": message.role, "content": "\n".join(p.text for p in parts)})
    return SampleRequest(
        tuple(mask(messages)),
        params.max_tokens,
        params.temperature,
        tuple(params.stop_sequences or ()),
    )


_REQUESTS = {
    "roots": "chartloop does not answer requests for folders",
    "elicitation": "the machine's file does not let it ask questions",
    "sampling": "the machine's file does not allow it model calls: see `sampling`",
}
"""The reason why a request was refused, by a word of the server's error."""


def reason_of_refusal(error: str) -> str | None:
    """The reason why the client refused a request, by the server's error; None if not evident."""
    if "refused: " in error or "not answered" in error or "by URL" in error:
        return None  # the error contains the reason
    return next((what for word, what in _REQUESTS.items() if word in error.lower()), None)

"""What is put into a run's inbox by its own process, checked before it is sent.

Whoever drives the run takes it out, before the next action.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from chartloop.api.tasks import checked_tasks
from chartloop.core.errors import StatusError
from chartloop.core.facts import EMPTY
from chartloop.run.answer import Answer, Sent, send_answer
from chartloop.run.journal import Letter
from chartloop.run.loop import IN_DOUBT, advance
from chartloop.run.question import question_of
from chartloop.run.session import Session

T = TypeVar("T")


class Addressed(ABC):
    """The faces of `Run` that send to it."""

    session: Session

    @abstractmethod
    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T: ...

    def send(
        self,
        event: str,
        data: Mapping[str, Any] | None = None,
        *,
        wait: str = "",
        ahead: str = "",
        at: float | None = None,
        message_id: str | None = None,
    ) -> Sent:
        """Answer the wait that the run is at. It goes on with the next `step` or `run`.

        `wait` is the id of the wait that is answered, `run.question.wait`; without one it is the
        wait at hand. `ahead` names a state instead, whose first wait takes the answer when it
        comes: nobody has seen its question then, and the record says so. `message_id` makes a
        repeated delivery harmless.

        `AnswerError` for an event or data that the wait does not take; `WaitError` for a wait that
        is not at hand, `AnsweredError` for one that is answered, `AheadError`.
        """
        coroutine = self.asend(event, data, wait=wait, ahead=ahead, at=at, message_id=message_id)
        return self._wait(coroutine)

    async def asend(
        self,
        event: str,
        data: Mapping[str, Any] | None = None,
        *,
        wait: str = "",
        ahead: str = "",
        at: float | None = None,
        message_id: str | None = None,
    ) -> Sent:
        """Answer the wait that the run is at; see `send`."""
        if ahead and not self.session.head:
            await advance(self.session)
        answer = Answer(event, data or EMPTY, wait, ahead)
        return await send_answer(self.session, answer, at=at, message_id=message_id)

    def enqueue(self, tasks: Any, *, message_id: str | None = None) -> None:
        """Add tasks at the end of the queue: texts, or mappings as in a file. See `send`.

        A run that waits goes on waiting, and does them when its machine next does `work`.
        """
        return self._wait(self.aenqueue(tasks, message_id=message_id))

    async def aenqueue(self, tasks: Any, *, message_id: str | None = None) -> None:
        """Add tasks at the end of the queue; `TaskError` for what is none. See `enqueue`."""
        letter = tasks_letter(self.session, tasks, fresh=message_id is None)
        await _post(self.session, letter, message_id=message_id)

    def pause(self) -> None:
        """Pause before the next action. At a wait it takes effect once the wait is over.

        A second one adds nothing: one `resume` ends all that were sent before it.
        """
        return self._wait(self.apause())

    async def apause(self) -> None:
        """Pause before the next action; see `pause`."""
        await _post(self.session, {"kind": "pause"})

    def resume(self) -> None:
        """End a pause: the run goes on with the next `step` or `run`. At a wait, an error."""
        return self._wait(self.aresume())

    async def aresume(self) -> None:
        """End a pause; see `resume`."""
        _refuse_resume(self.session)
        await _post(self.session, {"kind": "resume"})

    def cancel(self, reason: str = "user_requested", message: str = "") -> None:
        """Stop before the next action, for a reason of the machine. Works from any thread."""
        return self._wait(self.acancel(reason, message))

    async def acancel(self, reason: str = "user_requested", message: str = "") -> None:
        """Stop before the next action; see `cancel`."""
        data = {"message": message}
        await _post(self.session, {"kind": "cancel", "reason": reason, "data": data})


async def _post(
    session: Session, data: Mapping[str, Any], *, message_id: str | None = None
) -> None:
    """Send it; a run that has not begun begins. `StatusError` when it has ended."""
    if not session.head:
        await advance(session)
    if session.position.ended:
        raise StatusError(
            f"the run has ended ({session.position.status})",
            hint="`next` starts a new run that goes on from it",
        )
    letter = Letter(message_id or secrets.token_hex(8), session.ports.clock.now(), data)
    await session.journal.send(session.run_id, letter)


def tasks_letter(session: Session, tasks: Any, *, fresh: bool) -> dict[str, Any]:
    """Tasks for the end of the queue. `TaskError` for what is none.

    What is not `fresh` may have been delivered before: it may find its own ids in the queue.
    """
    taken = (task.id for task in session.position.queue) if fresh else ()
    added = checked_tasks(session.chart.spec, tasks, taken, session.position.facts.queue)
    return {"kind": "enqueue", "tasks": [task.to_dict() for task in added]}


def _refuse_resume(session: Session) -> None:
    """`StatusError` unless there is a pause that a resume ends."""
    position = session.position
    if position.status != "paused":
        raise StatusError(f"the run is {position.status}, not paused")
    if position.blocked_on == IN_DOUBT:
        raise StatusError(
            f"a paid call of `{position.state}` is in doubt", hint="send `retry` or `fail`"
        )
    question = question_of(session)
    if question is not None and question.answers and not position.pause_asked:
        events = ", ".join(f"`{e}`" for e in question.answers)
        raise StatusError(f"`{position.state}` waits for an answer", hint=f"send one of {events}")

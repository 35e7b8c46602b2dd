"""A run of a child machine, started and driven by the action of another run.

A child is a run of its own in the journal of its parent. Its id starts with the parent's:
``<parent>/<state>/<step>``, followed by ``/<name>`` for one of several or for a task. Repeating the
action after a crash or a wait continues the same child from its own records, so that no call of
it is paid twice.

    Child.open ─▶ Child.drive ─▶ ended? result : question

Belongs here: one child. Never: its effect on the parent, which the action decides.

Source: docs/language.md, "Child machines"; docs/parallel.md; 000
`subprocess_id`; 004 "Multi-agent coordination".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from chartloop.core.facts import EMPTY, RunFacts, Task
from chartloop.core.outcome import Message
from chartloop.core.position import SUBMITTER, Asked
from chartloop.core.records import Input
from chartloop.language.values import block_value, limit_value, var_value
from chartloop.machine.child_budget import rest
from chartloop.run.context import Context
from chartloop.run.events import Event, FromChild
from chartloop.run.journal import RunRow, digest
from chartloop.run.loop import advance, open_children
from chartloop.run.model_wrapper import ModelWrapper
from chartloop.run.ports import Model, ModelReply, ModelRequest, OnText
from chartloop.run.question import question_of, wait_of
from chartloop.run.result import Result, result_of
from chartloop.run.session import CALLER, LATE, PARENT, Session, StopRequest, start_data
from chartloop.run.shared_budget import SharedBudget, pays

SHARED = ("messages", "memory", "queue")
"""The parts of its parent's data that a child may share; its changes go back to the parent."""


STATUSES = ("completed", "error", "late", "stopped", "unstarted")
"""How children end. `completed` and `error`: by themselves, at a limit of their own too. `late`: at
the deadline of the action that runs them; `stopped`: before, because another was enough, what they
share was spent, or their parent was asked to stop. `unstarted`: never begun, because what they
share was spent."""


class ChildStart(NamedTuple):
    """The start of a child: the fields of `run_machine`."""

    machine: str
    task: str = ""
    start: str = ""
    vars: Mapping[str, Any] = {}
    memory: Mapping[str, str] = {}
    limits: Mapping[str, Any] = {}
    share: tuple[str, ...] = ()


class Child:
    """One child of a run. It has `grace` seconds less than the action that drives it."""

    def __init__(
        self,
        ctx: Context,
        given: ChildStart,
        run_id: str,
        model: Model | None,
        *,
        grace: float = 0.0,
    ) -> None:
        self.ctx = ctx
        self.given = given
        self.session = ctx.host.child(given.machine, run_id, ctx.ports.with_model(model))
        if ctx.deadline is not None:
            self.session.deadline = ctx.deadline - grace
        self.session.cancels = [self]
        self._given_up = False
        self.shared: SharedBudget | None = None
        self.refused: StopRequest | None = None
        """Why it was never started; None for one that was."""
        if ctx.host.listener is not None:
            self.session.listener = self._tell

    def _tell(self, event: Event) -> None:
        if self.ctx.host.listener is not None:
            self.ctx.host.listener(FromChild(self.session.run_id, event))

    def share(self, shared: SharedBudget) -> None:
        """Spend from a budget that other children have too."""
        self.shared = shared
        self.session.spending = self._may_not_spend

    def _may_not_spend(self) -> StopRequest | None:
        """Why the current action may not be done: it costs, and the shared budget is spent."""
        session = self.session
        if self.shared is None or session.position.status not in ("running", "debugging"):
            return None
        state = session.chart.spec.states.get(session.position.state)
        if state is None or not pays(state.action):
            return None
        return self.shared.refuses(session.chart.spec)

    async def open(self, among: int = 1) -> None:
        """Open the run where it is, or prepare its start.

        `among` children share the parent's remaining budget. `LimitError` for a value that a limit,
        variable or memory block of the child cannot have.
        """
        if await self.session.journal.row(self.session.run_id) is not None:
            await self.session.open()
        if not self.session.head:
            self._ready(among)

    def _ready(self, among: int) -> None:
        session, facts, now = self.session, self.ctx.facts, self.ctx.now
        spec, given = session.chart.spec, self.given
        left = rest(self.ctx.machine, spec, facts, among)
        chosen = {name: limit_value(spec, name, value) for name, value in given.limits.items()}
        for name, most in left.items():
            own = chosen.get(name, spec.limits[name].value)
            chosen[name] = most if own is None else min(own, most)
        shared = facts.memory if "memory" in given.share else EMPTY
        data = start_data(
            task=given.task, agent=facts.run.agent, session=facts.run.session,
            depth=facts.run.depth + 1, start=given.start, limits=chosen,
            vars={name: var_value(spec, name, value) for name, value in given.vars.items()},
            memory={n: v for n, v in shared.items() if n in spec.memory}
            | {n: block_value(spec, n, v) for n, v in given.memory.items()},
            messages=[dict(m) for m in self.ctx.messages] if "messages" in given.share else [],
            context_window=session.ports.window(spec),
            submitter=self.ctx.kept.get(SUBMITTER, ""),
            tasks=[task.to_dict() for task in
                   (self.ctx.queue if "queue" in given.share else session.ports.first_tasks(spec))],
        )  # fmt: skip
        text = session.chart.text
        row = RunRow(
            session.run_id, spec.name, digest(text), state=given.start or spec.start,
            agent=facts.run.agent, session=facts.run.session, parent=self.ctx.run_id,
            priority=self.ctx.host.row.priority, created=now, updated=now, task=given.task,
        )  # fmt: skip
        begun = Input("start", started=now, at=now, data=data)
        session.begun, session.row, session.spec_text = begun, row, lambda: text

    # continuing -------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """Whether it has ended or was refused."""
        return self.session.position.ended or self.refused is not None

    @property
    def ended_well(self) -> bool:
        """Whether it has ended without an error."""
        return self.session.position.status == "completed"

    async def drive(self) -> None:
        """Step until it ends or waits for a person."""
        while await self.step():
            pass

    async def step(self) -> bool:
        """Make one record. False if it has ended, waits, or may not start."""
        if self.shared is None:
            return await advance(self.session) is not None
        if not self.session.head and self.refused is None:
            self.refused = self.shared.refuses(self.session.chart.spec)
        if self.refused is not None:
            return False
        advanced = await advance(self.session) is not None
        self.shared.count(self.session.run_id, self.session.position.facts)
        return advanced

    def give_up(self) -> bool:
        """Stop it before its next action, since another child was enough. False: it has ended."""
        self._given_up = True
        return not self.ended

    def is_requested(self, run: RunFacts) -> bool:
        """Whether it was given up. Implements the port `Cancel`."""
        return self._given_up

    @property
    def cut_off(self) -> bool:
        """Whether its parent's deadline stopped it."""
        return any(s.source == PARENT and s.reason == LATE for s in self.session.tally.signals)

    @property
    def status(self) -> str:
        """How it ended: one of `STATUSES`."""
        if self.refused is not None:
            return "unstarted"
        if self.cut_off:
            return "late"
        stopped = any(s.source in (PARENT, CALLER) for s in self.session.tally.signals)
        return "stopped" if stopped else self.session.position.status

    @property
    def stopped_by_parent(self) -> bool:
        """Whether its parent stopped it: the parent was asked to stop, or its time ran out."""
        return any(s.source == PARENT for s in self.session.tally.signals)

    # the outcome ----------------------------------------------------------------------------

    @cached_property
    def result(self) -> Result:
        """Its result. Computed once, so read it only after the end."""
        result = result_of(self.session)
        if self.refused is None:
            return result
        # a refused child has no run in the journal, only this reason
        reason = self.session.chart.spec.reason(self.refused.reason)
        return replace(result, reason=reason, warnings=(f"not begun: {self.refused.message}",))

    @property
    def asks(self) -> Asked:
        """The question of the child, while it waits."""
        session, position = self.session, self.session.position
        below, question = position.child_question, question_of(session)
        return Asked(
            session.run_id,
            question.text if question else f"`{session.chart.name}` is {position.status}.",
            tuple(question.answers) if question else (),
            (self.given.machine, *(below.machines if below else ())),
            below.state if below else position.state,
            position.closing,
            wait=wait_of(session),
            form=position.form or (below.form if below else EMPTY),
            calls=question.calls if question else (),
            about=question.about if question else "",
            doubt=position.doubt if below is None else below.doubt,
        )

    @property
    def wake_at(self) -> float | None:
        """When it can continue without an answer, in seconds since the epoch; None if it cannot."""
        deadline = None if self.session.position.closing else self.session.deadline
        times = (self.session.position.wake_at, deadline)
        return min((at for at in times if at is not None), default=None)

    async def tasks_added_meanwhile(self) -> tuple[Task, ...]:
        """The tasks that its parent received while the child had the queue."""
        first = await self.session.journal.records(self.session.run_id, 0, 1)
        begun = first[0].input.data if first else EMPTY
        return self.ctx.queue[len(begun.get("tasks", ())) :]

    def own_messages(self) -> tuple[tuple[Message, ...], tuple[Message, ...] | None]:
        """The messages added to the shared ones; or, if those were changed, all of its own."""
        before, now = self.ctx.messages.whole(), self.session.position.messages.whole()
        if now[: len(before)] == before:
            return now[len(before) :], None
        return (), now


# model calls --------------------------------------------------------------------------------


class InOrder(ModelWrapper):
    """The model of all children of an action, which numbers their calls as one sequence.

    A script gives its replies in the order of calls, whichever run makes them.
    """

    def __init__(self, model: Model, first: int) -> None:
        super().__init__(model)
        self._next = first

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """Make the next call of the sequence."""
        number, self._next = self._next, self._next + 1
        return await super().complete(request.replace(number=number), on_text)

    def pass_over(self, calls: int) -> None:
        """Skip calls that were recorded before."""
        self._next += calls


async def calls_of(session: Session) -> int:
    """The number of recorded model calls of a run and of the children that it waits for."""
    position = session.position
    count = position.facts.usage.llm_calls + session.tally.failed_calls
    if position.ended:
        return count
    for child in await open_children(session):
        count += await calls_of(child)
    return count

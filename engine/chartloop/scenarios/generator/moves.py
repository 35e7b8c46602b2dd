"""The nodes of the search and their successors, each one record of a real run further.

A node holds a position. To follow it, a session is set to that position, the answers of the world
are chosen, and the run takes one record with the engine's own action and decision.

Belongs here: the successors of a node. Never: which node is followed.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, combinations, islice
from typing import Any, NamedTuple

from chartloop.api import Machine
from chartloop.core.approvals import ACCEPT, DENY, EDIT, request_at, shown_calls
from chartloop.core.errors import ChartloopError
from chartloop.core.facts import EMPTY
from chartloop.core.position import CHILD, Position
from chartloop.core.specs import Effect
from chartloop.core.types import Type
from chartloop.run import answer
from chartloop.run.components import Ports
from chartloop.run.journal import InboxMessage, MemoryJournal, RunRow
from chartloop.run.loop import advance
from chartloop.run.session import Session
from chartloop.run.tally import Tally
from chartloop.scenarios.generator.hints import hints_of
from chartloop.scenarios.generator.replies import Replies
from chartloop.scenarios.generator.search_targets import CANCELLED, Target, targets_of_run
from chartloop.scenarios.generator.starts import Start
from chartloop.scenarios.generator.world import Answer, Choice, World
from chartloop.scenarios.scenario_check import fleet_facts
from chartloop.testing.clock import ManualClock

RUN = "generated"
CANCEL = 3
"""How many additional records a cancel counts for."""
_SECOND = 6
"""How many answers of each question are tried if two differ from the plain ones."""
_VARIANTS = 120
"""Maximum number of variants of one action."""


Choices = tuple[Sequence[int], int]
"""The numbers of the world's answers in one action, in order, and that of all further ones."""


class EventMove(NamedTuple):
    """An event from outside, as a scenario has it."""

    kind: str
    """`send` or `cancel`."""
    word: str
    data: Mapping[str, Any]
    after: int
    """The number of finished steps."""
    at: str = ""
    """The waiting state, if `after` alone does not identify the wait."""


@dataclass(slots=True, eq=False)
class Node:
    """A run at one moment, with its path."""

    start: Start
    position: Position
    now: float
    parent: Node | None = None
    records: int = 1
    oddness: int = 0
    """How far its path differs from the plainest answers; breaks ties between equal lengths."""
    failed: int = 0
    """The number of model calls without a reply, which a script counts too."""
    answers: tuple[Answer, ...] = ()
    event: EventMove | None = None
    shown: frozenset[Target] = frozenset()
    """The targets that the last record showed."""
    path: tuple[str, ...] = ()
    """The states that the last record entered."""
    choices: Choices = ((), 0)
    """The choices of the last record."""
    expired: bool = False
    """Whether the last record was a wait that expired."""
    has_children: bool = False
    """Whether the current action has started children, which only the path's journal holds."""

    cancels: int = 0

    @property
    def length(self) -> int:
        """The number of records; a cancel counts more, as runs that end by themselves show more."""
        return self.records + CANCEL * self.cancels

    @property
    def cost(self) -> tuple[int, int]:
        """Its length, then its oddness."""
        return self.length, self.oddness

    @property
    def rests(self) -> bool:
        """Whether the run has ended, or waits without a timeout."""
        position = self.position
        return position.ended or (position.status == "paused" and position.wake_at is None)

    def lineage(self) -> list[Node]:
        """The nodes from the start to this one."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


class Moves:
    """The successors of nodes of one machine."""

    def __init__(
        self, machine: Machine, world: World, clock: ManualClock, *, run_own: bool
    ) -> None:
        self.machine = machine
        self.chart = machine.chart
        self.tried = 0
        """The work done: the number of moves tried, and of answers that they took."""
        self.not_run: set[str] = set()
        """The states whose custom action has effects and did not run."""
        self._world = world
        self._clock = clock
        self._run_own = run_own
        self._rules = frozenset(rule.id for rule in machine.spec.rules)
        self._worlds: dict[str, Replies] = {}
        self._ports: Ports | None = None

    async def begin(self, start: Start) -> Node | None:
        """The node after the start record; None if a run cannot start so."""
        self.tried += 1
        self._clock.set(ManualClock().now())
        try:
            run = self.machine.start(
                start.task, limits=start.limits, vars=start.vars, tasks=start.tasks,
                model=self._world.model, clock=self._clock, run_id=RUN, notifier=_NullNotifier(),
            )  # fmt: skip
        except ChartloopError:
            if start == Start():
                raise
            return None
        session = run.session
        self._ports = session.ports
        session.ports.fleet = fleet_facts(start.fleet)
        await advance(session)
        return Node(
            start, session.position, self._clock.now(), oddness=4 * start.oddness,
            shown=self._last_targets(session), path=tuple(session.tally.path),
        )  # fmt: skip

    async def behind(self, node: Node) -> AsyncGenerator[Node, None]:
        """Yield the successors of a node, the plainest first."""
        position = node.position
        if position.ended:
            return
        if position.status == "paused":
            async for successor in self._answer_nodes(node):
                yield successor
            if position.wake_at is not None and (later := await self._next(node)) is not None:
                yield later
        elif self._may_act(position.state):
            async for successor in self._action_nodes(node):
                yield successor
        if not position.closing:
            cancel = _event(node, "cancel", CANCELLED, EMPTY)
            if (successor := await self._next(node, event=cancel, odd=3)) is not None:
                yield successor

    async def repeat(self, node: Node, number: int) -> Node | None:
        """The successor in which the world gives the answer of this number to each question."""
        position = node.position
        acts = position.status != "paused" and not position.ended
        if number and acts and self._may_act(position.state):
            return await self._next(node, ((), number), odd=number)
        return await self.first(node)

    async def first(self, node: Node) -> Node | None:
        """The plainest successor; None if there is none."""
        successors = self.behind(node)
        try:
            return await anext(successors, None)
        finally:
            await successors.aclose()

    async def _action_nodes(self, node: Node) -> AsyncIterator[Node]:
        """The successors after the current action, one for each variant of the world's answers."""
        plain = await self._next(node)
        choices = tuple(self._world.choices)  # the next move replaces them
        if plain is not None:
            yield plain
        for variant in islice(_variants(choices), _VARIANTS):
            odd = sum(number > 0 for number in variant[0]) + sum(variant[0]) + variant[1]
            if (successor := await self._next(node, variant, odd=odd)) is not None:
                yield successor

    async def _answer_nodes(self, node: Node) -> AsyncIterator[Node]:
        """The successors after each answer to the wait of the run, or of a child of it."""
        position = node.position
        at = position.state if node.expired else ""
        if node.parent is not None and at == node.parent.position.state:
            return  # a scenario cannot address the second of two waits in one state
        question = position.child_question
        for word in self.chart.events_at(position.state) if question is None else question.events:
            fields = self.chart.answer_fields(position.state, word) if question is None else {}
            answers = chain(_answers_of(fields), _decisions_of(request_at(position), word, fields))
            for odd, data in enumerate(answers):
                answer = _event(node, "send", word, data)._replace(at=at)
                if (successor := await self._next(node, event=answer, odd=odd)) is not None:
                    yield successor

    def _may_act(self, state: str) -> bool:
        """Whether a search may run a state's action: a custom one only if it is pure."""
        action = self.chart.spec.states[state].action
        if action is None:
            return False
        if action.is_builtin or self._run_own or action.effect is Effect.PURE:
            return True
        self.not_run.add(state)
        return False

    # one record -----------------------------------------------------------------------------

    async def _next(
        self, node: Node, choices: Choices = ((), 0), *, event: EventMove | None = None,
        odd: int = 0,
    ) -> Node | None:  # fmt: skip
        """The node one record after this one; None if the run refuses or rests."""
        try:
            session = await self._at(node)
            kind = await self._record(session, choices, event)
        except ChartloopError:  # the run refuses this move
            return None
        finally:
            self.tried += 1 + len(self._world.choices)
        if kind is None:
            return None
        position = session.position
        waits_for_child = position.blocked_on == CHILD
        return Node(
            node.start, position, self._clock.now(), node, node.records + 1,
            node.oddness + odd + (event is not None), session.tally.failed_calls,
            tuple(self._world.answers), event, self._last_targets(session),
            tuple(session.tally.path), choices, kind == "expired",
            waits_for_child or (node.has_children and kind != "step"),
            node.cancels + (event is not None and event.kind == "cancel"),
        )  # fmt: skip

    async def _record(
        self, session: Session, choices: Choices, event: EventMove | None
    ) -> str | None:
        """Let a run take one record; its kind, or None if the run rests."""
        session.tally = Tally(failed_calls=session.tally.failed_calls)
        self._world.begin(*choices)
        if event is not None and event.kind == "send":
            await answer.send_answer(session, answer.Answer(event.word, event.data))
        elif event is not None:
            data = {"kind": "cancel", "reason": event.word, "data": {"message": ""}}
            now = session.ports.clock.now()
            await session.journal.send(RUN, InboxMessage(str(session.head), now, data))
        record = await advance(session)
        return None if record is None else record.kind

    async def _at(self, node: Node) -> Session:
        """A session of a run at a node."""
        if node.has_children and node.parent is not None:  # replay to create its children
            session = await self._at(node.parent)
            await self._record(session, node.choices, node.event)
            return session
        assert self._ports is not None
        # The candidates for replies depend on the limits of the node's start.
        key = repr(node.start.limits)
        if key not in self._worlds:
            spec = self.chart.spec
            self._worlds[key] = Replies(spec, hints_of(spec, node.position.facts))
        self._world.replies = self._worlds[key]
        self._clock.set(node.now)
        self._ports.fleet = fleet_facts(node.start.fleet)
        session = Session(self.chart, MemoryJournal(), RUN, self._ports)
        row = RunRow(RUN, self.chart.name, self.machine.hash)
        await session.journal.create(row)
        await session.become_driver()
        session.position = node.position
        session.tally = Tally(failed_calls=node.failed)
        return session

    def _last_targets(self, session: Session) -> frozenset[Target]:
        """The targets that the last record of a session shows."""
        tally, position = session.tally, session.position
        signalled = {signal.source for signal in tally.signals} & self._rules
        reason = position.signals.highest if position.ended else None
        name = "" if reason is None else str(reason.reason)
        return targets_of_run({*tally.taken, *signalled}, name, self._rules)


def _event(node: Node, kind: str, word: str, data: Mapping[str, Any]) -> EventMove:
    return EventMove(kind, word, data, node.position.facts.run.steps)


def _variants(plain: Sequence[Choice]) -> Iterator[Choices]:
    """Variants of the plain choices: all equal, then one different, then two different."""
    if len(plain) > 1:
        most = max(choice.options for choice in plain)
        yield from (((), n) for n in range(1, most))
    for at, choice in enumerate(plain):
        yield from (((0,) * at + (n,), 0) for n in range(1, choice.options))
    for one, other in combinations(range(len(plain)), 2):
        for n in range(1, min(_SECOND, plain[one].options)):
            for m in range(1, min(_SECOND, plain[other].options)):
                yield (0,) * one + (n,) + (0,) * (other - one - 1) + (m,), 0


def _answers_of(fields: Mapping[str, Type]) -> Iterator[dict[str, Any]]:
    """The candidate data of an answer."""
    fields = {name: type for name, type in fields.items() if not type.nullable}
    first = {name: values[0] for name, type in fields.items() if (values := _of_type(type))}
    yield first
    for name, type in fields.items():
        yield from ({**first, name: value} for value in _of_type(type)[1:])


def _decisions_of(
    request: Mapping[str, Any] | None, event: str, fields: Mapping[str, Type]
) -> Iterator[dict[str, Any]]:
    """The candidate data of an answer that decides on each call of an approval."""
    held = shown_calls(request) if request is not None else ()
    common = next(_answers_of(fields))
    first, *others = (call["key"] for call in held) if held else ("",)
    if held and event == ACCEPT:
        if others:
            yield {**common, "calls": {first: ACCEPT} | dict.fromkeys(others, DENY)}
        if "schema" in held[0]:
            replaced = {"result": "It is done already."}
            yield {**common, "calls": {first: replaced} | dict.fromkeys(others, ACCEPT)}
        if "remember" in fields:
            yield {**common, "remember": True}
    if held and event == EDIT:
        with suppress(ValueError):
            same = json.loads(held[0]["arguments"])
            numbers = {n: 0 for n, v in same.items() if isinstance(v, (int, float))}
            for arguments in (same, same | numbers):  # small numbers: `when` may not hold for them
                yield {**common, "calls": {first: {"arguments": arguments}}}


def _of_type(type: Type) -> Sequence[Any]:
    match type.kind:
        case "bool":
            return (True, False)
        case "int" | "float" | "duration" | "fraction":
            return (1, 0)
        case "list":
            return ([],)
        case "map" | "struct" | "any":
            return ({},)
        case "enum":
            return type.values
        case _:
            return ("yes",)


class _NullNotifier:
    """A notifier that sends nothing."""

    suspends = False

    async def notify(self, text: str, data: Mapping[str, Any]) -> None:
        """Send nothing."""

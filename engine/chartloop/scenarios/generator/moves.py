"""Nodes of the search, and what may happen next at each: one record of a real run.

A node holds a position. To follow it a session is put where the node is, the world is told what to
answer, and the run takes one record: the engine's own action, the engine's own decision.

Belongs here: from a node to the nodes behind it. Never: which node is followed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any, NamedTuple

from chartloop.api import Machine
from chartloop.core.errors import ChartloopError
from chartloop.core.facts import EMPTY
from chartloop.core.position import CHILD, Position
from chartloop.core.specs import Effect
from chartloop.core.types import Type
from chartloop.run import answer
from chartloop.run.context import Ports
from chartloop.run.journal import InboxMessage, MemoryJournal, RunRow
from chartloop.run.loop import advance
from chartloop.run.session import Session
from chartloop.run.tally import Tally
from chartloop.scenarios.generator.hints import hints_of
from chartloop.scenarios.generator.replies import Replies
from chartloop.scenarios.generator.search_targets import CANCELLED, Target, targets_of_run
from chartloop.scenarios.generator.starts import Start
from chartloop.scenarios.generator.world import Answer, Choice, World
from chartloop.testing.clock import ManualClock

RUN = "generated"
CANCEL = 3
"""For how many records more than its own a cancel counts."""
_SECOND = 6
"""Answers of each question that are tried where two are answered otherwise at once."""
_VARIANTS = 120
"""Ways of one action that are tried, at most."""


Chosen = tuple[Sequence[int], int]
"""What the world answers in one action, question by question, and what to all others."""


class Happening(NamedTuple):
    """Something from outside, as an event of a scenario."""

    kind: str
    """`send` or `cancel`."""
    word: str
    data: Mapping[str, Any]
    after: int
    """Steps that were finished."""
    at: str = ""
    """The state for whose wait it is, where steps alone do not say that."""


@dataclass(slots=True, eq=False)
class Node:
    """A run at one moment, and how it came there."""

    start: Start
    position: Position
    now: float
    parent: Node | None = None
    records: int = 1
    oddness: int = 0
    """How far its way differs from what is plain; of two as short the plainer is taken."""
    failed: int = 0
    """Model calls that gave no reply: a script counts them."""
    said: tuple[Answer, ...] = ()
    event: Happening | None = None
    shown: frozenset[Target] = frozenset()
    """What the last record showed."""
    path: tuple[str, ...] = ()
    """States that the last record entered."""
    chosen: Chosen = ((), 0)
    """The choices that the last record was made with."""
    expired: bool = False
    """The last record was a wait that no one answered."""
    held: bool = False
    """Children of the current action have started: they are in the journal of the way only."""

    cancels: int = 0

    @property
    def length(self) -> int:
        """Records; a cancel counts as several: a run that ends by itself shows more."""
        return self.records + CANCEL * self.cancels

    @property
    def cost(self) -> tuple[int, int]:
        """How long its way is, then how plain."""
        return self.length, self.oddness

    @property
    def wait_over(self) -> bool:
        """Whether it rests: ended, or waiting for someone without a time."""
        position = self.position
        return position.ended or (position.status == "paused" and position.wake_at is None)

    def way(self) -> list[Node]:
        """The nodes from the start to here."""
        found: list[Node] = []
        node: Node | None = self
        while node is not None:
            found.append(node)
            node = node.parent
        return found[::-1]


class Moves:
    """What may happen next at a node of a machine."""

    def __init__(
        self, machine: Machine, world: World, clock: ManualClock, *, run_own: bool
    ) -> None:
        self.machine = machine
        self.chart = machine.chart
        self.tried = 0
        """The work that the search has done: moves that were tried, and answers that they took."""
        self.not_run: set[str] = set()
        """States whose action is the application's own and has effects: none was run."""
        self._world = world
        self._clock = clock
        self._run_own = run_own
        self._rules = frozenset(rule.id for rule in machine.spec.rules)
        self._worlds: dict[str, Replies] = {}
        self._ports: Ports | None = None

    async def begin(self, start: Start) -> Node | None:
        """The node behind the start record; None where a run cannot start so."""
        self.tried += 1
        self._clock.set(ManualClock().now())
        try:
            run = self.machine.start(
                start.task, limits=start.limits, vars=start.vars, tasks=start.tasks,
                model=self._world.model, clock=self._clock, run_id=RUN, notifier=_Nobody(),
            )  # fmt: skip
        except ChartloopError:
            if start == Start():
                raise
            return None
        session = run.session
        self._ports = session.ports
        await advance(session)
        return Node(
            start, session.position, self._clock.now(), oddness=4 * start.oddness,
            shown=self._last_targets(session), path=tuple(session.tally.path),
        )  # fmt: skip

    async def behind(self, node: Node) -> AsyncGenerator[Node, None]:
        """Every node that is one record behind this one, the plainest first."""
        position = node.position
        if position.ended:
            return
        if position.status == "paused":
            async for found in self._answer_nodes(node):
                yield found
            if position.wake_at is not None and (late := await self._next(node)) is not None:
                yield late
        elif self._may_act(position.state):
            async for found in self._action_nodes(node):
                yield found
        if not position.closing:
            cancel = _event(node, "cancel", CANCELLED, EMPTY)
            if (stopped := await self._next(node, event=cancel, odd=3)) is not None:
                yield stopped

    async def alike(self, node: Node, number: int) -> Node | None:
        """The one behind it in which the world gives the answer of this number to everything."""
        position = node.position
        acts = position.status != "paused" and not position.ended
        if number and acts and self._may_act(position.state):
            return await self._next(node, ((), number), odd=number)
        return await self.first(node)

    async def first(self, node: Node) -> Node | None:
        """The plainest of them."""
        found = self.behind(node)
        try:
            return await anext(found, None)
        finally:
            await found.aclose()

    async def _action_nodes(self, node: Node) -> AsyncIterator[Node]:
        """The next nodes after the current action, one for each outcome that the world may give."""
        plain = await self._next(node)
        made = tuple(self._world.made)  # before anybody else asks the world
        if plain is not None:
            yield plain
        for chosen in islice(_variants(made), _VARIANTS):
            odd = sum(number > 0 for number in chosen[0]) + sum(chosen[0]) + chosen[1]
            if (found := await self._next(node, chosen, odd=odd)) is not None:
                yield found

    async def _answer_nodes(self, node: Node) -> AsyncIterator[Node]:
        """The next nodes after each answer where the run, or a child of it, waits."""
        position = node.position
        at = position.state if node.expired else ""
        if node.parent is not None and at == node.parent.position.state:
            return  # no file can say that this is for the second of two waits in one state
        asked = position.child_question
        for word in self.chart.events_at(position.state) if asked is None else asked.events:
            fields = self.chart.answer_fields(position.state, word) if asked is None else {}
            for odd, data in enumerate(_answers_of(fields)):
                answer = _event(node, "send", word, data)._replace(at=at)
                if (found := await self._next(node, event=answer, odd=odd)) is not None:
                    yield found

    def _may_act(self, state: str) -> bool:
        """Whether the action of a state may be run in a search: an own one only when it is pure."""
        action = self.chart.spec.states[state].action
        if action is None:
            return False
        if action.is_builtin or self._run_own or action.effect is Effect.PURE:
            return True
        self.not_run.add(state)
        return False

    # one record -----------------------------------------------------------------------------

    async def _next(
        self, node: Node, chosen: Chosen = ((), 0), *, event: Happening | None = None, odd: int = 0
    ) -> Node | None:
        """The node behind one record of a run that is at this node; None where it refuses."""
        try:
            session = await self._at(node)
            kind = await self._record(session, chosen, event)
        except ChartloopError:  # what a run refuses is no way
            return None
        finally:
            self.tried += 1 + len(self._world.made)
        if kind is None:
            return None
        position = session.position
        waits_for_child = position.blocked_on == CHILD
        return Node(
            node.start, position, self._clock.now(), node, node.records + 1,
            node.oddness + odd + (event is not None), session.tally.failed_calls,
            tuple(self._world.said), event, self._last_targets(session), tuple(session.tally.path),
            chosen, kind == "expired", waits_for_child or (node.held and kind != "step"),
            node.cancels + (event is not None and event.kind == "cancel"),
        )  # fmt: skip

    async def _record(
        self, session: Session, chosen: Chosen, event: Happening | None
    ) -> str | None:
        """Let a run take one record; its kind, or None when it rests."""
        session.tally = Tally(failed_calls=session.tally.failed_calls)
        self._world.begin(*chosen)
        if event is not None:
            await _send(session, event)
        record = await advance(session)
        return None if record is None else record.kind

    async def _at(self, node: Node) -> Session:
        """A session of a run that is at a node."""
        if node.held and node.parent is not None:  # its children must be there
            session = await self._at(node.parent)
            await self._record(session, node.chosen, node.event)
            return session
        assert self._ports is not None
        self._ask_for(node)
        self._clock.set(node.now)
        session = Session(self.chart, MemoryJournal(), RUN, self._ports)
        row = RunRow(RUN, self.chart.name, self.machine.hash)
        await session.journal.create(row)
        await session.take_over()
        session.position = node.position
        session.tally = Tally(failed_calls=node.failed)
        return session

    def _ask_for(self, node: Node) -> None:
        """The world answers as the limits of the node's start ask for."""
        key = repr(node.start.limits)
        if key not in self._worlds:
            spec = self.chart.spec
            self._worlds[key] = Replies(spec, hints_of(spec, node.position.facts))
        self._world.replies = self._worlds[key]

    def _last_targets(self, session: Session) -> frozenset[Target]:
        """The targets that the last record of a session covers."""
        tally, position = session.tally, session.position
        signalled = {signal.source for signal in tally.signals} & self._rules
        reason = position.signals.highest if position.ended else None
        name = "" if reason is None else str(reason.reason)
        return targets_of_run({*tally.taken, *signalled}, name, self._rules)


def _event(node: Node, kind: str, word: str, data: Mapping[str, Any]) -> Happening:
    return Happening(kind, word, data, node.position.facts.run.steps)


async def _send(session: Session, event: Happening) -> None:
    """As `Run.send` and `Run.cancel` do."""
    if event.kind == "send":
        await answer.send_answer(session, answer.Answer(event.word, event.data))
        return
    data = {"kind": "cancel", "reason": event.word, "data": {"message": ""}}
    now = session.ports.clock.now()
    await session.journal.send(RUN, InboxMessage(str(session.head), now, data))


def _variants(made: Sequence[Choice]) -> Iterator[Chosen]:
    """Other choices than the plain ones: all questions answered alike, one otherwise, then two."""
    if len(made) > 1:
        most = max(choice.options for choice in made)
        yield from (((), n) for n in range(1, most))
    for at, choice in enumerate(made):
        yield from (((0,) * at + (n,), 0) for n in range(1, choice.options))
    for one, other in combinations(range(len(made)), 2):
        for n in range(1, min(_SECOND, made[one].options)):
            for m in range(1, min(_SECOND, made[other].options)):
                yield (0,) * one + (n,) + (0,) * (other - one - 1) + (m,), 0


def _answers_of(fields: Mapping[str, Type]) -> Iterator[dict[str, Any]]:
    """Data that an answer may carry."""
    first = {name: values[0] for name, type in fields.items() if (values := _of_type(type))}
    yield first
    for name, type in fields.items():
        yield from ({**first, name: value} for value in _of_type(type)[1:])


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


class _Nobody:
    """A notifier that no one hears."""

    suspends = False

    async def notify(self, text: str, data: Mapping[str, Any]) -> None:
        """Say it to no one."""

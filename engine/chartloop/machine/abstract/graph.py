"""Every place where a run may be, and every route from there: the graph that proofs walk.

A `Place` is a state together with everything else that decides where a run goes from it: detours to
return from, the attempt of a retry, a continuation, whether a stop has been decided, the branch of
a fork. A `Route` is one move of the engine: an edge, a retry, a rule, a signal. `gates` are its
conditions on counters: with ``{"run.steps": 20}`` it is not taken once there are 20 steps. `after`
are the counts that it adds once it is taken.

Places abstract the positions of `machine.evolve`: they keep only what the file determines. A change
to `machine.transition` or `machine.rules` needs a change here, and the law in
``tests/laws/test_bound_laws.py`` detects a difference. Both follow `machine.transition_table.ORDER`
for the order in which a state tries its own transitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chartloop.core.errors import RETRY_ON, Category
from chartloop.core.specs import ActionSpec
from chartloop.language.expression import Expression
from chartloop.language.intervals.interval import INF
from chartloop.language.spec import Assign, Rule, StateSpec
from chartloop.machine.abstract.counters import Counting
from chartloop.machine.abstract.edges import OwnMoves, plain
from chartloop.machine.abstract.failures import Failures, is_sure
from chartloop.machine.abstract.graph_builder import MOST_ROUTES, NOTHING, Done, GraphBuilder
from chartloop.machine.abstract.position import (
    Branch,
    Move,
    Place,
    Reached,
    Target,
    add_counts,
    highest,
    is_closed,
    join_gates,
)
from chartloop.machine.abstract.signals import (
    FROM_ANYBODY,
    OF_A_GUARD,
    concerns_failure,
    hands_down,
    longest_wait,
    raised_after,
)
from chartloop.machine.abstract.thresholds import ANY, Now, World
from chartloop.machine.build import Chart
from chartloop.machine.transition_table import END_ERROR, ENGINE_ENDS, ORDER

_CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "failed": RETRY_ON, "late": ("TRANSIENT",),
}  # fmt: skip
"""What `retry` may name of each outcome."""
BEGIN = ""
"""The state of the place before the start, and of places where a stop is decided."""


class Routes(GraphBuilder):
    """The graph of one machine with given limits."""

    def __init__(
        self, chart: Chart, world: World, counting: Counting, start: str = "",
        most: int = MOST_ROUTES, *, starts: Iterable[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(counting.first, most)
        self.chart = chart
        self.spec = chart.spec
        self.world = world
        self.counting = counting
        self._rules_on_failures = any(concerns_failure(rule) for rule in self.spec.rules)
        others = tuple(r for r in self.spec.reasons if r not in FROM_ANYBODY)
        self.outside = {
            "outside": Place(BEGIN, stopping=True, stops=(), raised=FROM_ANYBODY),
            "caller": Place(BEGIN, stopping=True, stops=(), raised=others),
        }
        self.own = OwnMoves(chart, world)
        self.failures = Failures(chart)
        begin = Place(BEGIN)
        self.number(begin)
        self.pending.clear()
        every = (*self.spec.entries, *starts)
        self.entries = (start,) if start else tuple(dict.fromkeys(every))
        """The states at which runs begin."""
        for name in self.entries:
            self.entry = name
            self._begin(begin, name)
        self.entry = ""
        while self.pending:
            self._expand(self.pending.popleft())

    def _enter(
        self, place: Place, name: str, *, stop: bool = False, attempt: int = 0, skip: str = "",
        returns: tuple[tuple[str, Target], ...] | None = None, sets: tuple[Assign, ...] = (),
        reached: Reached = (),
    ) -> tuple[Place, dict[str, float]]:  # fmt: skip
        """The place after entering a state, and the counts that this adds."""
        after = dict(self.counting.of_sets(sets))
        if name in ENGINE_ENDS:
            return Place(name, stopping=True), after
        state = self.spec.states[name]
        add_counts(after, self.counting.of_entry(state))
        stopping = place.stopping or stop or bool(state.stop)
        if state.job == "end" or stopping:
            return Place(name, stopping=True, ok=None if state.rests else place.ok), after
        back = place.returns if returns is None else returns
        acts = state.action is not None
        return Place(
            name, () if name in self.chart.main else back, attempt, place.continued,
            skip="" if acts else skip, ok=None if acts else place.ok,
            reached=highest(place.reached, reached),
        ), after  # fmt: skip

    def _follow(
        self, source: Place, at: Place, move: Move, *, done: Done = NOTHING,
        more: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        """Add the route of a state's own move. `at` is the place after the outcome."""
        target, returns, skip = move.target, at.returns, at.skip
        if target is None:
            if not returns:
                return
            (_, target), returns = returns[-1], returns[:-1]
        if target.fork:
            branch = Branch(target.state, 0)
            dest, after = (
                at._replace(state=target.state, branch=branch, attempt=0, returns=returns),
                dict[str, float](),
            )
        else:
            dest, after = self._enter(
                at, target.state, stop=target.stop, attempt=target.attempt, skip=skip,
                returns=returns, sets=target.set, reached=move.reached,
            )  # fmt: skip
        add_counts(after, more or {})
        self.add(
            source, dest, move.origin, move.kind, done=done, gates=move.gates,
            after=after, wait=move.wait,
        )  # fmt: skip

    # routes -----------------------------------------------------------------------------------

    def _begin(self, begin: Place, start: str) -> None:
        at, after = self._enter(begin, start)
        gates = self._stop_gates(start, at, start if start in self.chart.acting else "")
        # the start is entered before rules are evaluated, so they see its counts
        if not self.never({n: value - after.get(n, 0) for n, value in gates.items()}):
            self.add(begin, at, "start", "start", after=after)
        if not at.stopping:
            stay = Move(f"={start}", "start", Target(start))
            into = start if start in self.chart.acting else ""
            self._detours(begin, at, [stay._replace(into=into)], more=after)
            self._add_stops(begin, start, [into], kind="start")
            self._from_outside(begin)

    def _expand(self, place: Place) -> None:
        if place.stops is not None:
            self._stop(place)
        elif place.branch is not None:
            self._walk_branch(place, place.branch)
        elif (
            place.state not in self.spec.states
            or (state := self.spec.states[place.state]).job == "end"
        ):
            return
        elif state.action is not None:
            self._act(place, state, state.action)
        elif state.job == "wait":
            self._wait(place, state)
        elif place.state in self.chart.joins:
            self._follow(place, place, Move(f"{state.name}.all", "fork", Target(state.name, True)))
        else:
            self._pass(place, state)

    def _stop(self, place: Place) -> None:
        for id in place.stops or ():
            rule = next(r for r in self.spec.rules if r.id == id)
            self._stop_at(place, rule.to or self.chart.route(rule.stop), id, "rule")
        for dest in dict.fromkeys(self.chart.route(reason) for reason in place.raised):
            self._stop_at(place, dest, f"raised.{dest}", "raised")

    def _from_outside(self, place: Place, done: Done = NOTHING) -> None:
        for kind, stop in self.outside.items():
            self.add(place, stop, kind, kind, done=done)

    def _stop_at(self, place: Place, name: str, origin: str, kind: str) -> None:
        dest, after = self._enter(place, name, stop=True)
        self.add(place, dest, origin, kind, after=after)

    def _raised_reasons(self, name: str, outcome: str = "") -> tuple[str, ...]:
        """The reasons, other than those of rules, that may be raised on leaving a state."""
        state, breaks = self.spec.states.get(name), self.failures.at(name)
        if outcome in ("", "resumed") or state is None or state.action is None:
            return raised_after(self.spec, None, breaks=breaks)
        sure = outcome == "ok" and is_sure(self.chart, state)
        return raised_after(self.spec, state, sure=sure, breaks=breaks)

    def _add_stops(
        self, source: Place, state: str, into: Iterable[str] = (), *, kind: str = "stop",
        done: Done = NOTHING, general: bool = True, more: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        """Add a route to a place where a stop is decided, if anything may stop the run."""
        raised, near = self._raised_reasons(state, done[1]), set(into)
        if not general and self.failures.may_loop(state):
            raised = (*raised, "error")
        ids = tuple(
            r.id for r in self.spec.rules
            if r.kind == "stop" and (bool(near & set(r.before)) if r.before
                                     else general and (not r.at or state in r.at))
            and self.world.verdict(r.when, ANY) is not False
        )  # fmt: skip
        if ids or raised:
            stops = Place(BEGIN, stopping=True, stops=ids, raised=raised)
            self.add(source, stops, kind, kind, done=done, after=more)

    def _act(self, place: Place, state: StateSpec, action: ActionSpec) -> None:
        outcomes = ["ok"] if is_sure(self.chart, state) else ["ok", "failed"]
        if any(state.edges_of("expired")):
            outcomes.append("late")
        if not place.stopping:
            self._from_outside(place)
            if action.may_wait or (place.attempt and longest_wait(state, place.attempt) > 0):
                stay = Move(f"={state.name}", "resume", Target(state.name), into=state.name)
                at, done = place._replace(attempt=0), (state.name, "resumed")
                self._add_stops(place, state.name, [state.name], done=done)
                self._detours(place, at, [stay], done=done)
        for outcome in outcomes:
            if hands_down(self.spec, state) and not place.stopping:
                self._from_outside(place, (state.name, outcome))
            self._after(place, state, action, outcome)

    def _after(self, place: Place, state: StateSpec, action: ActionSpec, outcome: str) -> None:
        """Add every route after an outcome of an action."""
        left = place._replace(attempt=0, skip="", ok=outcome == "ok")
        if place.stopping:
            moves = self.own.of(state, "advance", left)
            self._epilogue(place, left, moves, done=(state.name, outcome))
            return
        if action.work:
            left = left._replace(continued=False)
        granted, times = left._replace(continued=True), self.counting.continuations(state)
        continues = bool(action.traits.continues) and outcome == "ok"
        if continues and "run.continuations" in self.counting.counters and times < INF:
            if not self.world.lowered:  # it is refused only once it was granted as often
                left = left._replace(reached=highest(left.reached, (("run.continuations", times),)))
        moves = self._moves(place, left, state, outcome)
        self._decide(place, left, moves, done=(state.name, outcome))
        if continues:
            more = {"run.continuations": 1.0}
            moves = self._moves(place, granted, state, outcome)
            gated = [
                m._replace(gates=join_gates(m.gates, {"run.continuations": times})) for m in moves
            ]
            self._decide(place, granted, gated, done=(state.name, outcome), more=more)

    def _moves(self, place: Place, left: Place, state: StateSpec, outcome: str) -> list[Move]:
        """The state's own moves for an outcome of its action, which left the run at `left`.

        They come in the order of the live machine, and end with one that is certain to be taken.
        """
        moves: list[Move] = []
        for trial in ORDER:
            match trial:
                case "retry" if outcome != "ok":
                    moves += self._retries(place, state, _CATEGORIES[outcome])
                    if outcome == "failed" and _retries_surely(state, place):
                        return moves
                case "divert" if outcome == "failed":
                    if diverting := [t for t in self.own.at(state.name) if t.diverts]:
                        return [*moves, plain(diverting[0])]
                case "edges" if outcome != "failed" or self._goes_on(state, left):
                    trigger = "expired" if outcome == "late" else "advance"
                    return [*moves, *self.own.of(state, trigger, left)]
                case _:  # it does not apply to this outcome
                    pass
        return moves

    def _goes_on(self, state: StateSpec, left: Place) -> bool:
        """Whether a failure may take the edges of a success; else it stops the run."""
        return state.name in self.chart.handled or left.continued or self._rules_on_failures

    def _retries(self, place: Place, state: StateSpec, categories: tuple[str, ...]) -> list[Move]:
        """The move of a retry or repair, in any order, as long as attempts are left."""
        retry = state.retry
        on = {*(retry.on if retry else ()), *(["RECOVERABLE"] if state.repairs else ())}
        if place.attempt >= state.attempts or not on & set(categories):
            return []
        again = Target(state.name, attempt=place.attempt + 1)
        wait = (0.0, 0.0)
        if retry is not None:
            least = 0.0 if state.repairs else retry.wait(place.attempt)  # a repair does not wait
            wait = least, longest_wait(state, place.attempt)
        return [Move(f"{state.name}.retry", "retry", again, wait=wait, into=state.name)]

    def _epilogue(self, place: Place, at: Place, moves: list[Move], *, done: Done) -> None:
        """Add the routes after a stop: rules are off, and a failure continues like a success."""
        for move in moves:
            self._follow(place, at, move, done=done)
        if self.failures.at(place.state) or not moves:
            dest = Place(END_ERROR, stopping=True)
            self.add(place, dest, "raised.end-error", "raised", done=done)

    def _wait(self, place: Place, state: StateSpec) -> None:
        if not place.stopping:
            self._from_outside(place, (state.name, "left"))
        if isinstance(state.within, Expression) and state.within.may_fail:
            self._break(place)  # when the wait starts
        for trigger in self.chart.events_at(state.name):
            self._decide_wait(place, state, trigger, f"answer:{trigger}")
        if state.within is not None:
            self._decide_wait(place, state, "expired", "expired")

    def _break(self, place: Place) -> None:
        """Add a route out of a state in the middle of a decision, where rules are not evaluated."""
        dest = Place(END_ERROR, stopping=True)
        if not place.stopping:
            dest = Place(BEGIN, stopping=True, stops=(), raised=OF_A_GUARD)
        self.add(place, dest, "raised.guard_error", "stop")

    def _decide_wait(self, place: Place, state: StateSpec, trigger: str, outcome: str) -> None:
        moves = self.own.of(state, trigger, place)
        if place.stopping:
            self._epilogue(place, place, moves, done=(state.name, outcome))
            return
        self._decide(place, place, moves, done=(state.name, outcome))

    def _decide(
        self, source: Place, at: Place, moves: list[Move], *, done: Done,
        more: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        """Add the routes of rules, then those of the state's own moves."""
        self._add_stops(source, done[0], [m.into for m in moves], done=done, more=more)
        self._detours(source, at, moves, done=done, more=more)
        for move in moves:
            gates = self._stop_gates(done[0], at, move.into)
            if not is_closed(gates):
                joined = move._replace(gates=join_gates(move.gates, gates))
                self._follow(source, at, joined, done=done, more=more)

    def _pass(self, place: Place, state: StateSpec) -> None:
        moves = self.own.of(state, "advance", place)
        near = [m.into for m in moves if m.into in self.chart.before and not place.stopping]
        if not place.stopping:
            self._add_stops(place, state.name, near, general=False)
        elif self.failures.at(state.name) or self.failures.may_loop(state.name):
            self._break(place)
        for move in moves:
            if not move.into or place.stopping or move.into not in self.chart.before:
                self._follow(place, place, move)
                continue
            self._detours(place, place, [move], general=False)
            gates = self._stop_gates(state.name, place, move.into, general=False)
            if not is_closed(gates):
                self._follow(place, place, move._replace(gates=join_gates(move.gates, gates)))

    def _walk_branch(self, place: Place, branch: Branch) -> None:
        fork, join = self.spec.states[branch.fork], self.chart.joins[branch.fork]
        if place.state == branch.fork:
            first = fork.all[branch.number]
            after = self.counting.of_visit(first)
            origin = f"{fork.name}.all.{branch.number}"
            self._arrive(place, branch, first, join, Move(origin, "fork", None), after=after)
            return
        state = self.spec.states[place.state]
        if self.failures.at(place.state):
            self._break(place)
        for move in self.own.of(state, "advance", place):
            if move.target is not None:
                to = move.target.state
                self._arrive(place, branch, to, join, move, after=self.counting.of_visit(to))

    def _arrive(
        self, place: Place, branch: Branch, to: str, join: str | None, move: Move,
        *, after: Mapping[str, float],
    ) -> None:  # fmt: skip
        """Add one step of a branch: to its next state, or from its end to the next branch."""
        state = self.spec.states.get(to)
        ended = to == join or state is None or bool(state.stop) or state.job == "end"
        if not ended:
            dest = place._replace(state=to, branch=branch)
            self.add(place, dest, move.origin, move.kind, gates=move.gates, after=after)
            return
        best = branch.best if to == join else self._higher(branch.best, to)
        number = branch.number + 1
        if number < len(self.spec.states[branch.fork].all):
            dest = place._replace(state=branch.fork, branch=Branch(branch.fork, number, best))
            self.add(place, dest, move.origin, move.kind, gates=move.gates)
            return
        out = place._replace(branch=None)
        name, gates = best or join, move.gates
        if name is None:
            return
        if name == join and name in self.chart.before and not place.stopping:
            self._add_stops(place, place.state, [name], general=False)
            self._detours(place, out, [Move("", "", Target(name), into=name)], general=False)
            gates = join_gates(gates, self._stop_gates(place.state, out, name, general=False))
        dest, entered = self._enter(out, name, attempt=0, skip=place.skip)
        if not is_closed(gates):
            self.add(place, dest, move.origin, move.kind, gates=gates, after=entered)

    def _higher(self, best: str, to: str) -> str:
        def rank(name: str) -> int:
            stop = self.spec.states[name].stop
            return self.spec.reason(stop).priority if stop else 99

        return to if not best or rank(to) < rank(best) else best

    # rules ------------------------------------------------------------------------------------

    def _covers(self, rule: Rule, state: str, into: str, general: bool) -> bool:
        if rule.before:
            return into in rule.before
        return general and (not rule.at or state in rule.at)

    def _stop_gates(
        self, state: str, at: Place, into: str, general: bool = True
    ) -> dict[str, float]:
        """The values that counters must stay below for no stop rule to hold."""
        if at.continued or at.stopping:
            return {}
        gates = dict[str, float]()
        now = Now(ok=at.ok, signalled=False)
        for rule in self.spec.rules:
            if rule.kind == "stop" and self._covers(rule, state, into, general):
                if self.world.verdict(rule.when, now):
                    return {"": 0}
                gates = join_gates(gates, self.world.turns(rule.when, now).true)
        return gates

    def _detours(
        self, source: Place, at: Place, moves: list[Move], *, done: Done = NOTHING,
        general: bool = True, more: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        """Add every detour that may be made instead of one of these moves."""
        added = set[tuple[str, Target | None]]()
        here = done[0] or source.state or at.state
        now = Now(at.continued, at.ok, signalled=False)
        for rule in self.spec.rules:
            if rule.kind != "detour" or rule.id == at.skip:
                continue
            if any(id == rule.id for id, _ in at.returns):
                continue
            if self.world.verdict(rule.when, now) is False:
                continue
            below = self.world.turns(rule.when, now).false
            for move in moves:
                if not self._covers(rule, here, move.into, general):
                    continue
                gates = join_gates(below, self._stop_gates(here, at, move.into, general))
                returns, pending = at.returns, None
                if self.chart.returnable[rule.id]:
                    pending = move.target or (at.returns[-1][1] if at.returns else None)
                    if pending is None:
                        continue
                    returns = (*at.returns, (rule.id, pending))
                if is_closed(gates) or (rule.id, pending) in added:
                    continue
                added.add((rule.id, pending))
                dest, after = self._enter(at, rule.to, skip=rule.id, returns=returns)
                add_counts(after, more or {})
                self.add(source, dest, rule.id, "rule", done=done,
                          gates=gates, after=after)  # fmt: skip


def _retries_surely(state: StateSpec, place: Place) -> bool:
    """Whether every failure is tried again."""
    retry = state.retry
    return retry is not None and {*Category} <= {*retry.on} and place.attempt < retry.times

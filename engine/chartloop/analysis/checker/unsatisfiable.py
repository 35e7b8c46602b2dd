"""Guards that never hold, always hold, or are hidden by others, as far as provable.

A finding here is a proof: the guard is refuted for all values of its facts, and any limits and
variables that a caller may give. Duplicate guards, and guards that are literally true or false,
belong to `checker.guards`.
"""

from __future__ import annotations

from collections.abc import Sequence

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.analysis.checker.knowledge import Knowledge, Known, groups, guard_of
from chartloop.analysis.proofs.guards.prover import Claim
from chartloop.language.expression.tree import Node
from chartloop.language.spec import Edge, StateSpec
from chartloop.language.yaml.reading import Path

_WRITTEN_OUT = ("True", "False")
"""The texts of guards that have a finding of their own."""


def check_never(context: CheckContext, knowledge: Knowledge) -> None:
    """Check the guards of every state, in the order of evaluation."""
    for state in context.spec.states.values():
        for group in groups(state):
            if len(group) > 1 or group[0].when is not None:
                _Group(context, knowledge.at(state.name), state, group).check()


class _Group:
    """Edges that are tried one after the other."""

    def __init__(
        self, context: CheckContext, known: Known, state: StateSpec, edges: Sequence[Edge]
    ) -> None:
        self.context = context
        self.prover = context.prover
        self.known = known if edges[0].role != "failed" else ()
        self.state = state
        self.edges = edges
        self.before: list[tuple[Edge, Node]] = []

    def check(self) -> None:
        """Report edges that are never taken, up to a guard that always holds."""
        for number, edge in enumerate(self.edges):
            guard = guard_of(self.state, edge)
            if guard is None:
                self._default(edge)
                return
            if guard.text in _WRITTEN_OUT or self._has_finding(edge):
                self.before.append((edge, guard))
                continue
            if not self._never(edge, guard) and number + 1 < len(self.edges):
                if self._always(edge, guard, self.edges[number + 1]):
                    return
            self.before.append((edge, guard))

    def _has_finding(self, edge: Edge) -> bool:
        return self.context.has_finding_at(edge.path) or self.context.has_finding_at(
            self._path(edge)
        )

    def _path(self, edge: Edge) -> Path:
        return edge.path if edge.role == "case" else edge.guard_path

    def _lost(self, edge: Edge) -> str:
        """Say that an edge is never taken, nor its target reached if nothing else leads there."""
        message = f"the edge of `{self.state.name}` to `{edge.target}` is never taken"
        graph, target = self.context.paths, edge.target
        others = sum(e.target == target for e in self.state.edges) > 1
        alone = target in graph and set(graph.predecessors(target)) == {self.state.name}
        if alone and not others and target not in self.context.opened:
            message += f", nor `{target}` reached"
        return message

    def _possible(self, *claims: Claim, edge: Edge) -> bool:
        at = self.context.full(self._path(edge))
        return self.prover.ask(claims, at=at).possible is not False

    def _never(self, edge: Edge, guard: Node) -> bool:
        holds, path = Claim(guard), self._path(edge)
        before = [Claim(node, False) for _, node in self.before]
        if self._possible(*self.known, *before, holds, edge=edge):
            return False
        what = self._lost(edge)
        if not self._possible(holds, edge=edge):
            message = f"{what}: `{guard.text}` can never hold"
            self.context.say("CL326", path, message, hint=_hint(edge))
        elif not self._possible(*self.known, holds, edge=edge):
            message = f"{what}: {self._because(holds, edge)}"
            self.context.say("CL326", path, message, hint=_hint(edge))
        else:
            first, hiding = (), "that of one before it"
            for other, node in self.before:
                if not self._possible(Claim(node, False), holds, edge=edge):
                    first, hiding = self._path(other), f"`{node.text}`"
                    break
            message = f"{what}: whenever its guard holds, {hiding} does, and is evaluated first"
            self.context.say_behind("CL328", edge.path, message, first)
        return True

    def _because(self, claim: Claim, edge: Edge) -> str:
        for known in reversed(self.known):
            if not self._possible(known, claim, edge=edge):
                verb = "holds" if known.holds else "does not hold"
                return f"`{known.node.text}` {verb} here, so `{claim.node.text}` cannot"
        return f"after what was decided on the path here `{claim.node.text}` cannot hold"

    def _always(self, edge: Edge, guard: Node, after: Edge) -> bool:
        """Report a guard that always holds where it is evaluated, and so hides later edges."""
        before = [Claim(node, False) for _, node in self.before]
        if self._possible(*self.known, *before, Claim(guard, False), edge=edge):
            return False
        if edge.role == "case" or before:
            return False  # reported for the later edges
        here = " here" if self._possible(Claim(guard, False), edge=edge) else ""
        message = f"`{guard.text}` always holds{here}: {self._lost(after)}"
        hint = "compare with something else, or leave the guard out"
        self.context.say("CL327", self._path(edge), message, hint=hint)
        return True

    def _default(self, edge: Edge) -> None:
        before = [Claim(node, False) for _, node in self.before]
        if not before or self._has_finding(edge):
            return
        if not self._possible(*self.known, *before, edge=self.before[-1][0]):
            what = self._lost(edge)
            if edge.role == "else" and self.state.of is not None:
                why = f"`{self.state.of.text}` is always one of the cases"
            else:
                texts = [f"`{node.text}`" for _, node in self.before]
                why = f"{' or '.join(texts[:3])} always holds"
            hint = "remove it, or let one of the guards before it leave something over"
            self.context.say("CL328", edge.path, f"{what}: {why}", hint=hint)


def _hint(edge: Edge) -> str:
    return "remove the case" if edge.role == "case" else "fix the guard, or remove the edge"

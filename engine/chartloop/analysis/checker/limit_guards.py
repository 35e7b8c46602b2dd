"""Limits that nothing reads, and guards that the model's settings leave without effect.

Source: docs/language.md, "Limits and variables".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import chain

from chartloop.analysis.checker.check_context import CheckContext, guards_of, parts_of, reads_of
from chartloop.language.expression import Expression
from chartloop.language.expression.tree import Fact
from chartloop.language.spec import MachineSpec
from chartloop.language.yaml.reading import Path


def check_limits(context: CheckContext) -> None:
    """Find limits without a reader, costs without a price, a context without a window."""
    limits, model = list(context.spec.limits), context.spec.model
    # those that an unreadable text seems to name, even misspelt, may be used there
    words = [w.split(".") for w in context.unread.words if "." in w]
    named = [name for root, name, *_ in words if get_close_matches(root, ["limits"])]
    used = _used(context.spec, context.parts if limits else ()) | {
        c for n in named for c in get_close_matches(n, limits, n=1)
    }
    for name in limits:
        if name not in used:
            message = f"limit `{name}` is declared but nothing reads it: it is not enforced"
            hint = f"add a rule such as `{{when: ... >= limits.{name}, stop: ...}}`, or remove it"
            context.say("CL315", ("limits", name), message, hint=hint, key=True)
    for path, guard in guards_of(context.spec):
        for atom in guard.atoms:
            right = atom.link.right if atom.link is not None else None
            limit = context.fixed.get(right.path) if isinstance(right, Fact) else None
            share = atom.left.type.kind == "fraction" and not context.has_finding_at(path)
            if share and not context.broken and isinstance(limit, (int, float)) and limit > 1:
                message = f"`{atom.text}` compares a share with {limit:,}, so it never holds"
                hint = f"write `{limit:g}%`"
                context.say("CL330", path, message, hint=hint, of=atom.text)
    if model.get("name", "scripted") != "scripted":
        return
    if "input_cost_per_token" not in model or "output_cost_per_token" not in model:
        for path, fact in _read(context.spec, "usage.cost"):
            message = "this cannot be enforced: the model's price is not known"
            hint = "give `input_cost_per_token` and `output_cost_per_token` under `model`"
            context.say("CL318", path, message, hint=hint, of=fact)
    if "context_window" not in model:
        for path, fact in list(_read(context.spec, "usage.context_"))[:1]:
            message = f"`{fact}` stays 0: the model's window is not known"
            hint = "write `context_window` under `model`"
            context.say("CL323", path, message, hint=hint, of=fact)


def _used(spec: MachineSpec, parts: Iterable[tuple[object, str]]) -> set[str]:
    """The limits that something reads, in the machine or in a child with the same limit."""
    if not spec.limits:
        return set()
    args = (part for state in spec.states.values() for part, _ in parts_of(state.args))
    deciding = chain(args, (part for part, _ in parts if isinstance(part, Expression)))
    reads = {fact for part in deciding for fact in reads_of(spec, part)}
    used = {fact.split(".")[1] for fact in reads if fact.startswith("limits.")}
    for child in spec.machines.values():
        used |= _used(child, parts_of(child)) & child.limits.keys()
    return used | (set(spec.limits) if "limits" in reads else set())


def reads_of_guards(spec: MachineSpec) -> Iterator[tuple[Path, str]]:
    """Yield every fact that a guard reads, with its place."""
    yield from ((path, fact) for path, guard in guards_of(spec) for fact in sorted(guard.reads))


def _read(spec: MachineSpec, start: str) -> Iterator[tuple[Path, str]]:
    """Yield the places of guards that read a fact with this prefix, and the fact."""
    for path, guard in guards_of(spec):
        fact = next((f for f in sorted(guard.reads) if f.startswith(start)), "")
        if fact:
            yield path, fact

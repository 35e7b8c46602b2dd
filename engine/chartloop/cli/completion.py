"""Shell completion: machines, runs, events, states, limits.

Completion never raises and never writes: candidates that cannot be found are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from chartloop.cli.late import at_first_use
from chartloop.cli.options import RunOptions
from chartloop.core.errors import ChartloopError

with at_first_use(__name__):
    from chartloop import actions as built_in
    from chartloop import catalog
    from chartloop.adapters.journal import opening as journal_opening
    from chartloop.cli import journal_access
    from chartloop.language import load
    from chartloop.run import sync

if TYPE_CHECKING:
    from chartloop.language.spec import MachineSpec
    from chartloop.run.journal import RunRow

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
RUNS = 50
"""The most runs that are offered, the newest first."""


def machines(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shipped machines, and files."""
    shipped = [
        CompletionItem(n, help="shipped") for n in catalog.shipped_machines() if n != "lifecycle"
    ]
    matches = [item for item in shipped if str(item.value).startswith(incomplete)]
    return [*matches, CompletionItem(incomplete, type="file")]


def runs(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """`last`, and the ids of the newest runs."""
    rows = _rows(ctx, incomplete)
    last = [CompletionItem("last", help="the newest run")] if "last".startswith(incomplete) else []
    return last + [
        CompletionItem(r.run_id, help=f"{r.machine}: {r.phase().word} at {r.stopped_at}")
        for r in rows
    ]


def events(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The events that the run on the command line waits for."""
    spec, row = _spec_of_run(ctx)
    state = spec.states.get(row.state) if spec is not None and row is not None else None
    return _items((e.trigger for e in state.edges_of("on")) if state else (), incomplete)


def states(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The states of the machine on the command line."""
    spec = _spec(ctx)
    return _items(spec.states if spec is not None else (), incomplete)


def states_of_run(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The states of the machine of the run on the command line."""
    spec, _ = _spec_of_run(ctx)
    return _items(spec.states if spec is not None else (), incomplete)


def pairs(section: str) -> Completer:
    """Names of a section of the machine, each with ``=``: `limits`, `vars`, `memory`, `define`."""

    def complete(
        ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        spec = _spec(ctx)
        names: Iterable[str] = getattr(spec, section) if spec is not None else ()
        return _items((f"{name}=" for name in names), incomplete)

    return complete


def _items(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(w) for w in dict.fromkeys(words) if w.startswith(incomplete)]


def _spec(ctx: click.Context) -> MachineSpec | None:
    """The spec of the machine on the command line; None if it cannot be read.

    While an option lacks its value, click has not assigned the arguments to names yet.
    """
    try:
        path = catalog.find(ctx.params.get("machine") or next(iter(ctx.args), ""))
        return load.load(catalog.read_text(path), path.name, built_in.builtin()).spec
    except ChartloopError:
        return None


def _rows(ctx: click.Context, prefix: str) -> list[RunRow]:
    journal = _journal(ctx)
    if journal is None:
        return []
    try:
        return sync.by_hand(journal.rows(prefix=prefix or None, limit=RUNS))
    except ChartloopError:
        return []


def _spec_of_run(ctx: click.Context) -> tuple[MachineSpec | None, RunRow | None]:
    journal = _journal(ctx)
    try:
        if journal is None:
            return None, None
        row = journal_access.find_run(journal, ctx.params.get("run") or "")
        return journal_access.machine_of(journal, row, RunOptions()).spec, row
    except ChartloopError:
        return None, None


def _journal(ctx: click.Context) -> Any:
    try:
        return journal_opening.journal_of(
            journal_access.journal_at(ctx.params.get("journal")), make=False, wait=0.5
        )
    except ChartloopError:
        return None

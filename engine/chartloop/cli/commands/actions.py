"""`chartloop actions`: list the actions of states, read from the code."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from chartloop import actions as built_in
from chartloop.cli import console, parameters
from chartloop.cli.error_report import MisuseError
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import own_of
from chartloop.cli.options import RunOptions, pass_options
from chartloop.cli.printing import Row, print_result, print_table
from chartloop.core.errors import nearest

with at_first_use(__name__):
    from chartloop.actions import declare


def _names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(n) for n in built_in.builtin().actions if n.startswith(incomplete)]


@click.command(
    epilog="""\b
Examples:
  chartloop actions
  chartloop actions infer
  chartloop actions my_action --tools tools.py
"""
)
@click.argument("name", required=False, shell_complete=_names)
@parameters.tools_option
@parameters.format_option()
@pass_options(RunOptions)
def actions(name: str | None, options: RunOptions) -> None:
    """List what states can do, and the fields of each action.

    With NAME, show one action: its fields under `with`, and how each is written.
    """
    known = (
        built_in.with_own(declare.specs_of(own_of(options)))
        if options.tools or options.plugins
        else built_in.builtin()
    ).actions
    if name is not None and name not in known:
        raise MisuseError(f"there is no action `{name}`", hint=nearest(name, known))
    found = [known[name]] if name is not None else sorted(known.values(), key=lambda a: a.name)
    if name is not None:
        print_result(found[0], options)
    elif options.is_json:
        console.result(console.as_json([spec.to_dict() for spec in found]))
    else:
        rows = [Row((spec.name, spec.kind, str(spec.effect), spec.about)) for spec in found]
        print_table(rows, ("action", "kind", "effect", "what it does"))

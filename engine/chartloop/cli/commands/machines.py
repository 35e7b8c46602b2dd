"""`chartloop machines`: list the machines that come with chartloop."""

from __future__ import annotations

from typing import Any

import click

from chartloop import catalog
from chartloop.cli import console, parameters
from chartloop.cli.late import at_first_use
from chartloop.cli.options import RunOptions, pass_options
from chartloop.cli.printing import Row, print_table

with at_first_use(__name__):
    from chartloop import api


@click.command(
    epilog="""\b
Examples:
  chartloop machines
  chartloop draw executive
  chartloop run agent "What is 2 + 2?" --script replies.yaml
"""
)
@parameters.format_option()
@pass_options(RunOptions)
def machines(options: RunOptions) -> None:
    """List the machines that come with chartloop.

    Each can be checked, drawn and run by its name.
    """
    entries: list[dict[str, Any]] = []
    for name, path in catalog.shipped_machines().items():
        machine, findings = api.find_faults(path)
        spec = machine.spec if machine is not None else None
        entries.append(
            {
                "machine": name, "title": spec.title if spec else "",
                "about": spec.about if spec else "",
                "source": spec.source if spec else "", "file": str(path),
                "states": len(spec.states) if spec else 0,
                "ok": not any(f.is_error for f in findings),
            }
        )  # fmt: skip
    if options.is_json:
        console.result(console.as_json(entries))
        return
    rows = [Row((m["machine"], m["title"], str(m["states"]), m["source"])) for m in entries]
    print_table(rows, ("machine", "title", "states", "source"), right={2})

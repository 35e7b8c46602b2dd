"""`chartloop new`: write a folder with a machine, a tool, scripted replies and a scenario."""

from __future__ import annotations

import re
from pathlib import Path

import click

from chartloop import actions as built_in
from chartloop.cli import console, parameters
from chartloop.cli.error_report import MisuseError
from chartloop.cli.late import at_first_use
from chartloop.cli.options import RunOptions, pass_options
from chartloop.cli.starter import COMMANDS, files

with at_first_use(__name__):
    from chartloop.adapters.journal import sqlite_migrations
    from chartloop.language.file import schema as schemas

_NAME = re.compile(r"[a-z][a-z0-9_]*")


@click.command(
    epilog="""\b
Examples:
  chartloop new hello
  chartloop new agents/billing_helper
"""
)
@click.argument("name", type=click.Path())
@parameters.format_option()
@pass_options(RunOptions)
def new(name: str, options: RunOptions) -> None:
    """Write a folder with your own machine, tool and test.

    NAME is the folder; its last part, with _ for -, names the machine.
    """
    folder = Path(name)
    machine = folder.name.lower().replace("-", "_")
    if not _NAME.fullmatch(machine):
        hint = "a letter, then letters, digits and underscores: my_agent"
        raise MisuseError(f"`{machine}` cannot name a machine", hint=hint)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise MisuseError(f"`{folder}` exists already", hint="choose another name")
    title = machine.replace("_", " ").capitalize()
    written = files(machine, title, schemas.text(built_in.builtin().actions.values()))
    folder.mkdir(parents=True, exist_ok=True)
    sqlite_migrations.keep_runs_here(folder)
    for file, content in written.items():
        (folder / file).write_text(content, encoding="utf-8")
    if options.is_json:
        data = {
            "folder": str(folder),
            "machine": machine,
            "files": sorted([*written, sqlite_migrations.FOLDER]),
        }
        console.result(console.as_json({**data, "try": list(COMMANDS)}))
        return
    console.result(f"{folder}/: {', '.join(written)}")
    console.result()
    console.result("Try, with no key and no network:")
    console.result(f"  cd {folder}")
    for command in COMMANDS:
        console.result(f"  {command}")

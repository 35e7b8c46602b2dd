"""`chartloop info`: what machine files can use, read from the code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from chartloop import actions as built_in
from chartloop import catalog
from chartloop.cli import console, parameters
from chartloop.cli.error_report import MisuseError
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import own_of
from chartloop.cli.options import RunOptions, pass_options
from chartloop.cli.printing import Row, print_result, print_table
from chartloop.core.errors import nearest

with at_first_use(__name__):
    from chartloop import api
    from chartloop.actions import declare
    from chartloop.core import facts as fact_table
    from chartloop.language.file import schema as schemas


def _names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of actions and facts."""
    names = {"actions": lambda: built_in.builtin().actions, "facts": lambda: fact_table.FACTS}
    known = names.get(ctx.params.get("topic") or "", dict[str, Any])()
    return [CompletionItem(name) for name in known if name.startswith(incomplete)]


@click.command(
    epilog="""\b
Examples:
  chartloop info machines
  chartloop info actions infer
  chartloop info actions my_action --tools tools.py
  chartloop info facts usage
  chartloop info schema > machine.schema.json

\b
Editors find the schema by the first line of a machine file:
  # yaml-language-server: $schema=machine.schema.json
"""
)
@click.argument(
    "topic", metavar="TOPIC", type=click.Choice(("machines", "actions", "facts", "schema"))
)
@click.argument("name", required=False, shell_complete=_names)
@parameters.tools_option
@parameters.format_option()
@pass_options(RunOptions)
def info(topic: str, name: str | None, options: RunOptions) -> None:
    """List what machine files can use: machines, actions, facts, schema.

    TOPIC is `machines`, those that come with chartloop; `actions`, what states can do, or with NAME
    the fields of one action; `facts`, what guards, labels and templates can read, or those with
    NAME in their name or description; or `schema`, the JSON Schema of machine files.
    """
    if name is not None and topic in ("machines", "schema"):
        raise click.UsageError(f"`info {topic}` takes no name")
    if (options.tools or options.plugins) and topic != "actions":
        raise click.UsageError("--tools and --plugin go with `info actions`")
    _TOPICS[topic](name, options)


def _machines(_name: str | None, options: RunOptions) -> None:
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


def _actions(name: str | None, options: RunOptions) -> None:
    known = (
        built_in.with_own(declare.specs_of(own_of(options)))
        if options.tools or options.plugins
        else built_in.builtin()
    ).actions
    if name is not None and name not in known:
        raise MisuseError(f"there is no action `{name}`", hint=nearest(name, known))
    if name is not None:
        print_result(known[name], options)
        return
    found = sorted(known.values(), key=lambda action: action.name)
    if options.is_json:
        console.result(console.as_json([spec.to_dict() for spec in found]))
    else:
        rows = [Row((spec.name, spec.kind, str(spec.effect), spec.about)) for spec in found]
        print_table(rows, ("action", "kind", "effect", "what it does"))


def _facts(word: str | None, options: RunOptions) -> None:
    wanted = (word or "").lower()
    matches = {
        n: s for n, s in fact_table.FACTS.items() if wanted in n or wanted in s.about.lower()
    }
    if not matches:
        raise MisuseError(f"no fact has `{word}` in it", hint=nearest(word or "", fact_table.FACTS))
    if options.is_json:
        console.result(console.as_json([{"fact": n, **s.to_dict()} for n, s in matches.items()]))
        return
    rows = [Row((n, str(s.type), s.description)) for n, s in matches.items()]
    print_table(rows, ("fact", "type", "what it is"))
    console.say(
        "and memory.<block>, limits.<name>, vars.<name>, and each name under `define`", "dim"
    )


def _schema(_name: str | None, _options: RunOptions) -> None:
    # a schema is JSON in either format
    console.result(console.as_json(schemas.schema(built_in.builtin().actions.values())))


_TOPICS: dict[str, Callable[[str | None, RunOptions], None]] = {
    "machines": _machines, "actions": _actions, "facts": _facts, "schema": _schema,
}  # fmt: skip

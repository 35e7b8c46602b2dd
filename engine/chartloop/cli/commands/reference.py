"""`chartloop facts`, `actions`, `schema`: what a machine file may say, from the code itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from chartloop.cli import options, out
from chartloop.cli.faults import MisuseError
from chartloop.cli.how import How
from chartloop.cli.table import Row, table
from chartloop.core.errors import nearest

if TYPE_CHECKING:
    from chartloop.core.facts import FactSpec
    from chartloop.core.specs import ActionSpec, ArgSpec

_WRITTEN = {
    "text": "template", "texts": "templates", "value": "expression", "values": "expressions",
    "enum": "word", "name": "name", "duration": "duration", "data": "data",
    "fields": "names, and fields",
}  # fmt: skip


@click.command(
    epilog="""\b
Examples:
  chartloop facts
  chartloop facts usage
  chartloop facts tokens --format json
"""
)
@click.argument("word", required=False)
@options.format_option()
def facts(word: str | None, **given: Any) -> None:
    """List what guards, labels and templates can read.

    WORD lists those whose name or description has it.
    """
    from chartloop.core.facts import FACTS

    wanted = (word or "").lower()
    found = {n: s for n, s in FACTS.items() if wanted in n or wanted in s.about.lower()}
    if not found:
        raise MisuseError(f"no fact has `{word}` in it", hint=nearest(word or "", FACTS))
    if How.of(given).is_json:
        told = [
            {
                "fact": n, "type": str(s.type), "unit": s.unit or None, "about": s.about,
                "changed_by": s.changed_by,
            }
            for n, s in found.items()
        ]  # fmt: skip
        out.result(out.as_json(told))
        return
    rows = [Row((n, str(s.type), _about(s))) for n, s in found.items()]
    for line in table(rows, ("fact", "type", "what it is")):
        out.result(line)
    out.say("and memory.<block>, limits.<name>, vars.<name>, and each name under `define`", "dim")


def _about(spec: FactSpec) -> str:
    """What a fact is, with its unit where neither type nor words say it."""
    said = not spec.unit or spec.unit == spec.type.kind or spec.unit in spec.about.lower()
    return spec.about if said else f"{spec.about} ({spec.unit})"


def _names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from chartloop.actions import builtin

    return [CompletionItem(n) for n in builtin().actions if n.startswith(incomplete)]


@click.command(
    epilog="""\b
Examples:
  chartloop actions
  chartloop actions infer
  chartloop actions my_action --tools tools.py
"""
)
@click.argument("name", required=False, shell_complete=_names)
@options.tools_option
@options.format_option()
def actions(name: str | None, **given: Any) -> None:
    """List what states can do, and the fields of each action.

    NAME shows one action: its fields under `with`, and how each is written.
    """
    from chartloop.actions import builtin, with_own
    from chartloop.actions.declare import specs_of
    from chartloop.cli.loading import load_tools

    how = How.of(given)
    known = (with_own(specs_of(load_tools(how.tools))) if how.tools else builtin()).actions
    if name is not None and name not in known:
        raise MisuseError(f"there is no action `{name}`", hint=nearest(name, known))
    found = [known[name]] if name is not None else sorted(known.values(), key=lambda a: a.name)
    if how.is_json:
        told = [_public(spec) for spec in found]
        out.result(out.as_json(told[0] if name is not None else told))
        return
    for line in _one(found[0]) if name is not None else _all(found):
        out.result(line)


def _public(spec: ActionSpec) -> dict[str, Any]:
    return {
        "action": spec.name, "about": spec.about, "available": spec.run is not None,
        "work": spec.work, "effect": str(spec.effect), "result": str(spec.result),
        "changes": sorted(spec.changes), "uses": sorted(spec.uses),
        "with": [
            {"field": a.name, "written": a.kind, "type": str(a.type), "required": a.required,
             "default": a.default, "choices": list(a.choices), "about": a.about}
            for a in spec.args
        ],
    }  # fmt: skip


def _all(found: list[ActionSpec]) -> list[str]:
    rows = [
        Row((s.name, "work" if s.work else "upkeep", str(s.effect), s.about)) for s in found
    ]  # fmt: skip
    return table(rows, ("action", "kind", "effect", "what it does"))


def _one(spec: ActionSpec) -> list[str]:
    kind = "work" if spec.work else "upkeep"
    about = {
        "kind": f"{kind}, {_EFFECTS[str(spec.effect)]}", "result": str(spec.result),
        "changes": ", ".join(sorted(spec.changes)), "needs": ", ".join(sorted(spec.uses)),
    }  # fmt: skip
    lines = [out.style(spec.name, bold=True), spec.about]
    lines += ["", *table([Row((n, v)) for n, v in about.items() if v]), ""]
    if spec.targets is not None:
        return [*lines, "with: one entry for each variable, as in `vars.plan: ...`"]
    if not spec.args:
        return [*lines, "with: nothing"]
    rows = [
        Row((a.name, _written(a), "required" if a.required else "", a.about)) for a in spec.args
    ]
    return [*lines, *table(rows, ("with", "written as", "", "what it is"))]


_EFFECTS = {
    "pure": "pure: it may be repeated",
    "local": "local: done twice it is the same as once",
    "paid": "paid: written down before it is done, never repeated once recorded",
}


def _written(arg: ArgSpec) -> str:
    if arg.choices:
        return " | ".join(arg.choices)
    word = _WRITTEN.get(arg.kind, arg.kind)
    return f"{word} of a {arg.names}" if arg.names else f"{word} ({arg.type})"


@click.command(
    epilog="""\b
Example:
  chartloop schema > machine.schema.json

\b
Editors read it by the first line of a machine file:
  # yaml-language-server: $schema=machine.schema.json
"""
)
@options.format_option("json", "text")
def schema(**given: Any) -> None:
    """Print the JSON Schema of machine files, for editors."""
    from chartloop.language.file.schema import schema as made

    del given  # a schema is JSON, whichever is asked for
    out.result(out.as_json(made()))

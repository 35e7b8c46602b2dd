"""`chartloop actions`: what states do, from the code itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from chartloop.cli import console, parameters
from chartloop.cli.error_report import MisuseError
from chartloop.cli.options import RunOptions, pass_options
from chartloop.cli.styled_table import Row, table
from chartloop.core.errors import nearest

if TYPE_CHECKING:
    from chartloop.core.specs import ActionSpec, ArgSpec

_WRITTEN = {
    "text": "template", "texts": "templates", "value": "expression", "values": "expressions",
    "enum": "word", "name": "name", "duration": "duration", "data": "data",
    "fields": "names, and fields",
}  # fmt: skip


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
@parameters.tools_option
@parameters.format_option()
@pass_options(RunOptions)
def actions(name: str | None, options: RunOptions) -> None:
    """List what states can do, and the fields of each action.

    NAME shows one action: its fields under `with`, and how each is written.
    """
    from chartloop.actions import builtin, with_own
    from chartloop.actions.declare import specs_of
    from chartloop.cli.machine_loader import load_tools

    known = (with_own(specs_of(load_tools(options.tools))) if options.tools else builtin()).actions
    if name is not None and name not in known:
        raise MisuseError(f"there is no action `{name}`", hint=nearest(name, known))
    found = [known[name]] if name is not None else sorted(known.values(), key=lambda a: a.name)
    if options.is_json:
        told = [_public(spec) for spec in found]
        console.result(console.as_json(told[0] if name is not None else told))
        return
    for line in _one(found[0]) if name is not None else _all(found):
        console.result(line)


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
    lines = [console.style(spec.name, bold=True), spec.about]
    lines += ["", *table([Row((n, v)) for n, v in about.items() if v]), ""]
    if spec.targets is not None:
        return [*lines, "with: one entry for each variable, as in `vars.plan: ...`"]
    if not spec.args:
        return [*lines, "with: nothing"]
    rows = [
        Row((a.name, _describe_value(a), "required" if a.required else "", a.about))
        for a in spec.args
    ]
    return [*lines, *table(rows, ("with", "written as", "", "what it is"))]


_EFFECTS = {
    "pure": "pure: it may be repeated",
    "local": "local: done twice it is the same as once",
    "paid": "paid: written down before it is done, never repeated once recorded",
}


def _describe_value(arg: ArgSpec) -> str:
    if arg.choices:
        return " | ".join(arg.choices)
    word = _WRITTEN.get(arg.kind, arg.kind)
    return f"{word} of a {arg.names}" if arg.names else f"{word} ({arg.type})"

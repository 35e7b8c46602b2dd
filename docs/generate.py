"""Writes the reference pages from the code: what they say is what the code does.

    python docs/generate.py

Facts, actions, tools, codes, commands and the Python API. A test compares the pages with what
this would write; everything else in `docs/` is written by hand.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

import interlock
from interlock.actions import builtin
from interlock.cli.app import app as command_line
from interlock.core.codes import CODES
from interlock.core.errors import Severity
from interlock.core.facts import FACTS
from interlock.core.reasons import REASONS
from interlock.language.schema import schema

HERE = Path(__file__).resolve().parent
NOTE = "<!-- Written by docs/generate.py. Change the code, then run it. -->"


def pages() -> dict[str, str]:
    """Every generated page, by its path under `docs/`."""
    made = {
        "reference/facts.md": facts(),
        "reference/actions.md": actions(),
        "reference/reasons.md": reasons(),
        "reference/errors.md": errors(),
        "reference/cli.md": commands(),
        "reference/python.md": python(),
    }
    texts = {name: f"{NOTE}\n\n{text.rstrip()}\n" for name, text in made.items()}
    return {**texts, "machine.schema.json": json.dumps(schema(), indent=2) + "\n"}


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |")
    return "\n".join(lines)


def facts() -> str:
    """The facts, by root."""
    out = [
        "# Facts",
        "",
        "What guards, `set`, templates and labels may read. Facts change only when an action,",
        "an answer or a rule says so; a clock that jumps back never makes one fall.",
        "`limits.<name>`, `vars.<name>` and `memory.<block>` are the file's own, and so is each",
        "name under `define`.",
    ]
    roots = dict.fromkeys(name.partition(".")[0] for name in FACTS)
    for root in roots:
        rows = (
            (f"`{n}`", f"`{s.type}`", s.unit or "–", s.about, s.changed_by)
            for n, s in FACTS.items()
            if n.startswith(root + ".")
        )
        out += ["", f"## {root}", "", _table(("fact", "type", "unit", "what it is", "changed by"), rows)]
    return "\n".join(out)


def actions() -> str:
    """The actions and the tools that every machine may name."""
    registry = builtin()
    out = [
        "# Actions",
        "",
        "What a state may `do`. *Work* moves `errors.consecutive` and `progress.*`; *upkeep* does",
        "not. *Pure* actions may be repeated, *local* ones are the same when repeated with their",
        "key, *paid* ones write an intent into the journal first.",
    ]
    for name, spec in sorted(registry.actions.items()):
        kind = "work" if spec.work else "upkeep"
        out += ["", f"## {name}", "", spec.about, "", f"{kind.capitalize()}, {spec.effect}; result: `{spec.result}`."]
        if spec.run is None:
            out += ["", "Not carried out by this version: a file that names it loads and draws."]
        if spec.args:
            rows = (
                (f"`{a.name}`" + (" (needed)" if a.required else ""), _written(a), a.about)
                for a in spec.args
            )
            out += ["", _table(("with", "written as", "what it is"), rows)]
        elif spec.targets is not None:
            out += ["", "The keys of `with` are variables: `vars.NAME`."]
    out += ["", "# Tools", "", "What a machine may list under `tools` besides your own."]
    for name, tool in registry.tools.items():
        out += ["", f"## {name}", "", tool.description]
    return "\n".join(out)


def _written(arg: Any) -> str:
    if arg.kind == "enum":
        return ", ".join(f"`{c}`" for c in arg.choices)
    return {
        "text": "template", "texts": "templates", "value": f"expression (`{arg.type}`)",
        "values": "expressions", "name": f"name of a {arg.names}", "duration": "duration", "data": "data",
    }[arg.kind]  # fmt: skip


def reasons() -> str:
    """The stop reasons."""
    rows = (
        (f"`{r}`", str(r.priority), "yes" if r.forced else "no", r.status, r.kind)
        for r in sorted(REASONS.values(), key=lambda r: (r.priority, r))
    )
    return "\n".join(
        [
            "# Stop reasons",
            "",
            "Why a run stops. The lower priority number wins; equals go by the order in which they",
            "were raised. *Forced*: the run was cut short. A file may redefine these or add its own",
            "under `reasons`.",
            "",
            _table(("reason", "priority", "forced", "status", "kind"), rows),
        ]
    )


def errors() -> str:
    """One section for each code."""
    out = [
        "# Findings and errors",
        "",
        "Every finding and error has a code that never changes its meaning. `IL0`-`IL4` are about",
        "a file, `IL6` about a call. A file with an error does not load; warnings are only shown,",
        "and `ignore: [{code, at, reason}]` accepts one.",
    ]
    for code in CODES.values():
        level = " (warning)" if code.severity is Severity.WARNING else ""
        out += ["", f"## {code.code}: {code.title}{level}", "", f"**Cause.** {code.cause}", "", f"**Cure.** {code.cure}"]
    return "\n".join(out)


def commands() -> str:
    """The help of every command, as the terminal shows it."""
    out = ["# Command line", "", "```", _help(command_line, "interlock"), "```"]
    for name, command in _commands(command_line):
        out += ["", f"## interlock {name}", "", "```", _help(command, f"interlock {name}"), "```"]
    return "\n".join(out)


def _commands(group: click.Command, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    if not isinstance(group, click.Group):
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None:
            yield f"{prefix}{name}", command
            yield from _commands(command, f"{prefix}{name} ")


def _help(command: click.Command, name: str) -> str:
    context = click.Context(command, info_name=name, max_content_width=90, terminal_width=90)
    return command.get_help(context)


def python() -> str:
    """What is imported from `interlock`."""
    out = ["# Python", "", "Everything public is imported from `interlock`:", ""]
    found: Mapping[str, Any] = {name: getattr(interlock, name) for name in interlock.__all__}
    for name, thing in found.items():
        title = f"{name}{_signature(thing)}" if not inspect.isclass(thing) else f"class {name}"
        out += ["", f"## {name}", "", "```python", title, "```", "", inspect.getdoc(thing) or ""]
        if inspect.isclass(thing):
            out += list(_members(thing))
    return "\n".join(out)


def _signature(thing: Any) -> str:
    try:
        return str(inspect.signature(thing))
    except (TypeError, ValueError):
        return "(...)"


def _members(cls: type) -> Iterator[str]:
    for name, member in vars(cls).items():
        if name.startswith("_"):
            continue
        made = member.fget if isinstance(member, property) else getattr(cls, name)
        doc = (inspect.getdoc(made) or "").split("\n\n")[0].replace("\n", " ")
        if inspect.isfunction(made) or isinstance(member, classmethod):
            call = "" if isinstance(member, property) else _signature(made)
            yield f"\n- `{name}{call}`: {doc}"


def main() -> None:
    """Write the pages."""
    for name, text in pages().items():
        (HERE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Writes the reference pages from the code: what they say is what the code does.

    python docs/generate.py [FOLDER]        # by default the folder of this file

Facts, actions, tools, reasons, codes, commands, the Python API and the schema. A test compares the
pages with what this would write; everything else in `docs/` is written by hand.

The page of the Python API is made in `python_page`; what all pages are written with is in
`page_parts`.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from page_parts import anchor, link, table
from python_page import python

from chartloop.actions import builtin
from chartloop.api import find_faults
from chartloop.cli.app import app as command_line
from chartloop.core.codes import CODES
from chartloop.core.errors import Severity
from chartloop.core.facts import FACTS
from chartloop.core.reasons import REASONS
from chartloop.core.specs import ActionSpec, ArgSpec, ToolSpec
from chartloop.language.file.schema import text as schema_text

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.found import whole  # noqa: E402
from tests.unit.test_codes import EXAMPLES  # noqa: E402

CASES = HERE.parent / "tests" / "cases" / "check"
LONGEST = 400
"""Characters of an example. One that shows a bound is longer, and left out."""
LLMS = "../llms.txt"
NOTE = "<!-- Written by docs/generate.py. Change the code, then run it. -->"
ABOUT = {
    "CL0": "The text",
    "CL1": "Expressions",
    "CL2": "The shape of the file",
    "CL3": "The machine",
    "CL4": "Actions, tools and templates",
    "CL6": "Calls",
}
"""What the codes of each hundred are about."""


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
    schema = schema_text(builtin().actions.values())
    return {**texts, "machine.schema.json": schema, LLMS: list_for_models()}


# the list of pages --------------------------------------------------------------------------

LLMS_HEAD = """\
# chartloop

> LLM agents as explicit state machines, in Python. An agent is a YAML file: it is checked, drawn,
> bounded and queried before it runs; every step is recorded, survives a crash, and can be explained
> and replayed.

To write a machine, read [For coding agents that write machines](docs/for-agents.md) first, then
[the language](docs/language.md). `chartloop check FILE --format json` says what is wrong, with
place, cause and cure.

## Start

- [README](README.md): what chartloop is, in five minutes
- [Tutorial](docs/tutorial.md): write, check, draw, run, answer, kill, resume and test an agent
- [Coming from another library](docs/coming-from.md): LangGraph, pydantic-ai, Burr; relatives
- [All pages](docs/README.md), [what changed](CHANGELOG.md), [how to contribute](CONTRIBUTING.md)"""


def list_for_models() -> str:
    """`llms.txt`: every page with what it is for, from the tables of `docs/README.md`."""
    out, named = [LLMS_HEAD], set[str]()
    for line in (HERE / "README.md").read_text("utf-8").splitlines():
        if line.startswith("## "):
            out += ["", line, ""]
        elif match := re.match(r"\| (.*\]\(.*) \| (.*) \|$", line):
            for title, page in re.findall(r"\[([^\]]+)\]\(([^)#]+)\)", match[1]):
                if page not in named:
                    named.add(page)
                    about = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", match[2])
                    path = (HERE / page).resolve().relative_to(HERE.parent).as_posix()
                    out.append(f"- [{title[0].upper()}{title[1:]}]({path}): {about}")
    return "\n".join(out) + "\n"


# facts --------------------------------------------------------------------------------------

FACTS_HEAD = """\
# Facts

The values that guards, `set`, templates and labels can read. Only actions, answers and rules change
facts, and other runs those of `fleet`; a clock that jumps back never makes one smaller. The file
defines `limits.<name>`, `vars.<name>`, `memory.<block>` and each name under `define`.

A fact that only grows (`↑`) can bound a loop: once `fact >= limit` holds, it holds for the rest of
the run. Test a type with `None` before you use it. On the command line:
`chartloop info facts [WORD]`."""


def facts() -> str:
    """The facts, by root."""
    out = [FACTS_HEAD]
    for root in dict.fromkeys(name.partition(".")[0] for name in FACTS):
        rows = (
            (
                f"`{n}`" + (" ↑" if s.type.grows else ""),
                f"`{s.type}`",
                s.unit,
                s.about,
                s.changed_by,
            )
            for n, s in FACTS.items()
            if n.startswith(root + ".")
        )
        head = ("fact", "type", "unit", "meaning", "changed by")
        out += ["", f"## {root}", "", table(head, rows)]
    return "\n".join(out)


# actions ------------------------------------------------------------------------------------

ACTIONS_HEAD = """\
# Actions

The actions that a state can `do`. *Work* changes `errors.consecutive` and `progress.*`, *upkeep*
does not. A *pure* action can be repeated, a *local* one is idempotent with its key, and before a
*paid* one the journal records an intent. Fields under `with` are templates, expressions,
durations, one of a few words, names, or plain data, as the tables show. Declare your own actions
[in Python](python.md#action)."""


def actions() -> str:
    """The actions and the tools that every machine may name."""
    registry = builtin()
    every = [a for _, a in sorted(registry.actions.items())]
    head = ("action", "kind", "effect", "purpose")
    out = [ACTIONS_HEAD, "", table(head, ((link(a.name), *_row(a)) for a in every))]
    for spec in every:
        out += _action(spec)
    out += [
        "",
        "## Tools",
        "",
        "The tools that a machine can list under `tools` in addition to your own.",
    ]
    for tool in registry.tools.values():
        out += _tool(tool)
    return "\n".join(out)


def _row(spec: ActionSpec) -> tuple[str, str, str]:
    return "work" if spec.work else "upkeep", str(spec.effect), spec.about


def _action(spec: ActionSpec) -> Iterator[str]:
    kind, effect, about = _row(spec)
    facts = ", ".join(f"`{name}`" for name in sorted(spec.changes))
    said = [f"{kind.capitalize()}, {effect}.", f"Result: `{spec.result}`."]
    if facts:
        said.append(f"In addition to the facts that every action changes: {facts}.")
    about = f"{about} {spec.details}".rstrip()
    yield from ("", f"## {spec.name}", "", about, "", " ".join(said))
    if spec.args:
        rows = ((f"`{a.name}`", _written(a), _needed(a), a.about) for a in spec.args)
        yield from ("", table(("with", "written as", "", "meaning"), rows))
    elif spec.targets is not None:
        yield from ("", f"`with`: {spec.with_variables}.")
    if spec.entry:
        rows = ((f"`{a.name}`", _written(a), a.about) for a in spec.entry)
        yield from ("", table(("entry", "written as", "meaning"), rows))
    if spec.example:
        yield from ("", "```yaml", spec.example, "```")


def _needed(arg: ArgSpec) -> str:
    return "needed" if arg.required else ""


def _written(arg: ArgSpec) -> str:
    match arg.kind:
        case "enum":
            return ", ".join(f"`{choice}`" for choice in arg.choices)
        case "text":
            return "template"
        case "texts":
            return "templates by name"
        case "value":
            return f"expression, `{arg.type}`"
        case "values":
            return "expressions by name"
        case "name":
            return f"name of a {arg.names}"
        case "fields":
            return "names, and under each its fields"
        case "schema":
            return "JSON Schema, or the name of a pydantic class"
        case "duration" | "data":
            return arg.kind


def _tool(tool: ToolSpec) -> Iterator[str]:
    given: dict[str, dict[str, str]] = tool.parameters.get("properties", {})
    rows = (
        (f"`{n}`", f"`{p.get('type', 'any')}`", p.get("description", "")) for n, p in given.items()
    )
    yield from ("", f"### {tool.name}", "", inspect.cleandoc(tool.description))
    yield from ("", table(("argument", "type", "meaning"), rows))


# reasons and codes --------------------------------------------------------------------------

REASONS_HEAD = """\
# Stop reasons

Why a run stops. The lowest priority number wins; ties go to the reason raised first.
*Forced*: the run was cut short. *Kind* determines `Result.kind` and the exit code: 0 for
`natural`, 1 for `error`, 3 for `limit`, 5 for `human`. A file may redefine these or add its own
under [`reasons`](../language.md#7-stop-reasons)."""


def reasons() -> str:
    """The stop reasons."""
    rows = (
        (f"`{r}`", r.about, str(r.priority), "yes" if r.forced else "no", r.status, r.kind)
        for r in sorted(REASONS.values(), key=lambda r: (r.priority, r))
    )
    heads = ("reason", "meaning", "priority", "forced", "status", "kind")
    return f"{REASONS_HEAD}\n\n{table(heads, rows)}"


ERRORS_HEAD = """\
# Findings and errors

Every finding and error has a code whose meaning never changes. A file with an error does not
load; warnings are only shown. You can accept some with `ignore: [{code, at, reason}]`. Codes
below `CL5` are about files, `CL6` about calls that a machine or a run cannot
perform."""


def errors() -> str:
    """One section for each code."""
    out = [ERRORS_HEAD]
    for start, about in ABOUT.items():
        group = [c for c in CODES.values() if c.code.startswith(start)]
        named = [(c, f"{c.code}: {c.title}") for c in group]
        rows = ((f"[{c.code}]({anchor(h)})", c.title, _level(c.severity)) for c, h in named)
        out += ["", f"## {about}", "", table(("code", "title", ""), rows)]
        for code, heading in named:
            out += ["", f"### {heading}", ""]
            out += ["A warning.", ""] if code.severity is Severity.WARNING else []
            out += [f"**Cause.** {code.cause}", "", f"**Fix.** {code.cure}"]
            out += _example(code.code)
    return "\n".join(out)


def _example(code: str) -> Iterator[str]:
    """A machine in which it is found, and what is said of it: those that the tests play.

    Most are rows of a table; those of the checker have files of their own.
    """
    text = next((whole(e.body) for e in EXAMPLES if e.code == code), "")
    found = sorted(CASES.glob(f"{code}-has-*.yaml"))
    if found and not text:
        lines = found[0].read_text("utf-8").splitlines()
        text = "\n".join(line for line in lines if not line.startswith("#"))
    if text and len(text) <= LONGEST:
        said = [f.message for f in find_faults(text)[1] if f.code == code]
        yield from ("", "```text", text.rstrip(), "```", "", f"> {said[0]}" if said else "")


def _level(severity: Severity) -> str:
    return "warning" if severity is Severity.WARNING else ""


# commands -----------------------------------------------------------------------------------


def commands() -> str:
    """The help of every command, as the terminal shows it."""
    named = dict(_commands(command_line))
    links = ", ".join(f"[`{name}`]({anchor('chartloop ' + name)})" for name in named)
    out = ["# Command line", "", f"The output of `--help`, for {links}."]
    out += ["", "```text", _help(command_line, "chartloop"), "```"]
    for name, command in named.items():
        out += [
            "",
            f"## chartloop {name}",
            "",
            "```text",
            _help(command, f"chartloop {name}"),
            "```",
        ]
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
    context = click.Context(
        command, info_name=name, max_content_width=90, terminal_width=90,
        help_option_names=["-h", "--help"],
    )  # fmt: skip
    return command.get_help(context)


def main(folder: Path) -> None:
    """Write the pages."""
    for name, text in pages().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]))
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", nargs="?", type=Path, default=HERE)
    main(parser.parse_args().folder)

"""`chartloop doctor`: report what is installed, what is missing, and how to install it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata, util
from pathlib import Path
from typing import Literal, NamedTuple

import click

from chartloop.cli import console, parameters
from chartloop.cli.error_report import ERROR
from chartloop.cli.journal_access import close_later, journal_at, name_of, wanted_durability
from chartloop.cli.late import at_first_use
from chartloop.cli.options import RunOptions, pass_options
from chartloop.cli.printing import Row, print_table
from chartloop.core.errors import ChartloopError, SetupError, UnknownRunError
from chartloop.core.units import say_count
from chartloop.extras import install, requirements

with at_first_use(__name__):
    from chartloop.adapters.journal import opening as journal_opening
    from chartloop.adapters.sandbox import monty
    from chartloop.api import plugins as api_plugins
    from chartloop.run import chain, recorded, redact, sync
    from chartloop.run import lease as leases

Verdict = Literal["ok", "missing", "open", "broken"]
_COLOURS = {"ok": "green", "missing": "yellow", "open": "yellow", "broken": "red"}
_CORE = (
    "transitions",
    "pydantic",
    "networkx",
    "graphviz",
    "jsonschema-rs",
    "msgspec",
    "PyYAML",
    "click",
    "rich",
    "anyio",
    "jinja2",
)
_KEYS = (
    "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "AZURE_API_KEY",
    "MISTRAL_API_KEY", "GROQ_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY",
    "COHERE_API_KEY", "TOGETHERAI_API_KEY", "HUGGINGFACE_API_KEY", "AWS_ACCESS_KEY_ID",
)  # fmt: skip
"""Variables that providers read. Only whether they are set is reported, never their values."""


_CHECKED = 1_000
"""The runs whose hash chains are checked, the newest."""
_NAMED = 5
"""The changed runs that are named."""


class Check(NamedTuple):
    """The result of one check, with a command that repairs it."""

    what: str
    verdict: Verdict
    found: str
    cure: str = ""


@click.command(
    epilog="""\b
Examples:
  chartloop doctor
  chartloop doctor --format json

\b
The exit code is 1 when something is broken; missing optional extras do not count.
"""
)
@parameters.journal_option
@parameters.format_option()
@pass_options(RunOptions)
def doctor(options: RunOptions) -> None:
    """Check the installation and say how to fix what is missing.

    Names of API keys are shown, never their values. Nothing is sent anywhere.
    """
    checks = [
        *_python(),
        _check_extra(_MODELS),
        _drawing(),
        _sandbox(),
        *map(_check_extra, _EXTRAS),
        *_plugins(),
    ]
    checks += [_keys(), *_journal(options), _terminal()]
    if options.is_json:
        console.result(console.as_json([c._asdict() for c in checks]))
    else:
        rows = [
            Row(
                (c.verdict, c.what, c.found + (f"\n{c.cure}" if c.cure else "")),
                _COLOURS[c.verdict],
            )
            for c in checks
        ]
        print_table(rows)
    broken = any(c.verdict == "broken" for c in checks)
    raise click.exceptions.Exit(ERROR if broken else 0)


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _python() -> Iterator[Check]:
    version = _version("chartloop") or "from a folder"
    yield Check("chartloop", "ok", f"{version} in {Path(__file__).parents[2]}")
    python = f"{platform.python_version()} ({sys.executable})"
    new = sys.version_info >= (3, 11)
    yield Check("python", "ok" if new else "broken", python, "" if new else "install Python 3.11")
    found = {name: _version(name) for name in _CORE}
    gone = [name for name, version in found.items() if version is None]
    if gone:
        yield Check("packages", "broken", f"missing: {', '.join(gone)}", install())
    elif old := [*_unfit_versions()]:
        yield Check("packages", "broken", ", ".join(old), install())
    else:
        yield Check("packages", "ok", ", ".join(f"{n} {v}" for n, v in found.items()))


def _unfit_versions() -> Iterator[str]:
    """Yield installed packages whose version our metadata does not allow.

    Yields nothing if `packaging`, which compares versions, is not installed.
    """
    try:
        from packaging.requirements import Requirement  # noqa: PLC0415  may be absent
    except ImportError:
        return
    for line in requirements():
        wanted = Requirement(line)
        version = _version(wanted.name)
        if version is not None and not wanted.specifier.contains(version, prereleases=True):
            yield f"{wanted.name} {version}, and chartloop needs {wanted.specifier}"


class _Extra(NamedTuple):
    """An extra, installed if its distribution is."""

    what: str
    distribution: str
    name: str
    lacks: str
    """The message if the distribution is missing."""


_MODELS = _Extra("models", "litellm", "llm", "no litellm: scripted models, and your own")


def _plugins() -> Iterator[Check]:
    """Yield one check for all installed plugins, without importing them."""
    if found := api_plugins.installed_plugins():
        yield Check("plugins", "ok", ", ".join(map(str, found)))


_EXTRAS = (
    _Extra("mcp", "mcp", "mcp", "no mcp: tools of MCP servers can be checked, not called"),
    _Extra("screen", "textual", "tui", "no textual: `chartloop step` is a prompt"),
    _Extra("server", "fastapi", "server", "no FastAPI: no `chartloop serve`"),
    _Extra(
        "notebook", "anywidget", "notebook",
        "no anywidget: pictures and tables, but no `panel(run)`",
    ),
    _Extra(
        "telemetry", "opentelemetry-api", "otel",
        "no opentelemetry: no spans and metrics (`CHARTLOOP_OTEL=1`, `OpenTelemetry`)",
    ),
    _Extra(
        "plots", "matplotlib", "plots",
        "no matplotlib: `chartloop stats` has tables, but no --plot",
    ),
    _Extra(
        "postgres", "psycopg", "postgres",
        "no psycopg: journals are files, and not in PostgreSQL",
    ),
    _Extra(
        "cron", "cronsim", "cron",
        "no cronsim: schedules have intervals, `--every 15m`, but no cron expressions",
    ),
    _Extra(
        "distributed", "dbos", "distributed",
        "no DBOS: a journal's own table delivers runs to workers",
    ),
)  # fmt: skip


def _check_extra(extra: _Extra) -> Check:
    version = _version(extra.distribution)
    if version is None:
        return Check(extra.what, "missing", extra.lacks, install(extra.name))
    return Check(extra.what, "ok", f"{extra.distribution} {version}")


def _drawing() -> Check:
    if dot := shutil.which("dot"):
        try:
            done = subprocess.run(
                [dot, "-V"], capture_output=True, text=True, timeout=10, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Check("drawing", "broken", f"`dot` does not start: {error}")
        return Check("drawing", "ok", f"{(done.stderr or done.stdout).strip()} ({dot})")
    if util.find_spec("pygraphviz") is not None:
        return Check("drawing", "ok", "pygraphviz, which brings its own Graphviz")
    cure = f"apt-get install graphviz, or {install('diagrams')}"
    return Check("drawing", "missing", "no Graphviz: text, Mermaid and DOT only", cure)


def _sandbox() -> Check:
    if util.find_spec("pydantic_monty") is None:
        cure = install("sandbox")
        return Check("sandbox", "missing", "not installed: no machine can run Python code", cure)
    try:
        done = sync.wait(monty.MontySandbox().run("6 * 7", session=None, timeout=20), suspends=True)
    except Exception as error:  # noqa: BLE001  any failure to start is the answer
        return Check("sandbox", "broken", f"does not start: {type(error).__name__}: {error}")
    if done.ok and done.value == 42:
        return Check(
            "sandbox",
            "ok",
            f"pydantic-monty {_version('pydantic-monty')} starts, and computes 6 * 7",
        )
    return Check("sandbox", "broken", f"starts, and fails: {done.error}")


def _keys() -> Check:
    found = [name for name in _KEYS if os.environ.get(name, "").strip()]
    if found:
        return Check("keys", "ok", f"set: {', '.join(found)}")
    cure = "export OPENAI_API_KEY=..., or the variable that `model.api_key_env` names"
    return Check(
        "keys", "missing", "no provider's key is set: scripted and local models only", cure
    )


def _journal(options: RunOptions) -> Iterator[Check]:
    where = journal_at(options.journal)
    shown = redact.Redactor().text(where)
    try:
        journal = journal_opening.journal_of(where, make=False, wait=2)
        close_later(journal)
        rows = sync.by_hand(journal.rows())
    except UnknownRunError:
        yield Check("journal", "ok", f"{shown}: does not exist yet, the first run creates it")
        return
    except SetupError as error:  # its text names what was given
        yield Check("journal", "broken", error.message, error.hint)
        return
    except ChartloopError as error:
        yield Check("journal", "broken", f"{shown}: {error.message}", error.hint)
        return
    text = f"{name_of(journal)}: {say_count(len(rows), 'run')}, "
    text += f"{sum(not row.ended for row in rows)} not ended"
    if journal.path is not None:
        text += f", {journal.path.stat().st_size / 1024:,.0f} kB"
    if wanted_durability() == "power":
        text += ", kept through the loss of power"
    yield Check("journal", "ok", text)
    if marked := sync.by_hand(journal.restored()):
        yield Check("backup", "open", f"{leases.say_restored(marked)}: {leases.MARKED}")
    checked, changed = 0, list[str]()
    for row in rows[:_CHECKED]:
        try:
            found = sync.by_hand(recorded.check_chain(journal, row.run_id))
        except ChartloopError as error:
            found = chain.Checked("", 0, error.message)
        if found is not None:
            checked += 1
            changed += [f"run `{row.run_id}`: {found.fault}"] if found.fault else []
    if checked:
        newest = "the newest " if checked < len(rows) else ""
        text = f"{newest}{say_count(checked, 'run')} checked, {len(changed)} changed since written"
        verdict: Verdict = "broken" if changed else "ok"
        cure = "they were changed by hand or by another program: restore a copy" if changed else ""
        yield Check("records", verdict, "\n".join((text, *changed[:_NAMED])), cure)


def _terminal() -> Check:
    say: Callable[[bool], str] = lambda yes: "yes" if yes else "no"  # noqa: E731
    facts = {
        "terminal": say(console.is_terminal(sys.stderr)),
        "colours": say(console.takes_colour(sys.stderr)),
        "unicode": say(console.speaks_unicode(sys.stdout)), "columns": str(console.width()),
    }  # fmt: skip
    return Check("terminal", "ok", ", ".join(f"{name} {value}" for name, value in facts.items()))

"""The components of a run, constructed here from the caller's options and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypedDict
from urllib.parse import unquote

from chartloop.adapters.clock import SystemClock
from chartloop.adapters.model.litellm import LiteLLM
from chartloop.adapters.model.routed import Routed
from chartloop.adapters.model.scripted import Scripted
from chartloop.adapters.notify.log import LogNotifier
from chartloop.adapters.sandbox.monty import MontySandbox
from chartloop.api.caller_values import first_tasks, inline_tasks, model_settings
from chartloop.core.durability import Durability, known_durability
from chartloop.core.errors import ChartloopError, PluginError, SetupError, UnknownRunError
from chartloop.core.facts import Task
from chartloop.core.specs import ActionSpec, PluginSpec
from chartloop.language.server_tools import ServerSpec
from chartloop.language.spec import MachineSpec
from chartloop.run.components import Ports
from chartloop.run.exceptions import describe
from chartloop.run.job import suspends as spec_suspends
from chartloop.run.journal import Journal
from chartloop.run.ports import Cancel, Clock, Model, Notifier, Sandbox, Tokenizer, ToolServers
from chartloop.run.session import Session
from chartloop.run.tracing import Tracer


class PortOptions(TypedDict, total=False):
    """The components that a caller may give instead of the default ones."""

    model: Model | str | None
    """A litellm model name, or any object with the `Model` port."""
    script: Any
    """Scripted replies instead of a model, in the form of ``docs/language.md``, section 8."""
    settings: Mapping[str, Any] | None
    """Settings that override the file's `model`: temperature, timeout, api_base ... A `model`
    overrides their ``name``, and a state's `with` overrides all of them."""
    clock: Clock | None
    cancel: Cancel | None
    """Polled before each action; the run stops once it is requested."""
    sandbox: Sandbox | None
    notifier: Notifier | None
    tokenizer: Tokenizer | None
    tracer: Tracer | None
    """Traces each action, model call and tool call, such as `OpenTelemetry`."""
    durability: Durability | None
    """What a write to the journal's file survives: ``"process"``, the end of the process, by
    ``kill -9`` too; ``"power"``, the loss of power as well. The default is that of the file if it
    is open in this process, else ``"process"``."""


def uses_of(spec: MachineSpec) -> frozenset[str]:
    """The ports that a machine and its children require."""
    return frozenset[str]().union(*(_own_uses(part, inline_tasks(part)) for part in spec.family()))


def _own_uses(spec: MachineSpec, tasks: Sequence[Task]) -> frozenset[str]:
    by_prompt = any("prompt" in (task.by or {"prompt": ""}) for task in tasks)
    used = (a.uses | a.may_use if by_prompt else a.uses for a in _actions(spec))
    sampled = any(server.sampling is not None for server in spec.servers.values())
    return frozenset[str](("model",) if sampled else ()).union(*used)


def _actions(spec: MachineSpec) -> list[ActionSpec]:
    return [s.action for s in spec.states.values() if s.action is not None]


def make_ports(spec: MachineSpec, folder: Path | None, given: PortOptions) -> Ports:
    """The components of a run, not yet checked; see `prepare`."""
    uses = uses_of(spec)
    clock = given.get("clock") or SystemClock()
    named, settings = given.get("model"), model_settings(given.get("settings") or {})
    made = Ports(
        clock,
        notifier=given.get("notifier") or LogNotifier(),
        tokenizer=given.get("tokenizer"),
        tracer=given.get("tracer"),
        settings={**settings, "name": named} if isinstance(named, str) else settings,
        folder=folder,
        first_tasks=lambda part: first_tasks(part, _folder_of(part, spec, folder)),
    )
    if "model" in uses or any("model" in a.may_use for s in spec.family() for a in _actions(s)):
        made.model = _model(spec, made.settings, given, clock)
    made.sandbox = given.get("sandbox")
    made.servers = _servers(spec, folder)
    return made


def _servers(spec: MachineSpec, folder: Path | None) -> ToolServers | None:
    """The MCP servers of a machine's tools and its children's; None for most machines."""
    used: dict[tuple[str, str], ServerSpec] = {}
    for part in spec.family():
        named = {tool.server for tool in part.registry.tools.values()} if part.servers else ()
        used |= {(s.name, s.definition): s for s in part.servers.values() if s.name in named}
    if not used:
        return None
    from chartloop.adapters.mcp_servers import McpServers  # noqa: PLC0415  when one is declared

    return McpServers(tuple(used.values()), folder)


def _folder_of(part: MachineSpec, spec: MachineSpec, folder: Path | None) -> Path:
    """The folder of the file that holds this machine or one of its children."""
    return folder or Path() if part.file == spec.file else Path(part.file).parent


def _model(
    spec: MachineSpec, settings: Mapping[str, Any], given: PortOptions, clock: Clock
) -> Model | None:
    script, model = given.get("script"), given.get("model")
    if script is not None:
        return script if isinstance(script, Scripted) else Scripted(script, clock=clock)
    if model is not None and not isinstance(model, str):
        return model
    named = {{**part.model, **settings}.get("name", "scripted") for part in spec.family()}
    usual = None if named <= {"scripted"} else LiteLLM()
    own = {p.name: p.model for p in spec.registry.plugins if p.model is not None}
    return usual if usual is None or not own else Routed(usual, own)


def prepare(spec: MachineSpec, ports: Ports, tasks: Sequence[Task]) -> None:
    """Raise `SetupError` now for what would fail later: no model, no key, no sandbox.

    `tasks` are those in the queue.
    """
    uses = uses_of(spec)
    if "sandbox" in uses and ports.sandbox is None:
        ports.sandbox = MontySandbox()
    if ports.servers is not None:
        ports.servers.prepare()
    for part in spec.family():
        if "model" in _own_uses(part, tasks if part is spec else inline_tasks(part)):
            _prepare_model(part, ports)


def _prepare_model(spec: MachineSpec, ports: Ports) -> None:
    settings = {**spec.model, **ports.settings}
    scripted = settings.get("name", "scripted") == "scripted" and isinstance(ports.model, LiteLLM)
    if ports.model is None or scripted:
        named = "is scripted" if spec.model.get("name") == "scripted" else "names no model"
        raise SetupError(
            f"machine `{spec.name}` {named}",
            hint="give `model=` or `script=` (`--model NAME` or `--script FILE`)",
        )
    ports.model.prepare(settings)


def suspends(session: Session) -> bool:
    """Whether anything that a run may do yields to the event loop."""
    if session.journal.suspends or session.ports.servers is not None:
        return True
    return spec_suspends(session.chart.spec, session.ports)


JournalOrPath: TypeAlias = Journal | str | Path
"""An open journal, or a SQLite file by its path or as ``sqlite:///runs.db``.

A file is opened once per process and shared by all its users. ``sqlite:////var/runs.db``, with four
slashes, is an absolute path.
"""

_SQLITE = "sqlite:///"
_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


def journal_of(
    given: JournalOrPath, *, make: bool = True, durability: Durability | None = None,
    plugins: Iterable[PluginSpec] = (),
) -> Journal:  # fmt: skip
    """The open journal, or the one at a path. `make` creates the file if it is missing.

    A plugin opens the URLs of its scheme.

    Raises:
        SetupError: this is neither a journal nor a path, or it is open with another durability.
        UnknownRunError: the file is missing, and `make` is false.
        JournalError: the file is not a journal, or cannot be opened.
    """
    wanted = None if durability is None else known_durability(durability)
    if isinstance(given, str) and (opened := _by_plugin(given, make, plugins)) is not None:
        return _with(wanted, opened)
    if isinstance(given, (str, Path)):
        return _with(wanted, _at(given, make, wanted or "process"))
    if not hasattr(given, "suspends"):  # what an untyped caller may give
        raise SetupError(
            f"`journal` is a {type(given).__name__}, not a journal", hint=f"give {_PATH}"
        )
    return _with(wanted, given)


def _by_plugin(url: str, make: bool, plugins: Iterable[PluginSpec]) -> Journal | None:
    """The journal of a URL with a plugin's scheme; None for any other text."""
    scheme, sign, _ = url.partition("://")
    for plugin in plugins if sign else ():
        if plugin.name == scheme and plugin.opens is not None:
            try:
                opened = plugin.opens(url, make=make)
            except ChartloopError:
                raise
            except (Exception, SystemExit) as error:
                text = f"plugin `{scheme}` cannot open its journal: {describe(error)}"
                raise PluginError(text, hint="see what the plugin says of its URLs") from error
            if not hasattr(opened, "suspends"):
                text = f"plugin `{scheme}` gave a {type(opened).__name__}, not a journal"
                raise PluginError(text, hint="it must honour `chartloop.run.journal.Journal`")
            return opened
    return None


def _with(durability: Durability | None, journal: Journal) -> Journal:
    """The journal; `SetupError` if it has another durability than the one requested."""
    known = getattr(journal, "durability", None)
    if durability in (None, known):
        return journal
    if known is None:
        raise SetupError(
            f"`durability` is of a journal's file, and this one is `{journal.name}`",
            hint='name a file: `journal="runs.db"`',
        )
    raise SetupError(
        f"`{journal.name}` is open in this process with the durability `{known}`, not "
        f"`{durability}`",
        hint="use the same value wherever the file is named, or open your own: "
        f'`SqliteJournal(path, durability="{durability}")`',
    )


_PATH = (
    'the path of a SQLite file, `journal="runs.db"` or `"sqlite:///runs.db"`, '
    "or an open `SqliteJournal`"
)


def without_scheme(text: str) -> str:
    """The path in a ``sqlite:///`` URL; any other text as it is."""
    return unquote(text[len(_SQLITE) :]) if text.lower().startswith(_SQLITE) else text


def _at(given: str | Path, make: bool, durability: Durability) -> Journal:
    text = without_scheme(str(given))
    if text == ":memory:":
        raise SetupError(
            "`:memory:` is not the path of a journal",
            hint="leave `journal` out, or share a `MemoryJournal()`: both keep runs in memory",
        )
    if not text.strip() or _URL.match(text):
        hint = f"give {_PATH}"
        if _URL.match(text):
            hint += "; a plugin may open other URLs: `--plugin NAME`"
        raise SetupError(f"`{text}` is not the path of a journal", hint=hint)
    path = Path(text).expanduser()
    if path.suffix == ".jsonl":
        raise SetupError(
            f"`{path}` is named like an export, which holds records and cannot be added to",
            hint=f"give {_PATH}; `stats`, `coverage` and `what_if` read exports",
        )
    if not make and not path.exists():
        raise UnknownRunError(
            f"there is no journal at `{path}`", hint="name the file that the run was started with"
        )
    # in-memory runs load no SQLite
    from chartloop.adapters.journal.sqlite import shared_journal  # noqa: PLC0415

    return shared_journal(path, durability)

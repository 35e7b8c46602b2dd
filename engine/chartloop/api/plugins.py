"""Plugins: installed distributions with tools, actions, journals or models, loaded by name.

A distribution offers them as entry points, each under the name of its plugin::

    [project.entry-points."chartloop.tools"]
    shop = "shop.tools"                  # a module, a function, a list of them
    [project.entry-points."chartloop.actions"]
    shop = "shop.actions"
    [project.entry-points."chartloop.journals"]
    shop = "shop.journal:open_journal"   # of URLs `shop://...`: (url, *, make) -> Journal
    [project.entry-points."chartloop.models"]
    shop = "shop.model:ShopModel"        # of models `shop/...`: () -> Model

Nothing is imported merely because it is installed: entry points are read from metadata, and only
those of a plugin that the caller names are loaded.

Belongs here: finding, loading and refusing plugins. Never: what a plugin does.
Source: Python packaging, "Entry points specification".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple, cast

from chartloop.actions import builtin
from chartloop.actions.declare import What, specs_of
from chartloop.actions.registry import check_traits
from chartloop.core.errors import MissingPluginError, PluginError, SetupError, nearest
from chartloop.core.specs import KINDS, PluginSpec, Registry
from chartloop.run.exceptions import describe
from chartloop.run.journal import Journal, direct_journal
from chartloop.run.lease import ancestry
from chartloop.run.sync import wait

GROUPS = ("chartloop.tools", "chartloop.actions", "chartloop.journals", "chartloop.models")


class InstalledPlugin(NamedTuple):
    """An installed plugin, not imported."""

    name: str
    distribution: str
    version: str
    offers: tuple[str, ...]
    """``tools``, ``actions``, ``journals``, ``models``."""

    def __str__(self) -> str:
        return f"{self.name} ({self.distribution} {self.version}: {', '.join(self.offers)})"


def installed_plugins() -> tuple[InstalledPlugin, ...]:
    """The installed plugins, sorted by name. Imports none of them."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for point in _points():
        key = (point.name, *_of(point))
        found.setdefault(key, []).append(point.group.rpartition(".")[2])
    return tuple(InstalledPlugin(*key, tuple(offers)) for key, offers in sorted(found.items()))


def load_plugins(names: Iterable[str]) -> list[Registry]:
    """Load plugins; returns a registry for each, to be passed as `tools`.

    Raises:
        PluginError: a plugin is not installed, two distributions have one with its name, it
            cannot be imported, it offers something invalid, or a name that is taken.
    """
    wanted = tuple(dict.fromkeys(names))
    if not wanted:
        return []
    points: dict[str, list[EntryPoint]] = {}
    for point in _points():
        points.setdefault(point.name, []).append(point)
    loaded = [_load(name, points) for name in wanted]
    base = builtin()
    for kind in KINDS:
        taken = dict.fromkeys(cast("Mapping[str, Any]", getattr(base, kind)), "chartloop itself")
        for registry in loaded:
            for name in cast("Mapping[str, Any]", getattr(registry, kind)):
                by = f"plugin `{registry.plugins[0].name}`"
                if name in taken:
                    raise PluginError(
                        f"{by} brings the {kind[:-1]} `{name}`, which {taken[name]} has already",
                        hint="leave one of the two out, or ask its authors for another name",
                    )
                taken[name] = by
    return loaded


def _points() -> Iterator[EntryPoint]:
    for group in GROUPS:
        yield from entry_points(group=group)


def _of(point: EntryPoint) -> tuple[str, str]:
    """The distribution of an entry point, and its version."""
    if point.dist is None:
        return "an unknown distribution", "?"
    return point.dist.name, point.dist.version


def _load(name: str, points: Mapping[str, Sequence[EntryPoint]]) -> Registry:
    if name not in points:
        known = ", ".join(map(str, installed_plugins())) or "no plugin is installed"
        close = nearest(name, points, otherwise="")
        raise PluginError(
            f"there is no plugin `{name}`; installed: {known}",
            hint=close or "install the distribution that has it",
        )
    owners = sorted({_of(point) for point in points[name]})
    if len(owners) > 1:
        listed = " and ".join(f"{dist} {version}" for dist, version in owners)
        raise PluginError(
            f"two distributions have a plugin `{name}`: {listed}", hint="uninstall one of them"
        )
    distribution, version = owners[0]
    where = f"plugin `{name}` of {distribution} {version}"
    things = {point.group: _import(point, where) for point in points[name]}
    own = specs_of(
        [
            _declarations(thing, what, where)
            for what in _SPECS
            if (thing := things.get(f"chartloop.{what}s")) is not None
        ]
    )
    for action in own.actions.values():
        if action.run is None:
            raise PluginError(
                f"{where}: action `{action.name}` has no function",
                hint="its `ActionSpec` needs `run`",
            )
        if action.declares is None:
            continue  # without declared traits the worst is assumed
        try:
            check_traits(action)
        except SetupError as error:
            raise PluginError(f"{where}: {error.message}", hint=error.hint) from error
    spec = PluginSpec(
        name,
        distribution,
        version,
        frozenset(own.actions),
        frozenset({*own.tools, *own.guards, *own.types}),
        _callable(things, "chartloop.journals", where),
        _callable(things, "chartloop.models", where),
    )
    return replace(own, plugins=(spec,))


_SPECS: tuple[What, ...] = ("tool", "action")


def _import(point: EntryPoint, where: str) -> object:
    try:
        return point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # it is the code of others
        raise PluginError(
            f"{where} cannot be imported from `{point.value}`: {describe(error)}",
            hint="the plugin itself fails: ask its authors, or leave it out",
        ) from error


def _declarations(thing: object, what: What, where: str) -> Registry:
    try:
        own = specs_of(thing, bare=what)
    except SetupError as error:
        raise PluginError(f"{where}: {error.message}", hint=error.hint) from error
    if not (own.actions if what == "action" else own.tools):
        raise PluginError(
            f"{where} declares no {what} under `chartloop.{what}s`",
            hint=f"name a module with functions that are decorated with `@{what}`",
        )
    return own


def _callable(
    things: Mapping[str, object], group: str, where: str
) -> Callable[..., Any] | None:  # fmt: skip
    thing = things.get(group)
    if thing is not None and not callable(thing):
        raise PluginError(
            f"{where}: what it has under `{group}` cannot be called",
            hint="name a class, or a function that gives one",
        )
    return thing


# the plugins of a run ---------------------------------------------------------------------------


def recall_plugins(journal: Journal, run_id: str) -> Mapping[str, str]:
    """The plugins that a run was started with, each with its distribution and version.

    For a child, those of its topmost ancestor.
    """
    *_, top = ancestry(run_id)
    direct = direct_journal(journal)
    first = wait(direct.records(top, 0, 1), suspends=direct.suspends)
    plugins: Any = first[0].input.data.get("plugins") if first else None
    return cast("Mapping[str, str]", plugins) if isinstance(plugins, Mapping) else {}


def refuse_missing(
    run_id: str, wanted: Mapping[str, str], given: Iterable[PluginSpec]
) -> None:  # fmt: skip
    """Raise `MissingPluginError` if a run was started with a plugin that is missing now."""
    known = {plugin.name for plugin in given}
    missing = {name: of for name, of in wanted.items() if name not in known}
    if not missing:
        return
    listed = ", ".join(f"`{name}` ({of})" for name, of in missing.items())
    here = {plugin.name for plugin in installed_plugins()}
    options = " ".join(f"--plugin {name}" for name in missing)
    hint = f"name it again: {options}, or `plugins={sorted(missing)!r}` in Python"
    if absent := [of for name, of in missing.items() if name not in here]:
        hint = f"install {', '.join(absent)}; then {hint}"
    raise MissingPluginError(
        f"run `{run_id}` was started with the plugin {listed}", plugins=tuple(missing), hint=hint
    )

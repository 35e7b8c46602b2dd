"""The models to call, in order, each with its server and key.

The caller passes the litellm module, which knows the providers and the names of their keys; only
`adapters.model.litellm` imports it.

Belongs here: a file's `model` resolved to names, servers and keys. Never: a call.
Source: docs/language.md, "model"; docs/models.md.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from chartloop.core.errors import SetupError
from chartloop.core.specs import refused_extra
from chartloop.core.units import parse_duration

_PATIENCE = 600.0  # seconds, when the file sets no `timeout`
REPLY_LIMIT = 1_000_000  # characters, when the file sets no `reply_limit`
_NO_KEY = "no-key"  # for a server that needs none: HTTP clients refuse an empty one


class Target(NamedTuple):
    """A model to call."""

    name: str  # of the file's own model, or of a fallback
    where: Mapping[str, Any]  # `api_base` and `api_key`, as far as they are given
    timeout: float  # for a whole reply
    idle: float  # between two pieces of a stream
    most: int  # characters of a reply
    extra: Mapping[str, Any]  # further arguments of the call: `extra_headers` may hold keys
    row: Mapping[str, Any]  # of litellm's table; empty for an unknown model
    provider: str = ""  # litellm's name of it


def targets_of(litellm: Any, settings: Mapping[str, Any]) -> list[Target]:
    """The file's model, then its fallbacks. Raises `SetupError` for settings that cannot work."""
    extra: Mapping[str, Any] = settings.get("extra") or {}
    if (wrong := refused_extra(extra)) is not None:
        raise SetupError(f"`model.extra` may not hold `{wrong}`", hint="leave it to `model`")
    timeout, idle = _seconds(settings, "timeout", _PATIENCE), _seconds(settings, "idle_timeout", 60)
    most = settings.get("reply_limit", REPLY_LIMIT)
    if not isinstance(most, int) or most < 1:
        raise SetupError(f"`model.reply_limit` cannot be `{most}`", hint="write a whole number")
    names: list[str] = [settings.get("name", ""), *(settings.get("fallbacks") or ())]
    providers = [provider_of(litellm, name) for name in names]
    targets: list[Target] = []
    for name, provider in zip(names, providers, strict=True):
        # A fallback at another provider gets neither the file's server and key nor its `extra`:
        # providers refuse unknown fields, and headers may hold keys.
        own = provider == providers[0]
        where = _where(litellm, name, settings if own else {})
        row, more = row_of(litellm, name), extra if own else {}
        targets.append(Target(name, where, timeout, idle, most, more, row, provider))
    return targets


def _seconds(settings: Mapping[str, Any], name: str, usual: float) -> float:
    value = usual if settings.get(name) is None else settings[name]
    seconds = parse_duration(value) if isinstance(value, str) else value
    if not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise SetupError(f"`model.{name}` cannot be `{value}`", hint="write seconds, or `60s`")
    return seconds


def provider_of(litellm: Any, name: Any) -> str:
    """The provider of a model, by litellm's name. Raises `SetupError` if it knows none."""
    with contextlib.suppress(Exception):
        model, provider, *_ = litellm.get_llm_provider(name)
        if model:
            return provider
    text = f"model name `{name}` is not one that litellm knows"
    raise SetupError(text, hint="write `provider/model`")


def row_of(litellm: Any, name: Any) -> Mapping[str, Any]:
    """The model's row in litellm's own table; may be empty. Makes no request."""
    provider = provider_of(litellm, name)
    for key in (name, f"{provider}/{name}", name.removeprefix(f"{provider}/")):
        row: Mapping[str, Any] = litellm.model_cost.get(key, {})
        if str(row.get("litellm_provider")).startswith(provider):
            return row
    return {}


def _where(litellm: Any, name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    base, variable = settings.get("api_base"), settings.get("api_key_env")
    given = {"api_base": base} if base else {}
    if variable:
        if key := os.environ.get(variable, "").strip():
            return given | {"api_key": key}
        named = f"the environment variable `{variable}`, which `model.api_key_env` names,"
        raise SetupError(f"{named} is not set", hint=f"set it to the key for `{name}`")
    if not (missing := _missing_keys(litellm, name)):
        return given
    if base:
        return given | {"api_key": _NO_KEY}
    text = f"no key for `{name}`: the environment variable {' or '.join(missing)} is not set"
    raise SetupError(text, hint="set it, or name another one as `model.api_key_env`")


def _missing_keys(litellm: Any, name: str) -> list[str]:
    """The environment variables one of which must hold a key; empty if no key is needed."""
    missing: list[str] = litellm.validate_environment(model=name)["missing_keys"]
    usual = f"{provider_of(litellm, name)}_API_KEY".upper()
    if not os.environ.get(usual, "set").strip():
        missing.append(usual)
    if {"AZURE_AD_TOKEN", "AZURE_CLIENT_ID"} & os.environ.keys():
        missing = [key for key in missing if not key.startswith("AZURE")]
    return [f"`{key}`" for key in missing if key.endswith(("_API_KEY", "_API_TOKEN"))]

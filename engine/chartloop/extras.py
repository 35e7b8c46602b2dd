"""Install commands for the extras of chartloop, for messages.

A command names the distributions of an extra with their version bounds, and never chartloop
itself: an index may have another package of that name, which an upgrade would install instead.

Belongs here: reading our own metadata. Never: importing the packages of an extra.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import metadata

_EXTRA = re.compile(r"""^(?P<what>[^;]+?)\s*;.*\bextra == ['"](?P<extra>[\w-]+)['"]""")


@cache
def requirements(extra: str = "") -> tuple[str, ...]:
    """The requirements of an extra, or of the core by default, each as ``name>=1,<2``.

    Empty if chartloop has no metadata, as when its folder is only on the path.
    """
    try:
        listed = metadata.requires("chartloop") or []
    except metadata.PackageNotFoundError:
        return ()
    if not extra:
        return tuple(_readable(line) for line in listed if "extra ==" not in line)
    matches = (_EXTRA.match(line) for line in listed)
    return tuple(_readable(m["what"]) for m in matches if m and m["extra"] == extra)


def _readable(requirement: str) -> str:
    """A requirement as ``name>=1,<2``, with the lower bound first."""
    name, bound, rest = re.split(r"([<>=~!].*)?$", requirement, maxsplit=1)
    return name + ",".join(sorted((bound or "").split(","), reverse=True)) + rest


def install(extra: str = "") -> str:
    """The shell command that installs the requirements of an extra."""
    needs = " ".join(f'"{line}"' for line in requirements(extra))
    return f"pip install {needs}" if needs else f"install chartloop with its extra `{extra}`"

"""The command that installs an extra of chartloop, for messages.

The command names the distributions that an extra brings, with their version bounds, and never
chartloop itself: an index may hold another package of that name, and pip would replace ours by it.

Belongs here: reading our own metadata. Never: importing what an extra brings.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import metadata

_EXTRA = re.compile(r"""^(?P<what>[^;]+?)\s*;.*\bextra == ['"](?P<extra>[\w-]+)['"]""")


@cache
def requirements(extra: str = "") -> tuple[str, ...]:
    """The requirements of an extra, or of the core if none is named, each as ``name>=1,<2``.

    Empty if chartloop has no metadata, as in a folder that is merely on the path.
    """
    try:
        listed = metadata.requires("chartloop") or []
    except metadata.PackageNotFoundError:
        return ()
    if not extra:
        return tuple(_readable(line) for line in listed if "extra ==" not in line)
    found = (_EXTRA.match(line) for line in listed)
    return tuple(_readable(row["what"]) for row in found if row and row["extra"] == extra)


def _readable(requirement: str) -> str:
    """``name>=1,<2``, in whatever order the metadata has the bounds."""
    name, bound, rest = re.split(r"([<>=~!].*)?$", requirement, maxsplit=1)
    return name + ",".join(sorted((bound or "").split(","), reverse=True)) + rest


def install(extra: str = "") -> str:
    """A shell command that installs the requirements of an extra."""
    needs = " ".join(f'"{line}"' for line in requirements(extra))
    return f"pip install {needs}" if needs else f"install chartloop with its extra `{extra}`"

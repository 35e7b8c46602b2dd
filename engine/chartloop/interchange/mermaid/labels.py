"""What a label of a Mermaid chart says to people.

Belongs here: codes, entities, breaks, tags, the number of trial that our own charts write. Never:
where a label ends (`lexer`).

Source:       mermaid 12.3: `decodeEntities` of `utils.ts`, `common.ts`
"""

from __future__ import annotations

import html
import re

from chartloop.view.mermaid import NUMBERED

_BREAK = re.compile(r"</?br\s*/?>|\\n", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*(?:>|\Z)")


def says(written: str) -> str:
    """A label as people read it: breaks are newlines, codes are their characters, no tags."""
    text = _TAG.sub("", _BREAK.sub("\n", written.strip()))
    for mark, meant in (("ﬂ°°", "&#"), ("ﬂ°", "&"), ("¶ß", ";")):
        text = text.replace(mark, meant)
    return "\n".join(line.strip() for line in html.unescape(text).split("\n")).strip("\n")


def has_tags(written: str) -> bool:
    """Whether there are tags in it that are no breaks."""
    return _TAG.search(_BREAK.sub("", written)) is not None


def numbered(written: str) -> tuple[int | None, str]:
    """The order of trial that our own charts write in front of a label, and what the rest says."""
    found = NUMBERED.match(written)
    if found is None:
        return None, says(written)
    return int(found[1]), says(written[found.end() :])

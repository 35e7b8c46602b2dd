"""Keys, tokens and passwords in a file.

A finding never repeats the secret: neither in its message nor in the line that it shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.core.credentials import PATTERNS
from chartloop.language.yaml.reading import Path

_DEEPEST = 60


def check_secrets(context: CheckContext) -> None:
    """Search every text of the file, including inline children."""
    document = context.spec.document
    if document is None or context.spec.base:
        return  # an inline child is searched with its file
    for path, text in _texts(document.data, ()):
        for pattern in PATTERNS:
            match = pattern.regex.search(text)
            if match is None:
                continue
            kind = pattern.name.replace("-", " ").replace("url ", "URL ")
            start, end = pattern.span(match)
            place = document.part(path, start, max(1, end - start))
            first, last = place.column - 1, place.column - 1 + place.width
            line = place.text[:first] + "•" * place.width + place.text[last:]
            article = "an" if kind[0] in "aeiou" else "a"
            message = f"this looks like {article} {kind}: everyone with the file can use it"
            hint = "name an environment variable (`api_key_env`), and replace the secret"
            context.say(
                "CL337",
                path,
                message,
                hint=hint,
                place=replace(place, text=_mask_credentials(line)),
            )
            break


def _mask_credentials(line: str) -> str:
    """Mask everything in a line that looks like a credential."""
    for pattern in PATTERNS:
        line = pattern.regex.sub(lambda m: "•" * len(m[0]), line)
    return line


def _texts(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield every text with its path."""
    if isinstance(value, str):
        yield path, value
    elif len(path) > _DEEPEST:
        return
    elif isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, Any]", value).items():
            yield from _texts(inner, (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(cast("list[Any]", value)):
            yield from _texts(inner, (*path, number))

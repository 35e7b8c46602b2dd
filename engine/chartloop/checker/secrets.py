"""Keys, tokens and passwords that are in a file.

What was found is never repeated: not in the message, and not in the line that is shown with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from chartloop.checker.check_context import CheckContext
from chartloop.core.credentials import PATTERNS
from chartloop.language.yaml.reading import Path

_DEEPEST = 60


def check_secrets(context: CheckContext) -> None:
    """Every text of the file; children that are in it, too."""
    document = context.spec.document
    if document is None or context.spec.base:
        return  # a child in a file is looked at with the file
    for path, text in _texts(document.data, ()):
        for pattern in PATTERNS:
            found = pattern.regex.search(text)
            if found is None:
                continue
            kind = pattern.name.replace("-", " ").replace("url ", "URL ")
            start, end = pattern.span(found)
            place = document.part(path, start, max(1, end - start))
            first, last = place.column - 1, place.column - 1 + place.width
            shown = place.text[:first] + "•" * place.width + place.text[last:]
            article = "an" if kind[0] in "aeiou" else "a"
            message = f"this looks like {article} {kind}: everyone with the file can use it"
            hint = "name an environment variable (`api_key_env`), and replace the secret"
            context.say(
                "CL337",
                path,
                message,
                hint=hint,
                place=replace(place, text=_mask_credentials(shown)),
            )
            break


def _mask_credentials(line: str) -> str:
    """The line with everything that looks like a credential masked."""
    for pattern in PATTERNS:
        line = pattern.regex.sub(lambda m: "•" * len(m[0]), line)
    return line


def _texts(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    """Every text, and where it is."""
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

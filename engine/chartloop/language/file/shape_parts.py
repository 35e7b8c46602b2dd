"""The way from a fault that pydantic reports to the document, and out of the data again.

Belongs here: locations, annotations, taking out what does not fit. Never: wording, findings.
"""

from __future__ import annotations

from types import NoneType
from typing import Any, cast, get_args, get_origin

from pydantic import BaseModel

from chartloop.language.file.base import LIST, MAPPING, SCALAR
from chartloop.language.file.file import FileShape
from chartloop.language.yaml.reading import Path

_TAGS = frozenset({LIST, MAPPING, SCALAR, "[key]"})


def copy_data(data: Any) -> Any:
    """A deep copy of plain data, without the sharing that YAML aliases make."""
    if isinstance(data, dict):
        return {k: copy_data(v) for k, v in cast(dict[str, Any], data).items()}
    if isinstance(data, list):
        return [copy_data(v) for v in cast(list[Any], data)]
    return data


def real_path(loc: tuple[int | str, ...]) -> Path:
    """A location without the tags of unions."""
    return tuple(part for part in loc if part not in _TAGS)


def value_at(data: Any, path: Path) -> Any:
    """The value at a path. `LookupError` or `TypeError` when it is not there."""
    for part in path:
        data = data[part]
    return data


def is_there(data: Any, path: Path) -> bool:
    """Whether a path leads to a value."""
    try:
        value_at(data, path)
    except (LookupError, TypeError):
        return False
    return True


def annotation_at(path: Path) -> Any:
    """The type that the shape gives the value at a path; None if it gives none."""
    found: Any = FileShape
    for part in path:
        found = _inside(found, part)
    return found


def models_at(path: Path) -> list[type[BaseModel]]:
    """The mappings that may be at a path."""
    return [m for m in member_types(annotation_at(path)) if _is_model(m)]


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys of a mapping, as a file writes them."""
    return [info.alias or name for name, info in model.model_fields.items()]


def member_types(annotation: Any) -> list[Any]:
    """The members of unions and `Annotated`, as far down as generic types and classes."""
    if annotation is None:
        return []
    if isinstance(annotation, type) or get_origin(annotation) in (dict, list):
        return [annotation]
    return [x for a in get_args(annotation) for x in member_types(a)]


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _inside(annotation: Any, part: int | str) -> Any:
    found = member_types(annotation)
    for model in found:
        if _is_model(model):
            for name, info in model.model_fields.items():
                if part == (info.alias or name):
                    return info.annotation
    for kind in found:
        wanted = dict if isinstance(part, str) else list
        if get_origin(kind) is wanted:
            return get_args(kind)[-1]
    return None


def take_out(data: Any, path: Path) -> Path:
    """Take the value at a path out of the data, and say which path went with it.

    What must be there takes its mapping along. An item of a list, or what a file gives a name,
    leaves a blank behind: its number or name stays known.
    """
    holder: Any = value_at(data, path[:-1])
    last = path[-1]
    if isinstance(last, int):
        holder[last] = blank(annotation_at(path))
        return path
    given = cast(dict[str, Any], holder)
    fields = [
        info
        for model in models_at(path[:-1])
        for name, info in model.model_fields.items()
        if last == (info.alias or name)
    ]
    if fields and all(info.is_required() for info in fields) and len(path) > 1:
        return take_out(data, path[:-1])
    if fields or annotation_at(path) is None:
        given.pop(last, None)
    else:
        given[last] = blank(annotation_at(path))
    return path


def blank(annotation: Any) -> Any:
    """The least that fits: None, an empty text, list or mapping, or a mapping of blanks."""
    kinds = member_types(annotation)
    if NoneType in kinds:
        return None
    if str in kinds:
        return ""
    for kind in kinds:
        if _is_model(kind):
            fields = kind.model_fields.items()
            return {i.alias or n: blank(i.annotation) for n, i in fields if i.is_required()}
    return [] if any(get_origin(kind) is list for kind in kinds) else None

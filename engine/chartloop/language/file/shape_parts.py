"""Locations of pydantic's faults in the document, and their removal from the data.

Belongs here: locations, annotations, removal of faulty parts. Never: wording, findings.
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
    """Remove the tags of unions from a location."""
    return tuple(part for part in loc if part not in _TAGS)


def value_at(data: Any, path: Path) -> Any:
    """The value at a path. Raises `LookupError` or `TypeError` if there is none."""
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
    """The annotation of the shape for a path; None if it has none."""
    annotation: Any = FileShape
    for part in path:
        annotation = _inside(annotation, part)
    return annotation


def models_at(path: Path) -> list[type[BaseModel]]:
    """The shapes of the mappings that may be at a path."""
    return [m for m in member_types(annotation_at(path)) if _is_model(m)]


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys of a mapping, as in files."""
    return [info.alias or name for name, info in model.model_fields.items()]


def member_types(annotation: Any) -> list[Any]:
    """Flatten unions and `Annotated` to generic types and classes."""
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
    """Remove the value at a path, and return the path that was removed.

    A required key takes its mapping with it. An item of a list, or a value with a declared name,
    is replaced by a blank, so that its index or name stays known.
    """
    holder: Any = value_at(data, path[:-1])
    last = path[-1]
    if isinstance(last, int):
        holder[last] = blank(annotation_at(path))
        return path
    mapping = cast(dict[str, Any], holder)
    fields = [
        info
        for model in models_at(path[:-1])
        for name, info in model.model_fields.items()
        if last == (info.alias or name)
    ]
    if fields and all(info.is_required() for info in fields) and len(path) > 1:
        return take_out(data, path[:-1])
    if fields or annotation_at(path) is None:
        mapping.pop(last, None)
    else:
        mapping[last] = blank(annotation_at(path))
    return path


def blank(annotation: Any) -> Any:
    """The smallest valid value: None, an empty text or list, or a mapping of blanks."""
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

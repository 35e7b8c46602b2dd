"""Validation of a document by the shape of a machine file.

Every fault becomes one finding with its place. To find further faults in the same pass, the faulty
part is removed (a misspelt key is corrected) and the rest is validated again; `Unread` notes what
was removed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from chartloop.core.codes import finding
from chartloop.core.errors import Finding, nearest
from chartloop.language.file.file import (
    Append,
    EdgeShape,
    FileShape,
    MachineShape,
    RuleShape,
    StateShape,
    TypedValue,
)
from chartloop.language.file.name_rules import bad_name, bad_names
from chartloop.language.file.shape_parts import (
    copy_data,
    is_there,
    keys_of,
    models_at,
    take_out,
    value_at,
)
from chartloop.language.file.shape_words import IN_PLACE_OF, Fault, hint_for, message_of, noun_of
from chartloop.language.file.unreadable import TOO_MANY, Unread
from chartloop.language.yaml.document import dotted_path, short
from chartloop.language.yaml.reading import MAX_FINDINGS, Document, Path

_ROUNDS = 8
"""The most rounds of validation. Each removes one layer of faults."""
_NEVER_FINITE = re.compile(r"\.(?:inf|nan)", re.IGNORECASE)
_TEXT_KEYS = frozenset(
    "title about source instructions label ask name api_base api_key_env agent text acceptance id "
    "message reason difference value template stop fallbacks".split()
)
"""The keys of free text, where a number needs quotes."""


class Shaped(NamedTuple):
    """The result of validating a document by the shape."""

    file: FileShape | None
    findings: list[Finding]
    unread: Unread
    gone: frozenset[Path]
    """The removed paths; a blank takes their place if their name or index must stay."""


def shape(document: Document) -> Shaped:
    """Validate a document, and return its valid part with all findings."""
    shaper = _Shaper(document)
    file = shaper.shape()
    return Shaped(file, shaper.findings, shaper.unread, frozenset(shaper.gone))


class _Shaper:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.findings = list(document.findings)
        self.unread = Unread()
        self.gone: set[Path] = set()
        self.data: Any = None

    def shape(self) -> FileShape | None:
        data = self.document.data
        if not isinstance(data, dict):
            if not self.findings:
                self._say("CL203", (), "a machine file is a mapping", "it starts `chartloop: 1`")
            return None
        for found in self.findings:  # duplicate keys, words without a value
            place = found.place
            word = place.text[place.column - 1 : place.column - 1 + place.width].strip("\"'")
            path = tuple(found.at.split("."))
            if not f".{found.at}".endswith(f".{word}"):
                path = (*path, word)
            self.unread.add(path)
            self.unread.lose_way(path)
        self.data = cast(dict[str, Any], data)
        self._endless()
        for number in range(_ROUNDS):
            try:
                made = FileShape.model_validate(self.data)
                self._names(made.machine)
                return made
            except ValidationError as error:
                if not number:
                    self.data = copy_data(self.data)
                # `hide_input_in_errors` has no effect on `errors()`
                found = error.errors(include_url=False, include_input=False)
                self._round([Fault.of(one["type"], one["loc"], one.get("ctx")) for one in found])
        return None

    def _round(self, faults: list[Fault]) -> None:
        """Report the faults of one validation, misspelt keys first: they may be missing ones."""
        seen: set[Path] = set()
        faults = faults[: MAX_FINDINGS + 1]
        for fault in sorted(faults, key=lambda f: f.kind != "extra_forbidden"):
            path = fault.path
            gone = any(path[:n] in self.gone for n in range(1, len(path) + 1))
            if gone or path in seen or not is_there(self.data, path[:-1]):
                continue
            there = is_there(self.data, path)
            if fault.kind == "missing":
                if not there:
                    name, holder = str(path[-1]), path[:-1]
                    where = f"`{dotted_path(holder)}`" if holder else "the file"
                    if models_at(holder) == [Append]:
                        where = f"`{dotted_path(holder)}` is a mapping and"
                    self._say(
                        "CL202", holder, f"{where} lacks the key `{name}`", hint_for(path), key=True
                    )
                    if holder:
                        self._take_out(holder)
                    else:
                        self.data[name] = {"chartloop": 1}.get(name, "unnamed")
            elif there and (fault.kind == "extra_forbidden" or fault.key):
                self._unknown(path, fault)
            elif there:
                self._wrong(path, fault)
            seen.add(path)

    def _say(
        self, code: str, path: Path, message: str, hint: str = "", *, key: bool = False
    ) -> None:
        if len(self.findings) > MAX_FINDINGS:
            return
        if len(self.findings) == MAX_FINDINGS:
            code, message, hint = "CL005", TOO_MANY, ""
        place = self.document.key(path) if key else self.document.at(path)
        self.findings.append(finding(code, message, place, hint=hint, at=dotted_path(path)))

    def _take_out(self, path: Path) -> None:
        """Remove a fault from the data, and note what is lost with it."""
        texts = list(_texts(value_at(self.data, path))) if is_there(self.data, path) else []
        went = take_out(self.data, path)
        self.gone.add(went)
        self.unread.add(path, texts)
        self.unread.lose_way(went)

    # faults ---------------------------------------------------------------------------------

    def _wrong(self, path: Path, fault: Fault) -> None:
        value = value_at(self.data, path)
        if path == ("chartloop",):
            self._say(
                "CL206", path, f"format version {_quote_value(value)} is not known", hint_for(path)
            )
            self.data["chartloop"] = 1
            return
        if self._misread(path, value, fault):
            return
        if fault.kind == "literal_error":
            known = fault.words
            hint = nearest(str(value), known)
            self._say("CL208", path, f"`{short(str(value))}` is not allowed here", hint)
        else:
            self._say("CL203", path, message_of(path, value, fault), hint_for(path, value, fault))
        self._take_out(path)
        if path == ("machine",):
            self.data["machine"] = "unnamed"

    def _misread(self, path: Path, value: Any, fault: Fault) -> bool:
        """Report a number where text is expected, and whether this was one: it needs quotes."""
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        words = [p for p in path if isinstance(p, str)]
        if fault.kind != "string_type" or not number or words[-1] not in _TEXT_KEYS:
            return False
        if words[-1] == "stop" and "model" not in path:
            return False
        raw = short(self.document.raw(path) or str(value))
        found = self.document.misread(path)
        text = found.message if found else f"`{dotted_path(path)}` is text, and `{raw}` is a number"
        self._say("CL210", path, text, f'quote it: `"{raw}"`')
        value_at(self.data, path[:-1])[path[-1]] = raw
        return True

    def _unknown(self, path: Path, fault: Fault) -> None:
        key = str(path[-1])
        models = models_at(path[:-1])
        known = [k for m in models for k in keys_of(m)] or fault.words
        holder = value_at(self.data, path[:-1])
        if _is_cut_guard(key):
            message = "this looks like a guard that YAML cut in pieces"
            self._say("CL007", path, message, "put the whole guard in quotes", key=True)
            self._take_out(path)
        elif _is_plain_map(models, holder):
            self._plain_map(path[:-1], models[0])
        else:
            meant = _meant(key, known)
            self._say("CL201", path, f"unknown key `{short(key)}`", _cure(key, known), key=True)
            self.unread.add(path, _texts(holder[key]))
            self.gone.add(path)
            value = holder.pop(key)
            if meant and meant not in holder:
                holder[meant] = value

    def _plain_map(self, path: Path, model: type[Any]) -> None:
        """Report a mapping where only `{type, value}` or `{append}` is allowed."""
        typed = model is TypedValue
        message = "a map names its type" if typed else "a map is written as an expression here"
        hint = (
            'write `{type: "map[int]", value: {...}}`'
            if typed
            else "write `'{\"key\": value}'`; `{append: x}` adds to a list"
        )
        self._say("CL203", path, f"`{dotted_path(path)}`: {message}", hint)
        self._take_out(path)

    def _names(self, machine: str) -> None:
        if found := bad_name(("machine",), machine):
            self._say("CL204", *found)
        for found in bad_names(self.data):
            self._say("CL204", *found, key=True)
            if "states" not in found.path:
                self.unread.add(found.path)

    def _endless(self) -> None:
        """Report infinite numbers and NaN, which the canonical form cannot hold."""
        if not _NEVER_FINITE.search(self.document.text):
            return
        self.data = copy_data(self.data)
        for path, value in list(_floats(self.data, ())):
            if not math.isfinite(value):
                raw = self.document.raw(path)
                hint = "a limit that is off is written `{type: int, value: null}`"
                self._say("CL209", path, f"`{raw}` is not a quantity", hint)
                self._take_out(path)


def _is_cut_guard(key: str) -> bool:
    return any(sign in key for sign in "<>=\"'()") or (len(key) > 40 and " " in key)


def _is_plain_map(models: list[type[Any]], holder: Any) -> bool:
    return models in ([TypedValue], [Append]) and not any(k in holder for k in keys_of(models[0]))


_ALIKE = 0.7
"""The similarity from which on a key is corrected: `nxt` to `next`, but not `catch` to `each`,
which would cause further findings."""


def _meant(key: str, known: list[str]) -> str:
    """The key that a misspelt one, or a word of another tool, stands for; empty if unclear."""
    matches = [k for k in IN_PLACE_OF.get(key, ()) if k in known]
    if not matches and not _home(key, known):
        matches = get_close_matches(key, known, n=1, cutoff=_ALIKE)
    return matches[0] if matches else ""


def _home(key: str, known: list[str]) -> str:
    """Where a misplaced key belongs, in words; empty if it is not a key of the language."""
    for model in (StateShape, MachineShape, RuleShape, EdgeShape):
        keys = keys_of(model)
        if key in keys and not set(keys) <= set(known):
            return noun_of(model)
    return ""


def _cure(key: str, known: list[str]) -> str:
    if meant := _meant(key, known):
        return f"did you mean `{meant}`?"
    for word in (key, *IN_PLACE_OF.get(key, ())):
        if home := _home(word, known):
            return f"`{word}` is a key of {home}"
    return nearest(key, known)


def _texts(value: Any) -> Iterator[str]:
    """Every text in plain data, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in cast(Mapping[str, Any], value).items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in cast(list[Any], value):
            yield from _texts(inner)


def _floats(value: Any, path: Path) -> Iterator[tuple[Path, float]]:
    if isinstance(value, float):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in cast(dict[str, Any], value).items():
            yield from _floats(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(cast(list[Any], value)):
            yield from _floats(inner, (*path, number))


def _quote_value(value: Any) -> str:
    return f"`{short(str(value))}`" if isinstance(value, (str, int, float)) else "of this kind"

"""The reading of a document by the keys of a file: every fault in one pass.

A fault becomes a finding with its place. What cannot be read is left out: `LOST` stands for an
entry or item, and a part knows its lost keys. A misspelt key is read as the one that is meant.
`Unread` notes what was left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeVar, cast

from chartloop.core.codes import finding
from chartloop.core.errors import Finding, nearest
from chartloop.language.file.file import (
    EDGE,
    Append,
    EdgeShape,
    FileShape,
    MachineShape,
    RuleShape,
    StateShape,
)
from chartloop.language.file.keys import (
    LOST,
    REQUIRED,
    Either,
    IsFlag,
    IsNumber,
    IsPart,
    IsScalar,
    IsText,
    Kind,
    ListOf,
    MapOf,
    OneOf,
    Part,
)
from chartloop.language.file.name_rules import bad_name
from chartloop.language.file.parts import TypedValue
from chartloop.language.file.unreadable import TOO_MANY, Unread
from chartloop.language.yaml.document import dotted_path, short
from chartloop.language.yaml.reading import MAX_FINDINGS, Document, Path

Data = dict[str, Any]

IN_PLACE_OF: Mapping[str, tuple[str, ...]] = {
    "action": ("do",), "actions": ("do",), "run": ("do",), "call": ("do",), "type": ("do",),
    "params": ("with",), "args": ("with",), "inputs": ("with",), "parameters": ("with",),
    "target": ("to", "next"), "goto": ("to", "next"), "dest": ("to",), "transitions": ("next",),
    "transition": ("next",), "edges": ("next",), "guard": ("when",), "cond": ("when",),
    "condition": ("when",), "conditions": ("when",), "if": ("when",), "initial": ("start",),
    "timeout": ("within",), "after": ("expired",), "question": ("ask",), "switch": ("of",),
    "name": ("machine", "label"), "description": ("about",), "prompt": ("instructions",),
    "system": ("instructions",), "variables": ("vars",), "context": ("vars",), "final": ("end",),
    "on_enter": ("set",), "entry": ("set",), "events": ("on",), "reason": ("stop",),
    "version": ("chartloop",), "nodes": ("states",), "budget": ("limits",),
    "catch": ("on_error",), "except": ("on_error",), "on_failure": ("on_error",),
}  # fmt: skip
"""Words of other tools, with the corresponding keys of this language."""

_ALIKE = 0.7
"""The similarity from which on a key is corrected: `nxt` to `next`, but not `catch` to `each`,
which would cause further findings."""
HOMES = (StateShape, MachineShape, RuleShape, EdgeShape)
"""The parts of a machine file in which a misplaced key may belong."""
_NEVER_FINITE = re.compile(r"\.(?:inf|nan)", re.IGNORECASE)
_SCALAR = (bool, int, float, str)
_YES, _NO = ("true", "yes", "on", "y", "t", "1"), ("false", "no", "off", "n", "f", "0")


class Shaped(NamedTuple):
    """A document read by its keys."""

    file: FileShape | None
    findings: list[Finding]
    unread: Unread


def shape(document: Document) -> Shaped:
    """Read a document by the keys of a machine file, with all findings."""
    walk = _Walk(document)
    return Shaped(walk.file(), walk.findings, walk.unread)


P = TypeVar("P", bound=Part)


def read_part(document: Document, part: type[P], *, cure: str = "") -> tuple[P, list[Finding]]:
    """Read a document by the keys of one part, with all findings.

    A part that is not a mapping has no key; `cure` is the hint for it.
    """
    walk = _Walk(document, homes=())
    made = walk.part((), document.data, part) if walk.is_mapping(part.noun, cure) else part()
    return made, walk.findings


class _Walk:
    """One pass over a document. `cure` is the hint that goes with the key of a value."""

    def __init__(self, document: Document, homes: tuple[type[Part], ...] = HOMES) -> None:
        self.document, self.homes = document, homes
        self.findings = list(document.findings)
        self.unread = Unread()
        self.endless = False
        """Whether there are infinite numbers, which are reported."""

    def file(self) -> FileShape | None:
        data = self.document.data
        if not self.is_mapping("a machine file", "it starts `chartloop: 1`"):
            return None
        for found in self.findings:  # duplicate keys, words without a value
            place = found.place
            word = place.text[place.column - 1 : place.column - 1 + place.width].strip("\"'")
            path = tuple(found.at.split("."))
            if not f".{found.at}".endswith(f".{word}"):
                path = (*path, word)
            self.unread.add(path)
            self.unread.lose_way(path)
        if _NEVER_FINITE.search(self.document.text):
            for path, value in _floats(data, ()):
                if not math.isfinite(value):  # the canonical form cannot hold it
                    raw = self.document.raw(path)
                    hint = "a limit that is off is written `{type: int, value: null}`"
                    self._say("CL209", path, f"`{raw}` is not a quantity", hint)
                    self.unread.add(path)
                    self.endless = True
        made = cast("FileShape", self.part((), cast("Data", data), FileShape))
        if "machine" in made:
            if found := bad_name(("machine",), made.machine):
                self._say("CL204", *found)
        else:
            made.machine = "unnamed"
        if "chartloop" not in made:
            made.chartloop = 1
        return made

    def is_mapping(self, noun: str, cure: str) -> bool:
        """Whether the document is a mapping, and a finding if it is not."""
        if isinstance(self.document.data, dict):
            return True
        if not self.findings:
            self._say("CL203", (), f"{noun} is a mapping", cure)
        return False

    # faults ---------------------------------------------------------------------------------

    def _say(
        self, code: str, path: Path, message: str, hint: str = "", *, key: bool = False
    ) -> None:
        if len(self.findings) > MAX_FINDINGS:
            return
        if len(self.findings) == MAX_FINDINGS:
            code, message, hint = "CL005", TOO_MANY, ""
        place = self.document.key(path) if key else self.document.at(path)
        self.findings.append(finding(code, message, place, hint=hint, at=dotted_path(path)))

    def _lose(self, path: Path, value: Any) -> Any:
        """Note that a value is left out, with the texts in it, and return `LOST`."""
        self.unread.add(path, _texts(value))
        return LOST

    def _wrong(self, path: Path, value: Any, cure: str, message: str) -> Any:
        """Report a value that is not of its kind."""
        if path == ("chartloop",):
            shown = f"`{short(str(value))}`" if isinstance(value, _SCALAR) else "of this kind"
            self._say("CL206", path, f"format version {shown} is not known", cure)
            return LOST
        if len(path) > 1 and path[-2] in ("cases", "on"):
            cure = cure or EDGE
        self._say("CL203", path, f"`{dotted_path(path)}` {message}", cure)
        return self._lose(path, value)

    def _takes(self, path: Path, value: Any, cure: str, takes: str) -> Any:
        return self._wrong(path, value, cure, f"takes {takes}, not {_in_words(value)}")

    # kinds of values ------------------------------------------------------------------------

    def _value(self, path: Path, value: Any, kind: Kind, cure: str) -> Any:
        """A value of a kind; `LOST` after a finding."""
        if value is None and kind.nullable:
            return None
        if self.endless and isinstance(value, float) and not math.isfinite(value):
            return LOST
        return _READ[type(kind)](self, path, value, kind, cure)

    def text(self, path: Path, value: Any, kind: IsText, cure: str) -> Any:
        if isinstance(value, str):
            return value
        if isinstance(value, (bool, int, float)):
            if isinstance(value, bool):
                cure = cure or f'if it is text, quote it: `"{str(value).lower()}"`'
            elif kind.prose:
                raw = short(self.document.raw(path) or str(value))
                found = self.document.misread(path)
                text = f"`{dotted_path(path)}` is text, and `{raw}` is a number"
                self._say("CL210", path, found.message if found else text, f'quote it: `"{raw}"`')
                return raw
        return self._takes(path, value, cure, "text")

    def flag(self, path: Path, value: Any, kind: IsFlag, cure: str) -> Any:
        if isinstance(value, bool):
            return value
        word = str(value).lower()
        if kind.loose and word in (*_YES, *_NO):
            return word in _YES
        if value in ("true", "false"):
            cure = f"take the quotes away: `{path[-1]}: {value}`"
        if kind.loose and isinstance(value, str):
            return self._wrong(path, value, cure, "cannot be text")
        return self._takes(path, value, cure, "true or false")

    def number(self, path: Path, value: Any, kind: IsNumber, cure: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, int if kind.whole else (int, float)):
            takes = "a whole number" if kind.whole else "a number"
            return self._takes(path, value, cure, takes)
        for bound, held, word in (
            (kind.above, value > (kind.above or 0), "above"),
            (kind.least, value >= (kind.least or 0), "at least"),
            (kind.most, value <= (kind.most or 0), "at most"),
        ):
            if bound is not None and not held:
                shown = bound if kind.whole else float(bound)
                message = f"is {word} {shown}, not {short(str(value))}"
                return self._wrong(path, value, cure, message)
        return value if kind.whole else float(value)

    def scalar(self, path: Path, value: Any, kind: IsScalar, cure: str) -> Any:
        if isinstance(value, _SCALAR):
            return value
        return self._takes(path, value, cure, "one value")

    def one_of(self, path: Path, value: Any, kind: OneOf, cure: str) -> Any:
        if value in kind.words:
            return value
        hint = nearest(str(value), kind.words)
        self._say("CL208", path, f"`{short(str(value))}` is not allowed here", hint)
        return self._lose(path, value)

    def data(self, path: Path, value: Any, kind: Kind, cure: str) -> Any:
        if not self.endless or not isinstance(value, (dict, list)):
            return value
        if isinstance(value, list):
            return self.listing(path, value, ListOf(of=kind), cure)
        found = self.mapping(path, value, MapOf(of=kind), cure)
        return {name: inner for name, inner in found.items() if inner is not LOST}

    def either(self, path: Path, value: Any, kind: Either, cure: str) -> Any:
        form = "mapping" if isinstance(value, dict) else "scalar"
        found: Kind | None = getattr(kind, "list" if isinstance(value, list) else form)
        if found is not None:
            return _READ[type(found)](self, path, value, found, cure)
        words = {"scalar": "text", "mapping": "a mapping", "list": "a list"}
        forms = [word for name, word in words.items() if getattr(kind, name) is not None]
        return self._takes(path, value, cure, " or ".join(forms))

    def listing(self, path: Path, value: Any, kind: ListOf, cure: str) -> Any:
        if not isinstance(value, list):
            return self._takes(path, value, cure, "a list")
        given = cast("list[Any]", value)
        if len(given) < kind.least:
            return self._wrong(path, value, cure, "is empty")
        return [self._entry((*path, n), inner, kind.of, cure) for n, inner in enumerate(given)]

    def mapping(self, path: Path, value: Any, kind: MapOf, cure: str) -> Any:
        if not isinstance(value, dict):
            return self._takes(path, value, cure, "a mapping")
        given, names = cast("Data", value), kind.names
        if names is not None and names.words:
            given, lost = self._known(path, given, list(names.words))
            given |= dict.fromkeys(lost, LOST)
        elif names is not None:
            for name in given:
                at = (*path, name)
                if found := bad_name(at, name, reserved=name in names.reserved):
                    self._say("CL204", *found, key=True)
                    if "states" not in at:
                        self.unread.add(at)
        return {n: self._entry((*path, n), inner, kind.of, "") for n, inner in given.items()}

    def _entry(self, path: Path, value: Any, kind: Kind, cure: str) -> Any:
        if value is LOST:
            return LOST
        made = self._value(path, value, kind, cure)
        if made is LOST:
            self.unread.lose_way(path)
        return made

    # parts ----------------------------------------------------------------------------------

    def known_keys(self, path: Path, value: Any, kind: IsPart, cure: str) -> Any:
        if not isinstance(value, dict):
            return self._takes(path, value, cure, "a mapping")
        return self.part(path, cast("Data", value), cast("type[Part]", kind.part))

    def part(self, path: Path, given: Data, part: type[Part]) -> Any:
        """Read a mapping with known keys. Without a required one it is lost as a whole."""
        keys, lost, whole = part.table(), list[str](), True
        if not given.keys() <= keys.keys():
            alone = part in (TypedValue, Append) and not given.keys() & keys.keys()
            if alone and not any(map(_is_cut_guard, given)):
                return self._plain_map(path, given, part)
            given, lost = self._known(path, given, [*keys])
        made = part()
        fields = vars(made)
        for name, value in given.items():
            key, at = keys[name], (*path, name)
            read = self._value(at, value, key.kind, key.cure)
            if read is not LOST:
                fields[key.field] = read
                continue
            lost.append(name)
            if key.default is REQUIRED and path:
                whole = False
            else:
                self.unread.lose_way(at)
        for name, key in keys.items():
            if key.default is REQUIRED and name not in given:
                where = f"`{dotted_path(path)}`" if path else "the file"
                where += " is a mapping and" if part is Append else ""
                self._say("CL202", path, f"{where} lacks the key `{name}`", key.cure, key=True)
                if path:
                    self._lose(path, given)
                    whole = False
        if lost:
            fields["lost"] = frozenset(lost)
        return made if whole else LOST

    def _known(self, path: Path, data: Data, known: list[str]) -> tuple[Data, list[str]]:
        """The known keys of a mapping with their values, and the unknown ones, which are reported.

        A misspelt key is replaced by the one that is meant, if that is not there.
        """
        given, lost = dict(data), list[str]()
        for name in data:
            if name in known:
                continue
            at, value = (*path, name), given.pop(name)
            lost.append(name)
            self._lose(at, value)
            if len(self.findings) > MAX_FINDINGS:
                continue
            if _is_cut_guard(name):
                message = "this looks like a guard that YAML cut in pieces"
                self._say("CL007", at, message, "put the whole guard in quotes", key=True)
                self.unread.lose_way(at)
                continue
            self._say(
                "CL201", at, f"unknown key `{short(name)}`", self._cure(name, known), key=True
            )
            if (meant := self._meant(name, known)) and meant not in given:
                given[meant] = value
        return given, lost

    def _meant(self, key: str, known: list[str]) -> str:
        """The key that a misspelt one, or a word of another tool, stands for; empty if unclear."""
        matches = [k for k in IN_PLACE_OF.get(key, ()) if k in known]
        if not matches and not self._home(key, known):
            matches = get_close_matches(key, known, n=1, cutoff=_ALIKE)
        return matches[0] if matches else ""

    def _home(self, key: str, known: list[str]) -> str:
        """Where a misplaced key belongs, in words; empty if it is not a key of the language."""
        for part in self.homes:
            keys = part.table()
            if key in keys and not keys.keys() <= set(known):
                return part.noun
        return ""

    def _cure(self, key: str, known: list[str]) -> str:
        if meant := self._meant(key, known):
            return f"did you mean `{meant}`?"
        for word in (key, *IN_PLACE_OF.get(key, ())):
            if home := self._home(word, known):
                return f"`{word}` is a key of {home}"
        return nearest(key, known)

    def _plain_map(self, path: Path, given: Data, part: type[Part]) -> Any:
        """Report a mapping where only `{type, value}` or `{append}` is allowed."""
        message, hint = "a map names its type", 'write `{type: "map[int]", value: {...}}`'
        if part is Append:
            message = "a map is written as an expression here"
            hint = "write `'{\"key\": value}'`; `{append: x}` adds to a list"
        self._say("CL203", path, f"`{dotted_path(path)}`: {message}", hint)
        return self._lose(path, given)


_READ: Mapping[type[Kind], Callable[..., Any]] = {
    Kind: _Walk.data, IsText: _Walk.text, IsFlag: _Walk.flag, IsNumber: _Walk.number,
    IsScalar: _Walk.scalar, OneOf: _Walk.one_of, Either: _Walk.either, ListOf: _Walk.listing,
    MapOf: _Walk.mapping, IsPart: _Walk.known_keys,
}  # fmt: skip


# words --------------------------------------------------------------------------------------


def _is_cut_guard(key: str) -> bool:
    return any(sign in key for sign in "<>=\"'()") or (len(key) > 40 and " " in key)


def _in_words(value: Any) -> str:
    """The kind of a value: ``a list``."""
    if isinstance(value, bool):
        return "true or false"
    for kind, words in ((dict, "a mapping"), (list, "a list"), (str, "text")):
        if isinstance(value, kind):
            return words
    return "nothing" if value is None else "a number"


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

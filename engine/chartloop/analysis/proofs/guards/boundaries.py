"""Arguments of a tool at the boundaries of conditions: where a difference between two would show.

Each argument that a condition reads takes values next to each number that is written in the
conditions or in its schema, and between two of them; the words written there, and others; lengths
around these numbers; each word of an enum; or it is absent, if the schema allows that. Arguments
that no condition reads have the least value.

Makes plain JSON values that may fit the schema. Does not check them, and evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, pairwise, product
from math import prod
from random import Random
from typing import Any, cast

from chartloop.language.expression.tree import Arith, Const, Element, Field, Negative, Node
from chartloop.language.json_schema.least_value import NoLeastValueError, least_value
from chartloop.language.json_schema.walk import resolve

TRIES = 20_000
"""The most arguments for one question."""
INNER = 60
"""The most values of an object within the arguments."""
DEEPEST = 8
"""The most references that are followed to a schema."""
LARGEST = 1e15
"""The largest number; beside it hundredths are lost."""
LONGEST = 1_000
"""The longest text or list."""
_SIZES = ("minLength", "maxLength", "minItems", "maxItems")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "default")
_ABSENT = object()


def part_of(schema: Any, root: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """The schema of a value that is not null, behind references, and whether null fits as well.

    Empty if it is a choice between several schemas.
    """
    nullable = False
    for _ in range(DEEPEST):
        if not isinstance(schema, Mapping):
            break
        part = cast("Mapping[str, Any]", schema)
        ways: list[Any] = part.get("anyOf") or part.get("oneOf") or []
        if "$ref" in part:
            schema = resolve(root, part["$ref"])
        elif ways:
            others = [way for way in ways if way != {"type": "null"}]
            nullable |= len(others) < len(ways)
            schema = others[0] if len(others) == 1 else {}
        else:
            words: list[Any] = [*part.get("enum", ()), part.get("const", 0)]
            return part, nullable or None in words or "null" in part.get("type", ())
    return {}, True


def proposed_arguments(
    read: Iterable[Node], parameters: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Arguments that may fit a schema, at the boundaries of the conditions with these nodes.

    Raises `NoLeastValueError` if a required argument cannot be made.
    """
    yield from _Proposals(list(read), parameters).objects(parameters, TRIES)


class _Proposals:
    """The values that are written in conditions, and what they propose for a schema."""

    def __init__(self, read: Sequence[Node], root: Mapping[str, Any]) -> None:
        self.root = root
        self.names = {n.step.name for n in read if isinstance(n, Field)}
        self.names |= {n.key for n in read if isinstance(n, Element) and isinstance(n.key, str)}
        values = dict.fromkeys(n.value for n in read if isinstance(n, Const))
        numbers = [v for v in values if type(v) in (int, float)]
        if any(isinstance(n, Negative) for n in read):
            numbers += [-n for n in numbers]
        if any(isinstance(n, Arith) for n in read) and len(numbers) < 9:
            for a, b in [*product(numbers, repeat=2)]:
                numbers += (a + b, a - b, a * b, a / (b or 1))
        self.numbers = [n for n in numbers if abs(n) < LARGEST]
        words = [v for v in values if isinstance(v, str)]
        self.words = [*words, "other", "", *(a + b for a, b in product(words[:6], repeat=2))]
        for word in words:
            self.words += [word.upper(), word.lower(), f" {word} ", f"{word}a", f"a{word}"]

    def objects(self, part: Mapping[str, Any], most: int) -> Iterator[dict[str, Any]]:
        """Objects of a schema."""
        required, choices = part.get("required", ()), dict[str, list[Any]]()
        for name, schema in part.get("properties", {}).items():
            if name in self.names:
                absent = [] if name in required else [_ABSENT]
                choices[name] = [*self.values(schema), *absent]
            elif name in required:
                choices[name] = [self.least(schema)]
        if not choices and (free := part.get("additionalProperties", {})) is not False:
            choices = {n: [_ABSENT, *self.values(free)] for n in [*self.names, *self.words][:6]}
        for values in combinations([*choices.values()], most):
            yield {n: v for n, v in zip(choices, values, strict=True) if v is not _ABSENT}

    def values(self, schema: Any) -> Iterator[Any]:
        """Values for a schema, likely ones first."""
        part, nullable = part_of(schema, self.root)
        if "const" in part or "enum" in part:
            yield from part.get("enum", [part.get("const")])
        else:
            kinds: Any = part.get("type", "object" if "properties" in part else "")
            for kind in [kinds] if isinstance(kinds, str) else kinds:
                yield from islice(self._of_kind(kind, part), 250)
        if nullable:
            yield None

    def _of_kind(self, kind: str, part: Mapping[str, Any]) -> Iterator[Any]:
        match kind:
            case "boolean":
                yield from (True, False)
            case "integer" | "number":
                yield from self._numbers(part, whole=kind == "integer")
            case "string":
                with suppress(NoLeastValueError):
                    if part.keys() & {"pattern", "format", "minLength"}:
                        yield self.least(part)
                yield from self.words
                yield from ("a" * size for size in self._sizes(part))
            case "array":
                items = list(islice(self.values(part.get("items", {})), 16))
                for item, other in pairwise([*items, *items[:1]]):
                    yield from ([item] * size for size in self._sizes(part))
                    yield [item, other]
            case "object":
                yield from self.objects(part, INNER)
                with suppress(NoLeastValueError):
                    yield self.least({**part, "minProperties": 1})
            case _:
                yield from (*self.words[:3], *self.numbers[:3], True, None)

    def _sizes(self, part: Mapping[str, Any]) -> list[int]:
        given = [part[word] for word in _SIZES if word in part]
        near = {int(n) + by for n in (*self.numbers, *given, 1) for by in (-1, 0, 1)}
        return sorted(size for size in near if 0 <= size <= LONGEST)[:12]

    def _numbers(self, part: Mapping[str, Any], *, whole: bool) -> Iterator[float]:
        """Numbers between two boundaries, plain ones if possible, then those next to each one."""
        written = [part[word] for word in _NUMBERS if type(part.get(word)) in (int, float)]
        bounds = sorted(n for n in {0, *self.numbers, *written} if abs(n) < LARGEST)
        reach = [max(4, 3 * abs(bounds[end])) for end in (0, -1)]
        ends = [bounds[0] - reach[0], *bounds, bounds[-1] + reach[1]]
        found = [_plain_between(a, b) for a, b in pairwise(ends)]
        found += [n + by for n in bounds for by in (0, 1, -1, 0.01, -0.01)]
        if step := part.get("multipleOf"):
            found += [(n // step + by) * step for n in bounds for by in (0, 1)]
        for n in sorted(dict.fromkeys(found), key=lambda n: n < 0):
            if not whole or n == int(n):
                yield int(n) if n == int(n) else n

    def least(self, schema: Any) -> Any:
        """The least value that fits a schema."""
        named = {word: self.root[word] for word in ("$defs", "definitions") if word in self.root}
        return least_value({**named, **(schema if isinstance(schema, Mapping) else {"enum": []})})


def _plain_between(low: float, high: float) -> float:
    """The number between two others with the fewest digits, near the middle."""
    middle = (low + high) / 2
    for exponent in range(15, -7, -1):
        for digit in (5, 2, 1):
            unit = digit * 10.0**exponent
            number = round(round(middle / unit) * unit, max(0, -exponent))
            if low < number < high:
                return number
    return middle


def combinations(choices: Sequence[Sequence[Any]], most: int) -> Iterator[tuple[Any, ...]]:
    """Yield all combinations, or the first and a random sample with a fixed seed."""
    if prod(map(len, choices)) <= most:
        yield from product(*choices)
    elif all(choices):
        first = tuple(values[0] for values in choices)
        for at, values in enumerate(choices):
            yield from ((*first[:at], value, *first[at + 1 :]) for value in values)
        chance = Random(len(choices))  # noqa: S311 - not a secret
        for _ in range(most):
            yield tuple(chance.choice(values) for values in choices)

"""Approvals: the calls that a question shows, and the decision of an answer on each of them.

The request for an approval is plain data in `Position.kept`, so that it is part of every record:

    {"wait": "approve", "calls": [HELD, ...], "edit": bool, "remember": bool,
     "text": the question, "asked": [KEY, ...] of the calls that it shows,
     "answer": the event of the newest answer, "decisions": {KEY: DECISION}}

A held call is ``{key, id, name, arguments}`` as the model wrote it, with the `schema` of its
arguments if they may be edited, and with `edited` and `edited_by` once they were. `runs` are the
arguments that its tool gets, where they are not those that were written: with the `defaults` that
were filled in (JSON pointers). `left_out` has what a server says of arguments that it fills itself.
Its key is its id, or ``id#1`` if the reply has that id twice. A decision is
``{decision: accept | deny | edit}`` with `by`, `note`, `arguments`, `result`, `remember` where they
apply.

Belongs here: requests and decisions, pure. Never: which calls are held back, what a decided call
does (`actions.approval`), checking arguments by their schema (`run.answer`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

from chartloop.core.conversation import arguments_of
from chartloop.core.facts import ToolCall
from chartloop.core.position import APPROVAL, Position
from chartloop.core.strict_json import pointer
from chartloop.core.units import say_count
from chartloop.core.visible import cut, visible_json

ACCEPT, DENY, EDIT = "accept", "deny", "edit"
CALLS = "calls"
"""The field of an answer that decides on each call."""
Data = Mapping[str, Any]
_FIELDS: Mapping[object, tuple[str, ...]] = {
    ACCEPT: ("decision", "result", "remember"), DENY: ("decision", "note"),
    EDIT: ("decision", "arguments"),
}  # fmt: skip
"""The fields of each decision on one call."""


NO_REQUEST: Data = {"wait": "", "calls": [], "asked": [], "decisions": {}}
"""The request once its calls are made: nothing is approved any more."""


def is_request(data: object) -> bool:
    """Whether recorded data is a valid request; the journal may have been edited."""
    if not isinstance(data, Mapping):
        return False
    given = cast("Mapping[str, Any]", data)
    texts = [given["wait"], *given["asked"]]
    texts += [one["decision"] for one in given["decisions"].values()]
    texts += [held[n] for held in given["calls"] for n in ("key", "id", "name", "arguments")]
    return all(isinstance(text, str) for text in texts)


def keyed(calls: Iterable[ToolCall]) -> list[tuple[str, ToolCall]]:
    """The open calls of a reply with their keys: a model may write the same id twice."""
    seen: dict[str, int] = {}
    named: list[tuple[str, ToolCall]] = []
    for call in calls:
        times = seen[call.id] = seen.get(call.id, -1) + 1
        named.append((f"{call.id}#{times}" if times else call.id, call))
    return named


def request_at(position: Position) -> Data | None:
    """The request that the wait of a position asks about; None if it asks something else."""
    request = position.kept.get(APPROVAL)
    if request is None or position.status != "paused" or request["wait"] != position.state:
        return None
    return request


def open_held(request: Data) -> list[Data]:
    """The held calls that the question shows: no answer has decided on them yet."""
    return [held for held in request["calls"] if held["key"] in request["asked"]]


def shown_calls(request: Data) -> tuple[Data, ...]:
    """The calls of a question, as faces show them: key, name, and arguments as JSON text.

    Also `defaults` and `left_out`, the `schema` of the arguments if they may be changed, and
    `edited_by` once they were.
    """
    more = ("defaults", "left_out", "schema", "edited_by")
    return tuple(
        {
            "key": held["key"], "name": held["name"], "arguments": shown(held).arguments,
            **{name: held[name] for name in more if name in held},
        }
        for held in open_held(request)
    )  # fmt: skip


def shown(held: Data) -> ToolCall:
    """A held call as the person sees it: with what its tool gets, as far as that is known."""
    given = held.get("runs", held.get("edited"))
    text = held["arguments"] if given is None else json.dumps(given, ensure_ascii=False)
    return ToolCall(held["id"], held["name"], text)


def as_given(given: Any, gets: Any, defaults: list[str], at: str = "") -> Any:
    """What a tool gets, with each value as it was given if it is the same: ``49`` for ``49.0``.

    Appends the JSON pointers of the fields that were not given to `defaults`.
    """
    if isinstance(given, dict) and isinstance(gets, dict):
        written, got = cast("dict[str, Any]", given), cast("dict[str, Any]", gets)
        if written.keys() <= got.keys():
            defaults += [at + pointer(name) for name in got if name not in written]
        return {
            n: as_given(written[n], v, defaults, at + pointer(n)) if n in written else v
            for n, v in got.items()
        }
    if isinstance(given, list) and isinstance(gets, list):
        some, all_ = cast("list[Any]", given), cast("list[Any]", gets)
        if len(some) == len(all_):
            pairs = enumerate(zip(some, all_, strict=True))
            return [as_given(*pair, defaults, f"{at}/{n}") for n, pair in pairs]
    same = given == gets and isinstance(given, bool) == isinstance(gets, bool)
    return cast("object", given if same else gets)


def arguments_shown(call: Data) -> dict[str, Any]:
    """The arguments of a shown call by name; empty if the model wrote something else."""
    given = _given(call)
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}


def arguments_given(call: Data) -> dict[str, Any]:
    """The arguments of a shown call without those that were filled in: a change starts there."""
    filled = call.get("defaults", ())
    return {n: v for n, v in arguments_shown(call).items() if pointer(n) not in filled}


def argument_lines(call: Data) -> list[tuple[str, str]]:
    """The arguments of a shown call as people read them: names and values as canonical JSON.

    Each can be read back as it was. What is not an object stands alone, without a name.
    """
    fields = sorted(arguments_shown(call).items())
    lines = [(visible_json(name), visible_json(value)) for name, value in fields]
    return lines or [("", visible_json(_given(call)))]


def _given(call: Data) -> Any:
    return arguments_of(ToolCall("", "", call["arguments"]))


MONEY = re.compile(r"(^|_)(usd|eur|gbp|chf|jpy|amount|price|cost|fee)($|_)|(Amount|Price|Cost)$")
"""The names of arguments that are amounts of money: a currency, or a word for a price."""
_CURRENCY = re.compile(r"(?:^|_)(usd|eur|gbp|chf|jpy)(?:$|_)", re.IGNORECASE)
SHORT = 80
"""The most characters of an argument that is no long text."""
FOLDED = 6
"""The lines of an argument that a text face shows, with the one that counts all of them."""
WIDTH = 64
"""The characters of a line of them."""
FURTHER = "│ "
"""Begins each further line of a text, so that none of them reads as an argument of its own."""


def call_line(call: Data) -> str:
    """A shown call in one line: its arguments as JSON, the long ones last, and what was left out.

    The arguments can be read back as they were. What is not an object stands as it is.
    """
    pairs = [": ".join(pair) if pair[0] else pair[1] for pair in argument_lines(call)]
    pairs.sort(key=lambda pair: len(pair) > SHORT)
    text = ", ".join(pairs)
    text = f"{{{text}}}" if arguments_shown(call) else text
    if filled := ", ".join(_name(at[1:]) for at in call.get("defaults", ())):
        text += f" (default: {filled})"
    for name, said in call.get("left_out", {}).items():
        text += f" (left out: {_name(name)}; {_said(said)})"
    return f"{call['name']} {text}"


def argument_rows(call: Data) -> list[dict[str, Any]]:
    """The arguments of a shown call for a person: the numbers first, and what is long last.

    Each has its `name`, its `text`, and `money`: true for a number whose name is that of a currency
    or of a price, see `MONEY`. A text stands without its quotes, unless it would read as something
    else; objects and lists stand in lines, and the further lines of a text are marked. `note` says
    that the model left it out, and `long` counts the lines and characters of a long one. What is
    not an object is one row without a name.
    """
    fields, left = arguments_shown(call), call.get("left_out", {})
    if not fields and not left:
        fields = {"": _given(call)}
    known = fields.get("currency")
    rows: list[tuple[tuple[int, bool, str], dict[str, Any]]] = []
    for name, value in fields.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        money = is_number and bool(MONEY.search(name))
        text = "\n".join(_lines(value))
        if money:
            whole = isinstance(value, float) and value != round(value, 2)
            text = text if whole else f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
            named = _CURRENCY.search(name)
            unit = named[1].upper() if named else known if isinstance(known, str) else ""
            text = f"{text} {cut(_plain(unit), 20)}".rstrip() if unit else text
        size = len(value if isinstance(value, str) else text)
        count = f"{say_count(text.count(chr(10)) + 1, 'line')}, {say_count(size, 'character')}"
        at = pointer(name)
        filled = [
            one[len(at) :] for one in call.get("defaults", ()) if f"{one}/".startswith(f"{at}/")
        ]
        row = {
            "name": _name(name) if name or left or len(fields) > 1 else "", "text": text,
            "money": money, "long": count if len(_wrapped(text)) > FOLDED else "",
            "note": ", ".join(f"default: {_name(one[1:])}" if one else "default" for one in filled),
        }  # fmt: skip
        rows.append(((_rank(value), not money, name), row))
    for name, said in left.items():
        row = {"name": _name(name), "text": "left out", "money": False, "note": _said(said)}
        rows.append(((0, True, name), {**row, "long": ""}))
    return [row for _, row in sorted(rows, key=lambda one: one[0])]


def row_lines(call: Data) -> Iterator[str]:
    """The rows of a shown call as a text face shows them: what is long is folded."""
    for row in argument_rows(call):
        note = f"  ({row['note']})" if row["note"] else ""
        head = f"{row['name']}: " if row["name"] else ""
        lines = _wrapped(row["text"])
        if row["long"]:
            lines = [*lines[: FOLDED - 1], f"… {row['long']}"]
        yield f"  {head}{lines[0]}{note}"
        yield from (f"    {line}" for line in lines[1:])


def _wrapped(text: str) -> list[str]:
    return [
        f"{FURTHER if at else ''}{line[at : at + WIDTH]}"
        for line in text.split("\n")
        for at in range(0, len(line) or 1, WIDTH)
    ]


def _rank(value: Any) -> int:
    """The place of an argument: a number or a boolean, something short, or what is long."""
    if isinstance(value, (int, float)):
        return 0
    long = "\n" in value or len(value) > SHORT if isinstance(value, str) else bool(value)
    return 2 if long else 1


def _said(default: Any) -> str:
    return f"the server's default is said to be {cut(visible_json(default), SHORT)}"


def _name(name: str) -> str:
    """The name of an argument; quoted unless it is a plain word, and cut if it is long."""
    text = _plain(name) if re.fullmatch(r"[\w./-]+", name) else visible_json(name)
    return f"{text[:WIDTH]}… {len(name):,} characters" if len(text) > WIDTH else text


def _plain(text: str, *, within: bool = False) -> str:
    """A text in one line, in which nothing is hidden; quoted if it would read as something else.

    `within`: as a part of a list or an object, where a colon would read as that of a field.
    """
    shown = visible_json(text)
    odd = "(default" in text or (within and (": " in text or text[:1] in "•│"))
    with suppress(ValueError):
        json.loads(text)
        odd = True
    return shown if odd or not text or text.strip() != text else _unquoted(shown)


def _unquoted(shown: str) -> str:
    return shown[1:-1].replace('\\"', '"').replace("\\\\", "\\")


def _lines(value: Any, depth: int = 0) -> Iterator[str]:
    """A value of JSON in lines: a text in its lines, lists and objects below each other."""
    margin = "  " * depth
    if isinstance(value, str):
        if "\n" in value and value.strip():
            first, *more = value.split("\n")
            yield margin + (FURTHER + _unquoted(visible_json(first)) if depth else _plain(first))
            yield from (margin + FURTHER + _unquoted(visible_json(line)) for line in more)
        else:
            yield margin + _plain(value, within=depth > 0)
    elif isinstance(value, Mapping) and value and depth < DEEPEST:
        parts = cast("Mapping[str, Any]", value).items()
        for name, part in sorted(parts, key=lambda one: (_rank(one[1]), one[0])):
            yield from _entry(f"{margin}{_name(name)}: ", part, depth)
    elif isinstance(value, list) and value and depth < DEEPEST:
        for part in cast("list[Any]", value):
            yield from _entry(f"{margin}• ", part, depth)
    else:
        yield margin + visible_json(value)


DEEPEST = 6
"""The levels of an argument that stand in lines of their own; what is deeper stays JSON."""


def _entry(head: str, part: Any, depth: int) -> Iterator[str]:
    lines = list(_lines(part, depth + 1))
    yield from [head + lines[0].strip()] if len(lines) == 1 else [head.rstrip(), *lines]


def settle(request: Data, event: str, data: Data) -> Data:
    """The request after an answer, or after `expired`: with its decision on each call.

    An answer that names no calls decides on all of them. One that an older file took and this
    request does not allow decides nothing, so that the calls are refused.
    """
    if event not in (ACCEPT, DENY, EDIT) or any(call_faults(request, event, data)):
        return {**request, "answer": event}
    common = {name: data[name] for name in ("by", "note") if data.get(name)}
    if event == ACCEPT and data.get("remember") and request.get("remember"):
        common["remember"] = True
    if (named := data.get(CALLS)) is None:
        decided = {held["key"]: {"decision": event, **common} for held in open_held(request)}
    else:
        decided = {key: {**common, **_decision(value, event)} for key, value in named.items()}
    told = ("runs", "defaults", "left_out")  # of the arguments before
    calls = [
        {n: v for n, v in held.items() if n not in told}
        | {"edited": one["arguments"], "edited_by": one.get("by", "")}
        if (one := decided.get(held["key"])) is not None and one["decision"] == EDIT
        else held
        for held in request["calls"]
    ]  # fmt: skip
    decisions = {**request.get("decisions", {}), **decided}
    return {**request, "calls": calls, "answer": event, "decisions": decisions}


def call_faults(request: Data, event: str, data: Data) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with the decisions of an answer on single calls.

    Each with its cure and the key of the call; empty for all of them.
    """
    named: object = data.get(CALLS, {} if event == EDIT else None)
    if named is None:
        return
    if not isinstance(named, Mapping):
        yield "`calls` is not an object", "give the decision on each call by its key", ""
        return
    held = {one["key"]: one for one in open_held(request)}
    words: set[object] = set()
    for key, value in cast("Mapping[str, Any]", named).items():
        decision = _decision(value, event)
        words.add(decision["decision"])
        if key not in held:
            yield f"no call `{key}` waits for an approval", f"the calls are {_listed(held)}", key
        for fault, hint in _decision_faults(request, key, decision):
            yield fault, hint, key
    missing = [key for key in held if key not in named]
    if missing and event != EDIT:
        yield f"nothing is decided for {_listed(missing)}", "decide on each call, or name none", ""
    if event == EDIT and words != {EDIT}:
        hint = "give the new `arguments` of each; all calls are then shown again"
        yield "`edit` only changes arguments", hint, ""
    if event != EDIT and EDIT in words:
        hint = "send `edit`: the changed call is shown again before it is accepted"
        yield f"`{event}` changes a call", hint, ""
    if event == ACCEPT and ACCEPT not in words:
        yield "`accept` accepts no call", "send `deny`", ""
    if event == DENY and words != {DENY}:
        yield "`deny` accepts a call", "send `accept`: it may deny the others", ""


def _decision_faults(request: Data, key: str, decision: Data) -> Iterator[tuple[str, str]]:
    word = decision["decision"]
    if word not in _FIELDS:
        yield f"`{key}` is neither accepted nor denied", 'write "accept" or "deny"'
        return
    for name in decision:
        if name not in _FIELDS[word]:
            hint = f"it takes {_listed(_FIELDS[word])}"
            yield f"the decision `{word}` on `{key}` takes no `{name}`", hint
    for name, allowed in (("arguments", "edit"), ("result", "edit"), ("remember", "remember")):
        if decision.get(name) is not None and not request.get(allowed):
            hint = f"it needs `approve: {{{allowed}: true}}` in the file"
            yield f"this gate takes no `{name}`", hint
    if word == EDIT and not isinstance(decision.get("arguments"), Mapping):
        yield f"`arguments` of `{key}` is not an object", "give all arguments by name"


def _decision(value: Any, event: str) -> dict[str, Any]:
    """A decision on one call in full; ``"accept"`` is short for ``{"decision": "accept"}``."""
    given = cast("Data", value if isinstance(value, Mapping) else {"decision": value})
    usual = EDIT if "arguments" in given else ACCEPT if "result" in given else None
    if event == DENY and set(given) == {"note"}:
        usual = DENY
    word = given.get("decision", usual)
    return {**given, "decision": word if isinstance(word, str) else None}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"

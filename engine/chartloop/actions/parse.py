"""Extraction of data from replies: `parse`, `adopt_proposal`; and `set`, which sets variables.

Source: 001 "Parse Response", "The Updates Mechanism"; 000 (JSON replies).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypedDict, cast

from chartloop.actions.annotations import Field, Variables
from chartloop.actions.declare import action
from chartloop.core.errors import Category, nearest
from chartloop.core.outcome import Outcome
from chartloop.core.traits import BY_FIELDS
from chartloop.core.types import ANY, STR, Type, accepts, list_of, map_of
from chartloop.core.units import say_count
from chartloop.run.context import Context
from chartloop.run.sanitize import DECODER, bare_json, read_json

_FORMS: Mapping[str, Type] = {"text": STR, "pairs": map_of(STR), "json": ANY, "list": list_of(STR)}
"""What each word of `as` gives."""
_Entry = TypedDict(
    "_Entry",
    {
        "tag": Annotated[
            Any, Field("data", about="The text between `<NAME>` and `</NAME>`: `{tag: PLAN}`.")
        ],
        "fence": Annotated[
            Any,
            Field(
                "data",
                about="The first fenced block of a language: `{fence: python}`; of any: "
                '`{fence: ""}`.',
            ),
        ],
        "json": Annotated[
            Any,
            Field(
                "data",
                about="The value at a path in the JSON of the reply: `{json: steps.0.text}`. "
                "`json` alone, in place of the mapping, is all of it.",
            ),
        ],
        "as": Annotated[
            Literal["text", "pairs", "json", "list"],
            Field(
                type=ANY,
                about="How to read a tag or a fence: `text`, the default; `pairs`, a `map[str]` of "
                "its `Key: value` lines; `list`, a `list[str]` of its lines; `json`.",
            ),
        ],
        "required": Annotated[
            bool,
            Field(
                "data",
                about="`true`: the action fails (`RECOVERABLE`) if the reply does not have it, or "
                "has another type. By default the variable gets its first value again.",
            ),
        ],
    },
    total=False,
)
_MISSING = object()


def _entry_problem(name: str, entry: Any, type: Type) -> str | None:
    """The error in one entry of a `parse`, or None."""
    if entry == "json":
        return None
    if not isinstance(entry, dict):
        return "an entry is `{tag: NAME}`, `{fence: python}`, `{json: path}` or `json`"
    rule = cast("dict[str, Any]", entry)
    keys = [*_Entry.__annotations__]
    for key in rule:
        if key not in keys:
            return f"unknown key `{key}`; {nearest(str(key), keys)}"
    sources = [key for key in ("tag", "fence", "json") if key in rule]
    if len(sources) != 1:
        return "an entry has one of `tag`, `fence`, `json`"
    (source,) = sources
    if not isinstance(rule[source], str):
        return f"`{source}` is a text: put it in quotes"
    if source == "tag" and not re.fullmatch(r"[A-Za-z][\w-]*", rule[source]):
        return "`tag` is a word"
    if (form := rule.get("as", "text")) not in _FORMS:
        return f"`as` is one of {', '.join(_FORMS)}"
    if source == "json" and "as" in rule:
        return "`as` goes with `tag` or `fence`"
    if not isinstance(rule.get("required", False), bool):
        return "`required` is `true` or `false`"
    gives = ANY if source == "json" else _FORMS[form]
    if ANY not in (gives, type) and gives != type:
        return f"this gives {gives}, and `{name}` is {type}; `as: json` reads numbers and lists"
    return None


def _requires_a_part(targets: Mapping[str, Any]) -> bool:
    """Whether a `parse` fails for a reply without its parts."""
    rules = (cast("Mapping[str, Any]", r) for r in targets.values() if isinstance(r, Mapping))
    return any(rule.get("required") for rule in rules)


@action(
    effect="pure", traits=BY_FIELDS, changes="vars.*", needs="reply", needs_if=_requires_a_part,
    details="Every variable is set each time: one whose part is missing gets its first value "
    "again.",
    example="""\
read:
  do: parse
  with:
    vars.plan: {tag: PLAN, required: true}
    vars.code: {fence: python}
    vars.update: {tag: STATE_UPDATE, as: pairs}
    vars.score: {json: review.score}
  failed: again
  next: run_code""",
    reads=(),
)  # fmt: skip
def parse(
    ctx: Context, targets: Annotated[Mapping[str, Any], Variables(_entry_problem, entry=_Entry)]
) -> Outcome:
    """Reads parts of the newest reply into variables: tags, fences, JSON, pairs."""
    text = ctx.facts.last.text
    changes: dict[str, Any] = {}
    warnings: list[str] = []
    for name, entry in targets.items():
        rule: Mapping[str, Any] = {"json": ""} if entry == "json" else entry
        spec = ctx.machine.vars[name.removeprefix("vars.")]
        value = _find(text, rule)
        if value is not _MISSING and not accepts(spec.type, value):
            value = _MISSING
        if value is _MISSING:
            if rule.get("required"):
                return Outcome.failure(
                    Category.RECOVERABLE,
                    f"the reply has no {_format_rule(rule)} for `{name}` ({spec.type})",
                    kind="parse",
                )
            value = spec.value
        if "fence" in rule and (left := _left_out(text, str(rule["fence"] or ""))):
            warnings.append(f"`{name}`: {left}")
        changes[name] = value
    result = {n.removeprefix("vars."): v for n, v in changes.items()}
    return Outcome(result=result, changes=changes, warnings=tuple(warnings))


def _format_rule(rule: Mapping[str, Any]) -> str:
    if "tag" in rule:
        return f"<{rule['tag']}>"
    return (
        f"```{rule['fence']} block" if "fence" in rule else f"JSON at `{rule['json'] or 'its top'}`"
    )


def _find(text: str, rule: Mapping[str, Any]) -> Any:
    if "json" in rule:
        return _json_part(text, str(rule["json"] or ""))
    part = _tag(text, str(rule["tag"])) if "tag" in rule else _fence(text, str(rule["fence"] or ""))
    if part is None:
        return _MISSING
    match rule.get("as", "text"):
        case "pairs":
            return pairs(part)
        case "json":
            return _json_part(part, "")
        case "list":
            return tuple(
                s for line in part.splitlines() if (s := line.strip().lstrip("-*• ").strip())
            )
        case _:
            return part


def _tag(text: str, name: str) -> str | None:
    """The text between ``<NAME>`` and the next ``</NAME>``; None without both.

    If the text has no such tag, the case of letters is ignored: ``<name>``.
    """
    for flags in (re.NOFLAG, re.IGNORECASE):
        start = re.search(f"<{name}>", text, flags)
        end = start and re.compile(f"</{name}>", flags).search(text, start.end())
        if start and end:
            return text[start.end() : end.start()].strip()
    return None


_OPENING = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)")
_ALIASES = {
    "python": {"python", "py", "python3"},
    "javascript": {"javascript", "js"},
    "bash": {"bash", "sh", "shell"},
}


def _fence(text: str, language: str) -> str | None:
    """The first fenced block of a language, or of any if `language` is empty."""
    return next((block for block, wanted in _fences(text, language) if wanted), None)


def _fences(text: str, language: str) -> Iterator[tuple[str, bool]]:
    """Every fenced block, and whether it is of this language."""
    wanted = _ALIASES.get(language, {language})
    for name, block in _blocks(text):
        yield block, not language or name.lower() in wanted


def _left_out(text: str, language: str) -> str:
    """What of a reply's blocks was left out, as a warning; empty if nothing was."""
    wanted = [is_wanted for _, is_wanted in _fences(text, language)]
    word = f"`{language}` block" if language else "block"
    if sum(wanted) > 1:
        return f"the reply has {sum(wanted)} {word}s, the first was read"
    if wanted and not any(wanted):
        return f"the reply has no {word}, and {say_count(len(wanted), 'other block')}: not read"
    return ""


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Every closed fenced block, with the language after its fence."""
    fence = name = ""
    inside: list[str] = []
    for line in text.split("\n"):
        if fence:
            if line.strip(" \t\r") == fence:
                yield name, "\n".join(inside)
                fence = ""
            else:
                inside.append(line)
        elif match := _OPENING.match(line):
            fence, name, inside = match[1], match[2], []


def _json_part(text: str, path: str) -> Any:
    """The JSON of a reply: the whole text, a fenced block, or the first object or list."""
    for candidate in (text, _fence(text, "json"), _fence(text, "")):
        if candidate is None:
            continue
        try:
            return _at(read_json(candidate), path)
        except ValueError:
            continue
    text = bare_json(text)
    for match in list(re.finditer(r"[{\[]", text))[:20]:
        try:
            return _at(DECODER.raw_decode(text, match.start())[0], path)
        except (ValueError, RecursionError):
            continue
    return _MISSING


def _at(value: Any, path: str) -> Any:
    for part in path.split(".") if path else ():
        if isinstance(value, dict) and part in value:
            value = value[part]  # pyright: ignore[reportUnknownVariableType]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):  # pyright: ignore[reportUnknownArgumentType]
            value = value[int(part)]  # pyright: ignore[reportUnknownVariableType]
        else:
            return _MISSING
    return tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


_PAIR = re.compile(r"[-*]?\s*\**([A-Za-z][\w ()/-]{0,60}?)\**\s*:\s*\**\s*(.*)")


def pairs(text: str) -> dict[str, str]:
    """Parse ``Key: value`` lines; a line without a key continues the value before it."""
    out: dict[str, list[str]] = {}
    key = ""
    for line in (line.strip() for line in text.splitlines()):
        if match := _PAIR.match(line):
            key = match[1].strip()
            out[key] = [match[2].strip()]
        elif key and line:
            out[key].append(line)
    return {key: "\n".join(lines).strip() for key, lines in out.items()}


def _map_problem(value: Any) -> str | None:
    targets = cast(dict[Any, Any], value).values() if isinstance(value, dict) else [None]
    good = all(isinstance(target, str) and target.startswith("vars.") for target in targets)
    return None if good else "a mapping from a key of the proposal to `vars.x`"


_Proposal = TypedDict(
    "_Proposal",
    {
        "from": Annotated[
            Mapping[str, str],
            Field(
                "value",
                about="The proposal: keys and values, as `parse` reads them with `as: pairs`.",
            ),
        ],
        "map": Annotated[
            Mapping[str, str],
            Field(
                "data",
                about="Which key goes into which variable: `{Status: vars.progress}`.",
                names="variable",
                check=_map_problem,
                role="adopts",
            ),
        ],
    },
)


@action(
    work=False, effect="pure", traits=BY_FIELDS, changes="vars.*", fields=_Proposal,
    details="Capitals in keys make no difference. A variable whose key is missing keeps its "
    "value; a key that `map` does not name is ignored.",
    example="""\
adopt:
  do: adopt_proposal
  with:
    from: vars.update
    map: {Current Approach: vars.approach, Status: vars.progress}
  next: work""",
    reads=(),
)  # fmt: skip
def adopt_proposal(_ctx: Context, **fields: Mapping[str, str]) -> Outcome:
    """Adopts a proposal of the model: each key goes into its variable."""
    lower = {key.lower(): value for key, value in fields["from"].items()}
    changes = {
        target: lower[key.lower()] for key, target in fields["map"].items() if key.lower() in lower
    }
    return Outcome(result={"adopted": sorted(changes)}, changes=changes)


def _any_entry(_name: str, _entry: Any, _type: Type) -> str | None:
    """Accept every entry of a `set`: its expression is checked elsewhere."""
    return None


@action(
    name="set", work=False, effect="pure", traits=BY_FIELDS, changes="vars.*",
    details="The key `set` of a state does the same before its own action, without a step of "
    "its own.",
    example="""\
note:
  do: set
  with:
    vars.turns: vars.turns + 1
    vars.mood: '"calm"'
  next: work""",
    reads=(),
)  # fmt: skip
def set_variables(
    _ctx: Context, values: Annotated[Mapping[str, Any], Variables(_any_entry, "value")]
) -> Outcome:
    """Sets variables, as a separate action."""
    return Outcome(
        result={n.removeprefix("vars."): v for n, v in values.items()}, changes=dict(values)
    )

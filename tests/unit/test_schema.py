"""The JSON Schema that editors use: it is up to date, takes good files and refuses bad ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from jsonschema import Draft202012Validator

from chartloop.actions import builtin
from chartloop.language.file.schema import schema, text
from chartloop.language.file.shape import shape
from chartloop.language.load import load
from chartloop.language.yaml.reading import read
from tests.found import END, HEAD, STATES

ROOT = Path(__file__).parents[2]
CHECKED_IN = ROOT / "docs" / "machine.schema.json"
ACTIONS = builtin().actions.values()
SCHEMA = schema(ACTIONS)
VALIDATOR: Any = Draft202012Validator(SCHEMA)
MACHINES = sorted([*ROOT.glob("machines/*.yaml"), *ROOT.glob("examples/**/machine.yaml")])


def refusals(body: str) -> list[str]:
    """What the schema says against a file, as an editor would."""
    return [e.message for e in VALIDATOR.iter_errors(read(body).data)]


def test_the_file_in_docs_is_up_to_date() -> None:
    assert CHECKED_IN.read_text() == text(ACTIONS), "run: python docs/generate.py"
    assert json.loads(CHECKED_IN.read_text()) == SCHEMA


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.parent.name + "/" + path.name)
def test_our_machines_fit(path: Path) -> None:
    assert refusals(path.read_text()) == []
    first = path.read_text().splitlines()[0]
    named = path.parent / first.partition("$schema=")[2]
    assert named.resolve() == CHECKED_IN


def _nodes(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        given = cast(dict[str, Any], node)
        yield path, given
        for key, inner in given.items():
            yield from _nodes(inner, f"{path}/{key}")
    elif isinstance(node, list):
        for number, inner in enumerate(cast(list[Any], node)):
            yield from _nodes(inner, f"{path}/{number}")


def test_every_key_says_what_it_is() -> None:
    silent = [
        f"{path}/{key}"
        for path, node in _nodes(SCHEMA)
        if path.endswith("properties") and "patternProperties" not in path and "/if/" not in path
        for key, inner in node.items()
        if not inner.get("description") and "$ref" not in inner
    ]
    assert silent == []


def test_every_mapping_of_the_language_refuses_unknown_keys() -> None:
    for name, part in SCHEMA["$defs"].items():
        assert part["additionalProperties"] is False, name
        assert part["title"] == name
        assert part["description"]


def test_every_reference_leads_somewhere() -> None:
    names = {node["$ref"].rpartition("/")[2] for _, node in _nodes(SCHEMA) if "$ref" in node}
    assert names == SCHEMA["$defs"].keys()


def test_there_is_no_noise() -> None:
    for path, node in _nodes(SCHEMA):
        assert "Shape" not in str(node.get("title", "")), path
        assert node.get("default", 0) is not None, path
        if not path.endswith("properties"):
            assert node.get("anyOf") != [], path


def test_words_are_listed() -> None:
    state = SCHEMA["$defs"]["state"]["properties"]
    assert state["end"]["enum"] == ["completed", "error", "by_reason"]
    assert state["status"]["enum"] == ["running", "debugging"]
    assert state["stop"]["anyOf"][0]["enum"][:2] == ["highest", "error"]
    assert "steps_limit" in SCHEMA["$defs"]["rule"]["properties"]["signal"]["anyOf"][0]["enum"]


class Bad(NamedTuple):
    """A file that an editor marks."""

    id: str
    body: str


A = "states:\n  a: {%s}\n" + END
PLAN = "vars: {plan: ''}\n"
BAD = [
    Bad("no-version", "machine: m\n" + STATES),
    Bad("another-version", "chartloop: 2\nmachine: m\n" + STATES),
    Bad("bad-name", "chartloop: 1\nmachine: My Agent\n" + STATES),
    Bad("no-states", HEAD),
    Bad("empty-states", HEAD + "states: {}\n"),
    Bad("unknown-key", HEAD + "limts: {n: 1}\n" + STATES),
    Bad("unknown-key-of-a-state", HEAD + A % "do: nothing, nxt: z"),
    Bad("unknown-key-of-an-edge", HEAD + A % "do: nothing, next: {to: z, wen: last.ok}"),
    Bad("edge-without-a-target", HEAD + A % "do: nothing, next: {label: L}"),
    Bad("wrong-type-for-next", HEAD + A % "do: nothing, next: 5"),
    Bad("wrong-type-for-a-list", HEAD + "tools: send_message\n" + STATES),
    Bad("title-is-a-number", HEAD + "title: 1.10\n" + STATES),
    Bad("word", HEAD + A % "do: nothing, status: paused, next: z"),
    Bad("state-with-a-bad-name", HEAD + "states:\n  Think-Hard: {end: completed}\n"),
    Bad("when-without-else", HEAD + A % "ask: Q?, when: last.ok, then: z"),
    Bad("then-without-when", HEAD + A % "then: z, next: z"),
    Bad("else-alone", HEAD + A % "else: z, next: z"),
    Bad("cases-without-of", HEAD + A % "cases: {x: z}, else: z"),
    Bad("with-without-do", HEAD + A % "with: {x: 1}, next: z"),
    Bad("field-of-another-action", HEAD + A % "do: infer, with: {code: x}, next: z"),
    Bad("word-of-a-field", HEAD + A % "do: call_tools, with: {on_error: ask}, next: z"),
    Bad("field-of-a-child", HEAD + A % "do: run_machines, with: {children: {a: {machine: agent, tusk: x}}}, next: z"),
    Bad("parse-nothing", HEAD + PLAN + A % "do: parse, with: {vars.plan: {}}, next: z"),
    Bad("parse-a-misspelt-key", HEAD + PLAN + A % "do: parse, with: {vars.plan: {tagg: PLAN}}, next: z"),
    Bad("parse-as-another-word", HEAD + PLAN + A % "do: parse, with: {vars.plan: {tag: PLAN, as: texts}}, next: z"),
    Bad("parse-another-word", HEAD + PLAN + A % "do: parse, with: {vars.plan: text}, next: z"),
    Bad("parse-no-variable", HEAD + PLAN + A % "do: parse, with: {plan: {tag: PLAN}}, next: z"),
    Bad("retry-of-none", HEAD + A % "do: nothing, retry: {times: 0}, next: z"),
    Bad("rule-without-a-guard", HEAD + "rules: [{stop: custom}]\n" + STATES),
    Bad("rule-without-a-form", HEAD + "rules: [{when: last.ok}]\n" + STATES),
    Bad("reason-priority", HEAD + "reasons: {r: {priority: 12}}\n" + STATES),
    Bad("temperature", HEAD + "model: {name: x, temperature: 3}\n" + STATES),
    Bad("child-with-a-version", HEAD + "machines: {kid: {chartloop: 1, states: {e: {end: error}}}}\n" + STATES),
    Bad("child-without-states", HEAD + "machines: {kid: {title: x}}\n" + STATES),
]  # fmt: skip


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_a_bad_file_is_refused(case: Bad) -> None:
    assert refusals(case.body)
    assert not load(case.body, "bad.yaml", builtin()).ok


GOOD = [
    Bad("a-limit-that-is-off", HEAD + "limits: {n: null, t: {type: duration, value: null}}\n" + STATES),
    Bad("every-kind-of-limit", HEAD + "limits: {a: 1, b: 1_000, c: 0.5, d: true, e: 1h, f: 95%, g: [x]}\n" + STATES),
    Bad("edges", HEAD + A % "do: nothing, next: [{when: last.ok, to: z}, z]"),
    Bad("failed-edge", HEAD + A % "do: nothing, failed: {to: z, label: L}, next: z"),
    Bad("answers", HEAD + A % "on: {yes: z, no: {to: z, data: {n: int}}, more: [{when: last.ok, to: z}, z]}"),
    Bad("parse", HEAD + "vars: {a: '', b: {type: 'list[str]', value: []}, c: {type: any, value: 0}}\n" + A % "do: parse, with: {vars.a: {fence: ''}, vars.b: {tag: B, as: list, required: true}, vars.c: json}, next: z"),
    Bad("set", HEAD + PLAN + A % "do: set, with: {vars.plan: run.task}, next: z"),
    Bad("fields-of-an-action-of-ones-own", HEAD + A % "do: my_action, with: {x: 1}, next: z"),
    Bad("reason-of-its-own", HEAD + "reasons: {bored: {}}\nrules: [{when: last.ok, stop: bored}]\n" + STATES),
    Bad("tasks-in-a-file", HEAD + "tasks: {file: t.yaml}\n" + STATES),
    Bad("child", HEAD + "machines: {kid: {states: {e: {end: error}}}}\n" + STATES),
]  # fmt: skip


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.id)
def test_a_good_file_is_taken(case: Bad) -> None:
    assert refusals(case.body) == []
    assert shape(read(case.body)).findings == []

"""Every key of the schema is changed, and both `diff` and `upgrade` see it.

A key that no file here has fails the test, so that a new one cannot be forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
import yaml

from chartloop import Machine, diff, load, tool
from chartloop.analysis.versions.migration.judge import Upgrade
from chartloop.core.errors import ChartloopError
from chartloop.language.server_tools import ServerSpec

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/machine.schema.json").read_text("utf-8"))

BASE = """
chartloop: 1
machine: desk
title: A desk
about: What it is for
source: "001"
metadata: {owner: x}
instructions: Be kind.
model: {name: openai/gpt-4o-mini, temperature: 0.5, top_p: 0.5, max_tokens: 100, stop: [END], seed: 1,
  stream: true, timeout: 60s, idle_timeout: 30s, reply_limit: 1000, api_base: "http://127.0.0.1:1",
  api_key_env: A_KEY, context_window: 128000, input_cost_per_token: 0.1, output_cost_per_token: 0.1,
  fallbacks: [openai/gpt-4o], cache: [tools], extra: {a: 1}}
tools: [find, refund, kid, core_memory_read]
approve: {tools: [refund], by: the cashier, not_by: submitter, ask: "May it?", within: 1h, expired: done,
  when: call.arguments.usd > 100, edit: true, remember: true}
data: {find: {reads: private, from: untrusted}, refund: {sends: out}}
inputs: {task: {from: untrusted}, plan: {reads: private}}
mcp_servers:
  shop: {url: "http://127.0.0.1:1/mcp", headers: {A: b}, effect: pure, connect_timeout: 5s,
    timeout: 9s, elicitation: {within: 1m, questions: 2}, sampling: {calls: 3, tokens: 50}}
  till: {type: stdio, command: till, args: [a], env: {A: b}, cwd: /x}
memory: {human: {value: x, limit: 100, label: h, template: "{{ value }}", on_demand: true}}
tasks: [{id: a, text: First, kind: primary, acceptance: Short., by: {tool: find}}, {id: b, text: Second}]
limits: {steps: 20, share: {type: fraction, value: 50%}}
vars: {word: "", plan: "", count: {type: int, value: 1}, list: {type: "list[str]", value: []}, spare: 1}
define: {tired: run.steps > 5}
reasons: {odd: {priority: 3, forced: true, status: error}}
ignore: [{code: CL366, at: data.refund, reason: Because.}]
deviations: [{difference: A line, reason: Because.}]
renamed: {old: ask}
start: ask
resume_at: [think]
continues: never
on_stop: tidy
on_error: {to: ask, label: It failed, set: {vars.plan: '"x"'}}
in_doubt: ask
agent: desk
output: last.text
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit, message: Many, warn_at: 80%, to: tidy}
  - {when: run.steps > 9, signal: odd, message: Odd, at: [think]}
  - {when: run.steps > 8, to: tidy, before: [think]}
states:
  ask: {do: receive, next: think, about: It asks, role: hub, shape: rect, label: Ask}
  think:
    do: infer
    with: {tool_choice: auto}
    label: Think
    save: {vars.plan: result.text}
    retry: {times: 2, base: 1s, factor: 2, "on": [TRANSIENT], most: 9s}
    within: 5m
    failed: {to: tidy, label: "No", set: {vars.count: vars.count + 1}}
    set: {vars.count: vars.count + 1, vars.list: {append: '"a"'}}
    allow: [find, refund]
    next:
      - {when: len(last.tool_calls) > 0, to: act, label: Calls}
      - {when: vars.count > 7, to: done, stop: odd, message: Enough}
      - {to: choose}
  act: {do: call_tools, next: think}
  choose: {when: usage.context_ratio >= limits.share, then: waits, else: many, status: running, warn_at: 80%}
  waits:
    ask: "Go on?"
    "on":
      go: {to: each, label: "Yes", data: {text: str}, set: {vars.plan: last.answer.text}}
      leave: {when: vars.count > 2, to: done, stop: odd, message: "No"}
    within: 1h
    expired: each
  each: {for: vars.word, in: vars.list, most: 5, each: look, then: both}
  look: {do: tool, with: {name: find, arguments: {q: "{{ vars.word }}"}}, next: each}
  both: {all: [many, more]}
  many: {of: vars.plan, cases: {a: paid, b: paid}, else: paid}
  more: {when: vars.count > 3, then: paid, else: paid}
  paid: {do: tool, with: {name: find, arguments: {q: a}}, in_doubt: ask, within: 1m, next: tidy}
  tidy: {next: done}
  done: {stop: completed, message: Done}
machines:
  kid:
    about: A child
    states: {go: {do: receive, next: infer}, infer: {do: infer, next: last}, last: {end: completed}}
"""

Path_ = tuple[str | int, ...]
OTHER: dict[str, list[Any]] = {
    "file.machine": ["another"], "file.tools": [["refund", "find", "kid", "core_memory_read"]],
    "file.start": ["think"], "file.resume_at": [["choose"]], "file.on_stop": ["done"],
    "file.renamed": [{"older": "ask"}], "file.in_doubt": ["retry"], "file.output": ["vars.plan"],
    "file.tasks": [[]], "file.on_error": ["done"], "file.limits": [{"steps": 21, "share": {"type": "fraction", "value": "50%"}}],
    "file.reasons": [{"odd": {"priority": 4}}],
    "approve.by": ["another"], "approve.expired": ["tidy"], "approve.within": ["2h"],
    "approve.tools": [["refund", "kid"]], "approve.when": ["call.arguments.usd > 1000"],
    "data.reads": ["public"], "data.from": ["trusted"], "data.sends": ["nowhere"],
    "edge.to": ["done"], "event.to": ["done"], "edge.when": ["vars.count > 5"],
    "edge.stop": ["completed"], "event.stop": ["completed"], "event.data": [{"text": "str", "n": "int"}],
    "rule.to": ["done"], "rule.when": ["run.steps > 3"], "rule.stop": ["completed"],
    "rule.signal": ["steps_limit"], "rule.at": [["act"]], "rule.before": [["act"]],
    "rule.warn_at": ["90%"], "reason.status": ["completed"], "retry.on": [["CRITICAL"]],
    "retry.base": ["2s"], "retry.most": ["8s"], "typed_value.type": ["float"],
    "typed_value.value": [2, "60%"], "append.append": ['"b"'],
    "model.timeout": ["61s"], "model.idle_timeout": ["31s"], "model.cache": [["system"]],
    "model.api_base": ["http://127.0.0.1:2"], "mcp_server.url": ["http://127.0.0.1:2/mcp"],
    "mcp_server.effect": ["idempotent"], "mcp_server.timeout": ["10s"],
    "mcp_server.connect_timeout": ["6s"], "mcp_elicitation.within": ["2m"],
    "state.do": ["call_tools"], "state.then": ["tidy"], "state.else": ["tidy"],
    "state.next": ["tidy"], "state.each": ["paid"], "state.in": ['["a"]'], "state.all": [["more", "many"]],
    "state.cases": [{"a": "tidy", "b": "paid"}], "state.of": ["run.task"], "state.for": ["vars.plan"],
    "state.on": [{"go": "tidy", "leave": "done"}], "state.expired": ["tidy"], "state.failed": ["done"],
    "state.within": ["2h", "2m"], "state.status": ["paused"], "state.stop": ["odd"], "state.end": ["error"],
    "state.role": [None], "state.shape": ["pill"], "state.warn_at": ["90%"], "state.in_doubt": ["retry"],
    "state.with": [{"tool_choice": "required"}], "state.save": [{"vars.plan": "result.reasoning"}],
    "state.allow": [["find"]], "state.set": [{"vars.count": "vars.count + 2"}],
    "state.when": ["vars.count > 4"], "state.ask": ["Go on now?"], "task.kind": ["improvement"],
    "task.by": [{"tool": "kid"}],
}  # fmt: skip
"""Other values, where adding to the present one gives no valid file."""
HOLDERS = {"file.states", "file.machines", "child_machine.states", "state.then", "state.each"}
"""What they hold is changed key by key, and names of states are refused where none other fits."""
IMPLIED = {"file.start": "it names the first state", "file.vars": "`for` declares its variable"}
"""What a file may leave out and still be the same machine."""
WORDS = {
    "file.title", "file.about", "file.source", "file.metadata", "file.ignore", "file.deviations",
    "file.renamed", "accepted_finding.code", "accepted_finding.at", "accepted_finding.reason",
    "deviation.difference", "deviation.reason", "state.label", "state.about", "state.role",
    "state.shape", "state.ask", "edge.label", "event.label",
}  # fmt: skip
"""The keys that decide nothing: a run goes on under a file that differs in these alone."""
DECIDES = {
    "approve.tools": "which tools ask", "approve.when": "which of their calls ask",
    "approve.by": "who answers", "approve.not_by": "who may not accept",
    "approve.within": "how long a call can still be accepted",
    "approve.expired": "what follows if nobody answers",
    "approve.edit": "what an answer may do", "approve.remember": "how many calls an answer is for",
    "file.approve": "all of it", "file.in_doubt": "whether a person decides on a call in doubt",
    "state.in_doubt": "the same, at one state", "model.extra": "what the provider executes itself",
    "file.states": "a state may execute calls", "state.do": "the same",
    "state.allow": "the tools whose calls a state executes", "file.tools": "the same",
    "file.machines": "a child may execute calls",
}  # fmt: skip
"""Every key of a file that decides on consent: see `test_consent_in_change` for the directions."""
ELSEWHERE = {
    "file.chartloop": "the version of the language: there is one",
    "mcp_server.lock": "the lock of a recorded machine: its tools are compared one by one",
    "mcp_server.type": "a word of other programs' files, which says what `url` or `command` says",
    "tasks_file.file": "another form of `tasks`: its path is compared as a text",
}
NOT_IN_CHILD = {"file.chartloop", "file.machine", "file.mcp_servers"} | {
    f"{part}.{key}"
    for part in ("mcp_server", "mcp_elicitation", "mcp_sampling", "child_machine")
    for key in SCHEMA["$defs"][part]["properties"]
}


@tool(effect="pure")
def find(q: str) -> str:
    """Find."""
    return q


@tool
def refund(usd: float) -> str:
    """Pay."""
    return f"{usd}"


class At(NamedTuple):
    """A key of the schema in the base file."""

    key: str
    path: Path_
    value: Any


def variants(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The forms that a value may have."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield {**SCHEMA["$defs"][name], "called": name}
    for word in ("anyOf", "oneOf"):
        for one in schema.get(word, ()):
            yield from variants(one)
    if not schema.keys() & {"$ref", "anyOf", "oneOf"}:
        yield schema


def keys_at(schema: Mapping[str, Any], value: Any, path: Path_, called: str) -> Iterator[At]:
    """Every key of the schema that a value has, with where it stands."""
    for form in variants(schema):
        name = str(form.get("called", called))
        if isinstance(value, dict):
            known, patterns = form.get("properties", {}), form.get("patternProperties", {})
            if known and not value.keys() <= known.keys():
                continue
            for key, inner in cast("dict[str, Any]", value).items():
                at = (*path, key)
                if key in known:
                    yield At(f"{name}.{key}", at, inner)
                    yield from keys_at(known[key], inner, at, name)
                    continue
                for more in (form.get("additionalProperties"), *patterns.values()):
                    if isinstance(more, dict):
                        yield from keys_at(cast("dict[str, Any]", more), inner, at, name)
        elif isinstance(value, list) and isinstance(form.get("items"), dict):
            for number, inner in enumerate(cast("list[Any]", value)):
                yield from keys_at(form["items"], inner, (*path, number), name)


def schema_keys() -> set[str]:
    """Every key of the schema, those of a child machine under the name of the file's."""
    own = {f"file.{key}" for key in SCHEMA["properties"]}
    parts = {(n, key) for n, part in SCHEMA["$defs"].items() for key in part.get("properties", ())}
    return own | {f"{n}.{key}" for n, key in parts if n != "child_machine"}


def base() -> dict[str, Any]:
    return yaml.safe_load(BASE)


def edited(at: At) -> Iterator[dict[str, Any]]:
    """The base with other values at a place, and without it."""
    value, others = at.value, list(OTHER.get(at.key, ()))
    if isinstance(value, bool):
        others.append(not value)
    elif isinstance(value, (int, float)):
        others.append(value + 1)
    elif isinstance(value, str):
        others.append(f"{value}x")
    elif isinstance(value, list):
        others.append(cast("list[Any]", value)[:-1])
    elif isinstance(value, dict):
        others.append(dict([*cast("dict[str, Any]", value).items()][:-1]))
    for other in others if at.key in IMPLIED else (*others, ...):
        whole = base()
        holder: Any = whole
        for step in at.path[:-1]:
            holder = holder[step]
        if other is ...:
            del holder[at.path[-1]]
        else:
            holder[at.path[-1]] = deepcopy(other)
        yield whole


def machine(whole: dict[str, Any], folder: Path, *, child: bool = False) -> Machine | None:
    """The machine of a file, or of a file that has it as a child; None if it is refused."""
    if child:
        own = {k: v for k, v in whole.items() if k not in ("chartloop", "machine", "mcp_servers")}
        whole = {"chartloop": 1, "machine": "parent", "model": "m", "machines": {"desk": own}}
        whole["states"] = {
            "go": {"do": "run_machine", "with": {"machine": "desk", "task": "x"}, "next": "end"}
        }
        whole["states"]["end"] = {"stop": "completed"}
    path = folder / "desk.yaml"
    path.write_text(yaml.safe_dump(whole, sort_keys=False), "utf-8")
    servers: dict[str, Any] = {
        name: {"definition": definition(name, server), "tools": {}}
        for name, server in whole.get("mcp_servers", {}).items()
    }
    lock = {"chartloop_lock": 1, "servers": servers}
    (folder / "desk.tools.lock.json").write_text(json.dumps(lock), "utf-8")
    try:
        return load(path, tools=[find, refund])
    except ChartloopError:
        return None


def definition(name: str, server: Mapping[str, Any]) -> str:
    given = {k: server[k] for k in ("command", "url", "cwd", "env", "headers") if k in server}
    return ServerSpec(name, args=tuple(server.get("args", ())), **given).definition


PLACES = [*keys_at(SCHEMA, base(), (), "file")]


CASES = [
    (key, child)
    for key in sorted({at.key for at in PLACES} - ELSEWHERE.keys()) for child in (False, True)
    if not (child and key in NOT_IN_CHILD)
]  # fmt: skip


@cache
def unchanged(folder: Path, *, child: bool) -> Machine:
    """The machine of the base file."""
    made = machine(base(), folder, child=child)
    assert made is not None
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


def test_every_key_of_the_schema_is_in_the_base() -> None:
    assert schema_keys() - {at.key for at in PLACES} == {"mcp_server.lock", "tasks_file.file"}, (
        "a key without a value in BASE"
    )
    assert schema_keys() >= OTHER.keys() | WORDS | ELSEWHERE.keys()


@pytest.mark.parametrize(("key", "child"), CASES)
def test_a_change_of_a_key_is_seen(key: str, child: bool, folder: Path) -> None:
    old, tried = unchanged(folder, child=child), 0
    consent = set[str]()
    words = WORDS - {"file.about"} if child else WORDS  # a model reads what its tool is for
    for at in (at for at in PLACES if at.key == key):
        for whole in edited(at):
            new = machine(whole, folder, child=child)
            if new is None or old.canonical() == new.canonical():
                continue
            tried += 1
            found = diff(old, new)
            assert found, (at, whole)
            consent |= {one.kind for one in found.consent} - {"changed"}
            assert not consent or key in DECIDES, (at, found.consent)
            assert Upgrade(old.chart, new.chart).only_words is (key in words), (at, whole)
            if child:  # the comparison of a child is the same: one other value is enough
                break
    assert tried or key in HOLDERS, "no other value is valid"
    assert consent or not key.startswith("approve.") or key not in DECIDES

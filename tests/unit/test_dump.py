"""A spec survives being written: every file of the loading tests, and numbers at their edges."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from chartloop.api import Own, find_faults
from chartloop.language.dump import canonical, dump
from chartloop.language.load import load
from tests.found import END, whole
from tests.unit import test_load_machine, test_load_rules, test_load_states, test_load_with


class Written(NamedTuple):
    """A file that loads, and what it names of our own."""

    id: str
    body: str
    own: Own = ()


EDGES = [
    Written("no-tools-allowed", "tools: [send_message]\nstates:\n  a: {do: infer, allow: [], next: z}\n" + END),
    Written("share-with-many-digits", "limits: {x: 12.123456789%}\nrules: [{when: errors.rate > limits.x, stop: custom}]\n"),
    Written("microseconds", "limits: {t: 1.000001s}\nrules: [{when: run.elapsed > limits.t, stop: custom}]\n"),
    Written("a-list-of-durations", "vars: {x: {type: 'list[duration]', value: [30m, 1s]}}\n"),
    Written("a-block-on-demand", "tools: [core_memory_read]\nmemory: {notes: {value: tea, on_demand: true}}\n"),
    Written("output-of-nothing", "output: {}\n"),
    Written("no-tasks", "tasks: []\n"),
    Written("one-answer-in-a-list", "states:\n  a: {on: {yes: [z]}}\n" + END),
    Written("texts-with-every-sign", 'title: "\\u2028 \\\\ \\" \\0 é 😀 # : {}"\n'),
    Written("signs-that-no-text-holds", 'title: "\\x7f\\x85 \\u2029 \\uFEFF"\n'),
    Written("numbers-in-with", "states:\n  a: {do: back_off, with: {base: 1500ms, factor: 2}, next: z}\n" + END),
    Written("a-share-in-with", "model: {name: scripted, context_window: 9}\nstates:\n  a: {do: prune_context, with: {target: 50%}, next: z}\n" + END),
]  # fmt: skip
FILES = [
    *EDGES,
    *(Written(f"machine-{c.id}", c.body) for c in test_load_machine.SAYS),
    *(Written(f"states-{c.id}", c.body) for c in test_load_states.SAYS),
    *(Written(f"rules-{c.id}", c.body) for c in test_load_rules.SAYS),
    *(Written(f"with-{c.id}", c.body, (test_load_with.DO_IT,)) for c in test_load_with.SAYS),
]


@pytest.mark.parametrize("case", FILES, ids=lambda case: case.id)
def test_what_is_written_reads_back_the_same(case: Written) -> None:
    machine, _ = find_faults(whole(case.body), tools=case.own)
    assert machine is not None
    spec = machine.spec
    text = canonical(spec)
    again = load(text, "canonical.yaml", spec.registry)
    assert again.findings == ()
    assert again.spec is not None
    assert again.spec == spec
    assert dump(again.spec) == dump(spec)
    assert json.loads(text)["chartloop"] == 1


def test_the_hash_is_of_what_a_file_means() -> None:
    one, _ = find_faults(
        whole("limits: {n: 1_000}\nrules: [{when: run.steps > limits.n, stop: custom}]\n")
    )
    two, _ = find_faults(
        whole(
            "# the same\nlimits: {'n': 1000}\nrules:\n- {stop: custom, when: run.steps > limits.n}\n"
        )
    )
    other, _ = find_faults(
        whole("limits: {n: 1_001}\nrules: [{when: run.steps > limits.n, stop: custom}]\n")
    )
    hashes = [machine.hash for machine in (one, two, other) if machine is not None]
    assert hashes[0] == hashes[1]
    assert hashes[1] != hashes[2]

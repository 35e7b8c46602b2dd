"""Laws of loading: whatever the text, it gives a spec or findings, and never an exception."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.actions import builtin
from chartloop.api import find_faults
from chartloop.core.codes import CODES
from chartloop.core.errors import Finding
from chartloop.language.dump import canonical
from chartloop.language.file.schema import schema
from chartloop.language.load import load

ROOT = Path(__file__).parents[2]
SCHEMA = schema([])
KEYS = sorted({k for part in (SCHEMA, *SCHEMA["$defs"].values()) for k in part["properties"]})
VALUES = (
    "5", "1.10", "true", "~", "[]", "{}", "''", "zzz", "-1", ".inf", "[a, b]", "{a: 1}", "return",
    "next", "highest", "'{{ run.task }}'", "1e9", "30m", "95%", "{to: x, when: true}", "['x']",
    "!!python/name:os.system", "*a", "&a b", "__class__", '"\\0"', "run.steps > 3", "done", "think",
    "{type: 'list[int]', value: [1]}", "[done, done]", "errors.last.category", "limits.steps",
)  # fmt: skip


@cache
def shipped() -> tuple[tuple[str, ...], ...]:
    """The lines of the machines that we ship."""
    paths = sorted([*ROOT.glob("machines/*.yaml"), *ROOT.glob("examples/**/machine.yaml")])
    return tuple(tuple(path.read_text().splitlines()) for path in paths)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A shipped machine with a few lines deleted, repeated, changed or added."""
    lines = list(draw(st.sampled_from(shipped())))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        indent = " " * (len(line) - len(line.lstrip()))
        match draw(st.sampled_from(["delete", "repeat", "value", "key", "word", "sign"])):
            case "delete" if len(lines) > 1:
                del lines[at]
            case "repeat":
                lines.insert(draw(st.integers(0, len(lines))), line)
            case "value" if ":" in line:
                lines[at] = f"{line.partition(':')[0]}: {draw(st.sampled_from(VALUES))}"
            case "key":
                new = f"{indent}{draw(st.sampled_from(KEYS))}: {draw(st.sampled_from(VALUES))}"
                lines.insert(at, new)
            case "word" if line.split():
                old = draw(st.sampled_from(line.split()))
                lines[at] = line.replace(old, draw(st.sampled_from([*KEYS, *VALUES])), 1)
            case _:
                cut = draw(st.integers(0, len(line)))
                sign = draw(st.sampled_from(list("{}[]:,'\"#-\\0& ")))
                lines[at] = line[:cut] + sign + line[cut:]
    return "\n".join(lines) + "\n"


def sound(findings: tuple[Finding, ...], text: str) -> None:
    """Each finding has a code, words, and a place that is in the text."""
    lines = max(1, len(text.splitlines()) + 1)
    for finding in findings:
        assert finding.code in CODES
        assert finding.message
        assert finding.render()
        if finding.place.line:
            assert finding.place.line <= lines
            assert finding.place.column >= 1
            assert finding.place.width >= 1
    places = [(f.place.file, f.place.line, f.place.column) for f in findings]
    assert places == sorted(places)
    assert len(set(findings)) == len(findings)


@given(st.text(max_size=300))
def test_any_text_gives_a_machine_or_findings(text: str) -> None:
    machine, findings = find_faults(text + "\n")
    assert machine is not None or any(f.is_error for f in findings)
    sound(findings, text)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(VALUES), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=6), inner, max_size=6), max_leaves=30))  # fmt: skip
def test_any_data_gives_a_machine_or_findings(data: object) -> None:
    inner = json.dumps(data).replace("NaN", ".nan").replace("Infinity", ".inf")
    text = f"chartloop: 1\nmachine: m\nstates: {inner}\n"
    machine, findings = find_faults(text)
    assert machine is not None or any(f.is_error for f in findings)
    sound(findings, text)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(mutated())
def test_a_changed_machine_gives_a_machine_or_findings(text: str) -> None:
    machine, findings = find_faults(text)
    assert machine is not None or any(f.is_error for f in findings)
    sound(findings, text)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(mutated())
def test_what_loads_can_be_written_and_read_again(text: str) -> None:
    loaded = load(text, "a.yaml", builtin())
    if loaded.spec is None or not loaded.ok:
        return
    again = load(canonical(loaded.spec), "b.yaml", builtin())
    assert not [f for f in again.findings if f.is_error]
    assert again.spec == loaded.spec
    assert again.spec is not None
    assert canonical(again.spec) == canonical(loaded.spec)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(mutated())
def test_loading_is_always_the_same(text: str) -> None:
    one, two = find_faults(text), find_faults(text)
    assert one[1] == two[1]
    assert (one[0] is None) == (two[0] is None)

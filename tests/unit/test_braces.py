"""A fact in the braces of the other kind of text is shown as it is written: a warning says so."""

from __future__ import annotations

import pytest

from chartloop import load
from chartloop.core.errors import Finding

TEXT = """chartloop: 1
machine: m
model: {name: scripted}
instructions: %s
limits: {steps: 9}
define: {busy: run.steps > 3}
rules: [{when: run.steps >= limits.steps and not busy, stop: steps_limit}]
states:
  a: {label: %s, do: receive, next: z}
  z: {stop: completed}
"""


def warned(template: str = "T", label: str = "L") -> list[Finding]:
    machine = load(TEXT % (f"'{template}'", f"'{label}'"))
    return [f for f in machine.findings if f.code in ("CL418", "CL419")]


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("You do {run.task} now", "{{ run.task }}"),
        ("{ run.task }", "{{ run.task }}"),
        ("{limits.steps:,} steps", "{{ limits.steps }}"),
        ("{busy}", "{{ busy }}"),
        ("{{ run.task }} in {limits.steps}", "{{ limits.steps }}"),
    ],
)
def test_a_fact_in_single_braces_in_a_template(text: str, cure: str) -> None:
    (found,) = warned(template=text)
    assert (found.code, found.hint) == ("CL418", f"write `{cure}`")
    marked = found.place.text[found.place.column - 1 :][: found.place.width]
    assert marked.startswith("{")
    assert marked.endswith("}")


@pytest.mark.parametrize(
    "text",
    [
        "{{ run.task }}", "{{run.task}}", "write {\"a\": 1}", "{name}", "{x.y}", "a {1} b", "{}",
        "{run}", "${run.task}", "{run.nothing}", "{% if busy %}{{ run.steps }}{% endif %}",
    ],
)  # fmt: skip
def test_other_braces_in_a_template_are_text(text: str) -> None:
    assert warned(template=text) == []


@pytest.mark.parametrize("text", ["Model {{ limits.steps }}", "{{run.steps | int}}"])
def test_a_fact_in_double_braces_in_a_label(text: str) -> None:
    (found,) = warned(label=text)
    assert found.code == "CL419"
    assert found.hint in ("write `{limits.steps}`", "write `{run.steps}`")


@pytest.mark.parametrize("text", ["{limits.steps:,} {{x}}", "{{ {limits.steps} }}", "{{", "a }} b"])
def test_other_braces_in_a_label_are_text(text: str) -> None:
    assert warned(label=text) == []


def test_it_is_accepted_with_a_reason() -> None:
    text = TEXT % ("'{run.task}'", "L")
    accepted = "ignore: [{code: CL418, reason: the model fills it in}]\nstates:\n"
    codes = {f.code for f in load(text.replace("states:\n", accepted)).findings}
    assert "CL418" not in codes

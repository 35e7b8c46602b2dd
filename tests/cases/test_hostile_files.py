"""Files that try something: each ends soon, with findings, and nothing of it is executed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop.api import Machine, find_faults
from chartloop.core.errors import Finding
from tests.effort import calls
from tests.found import END, HEAD, STATES

FLOOR, PER_CHARACTER = 1_500_000, 100
"""Calls that reading and checking a file may take: so many for any, and so many a character."""


class Attack(NamedTuple):
    """A file, made when it is wanted; `harmless` when it may even load."""

    id: str
    make: Callable[[], str]
    harmless: bool = False


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return HEAD + "metadata:\n" + "".join(f"  {line}\n" for line in lines) + STATES


def chain(count: int, do: str = "do: nothing, ") -> str:
    states = "".join(f"  s{n}: {{{do}next: s{n + 1}}}\n" for n in range(count))
    return HEAD + f"states:\n{states}  s{count}: {{stop: completed}}\n"


def guard(text: str) -> Callable[[], str]:
    """A file with a guard that tries something."""
    quoted = "'" + text.replace("'", "''") + "'"
    return lambda: (
        HEAD + f"states:\n  a: {{do: nothing, next: [{{when: {quoted}, to: z}}, z]}}\n" + END
    )


def template(text: str) -> Callable[[], str]:
    """A file with a template that tries something."""
    quoted = "'" + text.replace("'", "''") + "'"
    return lambda: HEAD + f"instructions: {quoted}\n" + STATES


def body(text: str) -> Callable[[], str]:
    return lambda: HEAD + text + ("" if "states:" in text else STATES)


TOUCH = "__import__('pathlib').Path('touched').write_text('x')"
ATTACKS = [
    # the text
    Attack("nothing", lambda: "\n"),
    Attack("alias-bomb", bomb),
    Attack("alias-to-itself", body("metadata: &a [*a]\n")),
    Attack("merge-bomb", body("metadata: {<<: {<<: {a: 1}}}\n")),
    Attack("a-megabyte-of-text", body("about: " + "x" * 1_000_000 + "\n")),
    Attack("just-under-a-megabyte-of-text", body("about: " + "x" * 900_000 + "\n"), harmless=True),
    Attack("a-megabyte-of-brackets", lambda: "[" * 999_999 + "\n"),
    Attack("a-megabyte-of-keys", lambda: HEAD + "".join(f"k{n}: 1\n" for n in range(60_000))),
    Attack("deep-nesting", body("metadata: " + "[" * 5_000 + "]" * 5_000 + "\n")),
    Attack("deep-blocks", body("metadata:\n" + "".join(" " * n + "a:\n" for n in range(1, 200)))),
    Attack("many-documents", lambda: "---\na: 1\n" * 1_000),
    Attack("python-object", body(f"title: !!python/object/apply:os.system ['{TOUCH}']\n")),
    Attack("python-name", body("title: !!python/name:os.system\n")),
    Attack("own-tag", body("title: !evil x\n")),
    Attack("nul", lambda: "chartloop: 1\nmachine: m\x00\n" + STATES),
    Attack("nul-as-an-escape", body('title: "\\0"\n'), harmless=True),
    Attack("half-a-character", lambda: HEAD + "title: \ud800\n" + STATES),
    Attack("half-a-character-as-an-escape", body('title: "\\ud800"\n')),
    Attack("bytes-that-are-no-text", lambda: HEAD + b"title: \xff\xfe\n".decode("utf-8", "surrogateescape") + STATES),
    Attack("right-to-left", lambda: HEAD + "title: \u202eevil\n" + STATES, harmless=True),
    Attack("byte-order-marks", lambda: "\ufeff\ufeff" + HEAD + STATES),
    # names and values
    Attack("ten-thousand-states", lambda: chain(10_000), harmless=True),
    Attack("ten-thousand-passing-states", lambda: chain(10_000, ""), harmless=True),
    Attack("ten-thousand-unknown-targets", lambda: HEAD + "states:\n" + "".join(f"  s{n}: {{next: q{n}}}\n" for n in range(10_000))),
    Attack("thousands-of-unknown-keys", lambda: HEAD + STATES + "".join(f"k{n}: 1\n" for n in range(20_000))),
    Attack("thousands-of-bad-values", lambda: HEAD + STATES + "limits:\n" + "".join(f"  l{n}: soon\n" for n in range(10_000))),
    Attack("private-names", body("states:\n  __class__: {do: nothing, next: __init__}\n  __init__: {end: completed}\n")),
    Attack("private-variable", body("vars: {__dict__: 1}\n")),
    Attack("names-of-the-library", body("states:\n  initial: {do: nothing, next: trigger}\n  trigger: {do: nothing, next: model}\n  model: {do: nothing, next: state}\n  state: {stop: completed}\n"), harmless=True),
    Attack("name-with-a-dot", body("states:\n  builtins.print: {do: nothing, next: os.system}\n  os.system: {end: completed}\n")),
    Attack("very-long-name", body(f"states:\n  {'a' * 5_000}: {{end: completed}}\n")),
    Attack("odd-letters", body("states:\n  \ufb01le: {end: completed}\n  \uff41: {end: completed}\n")),
    Attack("look-alike-names", body("states:\n  \u0430: {end: completed}\n")),
    Attack("empty-name", body("states:\n  '': {end: completed}\n")),
    Attack("name-of-the-engine", body("states:\n  end-completed: {do: nothing, next: end-error}\n  end-error: {end: error}\n")),
    Attack("huge-number", body(f"limits: {{n: {'9' * 5_000}}}\nrules: [{{when: run.steps > limits.n, stop: custom}}]\n")),
    Attack("large-number", body(f"limits: {{n: {'9' * 290}}}\nrules: [{{when: run.steps > limits.n, stop: custom}}]\n"), harmless=True),
    Attack("infinity", body("limits: {n: .inf}\nrules: [{when: run.steps > limits.n, stop: custom}]\n")),
    Attack("not-a-number", body("vars: {n: .nan}\n")),
    Attack("infinity-far-inside", body("metadata: {a: [{b: -.inf}]}\n")),
    Attack("infinite-retry", body("states:\n  a: {do: nothing, retry: {times: 1, factor: .inf}, next: z}\n" + END)),
    Attack("endless-retry", body("states:\n  a: {do: nothing, retry: {times: 1000000}, next: z}\n" + END)),
    Attack("nothing-but-nothing", body("states: ~\nrules: ~\nlimits: ~\nvars: ~\n")),
    Attack("every-kind-wrong", lambda: "".join(f"{k}: [{{a: 1}}, 2]\n" for k in "chartloop machine title model tools memory tasks limits vars define reasons rules states machines start on_stop on_error output ignore renamed".split())),
    # expressions and templates
    Attack("guard-import", guard(TOUCH)),
    Attack("guard-class", guard("last.text.__class__.__mro__")),
    Attack("guard-format", guard("'{0.__class__}'.format(run) == ''")),
    Attack("guard-power", guard("9 ** 9 ** 9 > 1")),
    Attack("guard-multiplied-text", guard("len('a' * 999999999) > 1")),
    Attack("guard-deep", guard("(" * 500 + "last.ok" + ")" * 500)),
    Attack("guard-long", guard(" and ".join(["last.ok"] * 5_000))),
    Attack("guard-newlines", guard("last.ok\nimport os")),
    Attack("definition-bomb", body("define:\n  d0: run.steps + run.steps\n" + "".join(f"  d{n}: d{n - 1} + d{n - 1}\n" for n in range(1, 40)) + "rules: [{when: d39 > 1, stop: custom}]\n")),
    Attack("definitions-in-a-long-circle", body("define:\n" + "".join(f"  d{n}: d{(n + 1) % 200} + 1\n" for n in range(200)))),
    Attack("template-call", template("{{ cycler.__init__.__globals__.os.system('x') }}")),
    Attack("template-class", template("{{ ''.__class__.__mro__ }}")),
    Attack("template-import", template("{% import 'os' as os %}")),
    Attack("template-include", template("{% include '/etc/passwd' %}")),
    Attack("template-loops", template("{% for a in progress.recent %}{% for b in progress.recent %}x{% endfor %}{% endfor %}")),
    Attack("template-power", template("{{ 9 ** 9 ** 9 }}")),
    Attack("template-multiplied", template("{{ 'a' * 300000000 }}")),
    Attack("label-format", body("states:\n  a: {label: '{run.__class__}', do: nothing, next: z}\n" + END)),
    Attack("save-private", body("vars: {s: ''}\nstates:\n  a: {do: notify, save: {vars.s: result.__class__}, next: z}\n" + END)),
    Attack("type-bomb", body("vars: {x: {type: '" + "list[" * 5_000 + "str" + "]" * 5_000 + "', value: []}}\n")),
    # what it names
    Attack("action-by-path", body("states:\n  a: {do: os.system, next: z}\n" + END)),
    Attack("tool-by-path", body("tools: [builtins.exec]\n")),
    Attack("server-that-runs", body("mcp_servers: {x: {command: touch, args: [touched]}}\n")),
    Attack("tasks-of-the-system", body("tasks: {file: /etc/passwd}\n"), harmless=True),
    Attack("children-all-the-way", body("machines: " + "{k: {machines: " * 12 + "{k: {states: {e: {end: error}}}}" + ", states: {e: {end: error}}}}" * 12 + "\n"), harmless=True),
]  # fmt: skip


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize("case", ATTACKS, ids=lambda case: case.id)
def test_it_ends_with_findings(
    case: Attack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = case.make()
    text = text if "\n" in text else text + "\n"
    found: list[tuple[Machine | None, tuple[Finding, ...]]] = []
    assert calls(lambda: found.append(find_faults(text))) < FLOOR + PER_CHARACTER * len(text)
    ((machine, findings),) = found
    assert list(tmp_path.iterdir()) == []
    assert machine is None or case.harmless
    assert findings or case.harmless
    for finding in findings:
        assert len(finding.render()) < 2_000
        (finding.message + finding.hint).encode()


def test_nothing_that_a_file_names_is_imported() -> None:
    before = set(sys.modules)
    find_faults(HEAD + "tools: [antigravity.fly]\nstates:\n  a: {do: this.s, next: z}\n" + END)
    assert {"antigravity", "this"} & (set(sys.modules) - before) == set()

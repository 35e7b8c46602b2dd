"""What intervals settle of guards, what they leave open, and that there is a bound on the work."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop.analysis.proofs.guards.domains import World
from chartloop.analysis.proofs.guards.prover import Claim, Prover
from chartloop.core.facts import sections
from chartloop.core.specs import GuardSpec
from chartloop.core.types import BOOL, INT, STR, Type, struct
from chartloop.language.expression import Scope, parse

COUNT = Type("int", nonneg=True)
SCOPE = Scope(
    {
        **sections(),
        "limits": struct(
            {
                "n": COUNT, "off": COUNT.maybe(), "rate": Type("fraction", nonneg=True),
                "words": Type("list", of=STR),
            },
            keyed=True,
        ),
        "vars": struct({"x": INT, "y": INT, "s": STR, "b": BOOL}, keyed=True),
    },
    guards={"is_sound": GuardSpec("is_sound", (STR,), bool)},
)  # fmt: skip


class Question(NamedTuple):
    """Guards that are to hold together, those behind `~` not to; and whether they can."""

    texts: tuple[str, ...]
    possible: bool | None


def ask(*texts: str, world: World | None = None, prover: Prover | None = None) -> bool | None:
    claims = [
        Claim(parse(t.removeprefix("~"), SCOPE, want=BOOL).root, not t.startswith("~"))
        for t in texts
    ]
    answer = (prover or Prover(World())).ask(claims, at="here", world=world, values=True)
    return answer.possible


def q(*texts: str, can: bool | None) -> Question:
    return Question(texts, can)


@pytest.mark.parametrize(
    "case",
    [
        q("run.steps >= 5 and run.steps < 5", can=False),
        q("run.steps >= 5 and run.steps < 6", can=True),
        q("run.steps > 5 and run.steps < 6", can=False),
        q("usage.cost > 5 and usage.cost < 6", can=True),
        q("run.steps < 0", can=False),
        q("~run.steps >= 0", can=False),
        q("vars.x < 0", can=True),
        q("run.steps >= limits.n", "~run.steps + 1 > limits.n", can=False),
        q("run.steps >= limits.n", "~run.steps > limits.n", can=True),
        q("2 * run.steps + 3 == 8", can=False),
        q("2 * run.steps + 3 == 9", can=True),
        q("vars.x > run.steps and run.steps > 3 and vars.x < 4", can=False),
        q("vars.x > run.steps and run.steps > vars.y and vars.y >= vars.x", can=False),
        q("3 * run.steps + 2 * vars.x <= 5 and run.steps >= 3 and vars.x >= 0", can=False),
        q("min(run.steps, 3) >= 5", can=False),
        q("max(run.steps, 3) >= 5", can=True),
        q("abs(vars.x) < 0", can=False),
        q("run.steps % 10 >= 10", can=False),
        q("0.3 * (1 - errors.rate) > 0.4", can=False),
        q("len(last.tool_calls) > 0", "~len(last.tool_calls) >= 1", can=False),
        q("usage.prompt_tokens >= 200", "~usage.total_tokens >= 100", can=False),
        q("usage.total_tokens >= 200", "~usage.prompt_tokens >= 100", can=True),
        q('run.working >= duration("2h")', '~run.elapsed >= duration("1h")', can=False),
        # words
        q('vars.s == "a" and vars.s in ["b", "c"]', can=False),
        q('vars.s != "a" or vars.s != "b"', can=True),
        q('~vars.s != "a" or vars.s != "b"', can=False),
        q('run.status == "running"', 'run.status != "paused"', can=True),
        q('vars.s.lower() == "a"', '~vars.s.lower() in ["a", "b"]', can=False),
        q('"x" in last.text', '~"x" in last.text', can=False),
        # what may be None, and limits that are off
        q("usage.cost >= 3 and usage.cost is None", can=False),
        q("run.steps >= limits.off", "~limits.off is not None", can=False),
        q("run.steps < limits.off", "limits.off is None", can=True),
        q("not last.ok and last.error is None", can=False),
        # choices, and what is true or false
        q("(1 if vars.b else 2) > 2", can=False),
        q("vars.b == last.ok", "vars.b", "~last.ok", can=False),
        q("is_sound(vars.s)", "~is_sound(vars.s)", can=True),
        # left open
        q("vars.x * vars.x == 2", can=None),
        q("vars.x * vars.x < 0", can=None),
    ],
    ids=lambda case: " & ".join(case.texts),
)
def test_question(case: Question) -> None:
    assert ask(*case.texts) is case.possible


def test_values_show_that_it_can_hold() -> None:
    guard = parse('run.steps >= 7 and vars.s == "go" and usage.cost is not None', SCOPE, want=BOOL)
    values = Prover(World()).ask([Claim(guard.root)], values=True).values
    assert values["run.steps"] >= 7
    assert values["vars.s"] == "go"
    assert values["usage.cost"] is not None


def test_limits_count_as_written_only_where_that_is_asked() -> None:
    assert ask("errors.rate >= limits.rate") is True
    written = World(limits={"limits.rate": 1.5, "limits.words": ["a", "b"]})
    assert ask("errors.rate >= limits.rate", world=written) is False
    assert ask('vars.s in limits.words and vars.s == "c"', world=written) is False
    assert ask('vars.s in limits.words and vars.s == "b"', world=written) is True


def test_what_takes_too_much_work_is_left_open() -> None:
    prover = Prover(World(), work=20)
    hard = " and ".join(f"(vars.x > {n} or vars.y > {n})" for n in range(20))
    assert ask(hard, "vars.x < 0", "vars.y < 0", prover=prover) is None
    assert [*prover.unsettled] == ["here"]
    assert ask(hard, "vars.x < 0", "vars.y < 0") is False

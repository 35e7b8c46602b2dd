"""`output: Answer`: a pydantic class as the shape of a reply."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass as plain_dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal

import pytest
from pydantic import BaseModel, Field, field_validator

from chartloop import check, diff, load, tool
from chartloop.actions.declare import specs_of
from chartloop.api.loader import examine
from chartloop.core.errors import SetupError
from chartloop.core.types import STR, enum_of
from chartloop.language.dump import canonical, dump


class Source(BaseModel):
    url: str = Field(pattern="^https?://")
    score: float | None = None


class Answer(BaseModel):
    text: str = Field(min_length=1)
    confidence: float = Field(ge=0, le=1)
    sources: list[Source] = []
    kind: Literal["fact", "guess"] = "fact"

    @field_validator("text")
    @classmethod
    def _no_shouting(cls, text: str) -> str:
        if text.isupper():
            raise ValueError("do not shout")
        return text.strip()


FILE = """chartloop: 1
machine: m
model: {name: scripted}
vars: {kind: ""}
output: last.text
states:
  q: {do: receive, next: t}
  t:
    do: infer
    with: {output: Answer}
    save: {vars.kind: result.data.kind}
    next: d
  d: {stop: completed}
"""
GOOD = {"text": " yes ", "confidence": 0.5, "sources": [{"url": "https://a.example"}]}


def run(reply: object):
    return load(FILE, tools=[Answer]).run("x", script=[json.dumps(reply)])


def test_the_reply_is_what_the_class_makes_of_it() -> None:
    machine = load(FILE, tools=[Answer])
    begun = machine.start("x", script=[json.dumps(GOOD)])
    result = begun.run()
    assert str(result.reason) == "completed"
    step = next(r for r in begun.records if r.input.kind == "step" and r.state == "t")
    assert step.input.outcome is not None
    assert step.input.outcome.result["data"] == {
        "text": "yes", "confidence": 0.5, "kind": "fact",
        "sources": [{"url": "https://a.example", "score": None}],
    }  # fmt: skip
    assert result.facts.vars["kind"] == "fact"
    assert begun.replay().same


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"confidence": 2}, "confidence: 2 is greater than the maximum of 1 (`maximum`)"),
        ({"text": ""}, "text: "),
        ({"text": "YES"}, "do not shout"),
        ({"sources": [{"url": "ftp://x"}]}, "sources[0].url: "),
        ({"kind": "lie"}, "kind: "),
    ],
)
def test_a_reply_that_breaks_the_class(change: dict[str, object], says: str) -> None:
    result = run({**GOOD, **change})
    assert str(result.reason) == "error"
    assert says in result.errors[0]["message"]


def test_the_model_is_sent_the_schema_of_the_class() -> None:
    machine = load(FILE, tools=[Answer])
    [given] = machine.spec.states["t"].args.values()
    assert given.value.schema == Answer.model_json_schema()
    assert machine.spec.states["t"].result.field("data").field("text") == STR  # pyright: ignore[reportOptionalMemberAccess]
    assert machine.spec.states["t"].result.field("data").field("kind") == enum_of("fact", "guess")  # pyright: ignore[reportOptionalMemberAccess]


def test_the_schema_is_part_of_the_canonical_text() -> None:
    machine = load(FILE, tools=[Answer])
    assert dump(machine.spec)["states"]["t"]["with"]["output"] == {
        "class": "Answer",
        "schema": Answer.model_json_schema(),
    }
    again = load(canonical(machine.spec), tools=[Answer])
    assert again.hash == machine.hash
    assert again.spec == machine.spec
    looked_at = examine(canonical(machine.spec), assume=True).machine
    assert looked_at is not None
    assert looked_at.hash == machine.hash
    assert looked_at.spec.states["t"].result == machine.spec.states["t"].result


def test_a_changed_class_is_a_changed_machine() -> None:
    before = load(FILE, tools=[Answer])
    changed = type("Answer", (Answer,), {"__annotations__": {"more": str}, "__module__": __name__})
    after = load(FILE, tools=[changed])
    assert before.hash != after.hash
    [found] = check(canonical(before.spec), tools=[changed])
    assert found.code == "CL415"
    assert "Answer" in found.message
    assert "output" in str(diff(before, after))


def test_a_class_that_was_not_given_is_a_finding() -> None:
    class Other(BaseModel):
        x: int

    [missing] = check(FILE)
    assert (missing.code, missing.place.line) == ("CL414", 10)
    assert "--tools" in missing.hint
    [near] = check(FILE.replace("output: Answer", "output: Anser"), tools=[Answer, Other])
    assert near.hint == "did you mean `Answer`?"
    assert examine(FILE, assume=True).machine is not None


def test_classes_of_a_module_are_found_and_those_of_pydantic_are_not() -> None:
    module = ModuleType("mine")
    vars(module).update(Answer=Answer, BaseModel=BaseModel, int=int, Path=Path)
    assert list(specs_of(module).types) == ["Answer"]


def test_two_classes_of_one_name_are_refused() -> None:
    other = type("Answer", (BaseModel,), {"__annotations__": {"x": int}, "__module__": __name__})
    with pytest.raises(SetupError, match="two classes are called `Answer`"):
        load(FILE, tools=[Answer, other])


def test_what_is_no_model_declares_nothing() -> None:
    @plain_dataclass
    class Plain:
        x: int

    with pytest.raises(SetupError, match="declares nothing"):
        load(FILE, tools=[Plain])


def test_a_class_that_json_schema_cannot_say_is_a_finding() -> None:
    class Odd(BaseModel, arbitrary_types_allowed=True):
        x: ModuleType

    [found] = check(
        FILE.replace("Answer", "Odd").replace("    save: {vars.kind: result.data.kind}\n", ""),
        tools=[Odd],
    )
    assert (found.code, found.is_error) == ("CL414", True)


def test_it_survives_a_pickle() -> None:
    @tool
    def unused() -> str:
        """Nothing."""
        return ""

    machine = load(FILE, tools=[Answer])
    again = pickle.loads(pickle.dumps(machine))  # noqa: S301 - what was just written
    assert again.hash == machine.hash
    assert str(again.run("x", script=[json.dumps({**GOOD, "text": "YES"})]).reason) == "error"

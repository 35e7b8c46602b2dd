"""Files of other frameworks and tools, recognised by how they begin or by their keys.

Such a file is called by its name, with the way from there: a list of its keys, each as unknown,
would not help anyone.

Belongs here: how such a file is recognised. Does not read them.

Source:       docs.crewai.com (agents, tasks, flows), adk.dev (agent config),
              learn.microsoft.com/agent-framework (declarative agents and workflows),
              www.w3.org/TR/scxml, stately.ai/docs, omg.org/spec/BPMN, plantuml.com, drawio.com,
              graphviz.org, states-language.net
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from chartloop.core.codes import finding
from chartloop.core.errors import Finding, Place
from chartloop.language.yaml.document import Document

Keys = Mapping[str, Any]

_XML = r"(?:\s|<\?(?:(?!\?>).)*+\?>|<!--(?:(?!-->).)*+-->|<![^>]*+>)*+"
"""The prolog of an XML document, up to its first element."""

MERMAID = "a Mermaid chart"
_DIAGRAMS = tuple(
    (name, re.compile(begins, re.DOTALL))
    for name, begins in (
        (MERMAID, r"\s*(?:---\n(?:[^\n]*\n){0,50}?---\s*)?(?:flowchart|graph|stateDiagram)\b"),
        ("an SCXML document", _XML + r"<(?:\w+:)?scxml\b"),
        ("a BPMN diagram", _XML + r"<(?:\w+:)?definitions\b[^>]*omg\.org/spec/BPMN"),
        ("a draw.io diagram", _XML + r"<(?:mxfile|mxGraphModel)\b"),
        ("an XML document", r"\s*<\?xml\b"),
        ("a PlantUML diagram", r"\s*@startuml\b"),
        ("a Graphviz graph", r"\s*(?:strict\s+)?digraph\b"),
    )
)
"""The kinds of charts and diagrams, with how their texts begin."""
_DIAGRAM_KEYS: tuple[tuple[str, str, frozenset[str]], ...] = (
    ("a machine of XState", "initial", frozenset({"initial", "states"})),
    ("a state machine of AWS Step Functions", "StartAt", frozenset({"StartAt", "States"})),
)
"""The kinds of diagrams in JSON: the key that an error points at, and the keys that tell them."""

PAGE = "docs/coming-from.md#files-of-crewai-google-adk-and-agent-framework"


def _each_has(names: frozenset[str], least: int) -> Callable[[Keys], bool]:
    """Whether every value is a mapping with these keys: CrewAI names its agents and tasks."""
    return lambda data: all(
        isinstance(value, dict) and len(names & set(cast(Keys, value))) >= least
        for value in data.values()
    )


def _is_crew(agents: object) -> bool:
    if isinstance(agents, list):
        agents = dict(enumerate(cast("list[object]", agents)))
    named = cast(Keys, agents) if isinstance(agents, dict) and agents else {"": None}
    return _each_has(frozenset({"role", "goal"}), 1)(named)


_FRAMEWORKS: tuple[tuple[str, str, Callable[[Keys], bool]], ...] = (
    ("a flow of CrewAI", "schema", lambda data: str(data.get("schema")).startswith("crewai.")),
    ("a file of agents of CrewAI", "", _each_has(frozenset({"role", "goal", "backstory"}), 2)),
    ("a file of tasks of CrewAI", "", _each_has(frozenset({"description", "expected_output"}), 2)),
    ("a crew of CrewAI", "agents", lambda data: "tasks" in data and _is_crew(data.get("agents"))),
    ("an agent of Google ADK", "agent_class", lambda data: "agent_class" in data),
    (
        "an agent of Google ADK",
        "instruction",
        lambda data: {"name", "model", "instruction"} <= data.keys(),
    ),
    (
        "a workflow of Microsoft Agent Framework",
        "kind",
        lambda data: data.get("kind") == "Workflow" and bool({"trigger", "actions"} & data.keys()),
    ),
    (
        "an agent of Microsoft Agent Framework",
        "kind",
        lambda data: data.get("kind") == "Prompt" and bool({"instructions", "model"} & data.keys()),
    ),
)
"""What a file is, the key that tells it (empty: the first), and how it is told."""


def foreign(document: Document) -> Finding | None:
    """The finding if a file is a chart or diagram, or belongs to another framework."""
    draw = "draw its states as a Mermaid chart: `chartloop import` makes a machine of that"
    for name, begins in _DIAGRAMS:
        if begins.match(document.text):
            place = Place(document.file, 1, 1, 1, document.text.split("\n", 1)[0])
            hint = "`chartloop import` makes a machine of it" if name == MERMAID else draw
            return finding("CL422", f"this is {name}, not a machine", place, hint=hint)
    data: object = document.data
    if not isinstance(data, dict) or not data or {"chartloop", "machine"} & data.keys():
        return None
    keys = cast(Keys, data)
    for name, key, wanted in _DIAGRAM_KEYS:
        if wanted <= keys.keys():
            place = document.key((key,))
            return finding("CL422", f"this is {name}, not a machine", place, hint=draw, at=key)
    if "states" in keys:
        return None
    for name, telling, test in _FRAMEWORKS:
        if test(keys):
            key = telling or next(iter(keys))
            place = document.key((key,))
            hint = f"{PAGE} says what its parts are here; `chartloop new` writes a machine to start"
            return finding("CL422", f"this is {name}, not a machine", place, hint=hint, at=key)
    return None

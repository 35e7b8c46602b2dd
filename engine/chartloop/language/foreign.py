"""Files of other frameworks, told apart by their keys.

A chart, or a file that is plainly another framework's, is called by its name, with the way from
there; to list each of its keys as unknown would help nobody.

Belongs here: how such a file is recognised. Never: reading one.

Source:       docs.crewai.com (agents, tasks, flows), adk.dev (agent config),
              learn.microsoft.com/agent-framework (declarative agents and workflows)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from chartloop.core.codes import finding
from chartloop.core.errors import Finding, Place
from chartloop.language.yaml.document import Document

Keys = Mapping[str, Any]

_CHART = re.compile(
    r"\s*(?:---\n(?:[^\n]*\n){0,50}?---\s*)?(?:(?:flowchart|graph|stateDiagram)\b|(?P<xml><\?xml|<scxml)\b)"
)

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
    """The finding if a file is a chart, or belongs to another framework."""
    if chart := _CHART.match(document.text):
        what = "an SCXML document" if chart["xml"] else "a Mermaid chart"
        hint = "`chartloop import` makes a machine of it"
        place = Place(document.file, 1, 1, 1, document.text.split("\n", 1)[0])
        return finding("CL422", f"this is {what}, not a machine", place, hint=hint)
    data: object = document.data
    if not isinstance(data, dict) or not data or {"chartloop", "machine", "states"} & data.keys():
        return None
    keys = cast(Keys, data)
    for name, telling, test in _FRAMEWORKS:
        if test(keys):
            key = telling or next(iter(keys))
            place = document.key((key,))
            hint = f"{PAGE} says what its parts are here; `chartloop new` writes a machine to start"
            return finding("CL422", f"this is {name}, not a machine", place, hint=hint, at=key)
    return None

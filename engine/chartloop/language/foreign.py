"""Files of other frameworks, told apart by their keys.

A file that is plainly another framework's is called by its name, with the page that says what its
parts are here; to list each of its keys as unknown would help nobody.

Belongs here: how such a file is recognised. Never: reading one.

Source:       docs.crewai.com (agents, tasks, flows), adk.dev (agent config),
              learn.microsoft.com/agent-framework (declarative agents and workflows)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from chartloop.core.codes import finding
from chartloop.core.errors import Finding
from chartloop.language.yaml.document import Document

Keys = Mapping[str, Any]

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


_FRAMEWORKS: tuple[tuple[str, Callable[[Keys], bool]], ...] = (
    ("a flow of CrewAI", lambda data: str(data.get("schema", "")).startswith("crewai.")),
    ("a file of agents of CrewAI", _each_has(frozenset({"role", "goal", "backstory"}), 2)),
    ("a file of tasks of CrewAI", _each_has(frozenset({"description", "expected_output"}), 2)),
    ("a crew of CrewAI", lambda data: "tasks" in data and _is_crew(data.get("agents"))),
    ("an agent of Google ADK", lambda data: "agent_class" in data),
    ("an agent of Google ADK", lambda data: {"name", "model", "instruction"} <= data.keys()),
    (
        "a workflow of Microsoft Agent Framework",
        lambda data: data.get("kind") == "Workflow" and bool({"trigger", "actions"} & data.keys()),
    ),
    (
        "an agent of Microsoft Agent Framework",
        lambda data: data.get("kind") == "Prompt" and bool({"instructions", "model"} & data.keys()),
    ),
)
"""What a file is, with how it is told. A file that says `chartloop` is none of these."""


def foreign(document: Document) -> Finding | None:
    """The finding if a file belongs to another framework."""
    data: object = document.data
    if not isinstance(data, dict) or not data or {"chartloop", "machine"} & data.keys():
        return None
    keys = cast(Keys, data)
    for name, test in _FRAMEWORKS:
        if test(keys):
            hint = f"{PAGE} says what its parts are here; `chartloop new` writes a machine to start"
            return finding("CL422", f"this is {name}, not a machine", document.at(()), hint=hint)
    return None

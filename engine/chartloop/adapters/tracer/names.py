"""The names of spans, attributes and metrics: one table.

`gen_ai.*` and `error.type` follow the OpenTelemetry conventions for generative AI, which change
often: update names here, together with the commit. Our own names start with `chartloop.`.

Source: github.com/open-telemetry/semantic-conventions-genai, commit 002c8a6 (`CONVENTION`),
docs/gen-ai and docs/registry/attributes; all of it has the status "Development" there.
"""

from __future__ import annotations

from enum import StrEnum

CONVENTION = "002c8a6ea1c8a42b14a4527db83b3cabcded610a"
"""The commit of the conventions that this table follows."""


class Operation(StrEnum):
    """The operation of a span: the first word of its name, and `gen_ai.operation.name`."""

    AGENT = "invoke_agent"
    """A run of a machine without child machines."""
    WORKFLOW = "invoke_workflow"
    """A run of a machine that has child machines."""
    CHAT = "chat"
    TOOL = "execute_tool"


class Name(StrEnum):
    """The keys of attributes."""

    # from the conventions
    OPERATION = "gen_ai.operation.name"
    PROVIDER = "gen_ai.provider.name"
    CONVERSATION = "gen_ai.conversation.id"
    AGENT_NAME = "gen_ai.agent.name"
    AGENT_ID = "gen_ai.agent.id"
    WORKFLOW_NAME = "gen_ai.workflow.name"
    REQUEST_MODEL = "gen_ai.request.model"
    REQUEST_TEMPERATURE = "gen_ai.request.temperature"
    REQUEST_TOP_P = "gen_ai.request.top_p"
    REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
    REQUEST_SEED = "gen_ai.request.seed"
    OUTPUT_TYPE = "gen_ai.output.type"
    RESPONSE_MODEL = "gen_ai.response.model"
    FINISH_REASONS = "gen_ai.response.finish_reasons"
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
    TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105  a kind of token that is counted
    TOOL_NAME = "gen_ai.tool.name"
    TOOL_TYPE = "gen_ai.tool.type"
    TOOL_ABOUT = "gen_ai.tool.description"
    TOOL_CALL_ID = "gen_ai.tool.call.id"
    ERROR = "error.type"
    # from the conventions: content, exported only on request
    INPUT_MESSAGES = "gen_ai.input.messages"
    OUTPUT_MESSAGES = "gen_ai.output.messages"
    TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
    TOOL_RESULT = "gen_ai.tool.call.result"
    # our own: of a run
    RUN = "chartloop.run.id"
    MACHINE = "chartloop.machine.name"
    PARENT = "chartloop.run.parent"
    DEPTH = "chartloop.run.depth"
    """0 for a top-level run, 1 for its child."""
    RESUMED = "chartloop.run.resumed"
    """Whether the run was started before this span."""
    STATUS = "chartloop.run.status"
    STATE = "chartloop.state"
    ACTION = "chartloop.action"
    STEPS = "chartloop.run.steps"
    TOKENS = "chartloop.usage.total_tokens"
    COST = "chartloop.usage.cost"
    """USD, of a run so far or of a model call. Absent if unknown."""
    STOP_REASON = "chartloop.stop.reason"
    STOP_KIND = "chartloop.stop.kind"
    """natural, human, error, limit."""
    STOP_RULE = "chartloop.stop.rule"
    """The source of the signal: a rule, a state, a tool, the caller."""
    STOP_MESSAGE = "chartloop.stop.message"
    """Content: a tool or a caller may have written it."""
    BUDGET = "chartloop.budget"
    """The prefix of a fact; the value is the used part of its bound: ``12 of 50``."""
    # our own: of a record
    RECORD = "chartloop.record.seq"
    KIND = "chartloop.record.kind"
    STEP = "chartloop.step"
    FROM = "chartloop.transition.from"
    TO = "chartloop.transition.to"
    PATH = "chartloop.transition.path"
    TAKEN = "chartloop.transition.taken"
    """The ids of the rules and edges that were taken."""
    GUARDS = "chartloop.transition.guards"
    """Their guards, as the file writes them."""
    RULES = "chartloop.rules.guards"
    """The guards of the rules that are budgets, evaluated after the record."""
    LEFT = "chartloop.rules.left"
    """For each of these rules, the margin until it holds."""
    FAILURE = "chartloop.failure.message"
    """Content: an exception may contain arguments of a tool."""


TRANSITION = "chartloop.transition"
"""The span event for a transition, with its reasons."""


class Metric(StrEnum):
    """The names of instruments."""

    DURATION = "gen_ai.client.operation.duration"
    TOKENS = "gen_ai.client.token.usage"
    TOOL_DURATION = "gen_ai.execute_tool.duration"
    COST = "chartloop.cost"
    RUNS = "chartloop.runs"
    WAITING = "chartloop.runs.waiting"


DURATIONS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
"""The buckets of durations in seconds, from the conventions."""
TOKEN_COUNTS = [4**power for power in range(14)]
"""The buckets of token counts, from the conventions."""

PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "cohere_chat": "cohere",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""litellm's names of providers that differ from those of the conventions."""


def provider_of(model: str) -> str:
    """The provider in a model's name, ``provider/model``; empty if there is none."""
    provider, sign, _ = model.partition("/")
    if not sign:
        return "scripted" if model == "scripted" else ""
    return PROVIDERS.get(provider, provider)

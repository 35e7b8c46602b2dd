"""Tools of MCP servers that the models of the file do not get, or not as they are."""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.language.json_schema.sent import sent_schema
from chartloop.language.spec import MachineSpec


def check_server_tools(context: CheckContext) -> None:
    """Name each tool that the lock left out, and each whose schema a model gets only in part."""
    spec = context.spec
    offering = [state for state in spec.states.values() if state.traits.asks == "reply"]
    offered = {tool.name: tool for state in offering for tool in spec.tools_at(state)}
    for name, server in spec.servers.items():
        for tool, why in server.left_out.items():
            message = f"`{name}.{tool}` is left out: {why}"
            hint = "name the tools that you use in place of the pattern, and lock again"
            context.say("CL436", ("mcp_servers", name), message, hint=hint, key=True)
        for tool in offered.values():
            if tool.server != name:
                continue
            for model in _models(spec):
                provider, slash, _ = model.partition("/")
                if lost := sent_schema(tool.parameters, provider if slash else "").lost:
                    words = ", ".join(f"`{word}`" for word in lost)
                    message = f"`{model}` takes no {words} at the top of the schema of"
                    message = f"{message} `{tool.name}`: it gets that in words only"
                    hint = "arguments are held against the whole schema before the tool is called"
                    context.say("CL435", ("mcp_servers", name), message, hint=hint, key=True)
                    break


def _models(spec: MachineSpec) -> Iterator[str]:
    """The models that the file names, without those for tests."""
    names = [spec.model.get("name"), *(spec.model.get("fallbacks") or ())]
    for state in spec.states.values():
        if "model" in state.args and (template := state.args["model"].value).constant:
            names.append(template.text)
        if "fallbacks" in state.args:
            names += state.args["fallbacks"].value
    yield from (name for name in names if isinstance(name, str) and name and name != "scripted")

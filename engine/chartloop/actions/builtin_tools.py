"""The built-in tools, which every machine may list.

`send_message`, `conversation_search`, the tools for memory blocks, and `submit_answer`.

Source: 004 `tools-enabled`, "Memory Update Step", "With Tool System"; 002 "Common Use Cases".
"""

from __future__ import annotations

from chartloop.actions.declare import tool
from chartloop.core.conversation import search
from chartloop.core.errors import nearest
from chartloop.core.outcome import ToolResult
from chartloop.core.reasons import AgentStop
from chartloop.run.context import Context

WITHIN = {"from": "trusted"}
"""They read and write only what the run holds; its own labels stay."""


@tool(effect="local", blocking=False, data=WITHIN)
def send_message(message: str) -> ToolResult:
    """Send a message to the user.

    Args:
        message: The text that the user will read.
    """
    return ToolResult("The message was sent.", partial=(message,))


@tool(effect="pure", blocking=False, data=WITHIN)
def conversation_search(_ctx: Context, query: str, limit: int = 5) -> ToolResult:
    """Search the conversation so far.

    Args:
        query: Words to look for.
        limit: How many results to give at most.
    """
    hits = search(_ctx.messages.whole(), query, max(1, min(limit, 50)))
    if not hits:
        return ToolResult("Nothing in the conversation matches.", result=[])
    lines = [f"{hit.index + 1}. {hit.role}: {hit.excerpt}" for hit in hits]
    return ToolResult("\n".join(lines), result=[hit._asdict() for hit in hits])


@tool(effect="pure", blocking=False, data=WITHIN)
def core_memory_read(_ctx: Context, block_name: str) -> ToolResult:
    """Read a memory block.

    Args:
        block_name: Name of the block.
    """
    value = _ctx.facts.memory.get(block_name)
    if value is None:
        return _no_block(_ctx, block_name)
    spec = _ctx.machine.memory[block_name]
    return ToolResult(spec.render(block_name, value), result={"block_name": block_name})


@tool(effect="pure", memory=True, blocking=False, data=WITHIN)
def core_memory_append(_ctx: Context, block_name: str, content: str) -> ToolResult:
    """Add text at the end of a memory block.

    Args:
        block_name: Name of the block.
        content: Text to add, on its own line.
    """
    return append_text(_ctx, block_name, content)


@tool(effect="pure", memory=True, blocking=False, data=WITHIN)
def core_memory_replace(
    _ctx: Context, block_name: str, old_content: str, new_content: str
) -> ToolResult:
    """Replace text in a memory block.

    Args:
        block_name: Name of the block.
        old_content: Text that is in the block now, exactly.
        new_content: Text to put in its place; empty to remove it.
    """
    return replace_text(_ctx, block_name, old_content, new_content)


@tool(effect="pure", blocking=False, data=WITHIN)
def submit_answer(answer: str) -> ToolResult:
    """Submit the final answer. The work ends with it.

    Args:
        answer: The whole answer, as the user will read it.
    """
    why = "the answer was submitted"
    raise AgentStop(why, reason="answer_submitted", context={"answer": answer})


def append_text(ctx: Context, block: str, content: str) -> ToolResult:
    """Append `content` to a block as a new line."""
    value = ctx.facts.memory.get(block)
    if value is None:
        return _no_block(ctx, block)
    return _put(ctx, block, f"{value}\n{content}" if value else content, "append", content)


def replace_text(ctx: Context, block: str, old: str, new: str) -> ToolResult:
    """Replace the first `old` in a block by `new`."""
    value = ctx.facts.memory.get(block)
    if value is None:
        return _no_block(ctx, block)
    if not old or old not in value:
        return ToolResult(f"error: block `{block}` does not hold that text", ok=False)
    return _put(ctx, block, value.replace(old, new, 1), "replace", new)


def _put(ctx: Context, block: str, value: str, operation: str, content: str) -> ToolResult:
    spec = ctx.machine.memory.get(block)
    if spec is not None and spec.limit is not None and len(value) > spec.limit:
        return ToolResult(
            f"error: block `{block}` may hold {spec.limit} characters,"
            f" this would make it {len(value)}",
            ok=False,
        )
    result = {"operation": operation, "block_name": block, "content": content}
    return ToolResult("The block was changed.", changes={f"memory.{block}": value}, result=result)


def _no_block(ctx: Context, block: str) -> ToolResult:
    hint = nearest(block, ctx.facts.memory)
    return ToolResult(
        f"error: there is no memory block `{block}`" + (f"; {hint}" if hint else ""), ok=False
    )

"""The three loops in AutoGen's GraphFlow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow
from loops import LIMIT, Library, Model

logging.disable()  # it logs what it raises


class Says(BaseChatAgent):
    """An agent that says what a function gives it."""

    def __init__(self, name: str, say: Callable[[], str]) -> None:
        super().__init__(name, description=name)
        self.say = say

    @property
    def produced_message_types(self) -> Sequence[type[TextMessage]]:
        """Texts."""
        return (TextMessage,)

    async def on_messages(self, messages: Any, cancellation_token: Any) -> Response:
        """The next text."""
        return Response(chat_message=TextMessage(content=self.say(), source=self.name))

    async def on_reset(self, cancellation_token: Any) -> None:
        """Nothing is kept."""


def build(loop: str, model: Model, *, limited: bool) -> Callable[[], object]:
    """A graph of agents, checked by `GraphFlow`."""
    think, act, done = (
        Says("think", model.ask),
        Says("act", lambda: "acted"),
        Says("done", lambda: "good"),
    )
    builder: Any = DiGraphBuilder()
    if loop == "exitless":
        builder.add_node(think).add_node(act)
        builder.add_edge(think, act).add_edge(act, think)
    else:
        taken: Callable[[Any], bool] = (
            (lambda message: len(message.to_text()) >= 0)
            if loop == "always"
            else (lambda message: "DONE" in message.to_text())
        )
        builder.add_node(think).add_node(act).add_node(done)
        builder.add_edge(think, done, condition=taken, activation_group="out")
        builder.add_edge(think, act, condition=lambda message: not taken(message))
        builder.add_edge(act, think, activation_group="again")
    builder.set_entry_point(think)
    turns = LIMIT if limited else None
    flow = GraphFlow(builder.get_participants(), graph=builder.build(), max_turns=turns)
    return lambda: asyncio.run(flow.run(task="go")).stop_reason


LIBRARY = Library("AutoGen GraphFlow", "autogen-agentchat", "max_turns=20", build)

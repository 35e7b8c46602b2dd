"""`chartloop chat`: a conversation with a machine."""

from __future__ import annotations

import click

from chartloop.cli import completion, parameters
from chartloop.cli.late import at_first_use
from chartloop.cli.options import RunOptions, pass_options

with at_first_use(__name__):
    from chartloop.cli import conversation


@click.command(
    epilog="""\b
Examples:
  chartloop chat agent
  chartloop chat chat.yaml "Hello, I am Ann." --session ann
  chartloop chat agent --continue last
  chartloop chat agent --script replies.yaml < messages.txt

\b
Each message is a run that continues the one before: conversation, memory and variables are carried
over, counters and limits start anew. Where the machine waits for a text, the same run goes on:
type the text, or `/EVENT` for another of its answers. An approval is asked in its place.

\b
Replies are on stdout, tool calls and questions on stderr. Ctrl-C stops a reply before its next
action, Ctrl-D leaves. Input that is no terminal is read line by line, each line a message.
"""
)
@parameters.machine_argument
@click.argument("message", default="", required=False)
@click.option(
    "--continue", "continues", metavar="RUN", shell_complete=completion.runs,
    help="The last run of a conversation to go on with.",
)  # fmt: skip
@parameters.options_of(RunOptions, "branch")
@parameters.start_options
@parameters.notify_option
@pass_options(RunOptions)
def chat(machine: str, message: str, continues: str | None, options: RunOptions) -> None:
    """Talk with a machine: message by message, replies as they arrive.

    MACHINE is a file or the name of a shipped machine. MESSAGE is the first message.
    """
    if continues is not None and options.in_memory:
        raise click.UsageError("--continue goes with the journal that has the run")
    raise click.exceptions.Exit(conversation.converse(machine, message, options, continues))

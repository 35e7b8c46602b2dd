"""Machines as tools of the Model Context Protocol. ``chartloop mcp``.

    client ─▶ protocol ─▶ tool_calls ─▶ journal (request, message) ─▶ worker ─▶ run
                 ▲             └─ reads the journal until the run rests ◀──┘
                 └─ progress, elicitation, result

    machine_tools     what a client is told of a machine: names, schemas, descriptions
    elicitation_form  a run's question as a form, and what came back as an answer
    tool_calls        what each tool does: starts, answers, reads
    protocol          the door to the package `mcp`
    transports        stdio and HTTP

The protocol's event loop never drives a run: a worker does, by lease, as behind `chartloop serve`.
A server may be killed at any moment; the next one on the same journal continues what it drove.

Belongs here: the protocol, and what is shown over it. Never: deciding what a run does.
Source: Model Context Protocol, revisions 2025-11-25 and 2026-07-28.
"""

"""Machines as tools of the Model Context Protocol. ``chartloop mcp``.

    client ─▶ protocol ─▶ tool_calls ─▶ journal (request, message) ─▶ worker ─▶ run
                 ▲             └─ reads the journal until the run stops ◀──┘
                 └─ progress, elicitation, result

    machine_tools     the description of a machine as a tool: name, schemas, text
    elicitation_form  a run's question as a form, and the filled form as an answer
    tool_calls        the work of each tool: starting, answering, reading runs
    protocol          the door to the package `mcp`
    transports        stdio and HTTP

The protocol's event loop never drives a run: a worker does, by lease, as behind `chartloop serve`.
A server may be killed at any moment; the next one on the same journal continues its runs.

Belongs here: the protocol and the views served over it. Never: deciding what a run does.
Source: Model Context Protocol, revisions 2025-11-25 and 2026-07-28.
"""

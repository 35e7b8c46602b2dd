"""What every server of machines needs, whichever protocol it speaks: the room below the faces.

    settings     machines, tools, journal, tokens, limits: what a server is started with
    machines     which machines are served: files of folders, and those of recorded runs
    runs         orders to runs, kept in the journal; reading
    workers      threads that take orders out of the journal and drive their runs, by lease
    problems     errors as problem documents (RFC 9457)
    http_server  uvicorn, for the faces that are reached over HTTP
    safety       what every HTTP request passes: host, origin, token, rate, size, redaction

`chartloop.server` shows this over HTTP, `chartloop.mcp_server` over the Model Context Protocol.

Belongs here: what two faces of a server need. Never: a route, a page, a message of a protocol.
"""

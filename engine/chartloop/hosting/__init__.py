"""What others call: machines and runs behind HTTP and the Model Context Protocol.

    settings     the configuration: machines, tools, journal, tokens, limits
    machines     the served machines: files in folders, and those of recorded runs
    runs         orders to runs, stored in the journal; reading
    reading      runs kept open for reading, and their past positions
    workers      threads that take orders from the journal and drive their runs, by lease
    problems     errors as problem documents (RFC 9457)
    http_server  uvicorn, for the servers that speak HTTP
    safety       the checks of every HTTP request: host, origin, token, rate, size; redaction
    metrics      counters in the text format of Prometheus

`server` exposes this over HTTP, `mcp_server` over the Model Context Protocol.

Belongs here: what both servers need. Never, but in their folders: a route, a page, a message.
"""

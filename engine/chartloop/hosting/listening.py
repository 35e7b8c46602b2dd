"""The sockets of programs that answer over HTTP, opened before anything else is started.

Belongs here: listening at an address, and why that fails. Never: what is answered.
"""

from __future__ import annotations

import errno
import socket

from chartloop.core.errors import SetupError

_ABSENT = errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT
"""Why one of several addresses of a name is left out: this computer does not have its family."""


def listen(host: str, port: int, *, free: str) -> list[socket.socket]:
    """Listen at a host, at each of its addresses. `free` is the option that names any free port.

    Raises `SetupError` if the port is taken or not allowed, or the host is not this computer.
    """
    opened: list[socket.socket] = []
    failed: OSError | None = None
    try:
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        found, failed = [], error
    for family, _, _, _, where in dict.fromkeys(found):
        try:
            opened.append(socket.create_server(where, family=family))
        except OSError as error:
            failed = error
            if error.errno not in _ABSENT:
                break
    if opened and (failed is None or failed.errno in _ABSENT):
        return opened
    for one in opened:
        one.close()
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    match failed.errno if failed is not None else None:
        case errno.EADDRINUSE:
            why = "another program listens there"
            hint = f"`ss -ltnp 'sport = :{port}'` names it: end it, or take a free port, `{free}`"
        case errno.EACCES:
            why, hint = (
                "this user may not",
                f"ports below 1024 are root's: `{free}` takes a free one",
            )
        case _:
            why, hint = "this is no address of this computer", "`hostname -I` lists its addresses"
    raise SetupError(f"cannot listen at {shown}: {why}", hint=hint) from failed

"""A way to a server of this machine that takes time: each byte arrives later, in both directions.

    python benchmarks/fleet_proxy.py PORT SECONDS

Prints its own port. It holds nothing back: what is sent meanwhile is on its way too.
"""

from __future__ import annotations

import socket
import sys
import time
from queue import Queue
from threading import Thread


def carry(source: socket.socket, target: socket.socket, seconds: float) -> None:
    """Carry what one side sends to the other."""
    way: Queue[tuple[float, bytes]] = Queue()

    def deliver() -> None:
        while True:
            at, data = way.get()
            time.sleep(max(0.0, at - time.monotonic()))
            try:
                if not data:
                    return target.shutdown(socket.SHUT_WR)
                target.sendall(data)
            except OSError:
                return None

    Thread(target=deliver, daemon=True).start()
    data = b"."
    while data:
        try:
            data = source.recv(1 << 16)
        except OSError:
            data = b""
        way.put((time.monotonic() + seconds, data))


def main(port: int, seconds: float) -> None:
    """Carry until it is ended."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        near, _ = listener.accept()
        far = socket.create_connection(("127.0.0.1", port))
        for one, other in ((near, far), (far, near)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Thread(target=carry, args=(one, other, seconds / 2), daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))

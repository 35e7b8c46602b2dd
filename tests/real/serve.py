"""llama.cpp's OpenAI-compatible server, until its stdin is closed: python serve.py MODEL PORT."""

# pyright: basic, reportMissingImports=false
# ruff: noqa: T201  a script

from __future__ import annotations

import os
import sys

import xllamacpp


def main(model: str, port: int) -> None:
    """Serve, and say where."""
    said = xllamacpp.CommonParams()
    said.model.path = model
    said.n_ctx = 512
    said.n_parallel = 1
    said.port = port
    said.cpuparams.n_threads = 1
    said.warmup = False
    server = xllamacpp.Server(said)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # nothing is kept, and a request at hand would be waited for


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

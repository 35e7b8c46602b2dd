"""Graphviz itself: DOT text to SVG and PNG.

Belongs here: running an engine: `dot` on PATH through the library `graphviz`, else pygraphviz,
whose wheels contain Graphviz. Both run in a process of their own, which ends at its timeout. Never:
the look of a picture.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Literal, cast

from chartloop.core.errors import RunError, SetupError
from chartloop.extras import install
from chartloop.pictures.dot.write import BOLD, FONT

Engine = Literal["dot", "pygraphviz", "mermaid"]
"""The program that draws; `mermaid` without Graphviz: the viewer of the picture must draw it."""


def find_engine() -> Engine:
    """The first installed engine."""
    if shutil.which("dot"):
        return "dot"
    return "pygraphviz" if importlib.util.find_spec("pygraphviz") else "mermaid"


_DPI = 96
"""The pixels of an inch in a PNG, as Graphviz has it."""


def render(
    source: str,
    form: Literal["svg", "png"],
    *,
    engine: Engine,
    timeout: float = 30.0,
    scale: float = 1.0,
) -> bytes:
    """The picture of a DOT text, laid out within `timeout` seconds.

    A PNG has `scale` times the pixels each way.
    SetupError: there is no such engine, or it failed. RunError: it took too long.
    """
    command = _command(engine, form)
    if scale != 1:
        head, brace, rest = source.partition("{")
        source = f"{head}{brace}\n\tgraph [dpi={_DPI * scale:g}]{rest}"
    try:
        # Run the program through the library, whose `graphviz.pipe` has no timeout.
        from graphviz.backend import execute  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs]

        run = cast(
            "Callable[..., subprocess.CompletedProcess[bytes]]",
            execute.run_check,  # pyright: ignore[reportUnknownMemberType] - it has no types
        )
        drawn = run(
            command, capture_output=True, quiet=True, input=source.encode(), timeout=timeout
        )
    except subprocess.TimeoutExpired:
        raise RunError(
            f"Graphviz did not lay the chart out within {timeout:g} s",
            hint="save it as `.mmd` or `.dot` and draw it elsewhere, or draw a smaller machine",
        ) from None
    except subprocess.CalledProcessError as error:
        raise _no_picture(engine, error.stderr) from None
    except (OSError, RuntimeError) as error:  # RuntimeError: `graphviz.ExecutableNotFound`
        raise SetupError(
            f"`{command[0]}` cannot be started: {error}", hint=install("diagrams")
        ) from None
    if not drawn.stdout:
        raise _no_picture(engine, drawn.stderr)
    return _for_pages(drawn.stdout) if form == "svg" else drawn.stdout


def _no_picture(engine: Engine, stderr: bytes) -> SetupError:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return SetupError(
        f"{engine} drew nothing: {lines[-1] if lines else 'it gave no reason'}",
        hint=f"see whether it is installed whole; or {install('diagrams')}",
    )


# `string=`, since a text that is not a graph would be taken for a file name
_PYGRAPHVIZ = (
    "import sys, pygraphviz\n"
    "graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode())\n"
    "sys.stdout.buffer.write(graph.draw(format=sys.argv[1], prog='dot'))"
)


def _command(engine: Engine, form: str) -> list[str]:
    if engine == "dot" and (program := shutil.which("dot")):
        return [program, f"-T{form}"]
    if engine == "pygraphviz" and importlib.util.find_spec("pygraphviz"):
        return [sys.executable, "-P", "-c", _PYGRAPHVIZ, form]
    missing = "there is no Graphviz" if engine == "mermaid" else f"{engine} is not installed"
    raise SetupError(f"{missing}: {form.upper()} cannot be drawn", hint=install("diagrams"))


def _for_pages(svg: bytes) -> bytes:
    """The SVG, corrected for browsers and scripts.

    Graphviz writes the weight of a font into its name, which browsers do not understand, and some
    versions write the hyphens of an id as codes. Neither text can occur in a label, where quotes
    are escaped.
    """
    bold = f'font-family="{FONT}" font-weight="bold"'.encode()
    for written in (f'font-family="{BOLD}" font-weight="bold"', f'font-family="{BOLD}"'):
        svg = svg.replace(written.encode(), bold)
    return re.sub(rb' id="[^"]*"', lambda found: found.group().replace(b"&#45;", b"-"), svg)

"""Runs the examples of other libraries on `coming-from.md`, and compares what they print.

    python docs/coming_from.py      # with langgraph, pydantic-ai-slim and burr installed

An example is a block of Python with a file name; the block of text after it is its output. The
chartloop examples of the page run in the test suite.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).with_name("coming-from.md")
_EXAMPLE = re.compile(
    r"^```python title=(\S+)\n(.*?)^```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL
)


def main() -> int:
    """How many examples print something else than the page says."""
    wrong = 0
    for name, code, expected in _EXAMPLE.findall(PAGE.read_text("utf-8")):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        same = done.stdout == expected
        print("as shown" if same else "DIFFERS ", name)
        if not same:
            wrong += 1
            print(done.stdout, done.stderr[-500:], sep="\n")
    return wrong


if __name__ == "__main__":
    sys.exit(main())

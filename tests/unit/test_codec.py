"""Values as JSON text, read back: by many threads at once."""

from __future__ import annotations

import subprocess
import sys

FIRST_READERS = '''
import sys, threading, types
import msgspec
from chartloop.core.codec import read

sys.setswitchinterval(1e-6)
SOURCE = """
class Inner(msgspec.Struct, frozen=True, gc=False):
    a: int
    b: 'list[str]'

class Outer(msgspec.Struct, frozen=True, gc=False):
    x: 'Inner'
    y: 'list[Inner]' = []
    z: 'dict[str, Inner]' = {}
"""
read_back = []
for number in range(200):
    module = types.ModuleType(f"made{number}")
    module.msgspec = msgspec
    sys.modules[module.__name__] = module
    exec(SOURCE, module.__dict__)
    together = threading.Barrier(4)
    def go():
        together.wait()
        read_back.append(read({"x": {"a": 1, "b": []}}, module.Outer, {}).x.a)
    threads = [threading.Thread(target=go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert read_back == [1] * 800
'''


def test_many_threads_may_be_the_first_to_read_a_type() -> None:
    """A process of its own: where it is wrong, msgspec crashes it."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_READERS], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")

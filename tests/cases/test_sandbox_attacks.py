"""Hostile code in the sandbox: each attack ends soon, with a clear word, and touches nothing.

Source: 001 "Code Execution" (restricted environment); design "traps", "pydantic-monty".
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop.adapters.sandbox.monty import CHECKPOINT, MontySandbox, Turn
from chartloop.run.ports import SandboxResult

pytestmark = pytest.mark.extra("pydantic_monty", install='pip install -e ".[sandbox]"')  # noqa: S610 - no Django

ALLOWED = 0.5
"""Seconds that the code of an attack is given."""


class Attack(NamedTuple):
    """Code, and how it ends."""

    id: str
    code: str
    error: str = ""
    """A part of what is said; empty when the code may end as it likes."""
    value: object = None
    """What the last expression gives, where the code is harmless after all."""


HOST = [
    Attack("open", "open('/etc/passwd').read()", "PermissionError"),
    Attack("open-to-write", "open('/tmp/escaped', 'w').write('x')", "PermissionError"),
    Attack("pathlib", "import pathlib\npathlib.Path('/etc/passwd').read_text()", "PermissionError"),
    Attack("list-a-folder", "import os\nos.listdir('/')", "Error"),
    Attack("environment", "import os\nos.environ['HOME']", "RuntimeError"),
    Attack("getenv", "import os\nos.getenv('HOME')", "RuntimeError"),
    Attack("system", "import os\nos.system('id')", "AttributeError"),
    Attack("fork", "import os\nos.fork()", "AttributeError"),
    Attack("socket", "import socket", "ModuleNotFoundError"),
    Attack("urllib", "import urllib.request", "ModuleNotFoundError"),
    Attack("subprocess", "import subprocess", "ModuleNotFoundError"),
    Attack("ctypes", "import ctypes", "ModuleNotFoundError"),
    Attack("pickle", "import pickle", "ModuleNotFoundError"),
    Attack("importlib", "import importlib", "ModuleNotFoundError"),
    Attack("the-host's-modules", "import chartloop", "ModuleNotFoundError"),
    Attack("builtins", "__builtins__", "NameError"),
    Attack("import-function", "__import__('os').system('id')", "NameError"),
    Attack("modules", "import sys\nsys.modules", "AttributeError"),
    Attack("subclasses", "().__class__.__base__.__subclasses__()", "AttributeError"),
    Attack("globals-of-a-function", "(lambda: 0).__globals__", "AttributeError"),
    Attack("code-of-a-function", "(lambda: 0).__code__", "AttributeError"),
    Attack("format-string", "'{0.__class__.__mro__}'.format(1)", "AttributeError"),
    Attack("traceback", "try: 1 / 0\nexcept Exception as e: e.__traceback__.tb_frame", "Attribute"),
    Attack("exec", "exec('import socket')", "ModuleNotFoundError"),
    Attack("eval", "eval('__import__(\"os\")')", "NameError"),
    Attack("compile", "compile('1', '', 'eval')", "NameError"),
    Attack("host-function", "fetch('http://localhost')", "NameError"),
    Attack("await-a-host-function", "await fetch('http://localhost')", "NameError"),
    Attack("input", "input('password: ')", "Error"),
    Attack("exit", "import sys\nsys.exit(0)", "AttributeError"),
    Attack("system-exit", "raise SystemExit(0)", "Error"),
    Attack("keyboard-interrupt", "raise KeyboardInterrupt()", "KeyboardInterrupt"),
]

TIME = [
    Attack("loop", "while True: pass", "TimeoutError"),
    Attack("loop-that-catches", "while True:\n try:\n  while True: pass\n except BaseException: pass", "TimeoutError"),
    Attack("loop-in-exec", "exec('while True: pass')", "TimeoutError"),
    Attack("loop-in-a-sort", "sorted([3, 1, 2], key=lambda x: [0 for _ in iter(int, 1)])", "Error"),
    Attack("sum", "sum(range(10**12))", "TimeoutError"),
    Attack("in-range", "2.5 in range(10**15)", ""),
    Attack("any", "any(False for _ in range(10**12))", "Error"),
    Attack("async-loop", "async def f():\n    while True: pass\nawait f()", "TimeoutError"),
    Attack("async-sleep", "import asyncio\nawait asyncio.sleep(10**6)\n'awake'", value="awake"),
    Attack("sleep", "import time\ntime.sleep(10**6)\n'awake'", value="awake"),
    Attack("many-sleeps", "import time\nwhile True: time.sleep(1)", "Error"),
    Attack("many-refused-calls", "while True:\n try: open('x')\n except OSError: pass", "suspension limit"),
    Attack("slow-refused-calls", "while True:\n for i in range(10**5): pass\n try: open('x')\n except OSError: pass", "TimeoutError"),
    Attack("regex", "import re\nre.match('(a+)+$', 'a' * 5000 + 'b')", ""),
    Attack("regex-with-lookback", "import re\nre.match(r'(a*)*\\1b', 'a' * 5000)", ""),
    Attack("regex-counts", "import re\nre.compile('((a{1,1000}){1,1000}){1,1000}')", ""),
    Attack("digits-of-an-int", "str(2 ** 200_000_000)", "Error"),
    Attack("int-of-digits", "int('9' * 10**7)", "ValueError"),
    Attack("factorial", "import math\nmath.factorial(10**7)", "Error"),
    Attack("power-of-powers", "x = 3\nwhile True: x = x ** 3", "Error"),
    Attack("modular-power", "pow(3, 10**10_000, 10**10_000 + 7)", ""),
    Attack("string-search", "('a' * 10**6).count('a' * 5000 + 'b')", ""),
]  # fmt: skip

MEMORY = [
    Attack("text", "'a' * 10**10", "MemoryError"),
    Attack("bytes", "bytes(10**10)", "MemoryError"),
    Attack("list", "[0] * 10**10", "MemoryError"),
    Attack("list-growth", "x = []\nwhile True: x.append('a' * 10**5)", "Error"),
    Attack("doubling", "x = 'a'\nwhile True: x += x", "Error"),
    Attack("doubling-that-catches", "x = 'a'\nwhile True:\n try: x += x\n except MemoryError: pass", "Error"),
    Attack("join", "'x'.join(['a' * 10**7] * 1000)", "MemoryError"),
    Attack("mapping", "{i: str(i) * 100 for i in range(10**9)}", "Error"),
    Attack("huge-int", "2 ** 10**9", "MemoryError"),
    Attack("shift", "1 << 10**11", "Error"),
    Attack("power-tower", "10 ** 10 ** 10", "Error"),
    Attack("padding", "''.zfill(10**10)", "MemoryError"),
    Attack("format", "f'{1:>9999999999}'", "MemoryError"),
    Attack("percent-format", "'%9999999999d' % 1", "MemoryError"),
    Attack("replace", "('a' * 10**6).replace('a', 'b' * 10**6)", "Error"),
    Attack("range-to-list", "list(range(10**12))", "Error"),
    Attack("product", "import itertools\nlist(itertools.product(range(100), repeat=50))", "Error"),
    Attack("cycles", "while True:\n x = []\n x.append(x)", "TimeoutError"),
    Attack("globals", "for i in range(10**7): exec(f'v{i} = {i}')", "Error"),
    Attack("decimal", "import decimal\ndecimal.Decimal(10) ** 10**9", ""),
    Attack("json", "import json\njson.loads('[' * 10**6)", "JSONDecodeError"),
    Attack("json-of-itself", "import json\nx = []\nx.append(x)\njson.dumps(x)", "Error"),
]  # fmt: skip

STACK = [
    Attack("recursion", "def f(n): return f(n + 1)\nf(0)", "RecursionError"),
    Attack("recursion-by-turns", "def f(): return g()\ndef g(): return f()\nf()", "RecursionError"),
    Attack(
        "recursion-that-catches", "def f():\n try: f()\n except RecursionError: f()\nf()", "Error"
    ),
    Attack(
        "recursive-text", "class A:\n def __repr__(self): return repr(self)\nrepr(A())", "Error"
    ),
    Attack("recursive-equality", "a = []\na.append(a)\nb = []\nb.append(b)\na == b", ""),
    Attack("deep-equality", "a, b = [], []\nfor i in range(10**5): a, b = [a], [b]\na == b", ""),
    Attack("deep-text", "a = []\nfor i in range(10**5): a = [a]\nstr(a)", ""),
    Attack("deep-value", "a = []\nfor i in range(10**5): a = [a]\na", ""),
    Attack("nested-brackets", "(" * 10_000 + ")" * 10_000, "SyntaxError"),
    Attack("open-brackets", "[" * 100_000, "SyntaxError"),
    Attack("nested-blocks", "".join(" " * n + "if 1:\n" for n in range(1_000)), "Error"),
    Attack("long-expression", "+".join(["1"] * 50_000), ""),
    Attack("unary", "-" * 50_000 + "1", ""),
    Attack("attributes", "a" + ".b" * 50_000, "Error"),
    Attack("nested-eval", "s = '1'\nfor i in range(100): s = f'eval({s!r})'\neval(s)", ""),
    Attack("decorators", "@a\n" * 10_000 + "def f(): pass", "Error"),
]

TEXT = [
    Attack("nul", "x\0y", "SyntaxError"),
    Attack("half-a-character", "x = '\ud800'", "UTF-8"),
    Attack("half-a-character-escaped", "x = '\\ud800'\nprint(x)\nx", ""),
    Attack("half-a-character-raised", "raise ValueError('\\ud800')", "ValueError"),
    Attack("bad-encoding", "# coding: utf-7\n+AHgAPQAx-", ""),
    Attack("bidi", "x = '\u202e'\nx", value="\u202e"),
    Attack("escapes", "raise ValueError('\\x1b[2J' * 10)", "ValueError"),
    Attack("megabyte-raised", "raise ValueError('a' * 10**6)", "ValueError"),
    Attack("megabyte-name", "a" * 500_000, "NameError"),
    Attack("empty", "", value=None),
]

FLOOD = [
    Attack("print", "while True: print('x' * 1000)", "TimeoutError"),
    Attack("print-nothing", "while True: print()", "TimeoutError"),
    Attack("print-to-stderr", "import sys\nwhile True: print('x' * 1000, file=sys.stderr)", "Timeout"),
    Attack("one-large-print", "print('x' * 5_000_000)\n'done'", value="done"),
    Attack("large-text", "'x' * 30_000_000", ""),
    Attack("large-list", "[1] * 1_000_000", ""),
    Attack("billion-laughs", "a = ['lol'] * 10\nfor i in range(30): a = [a] * 10\na", ""),
    Attack("laughs-in-tuples", "a = {1}\nfor i in range(30): a = (a,) * 10\na", ""),
    Attack("laughs-in-an-object", "class A: pass\na = A()\na.x = 1\nfor i in range(30): a.x = [a.x] * 9\na", ""),
    Attack("laughs-in-an-error", "a = ['lol']\nfor i in range(30): a = [a] * 10\nraise ValueError(a)", "Error"),
    Attack("large-session", "x = ['a' * 1000 + str(i) for i in range(10_000)]", "to keep"),
]  # fmt: skip

ATTACKS = [*HOST, *TIME, *MEMORY, *STACK, *TEXT, *FLOOD]


@pytest.fixture(scope="module")
def box() -> MontySandbox:
    return MontySandbox()


async def watched(
    box: MontySandbox, code: str, allowed: float = ALLOWED
) -> tuple[SandboxResult, int]:
    """The result, and how often the event loop came round meanwhile."""
    rounds = 0

    async def watch() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0.005)
            rounds += 1

    watching = asyncio.create_task(watch())
    try:
        return await box.run(code, session=None, timeout=allowed), rounds
    finally:
        watching.cancel()


@pytest.mark.slow("starts processes for seconds")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_an_attack_is_contained(box: MontySandbox, attack: Attack) -> None:
    # on a busy machine what asks for too much memory, or too often, may not come to it in time
    counted = attack.error in ("MemoryError", "suspension limit")
    allowed = 20 * ALLOWED if counted else ALLOWED
    done, rounds = asyncio.run(watched(box, attack.code, allowed))
    assert rounds or not done.error.startswith("TimeoutError")
    assert attack.error in done.error
    assert done.ok == (done.error == "")
    assert attack.value in (None, done.value)
    shown = [done.value, done.stdout, done.stderr, done.error]
    written = json.dumps(shown, allow_nan=False, ensure_ascii=False).encode()
    assert len(written) < 2_000_000
    assert len(done.error) < 10_000
    assert len(done.session or b"") <= CHECKPOINT + 100


def test_the_host_is_as_it_was(box: MontySandbox) -> None:
    before = dict(os.environ)
    for attack in HOST:
        asyncio.run(box.run(attack.code, session=None, timeout=ALLOWED))
    assert dict(os.environ) == before
    assert not Path("/tmp/escaped").exists()


@pytest.mark.slow("starts processes for seconds")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_host_s_memory_stays_small() -> None:
    # not ru_maxrss: after a fork it starts at what the parent had
    program = (
        "import asyncio, json, re, sys\n"
        "from pathlib import Path\n"
        "from chartloop.adapters.sandbox.monty import MontySandbox\n"
        "for code in json.load(sys.stdin):\n"
        "    asyncio.run(MontySandbox().run(code, session=None, timeout=0.5))\n"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1])"
    )
    codes = json.dumps([attack.code for attack in (*MEMORY, *FLOOD)])
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=codes, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert int(done.stdout) < 400_000  # kB


def test_attacks_in_a_row_leave_the_session_as_it_was(box: MontySandbox) -> None:
    async def drive() -> SandboxResult:
        kept = (await box.run("x = [1, 2]", session=None, timeout=1)).session
        for code in (
            "while True: pass",
            "x = 'a' * 10**10",
            "x.append(3)\n'a'.join(['a' * 10**8])",
        ):
            done = await box.run(code, session=kept, timeout=0.2)
            assert done.session_lost is False
            kept = done.session or kept
        return await box.run("x", session=kept, timeout=5)

    assert asyncio.run(drive()).value in ([1, 2], [1, 2, 3])


def test_a_worker_that_has_ended_is_stopped_again_in_silence() -> None:
    """Its own memory limit may end a worker in the moment in which its time is up."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
        turn = Turn(MontySandbox().limits, "1", None, 1.0)
        turn.worker = ended.pid
        turn.stop()

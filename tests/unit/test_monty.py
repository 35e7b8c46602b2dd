"""The sandbox runs code, keeps its variables between turns, and says what became of them."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.adapters.sandbox.monty import (
    AS_BEFORE,
    LOST,
    POLICY,
    MontySandbox,
    seal,
    unseal,
)
from chartloop.adapters.sandbox.monty_values import PRINTED, VALUE, Printed, as_json, text_of
from chartloop.core.errors import SetupError
from chartloop.extras import install
from chartloop.run.ports import Sandbox, SandboxResult
from tests.effort import calls

needs_monty = pytest.mark.extra("pydantic_monty", install='pip install -e ".[sandbox]"')  # noqa: S610 - no Django


@pytest.fixture
def box() -> Sandbox:
    return MontySandbox()


def run(
    box: Sandbox, *turns: str, session: bytes | None = None, timeout: float | None = 20
) -> list[SandboxResult]:
    """The turns one after the other, each from the checkpoint of the one before."""

    async def drive() -> list[SandboxResult]:
        results: list[SandboxResult] = []
        kept = session
        for code in turns:
            done = await box.run(code, session=kept, timeout=timeout)
            kept = done.session if done.session or done.session_lost else kept
            results.append(done)
        return results

    return asyncio.run(drive())


# -- turns --------------------------------------------------------------------------------------


@needs_monty
def test_what_a_turn_gives(box: Sandbox) -> None:
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n{'a': [1, (2.5, None)]}"
    (done,) = run(box, code)
    assert done._replace(session=None) == SandboxResult(
        ok=True, value={"a": [1, [2.5, None]]}, stdout="out\n", stderr="err\n"
    )
    assert done.session is not None
    assert box.suspends


@needs_monty
def test_variables_functions_and_classes_live_on(box: Sandbox) -> None:
    *_, last = run(
        box,
        "import math\nx = [1]\ndef double(n):\n    return n * 2",
        "class Point:\n    def __init__(self, a):\n        self.a = a\np = Point(7)\nx.append(2)",
        "(double(x[1]), p.a, math.floor(2.5), Point(8).a)",
    )
    assert last.value == [4, 7, 2, 8]


@needs_monty
def test_an_error_is_told_as_python_tells_it_and_keeps_what_was_done(box: Sandbox) -> None:
    failed, after = run(box, "x = 1\nprint('so far')\ny = x / 0\nz = 1", "x")
    assert (failed.ok, failed.value, failed.stdout) == (False, None, "so far\n")
    assert failed.error.splitlines() == [
        "Traceback (most recent call last):",
        '  File "<python-input-0>", line 3, in <module>',
        "    y = x / 0",
        "        ~~~~~",
        "ZeroDivisionError: division by zero",
    ]
    assert after.value == 1


@needs_monty
def test_an_error_names_the_line_of_the_turn_that_defined_the_function(box: Sandbox) -> None:
    *_, failed = run(box, "def f():\n    return 1 / 0", "f()")
    assert 'File "<python-input-0>", line 2, in f' in failed.error


@needs_monty
def test_code_that_cannot_be_read_changes_nothing(box: Sandbox) -> None:
    _, failed, after = run(box, "x = 1", "x = 2\ndef", "x")
    assert "SyntaxError" in failed.error
    assert "line 2" in failed.error
    assert after.value == 1


class Cut(NamedTuple):
    """Code that is stopped in the middle, and what is said of it."""

    id: str
    code: str
    says: str
    timeout: float = 20


CUT = [
    Cut("time", "x = 2\nwhile True: pass", "TimeoutError: the code was stopped after 300 ms", 0.3),
    Cut("no-time", "x = 2", "TimeoutError: no time is left", 0),
    Cut("memory", "x = 2\n'a' * 10**10", "MemoryError: memory limit exceeded"),
    Cut("crash", "x = 2\n' '.join(['a' * 10**6] * 500)", "MemoryError"),
    Cut("too-much-to-keep", "x = 2\ny = list(range(10**6))", "take over 4,000,000 bytes"),
    Cut("too-much-to-write-down", "x = 2\ny = 'a' * (100 * 2**20)", "take over 4,000,000"),
]


@needs_monty
@pytest.mark.parametrize("case", CUT, ids=lambda case: case.id)
def test_a_turn_that_is_cut_leaves_the_variables_as_they_were(box: Sandbox, case: Cut) -> None:
    (before,) = run(box, "x = 1")
    (done,) = run(box, case.code, session=before.session, timeout=case.timeout)
    assert (done.ok, done.session, done.session_lost) == (False, None, False)
    assert case.says in done.error
    assert done.error.endswith(AS_BEFORE)
    (after,) = run(box, "x", session=before.session)
    assert after.value == 1


@needs_monty
def test_the_output_before_a_cut_is_kept(box: Sandbox) -> None:
    (done,) = run(box, "print('here')\nwhile True: pass", timeout=0.5)
    assert done.stdout == "here\n"
    assert done.timed_out


@needs_monty
def test_a_short_turn_does_not_shorten_the_next(box: Sandbox) -> None:
    (before,) = run(box, "x = 1", timeout=0.3)
    (done,) = run(box, "for i in range(3_000_000): x += i\nx > 1", session=before.session)
    assert done.value is True


@needs_monty
def test_the_time_of_the_sandbox_is_for_turns_without_their_own() -> None:
    (done,) = run(MontySandbox(timeout=0.2), "while True: pass", timeout=None)
    assert "after 200 ms" in done.error
    assert not done.timed_out  # nobody asked for that


@needs_monty
def test_the_tighter_limits_of_box_and_checkpoint_hold() -> None:
    large, small = MontySandbox(memory=256 * 2**20), MontySandbox(memory=64 * 2**20)
    from_large, from_small = run(large, "x = 1")[0].session, run(small, "x = 1")[0].session
    much = "len('a' * (100 * 2**20))"
    assert run(large, much, session=from_large)[0].ok
    for box, session in ((small, from_large), (large, from_small), (small, from_small)):
        assert "MemoryError" in run(box, much, session=session)[0].error


def damaged(session: bytes) -> bytes:
    return session[:-1] + bytes([session[-1] ^ 1])


def cut(session: bytes) -> bytes:
    return session[:-10]


def payload_of(session: bytes) -> bytes:
    payload = unseal(session)
    assert payload is not None
    return payload


def of_another_version(session: bytes) -> bytes:
    return seal(b"MONTY\0\x01" + payload_of(session)[7:])


def instead(other: bytes) -> Callable[[bytes], bytes]:
    return lambda session: other if session else session


class Unreadable(NamedTuple):
    """A checkpoint made from a good one that nothing can be done with."""

    id: str
    make: Callable[[bytes], bytes]


UNREADABLE = [
    Unreadable("empty", instead(b"")),
    Unreadable("foreign", instead(b"not a checkpoint")),
    Unreadable("pickle", instead(b"\x80\x04cos\nsystem\n(S'id'\ntR.")),
    Unreadable("one-bit", damaged),
    Unreadable("cut", cut),
    Unreadable("unsealed", payload_of),
    Unreadable("sealed-and-foreign", instead(seal(b"MONTY\0\xff"))),
    Unreadable("of-another-version", of_another_version),
    Unreadable("too-large", instead(seal(b"a" * 5_000_000))),
]


@needs_monty
@pytest.mark.parametrize("case", UNREADABLE, ids=lambda case: case.id)
def test_variables_are_lost_when_their_checkpoint_cannot_be_read(
    box: Sandbox, case: Unreadable
) -> None:
    (before,) = run(box, "x = 1")
    assert before.session is not None
    bad = case.make(before.session)
    (done,) = run(box, "y = 2\ny", session=bad)
    assert (done.ok, done.value, done.session_lost, done.stderr) == (True, 2, True, LOST)
    (failed,) = run(box, "x", session=bad)
    assert (failed.ok, failed.session_lost) == (False, True)
    assert "NameError: name 'x' is not defined" in failed.error
    (after,) = run(box, "y", session=done.session)
    assert (after.value, after.session_lost) == (2, False)


@given(st.binary(max_size=200))
def test_what_is_sealed_is_unsealed_and_nothing_else(payload: bytes) -> None:
    assert unseal(seal(payload)) == payload
    assert unseal(payload) is None
    assert unseal(damaged(seal(payload))) is None


@needs_monty
def test_long_code_is_not_run(box: Sandbox) -> None:
    (done,) = run(box, "x = 1\n" + "#" * 1_000_000)
    assert done == SandboxResult(
        ok=False, error="the code is 1,000,006 characters long; at most 1,000,000 are run"
    )


@needs_monty
def test_a_long_trace_is_cut(box: Sandbox) -> None:
    source = "\n".join(f"def f{n}(): return f{n + 1}()" for n in range(200))
    (done,) = run(box, f"{source}\ndef f200(): return 1 / 0\nf0()")
    lines = done.error.splitlines()
    assert lines[0].startswith("Traceback")
    assert lines[-1].startswith("ZeroDivisionError")
    assert len(lines) == 40


@needs_monty
def test_turns_at_once_do_not_see_each_other(box: Sandbox) -> None:
    async def one(n: int) -> Any:
        first = await box.run(f"x = {n}", session=None, timeout=20)
        return (await box.run("x", session=first.session, timeout=20)).value

    async def drive() -> list[Any]:
        return await asyncio.gather(*(one(n) for n in range(20)))

    assert asyncio.run(drive()) == list(range(20))


@needs_monty
def test_the_loop_goes_on_while_code_runs_and_a_cancelled_turn_ends(box: Sandbox) -> None:
    async def drive() -> None:
        turn = asyncio.create_task(box.run("while True: pass", session=None, timeout=3600))
        await asyncio.sleep(0.3)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(drive())  # it hangs where the turn is waited for


@pytest.mark.slow("starts processes for seconds")
@needs_monty
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_has_no_environment_and_does_not_outlive_its_turn(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")

    def children() -> set[str]:
        found: set[str] = set()
        for path in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
            with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
                found.update(path.read_text().split())
        return found

    before = children()  # those of other tests: what `multiprocessing` starts lives as we do

    def workers() -> list[Path]:
        return [Path(f"/proc/{pid}") for pid in children() - before]

    async def drive() -> None:
        turn = asyncio.create_task(box.run("while True: pass", session=None, timeout=4))
        while not (found := workers()):  # noqa: ASYNC110 - a process comes without an event
            await asyncio.sleep(0.01)
        with anyio.fail_after(3.5):  # until it has become the worker's program, it has ours
            while (found[0] / "environ").read_bytes():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await turn
        with anyio.fail_after(10):
            while workers():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    asyncio.run(drive())


# -- what is installed --------------------------------------------------------------------------


def python(code: str, **environment: str) -> str:
    inherited = {k: v for k, v in os.environ.items() if k != "MONTY_BIN"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**inherited, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_without_the_extra_the_module_is_there_and_the_sandbox_says_how_to_get_it() -> None:
    code = (
        "import sys\n"
        "sys.modules['pydantic_monty'] = None\n"
        "from chartloop.adapters.sandbox.monty import MontySandbox\n"
        "try: MontySandbox()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    said = python(code)
    assert said.startswith("SetupError the sandbox is not installed")
    assert install("sandbox") in said


@needs_monty
def test_the_module_alone_imports_nothing_of_monty() -> None:
    code = "import sys, chartloop.adapters.sandbox.monty\nprint('pydantic_monty' in sys.modules)"
    assert python(code) == "False\n"


@needs_monty
def test_a_worker_that_cannot_be_started_says_so(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MONTY_BIN", str(tmp_path / "monty"))
    with pytest.raises(SetupError, match="the sandbox does not start"):
        run(MontySandbox(), "1")


AFTER_A_TURN = "asyncio.run(BOX.run('1', session=None, timeout=9))"
CANCELLED = """
async def go():
    turn = asyncio.create_task(BOX.run(LOOP, session=None, timeout=200))
    await asyncio.sleep(0.1)
asyncio.run(go())
"""
IN_A_TURN = """
def go(): asyncio.run(BOX.run(LOOP, session=None, timeout=200))
threading.Thread(target=go, daemon=True).start()
time.sleep(0.1)
"""


@pytest.mark.slow("starts processes for seconds")
@needs_monty
@pytest.mark.parametrize(
    "end", [AFTER_A_TURN, CANCELLED, IN_A_TURN], ids=["after-a-turn", "cancelled", "in-a-turn"]
)
def test_a_process_ends_well_and_at_once(end: str) -> None:
    """Several of each: through Monty's own event loop one in six of them was aborted."""
    code = (
        "import asyncio, threading, time\n"
        "from chartloop.adapters.sandbox.monty import MontySandbox\n"
        "BOX = MontySandbox()\n"
        f"LOOP = 'while True: pass'\n{end}\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(8)]
    assert [process.wait(100) for process in processes] == [0] * 8


# -- values -------------------------------------------------------------------------------------


class Colour:
    """Something with a name and attributes, as Monty shows an object of the code's own class."""

    name = "Colour"

    def __init__(self, **attributes: Any) -> None:
        self.attributes = attributes


class Shown(NamedTuple):
    """A value and what becomes of it."""

    id: str
    value: Any
    shown: Any


SHOWN = [
    Shown("data", {"a": [1, 2.5, "x", None, True]}, {"a": [1, 2.5, "x", None, True]}),
    Shown("tuple", (1, (2,)), [1, [2]]),
    Shown("set", {1}, "{1}"),
    Shown("set-inside", {"a": {1}}, "{'a': {1}}"),
    Shown("frozenset", frozenset({1}), "frozenset({1})"),
    Shown("nan", math.nan, "nan"),
    Shown("infinity-inside", [math.inf], "[inf]"),
    Shown("bytes", b"\0a", "b'\\x00a'"),
    Shown("keys-that-are-no-text", {1: 2}, "{1: 2}"),
    Shown("large-int", 10**300, 10**300),
    Shown("larger-int", 10**2_000, repr(10**2_000)),
    Shown("enormous-int", 10**5_000, "<an int of 16,610 bits>"),
    Shown("date", date(2026, 1, 2), "datetime.date(2026, 1, 2)"),
    Shown("path", PurePosixPath("a"), "PurePosixPath('a')"),
    Shown("error", ValueError("x"), "ValueError('x')"),
    Shown("object", Colour(a=1, b={2}), "<Colour object 'a': 1, 'b': {2}>"),
    Shown("unknown", object(), "<object>"),
    Shown("long-text", "a" * (VALUE + 1), "a" * VALUE + "…"),
    Shown("text-that-just-fits", "a" * VALUE, "a" * VALUE),
]


@pytest.mark.parametrize("case", SHOWN, ids=lambda case: case.id)
def test_values(case: Shown) -> None:
    assert as_json(case.value) == case.shown


def doubled(start: Any, wrap: Callable[[Any], Any]) -> Any:
    for _ in range(60):
        start = wrap(start)
    return start


ENORMOUS = [
    Shown("lists", doubled(["lol"], lambda v: [v, v]), None),
    Shown("wide-lists", doubled([], lambda v: [v] * 100), None),
    Shown("tuples-of-sets", doubled({1}, lambda v: (v, v)), None),
    Shown("mappings", doubled({}, lambda v: {"a": v, "b": v}), None),
    Shown("objects", doubled(Colour(), lambda v: Colour(a=v, b=v)), None),
    Shown("errors", doubled(ValueError(), lambda v: ValueError(v, v)), None),
    Shown("long", list(range(10**6)), None),
    Shown("long-keys", {"a" * 10**6: 1}, None),
    Shown("long-texts", ["a" * 10**6] * 10**3, None),
    Shown("long-bytes", [b"a" * 10**6] * 10**3, None),
]


@pytest.mark.parametrize("case", ENORMOUS, ids=lambda case: case.id)
def test_values_that_are_enormous_when_written_out_are_cut(case: Shown) -> None:
    shown = as_json(case.value)
    assert isinstance(shown, str)
    assert len(shown) <= VALUE + 1
    assert calls(lambda: as_json(case.value)) < 1_000_000


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(ANYTHING)
def test_every_value_becomes_json_or_its_text(value: Any) -> None:
    shown = as_json(value)
    written = json.dumps(shown, allow_nan=False)
    assert json.loads(written) == shown
    assert shown == value or isinstance(shown, (str, list, dict))


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(
    st.recursive(
        st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_the_text_of_plain_data_is_that_of_python(value: Any) -> None:
    assert text_of(value) == repr(value)


# -- output -------------------------------------------------------------------------------------


def test_output_is_kept_by_stream_and_cut() -> None:
    printed = Printed()
    printed.write("stdout", "a" * (PRINTED - 1))
    printed.write("stderr", "e")
    printed.write("stdout", "b")
    assert printed.text("stdout") == "a" * (PRINTED - 1) + "b"
    printed.write("stdout", "")
    assert "cut" not in printed.text("stdout")
    printed.write("stdout", "c" * 10)
    printed.write("stdout", "d" * 100)
    whole, _, note = printed.text("stdout").partition("\n")
    assert whole == "a" * (PRINTED - 1) + "b"
    assert note == "… cut here: at most 65,536 bytes are kept\n"
    assert printed.text("stderr") == "e"


@given(st.lists(st.text(st.characters(exclude_categories=()))))
def test_output_that_fits_comes_whole_and_can_be_written(pieces: list[str]) -> None:
    printed = Printed()
    for piece in pieces:
        printed.write("stdout", piece)
    whole = "".join(pieces).encode("utf-8", "replace").decode()
    assert printed.text("stdout") == whole


def test_output_is_cut_between_characters() -> None:
    printed = Printed()
    printed.write("stdout", "状" * PRINTED)
    printed.write("stdout", "a" * 10 * PRINTED)
    kept = printed.text("stdout").partition("\n")[0]
    assert kept == "状" * (PRINTED // 3)


@needs_monty
def test_a_flood_is_cut_and_the_code_goes_on(box: Sandbox) -> None:
    (done,) = run(box, "for i in range(3000): print('x' * 100)\n'done'")
    assert done.value == "done"
    assert len(done.stdout) < PRINTED + 100
    assert "… cut here" in done.stdout


@needs_monty
def test_every_bound_that_monty_knows_is_set() -> None:
    """All are off until somebody sets them, those of later versions too."""
    from pydantic_monty import OSPolicy, ResourceLimits  # noqa: PLC0415

    limits = MontySandbox().limits
    assert limits.keys() == ResourceLimits.__annotations__.keys()
    assert None not in limits.values()
    assert POLICY.keys() == OSPolicy.__annotations__.keys() - {"sleep_system_max"}
    assert "call_host" not in POLICY.values()

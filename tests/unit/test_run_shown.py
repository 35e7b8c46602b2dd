"""Machine, Run and Result as a notebook shows them; copied, pickled; every async face."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest

from chartloop import load
from chartloop.api import Machine, Run
from chartloop.core.errors import RunError, StatusError
from chartloop.core.outcome import Outcome
from chartloop.testing.clock import ManualClock
from tests.support import start
from tests.talks import machine, talk

END = "  z: {stop: completed}\n"
ASK = (
    "states:\n  a: {do: receive, next: b}\n  b: {do: infer, next: w}\n  w: {ask: Well?, on: {yes: z}}\n"
    + END
)
LINE = "vars: {n: 0}\nstates:\n  a: {do: act, next: b}\n  b: {do: act, next: z}\n" + END


def ended(reply: str = "four") -> Run:
    run = talk(ASK, [reply], run_id="r")
    run.run()
    run.send("yes")
    run.run()
    return run


class TestShown:
    """One line each: a wall of facts is what nobody reads."""

    def test_a_run(self) -> None:
        run = talk(ASK, ["four"], run_id="r")
        assert repr(run) == "<Run r of m: idle at a, 0 steps>"
        run.advance()
        run.advance()
        assert repr(run) == "<Run r of m: running at b, 1 step>"

    def test_a_result(self) -> None:
        run = talk(ASK, ["four"])
        assert repr(run.result) == "<Result of m: waiting at a, 0 steps>"
        assert (
            repr(ended().result)
            == "<Result of m: completed (natural) at z, 2 steps, output 'four'>"
        )

    def test_one_step_is_one(self) -> None:
        run = start("states:\n  a: {do: act, next: z}\n" + END, clock=ManualClock())
        assert "after 1 step and" in run.run().explain()

    def test_a_long_output_is_cut(self) -> None:
        assert len(repr(ended("four " * 1000).result)) < 120

    def test_a_replay(self) -> None:
        run = ended()
        assert repr(run.replay()) == "<Replay of 4 records: all as they were recorded>"
        other = talk(ASK.replace("next: w}", "next: z}"))
        run.machine = other.machine
        assert repr(run.replay()).startswith("<Replay of 2 records: record 2 at b: ")

    def test_a_run_as_data(self) -> None:
        kept = pickle.loads(pickle.dumps(ended()))  # noqa: S301  our own data
        assert repr(kept) == "<DetachedRun r of m: completed at z>"

    @pytest.mark.parametrize("cls", [Machine, Run])
    def test_every_public_name_says_what_it_is(self, cls: type) -> None:
        named = {n: m for n, m in vars(cls).items() if not n.startswith("_")}
        assert [n for n, m in named.items() if callable(m) and not inspect.getdoc(m)] == []
        assert inspect.getdoc(cls)


class TestCopied:
    def test_a_machine_is_its_own_copy(self) -> None:
        made = machine(ASK)
        assert copy.copy(made) is copy.deepcopy(made) is made

    @pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
    def test_a_run_is_not_copied(self, how: Any) -> None:
        with pytest.raises(RunError, match="cannot be copied") as caught:
            how(talk(ASK))
        assert "fork" in caught.value.hint

    def test_a_machine_pickles_with_its_findings_and_folder(self, tmp_path: Path) -> None:
        file = tmp_path / "m.yaml"
        file.write_text(
            "chartloop: 1\nmachine: m\nmodel: {name: openai/gpt-4o}\nstates:\n"
            "  a: {do: receive, next: b}\n"
            "  b: {do: infer, next: [{when: last.finish_reason == 'length', to: b}, {to: z}]}\n"
            + END
        )
        made = load(file)
        again: Machine = pickle.loads(pickle.dumps(made))  # noqa: S301  our own data
        assert (again.hash, again.folder) == (made.hash, tmp_path)
        assert [f.code for f in again.findings] == ["CL316"]
        assert again.findings == made.findings

    def test_a_result_pickles(self) -> None:
        result = ended().result
        assert pickle.loads(pickle.dumps(result)) == result  # noqa: S301  our own data


class TestFaces:
    def test_what_writes_or_reads_the_journal_has_both(self) -> None:
        names = {n for n in dir(Run) if callable(getattr(Run, n)) and not n.startswith("_")}
        assert "arecords" in names
        sync = {n for n in names if not (n.startswith("a") and n[1:] in dir(Run))}
        assert sync - {n for n in sync if f"a{n}" in names} == {
            "listen",
            "next",
            "draw",
        }

    def test_all_of_them_at_once(self) -> None:
        async def main() -> None:
            run = start(LINE)
            await run.aadvance()
            await run.apause()
            await run.aadvance()
            assert run.status == "paused"
            await run.aresume()
            await run.aadvance()
            await run.aset("vars.n", 3)
            assert (await run.awhy(0)).decision.path == ("a",)
            await run.aback()
            assert run.facts.vars["n"] == 0
            assert (await run.areplay()).same
            await run.acancel(message="enough")
            assert (await run.arun()).reason == "user_requested"

        asyncio.run(main())

    def test_after_its_end_the_way_on_is_named(self) -> None:
        run = start(
            "states:\n  a: {do: act, next: z}\n" + END, {"a": [Outcome()]}, clock=ManualClock()
        )
        run.run()
        with pytest.raises(StatusError) as caught:
            run.pause()
        assert "next" in caught.value.hint

"""The live picture of a run follows it, however it is driven."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from chartloop import Run, live, load, tool
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.errors import StatusError
from chartloop.extras import install
from chartloop.pictures.live.bundle import part_around
from chartloop.pictures.live.live_picture import LivePicture
from chartloop.pictures.live.progress import Standing
from chartloop.pictures.picture import Picture
from chartloop.testing import ManualClock
from chartloop.ui.notebook import live as live_module
from chartloop.ui.notebook.live import Live

pytestmark = pytest.mark.extra(  # noqa: S610 - no Django
    "pygraphviz", install='pip install -e ".[diagrams]"'
)
MARIMO = pytest.mark.extra("marimo", install="pip install marimo")  # noqa: S610 - no Django
LOOP = """
chartloop: 1
machine: loop
vars: {n: 0}
limits: {turns: 3}
states:
  work: {do: nothing, set: {vars.n: vars.n + 1}, next: again}
  again: {ask: "Done {limits.turns} turns?", when: vars.n >= limits.turns, then: done, else: work}
  done: {stop: completed}
"""
ASKS = """
chartloop: 1
machine: asks
states:
  ask: {do: nothing, next: wait}
  wait: {label: Wait, on: {yes: {to: done}}}
  done: {stop: completed}
"""


class Recorded:
    """A screen that keeps what it was given."""

    def __init__(self) -> None:
        self.shown: list[Mapping[str, Any]] = []
        self.updates: list[Mapping[str, Any]] = []

    def show(self, bundle: Mapping[str, Any]) -> None:
        self.shown.append(bundle)

    def update(self, bundle: Mapping[str, Any]) -> None:
        self.updates.append(bundle)

    @property
    def now(self) -> str:
        """The line that marks where the run is, as it was painted last."""
        (line,) = (x for x in self.updates[-1]["text/plain"].splitlines() if x.startswith("▶"))
        return line.removeprefix("▶ ")


def opened(text: str = LOOP, **options: Any) -> tuple[Run, Live, Recorded]:
    """A run with a live picture on a screen."""
    run = load(text).start("x", clock=options.pop("clock", ManualClock()), **options)
    screen = Recorded()
    return run, follow(run, screen), screen


def follow(run: Run, screen: Recorded, **options: Any) -> Live:
    def draw() -> Picture:
        return run.draw(**options)

    return Live(run, draw, on=screen, **options).show()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every record is painted."""
    monkeypatch.setattr(live_module, "INTERVAL", 0.0)


@pytest.mark.usefixtures("at_once")
class TestDriven:
    def test_by_steps(self) -> None:
        run, _, screen = opened()
        assert len(screen.shown) == 1
        run.advance()
        assert screen.now == "work  ● NOW"
        run.advance()
        run.advance()
        assert len(screen.updates) == 3
        assert "×2" in screen.updates[-1]["text/plain"]
        run.run()
        assert screen.now == "done  ✓ completed"

    def test_in_one_go(self) -> None:
        run, _, screen = opened()
        run.run()
        assert len(screen.updates) == 4
        assert screen.now == "done  ✓ completed"

    def test_by_a_stream(self) -> None:
        run, _, screen = opened()
        assert len(list(run.stream())) > 3
        assert screen.now == "done  ✓ completed"

    def test_inside_a_running_loop(self) -> None:
        async def main() -> str:
            run, _, screen = opened()
            await run.aadvance()
            run.advance()
            before = screen.now
            await run.arun()
            assert screen.now == "done  ✓ completed"
            return before

        assert asyncio.run(main()) == "work  ● NOW"

    def test_on_the_loop_thread(self) -> None:
        """An action that suspends is driven on the private loop, and so is the painting."""
        threads: set[str] = set()

        @tool(name="doze")
        async def doze() -> str:
            """Sleep."""
            await asyncio.sleep(0)
            threads.add(threading.current_thread().name)
            return "slept"

        text = LOOP.replace("do: nothing", "do: tool, with: {name: doze}").replace(
            "vars:", "tools: [doze]\nvars:"
        )
        run = load(text, tools=[doze]).start("x")
        screen = Recorded()
        follow(run, screen)
        run.run()
        assert threads == {"chartloop"}
        assert screen.now == "done  ✓ completed"

    def test_by_hand_and_back(self) -> None:
        run, _, screen = opened()
        for _ in range(3):
            run.advance()
        twice = screen.updates[-1]["text/plain"]
        assert "×2" in twice
        run.back()
        assert "×2" not in screen.updates[-1]["text/plain"]
        run.advance()
        assert screen.updates[-1]["text/plain"] == twice

    def test_an_edit_that_a_label_names_is_drawn_anew(self) -> None:
        run, _, screen = opened()
        run.advance()
        run.set("limits.turns", 7)
        assert "Done 7 turns?" in screen.updates[-1]["text/plain"]
        run.back()
        assert "Done 3 turns?" in screen.updates[-1]["text/plain"]

    def test_an_answer_and_the_wait_before_it(self) -> None:
        run, _, screen = opened(ASKS)
        run.run()
        assert screen.now == "wait: Wait  ● NOW"
        run.send("yes")
        run.run()
        assert screen.now == "done  ✓ completed"

    def test_in_the_status_region(self) -> None:
        run = load(LOOP).start("x", clock=ManualClock())
        screen = Recorded()
        follow(run, screen, region="status")
        run.advance()
        assert screen.now == "running: Running  ● NOW"


class TestThrottle:
    def test_a_fast_run_is_not_painted_at_every_record(self) -> None:
        run, _, screen = opened(LOOP.replace("turns: 3", "turns: 500"))
        run.run()
        assert len(screen.updates) < 50
        assert screen.now == "done  ✓ completed"

    def test_what_came_too_soon_is_painted_all_the_same(self) -> None:
        run, _, screen = opened()
        for _ in range(3):
            run.advance()
        assert len(screen.updates) == 1
        deadline = time.monotonic() + 20
        while len(screen.updates) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "×2" in screen.updates[-1]["text/plain"]

    def test_the_end_of_a_cell_does_not_wait(self) -> None:
        run, live, screen = opened()
        for _ in range(3):
            run.advance()
        live.flush()
        assert "×2" in screen.updates[-1]["text/plain"]
        painted = len(screen.updates)
        live.flush()
        assert len(screen.updates) == painted

    def test_closed_it_follows_no_longer(self) -> None:
        run, live, screen = opened()
        live.close()
        run.run()
        assert screen.updates == []


@pytest.mark.usefixtures("at_once")
class TestLives:
    def test_a_run_that_has_ended_stays_as_it_is(self) -> None:
        run, _, screen = opened()
        run.run()
        painted = len(screen.updates)
        assert run.advance() is None
        assert len(screen.updates) == painted
        assert screen.now == "done  ✓ completed"

    def test_it_can_be_opened_at_the_end(self) -> None:
        run = load(LOOP).start("x", clock=ManualClock())
        run.run()
        screen = Recorded()
        follow(run, screen)
        assert "▶ done  ✓ completed" in screen.shown[-1]["text/plain"]

    def test_after_the_process_died_it_shows_what_the_journal_holds(self, tmp_path: Path) -> None:
        run, _, screen = opened(journal=SqliteJournal(tmp_path / "j.db"), run_id="mine")
        for _ in range(3):
            run.advance()
        before = screen.updates[-1]["text/plain"]
        again = load(LOOP).open("mine", journal=SqliteJournal(tmp_path / "j.db"))
        other = Recorded()
        picture = follow(again, other)
        assert other.shown[-1]["text/plain"] == before
        again.run()
        assert other.now == "done  ✓ completed"
        assert "done" in str(picture)

    def test_two_lives_of_one_run(self, tmp_path: Path) -> None:
        """Each shows what it knows; the one that is behind catches up when it is driven."""
        journal = SqliteJournal(tmp_path / "j.db")
        run, _, screen = opened(journal=journal, run_id="mine")
        run.advance()
        run.session.holder.yield_lease()
        other, theirs = load(LOOP).open("mine", journal=journal), Recorded()
        follow(other, theirs)
        other.advance()
        assert screen.updates[-1] != theirs.updates[-1]
        run.run()
        assert screen.now == "done  ✓ completed"
        assert "×3" in screen.updates[-1]["text/plain"]

    def test_stepped_from_two_cells_at_once_one_of_them_is_told(self) -> None:
        async def main() -> None:
            entered, leave = asyncio.Event(), asyncio.Event()

            @tool(name="doze")
            async def doze() -> str:
                """Wait."""
                entered.set()
                await leave.wait()
                return "slept"

            text = LOOP.replace("do: nothing", "do: tool, with: {name: doze}").replace(
                "vars:", "tools: [doze]\nvars:"
            )
            run = load(text, tools=[doze]).start("x")
            screen = Recorded()
            follow(run, screen)
            await run.aadvance()
            first = asyncio.create_task(run.aadvance())
            await entered.wait()
            with pytest.raises(StatusError, match="is being driven at this moment"):
                await run.aadvance()
            leave.set()
            record = await first
            assert record is not None
            assert record.outcome is not None
            assert record.outcome.ok
            assert len(run.session.tally.path) == 3
            await run.arun()
            assert screen.now == "done  ✓ completed"

        asyncio.run(main())

    def test_a_screen_that_fails_fails_no_run(self) -> None:
        class Broken(Recorded):
            def update(self, bundle: Mapping[str, Any]) -> None:
                raise OSError("the front end is gone")

        run = load(LOOP).start("x", clock=ManualClock())
        follow(run, Broken())
        assert run.run().reason == "completed"


class TestOutside:
    def test_without_a_notebook_it_says_how_it_is_seen(self) -> None:
        run = load(LOOP).start("x", clock=ManualClock())
        opened = live(run)
        assert live(run) is opened
        run.advance()
        assert repr(opened) == (
            f"<Live picture of run {run.id}: running at work · 0 steps;"
            " `print` shows it outside a notebook>"
        )
        assert "▶ work  ● NOW" in str(opened)

    def test_its_bundle_is_an_image_that_needs_no_trust(self) -> None:
        run = load(LOOP).start("x", clock=ManualClock())
        bundle: dict[str, str] = live(run)._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
        assert set(bundle) == {"text/html", "text/plain"}
        shown = bundle["text/html"]
        assert re.sub("<style>.*</style>", "", shown).startswith(
            '<div class="cl-live"><img alt="Flowchart of loop: idle at work'
        )

    @pytest.mark.system("dot", install="apt-get install graphviz")
    def test_with_a_height_it_is_the_part_where_the_run_is(self) -> None:
        run = load("agent").start("x", script=["Done."], clock=ManualClock())
        shown, moved = live(run, height=240), set[float]()
        for _ in range(4):
            html = shown._repr_mimebundle_()["text/html"]  # pyright: ignore[reportPrivateUsage]
            (data,) = re.findall(r"base64,([^\"]+)", html)
            svg = b64decode(data).decode()
            (high,) = re.findall(r' height="([\d.]+)pt"', svg)
            assert float(high) == 180  # 240 pixels
            (top, seen) = map(float, re.findall(r'viewBox="0 ([\d.]+) [\d.]+ ([\d.]+)"', svg)[0])
            (shift,) = re.findall(r"translate\([\d.]+ ([\d.]+)\)", svg)
            now = shown.picture.ids.boxes[run.state]
            group = re.findall(rf'<g id="{now}" class="node">(.*?)</g>', svg, re.DOTALL)[0]
            ys = [float(shift) + float(y) for y in re.findall(r"\d,(-?[\d.]+)", group)]
            assert top <= min(ys) and max(ys) <= top + seen  # noqa: PT018 - one box
            moved.add(top)
            if not run.ended:
                run.advance()
        assert len(moved) > 1

    @pytest.mark.system("dot", install="apt-get install graphviz")
    def test_a_picture_that_is_less_high_is_whole(self) -> None:
        run = load(LOOP).start("x", clock=ManualClock())
        picture = LivePicture(run.draw().chart, prefix="p-")
        svg = picture.svg(Standing())
        assert re.findall(r'viewBox="0 0.00 ([\d.]+ [\d.]+)"', part_around(svg, "", 5_000)) == (
            re.findall(r'viewBox="0.00 0.00 ([\d.]+ [\d.]+)"', svg)
        )

    @pytest.mark.parametrize("name", ["a.svg", "a.png", "a.txt"])
    def test_it_can_be_saved(self, tmp_path: Path, name: str) -> None:
        run = load(LOOP).start("x", clock=ManualClock())
        assert live(run).save(tmp_path / name).stat().st_size > 100

    def test_without_graphviz_it_is_text_and_says_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("chartloop.pictures.live.live_picture.find_engine", lambda: "mermaid")
        run, _, screen = opened()
        run.advance()
        assert set(screen.updates[-1]) == {"text/plain"}
        assert screen.updates[-1]["text/plain"].splitlines()[-1] == (
            f"For a picture: {install('diagrams')}"
        )

    @pytest.mark.slow("takes seconds")
    @MARIMO
    def test_marimo_takes_the_image(self) -> None:
        from marimo._output.formatting import get_formatter  # noqa: PLC0415 - an extra

        run = load(LOOP).start("x", clock=ManualClock())
        formatter: Callable[[Any], tuple[str, Any]] | None = get_formatter(live(run))
        assert formatter is not None
        assert "data:image/svg+xml;base64," in str(formatter(live(run)))

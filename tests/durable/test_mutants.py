"""With a part of the promises taken out of a copy of the engine, the tests of the fleet fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.durable.pairs import DBOS_NEEDED
from tests.postgres import NEEDED

pytestmark = [*NEEDED, DBOS_NEEDED, pytest.mark.slow("runs tests that stop and kill processes")]
ROOT = Path(__file__).parents[2]


class Mutant(NamedTuple):
    """A part that is taken out, and who notices."""

    id: str
    file: str
    part: str
    instead: str
    test: str


MUTANTS = [
    Mutant(
        "no-fence", "adapters/journal/rows.py",
        '"WHERE run_id = ? AND head = ? AND epoch = ?"\n',
        '"WHERE run_id = ? AND head = ? AND epoch >= ?"\n',
        "test_fleet_faults.py::test_a_stopped_worker_that_goes_on_before_the_next_has_written",
    ),
    Mutant(
        "no-lease", "run/lease.py",
        "if alive is not None and not claim.take_over:", "if alive is None and claim.take_over:",
        "test_postgres.py::TestPostgres::test_a_second_driver_is_told_who_since_when_and_until_when",
    ),
    Mutant(
        "no-retry", "adapters/journal/postgres.py",
        "if not is_lost(connection, error) or time.monotonic() > end:", "if error is not None:",
        "test_postgres_faults.py::test_what_was_acknowledged_outlives_the_server_and_its_clients_go_on",
    ),
    Mutant(
        "fact-not-recorded", "run/loop.py",
        "input = input.replace(fleet=await fleet_facts(session))\n",
        "before = before.replace(facts=before.facts.replace(fleet=await fleet_facts(session)))\n",
        "test_fleet_facts.py::test_a_replay_decides_by_what_was_read",
    ),
    Mutant(
        "no-question", "adapters/journal/postgres.py",
        "if transaction.ending and self._was_committed(transaction, end):",
        "if transaction.ending and not transaction.calls:",
        "test_postgres_faults.py::"
        "test_a_write_whose_connection_is_lost_at_its_commit_has_the_same_outcome",
    ),
    Mutant(
        "no-intent", "run/job.py",
        "writes_intent=paid and not action.own_intents,", "writes_intent=False,",
        "test_fleet_faults.py::test_workers_whose_clocks_are_ten_minutes_off_keep_leases_and_waits",
    ),
    Mutant(
        "no-turns", "adapters/journal/activations.py",
        '_ORDER = "ORDER BY priority, turn, due LIMIT ?"', '_ORDER = "ORDER BY priority, due, rowid LIMIT ?"',
        "test_postgres.py::TestPostgres::test_a_submitter_with_many_runs_keeps_nobody_waiting",
    ),
    Mutant(
        "repeats-by-default", "machine/in_doubt.py",
        'return "retry" if asks and not provider_acts(spec, state) else "tell"', 'return "retry"',
        "test_kill_matrix.py::test_a_worker_that_is_killed_around_a_deadline_repeats_no_call_and_"
        "denies_none[SQLite, table-places0]",
    ),
    Mutant(
        "no-lasting-key", "run/doubts.py",
        "session.doing = key, fields\n    return key", 'return f"{key}/{session.epoch}"',
        "test_kill_matrix.py::test_a_worker_that_is_killed_loses_nothing_and_pays_nothing_twice"
        "[SQLite, table-places0]",
    ),
    Mutant(
        "no-key", "hosting/runs.py",
        "if not caller.key:\n            return secrets", "if caller:\n            return secrets",
        "test_kill_matrix.py::test_a_key_gives_one_run_whoever_dies_of_it[SQLite, table-start-places1]",
    ),
]  # fmt: skip


def outcome(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    """Run a test with the engine of a folder."""
    return subprocess.run(
        [
            sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--timeout", "60",
            f"tests/durable/{test}",
        ],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True, text=True, check=False, timeout=110,
    )  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_a_part_that_is_taken_out_is_missed(mutant: Mutant, tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "engine", tmp_path / "engine", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(ROOT / "machines", tmp_path / "engine" / "chartloop" / "machines")
    file = tmp_path / "engine" / "chartloop" / mutant.file
    text = file.read_text()
    assert text.count(mutant.part) == 1
    file.write_text(text.replace(mutant.part, mutant.instead))
    done = outcome(tmp_path / "engine", mutant.test)
    assert done.returncode == 1, done.stdout + done.stderr
    assert " failed" in done.stdout

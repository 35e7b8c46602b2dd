"""Roles of the database with the least rights for their work, by the SQL of the documentation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from chartloop.adapters.journal.opening import journal_of
from chartloop.run.sync import by_hand
from tests.postgres import NEEDED, Cluster

pytestmark = [*NEEDED]
PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"
ROLES = ("worker", "submitter", "reader")
MACHINE = "chartloop: 1\nmachine: m\nstates:\n  a: {do: receive, next: b}\n  b: {stop: completed}\n"


def test_each_role_does_its_work_and_is_refused_the_rest(postgres: Cluster, tmp_path: Path) -> None:
    by_hand(journal_of(postgres.url("rights")).close())
    (sql,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for role in ROLES:
        postgres.execute(f"CREATE ROLE {role}_x LOGIN")
        sql = re.sub(rf"\b(TO|FROM|,) {role}\b", rf"\1 {role}_x", sql)
    postgres.execute(re.sub(r"\bchartloop\b", "rights", sql))
    (tmp_path / "m.yaml").write_text(MACHINE)

    def said(role: str, *words: str) -> tuple[int, str]:
        url = postgres.url("rights", user=f"{role}_x")
        done = subprocess.run(
            [sys.executable, "-m", "chartloop", *words, "--journal", url],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    done = (
        ("submitter", "submit", "m.yaml", "x", "--run-id", "a"), ("reader", "runs"),
        ("reader", "show", "a"), ("reader", "journal", "export", "a", "--to", "-"), ("submitter", "runs"),
        ("worker", "run", "m.yaml", "x", "--run-id", "b"), ("worker", "runs", "rm", "b", "--yes"),
    )  # fmt: skip
    for role, *words in done:
        code, text = said(role, *words)
        assert code == 0, (role, words, text)
    refused = (
        ("reader", "submit", "m.yaml", "x"), ("reader", "runs", "rm", "a", "--yes"),
        ("submitter", "runs", "rm", "a", "--yes"), ("submitter", "worker", "--until-idle"),
        ("reader", "worker", "--until-idle"),
    )  # fmt: skip
    for role, *words in refused:
        code, text = said(role, *words)
        assert code == 2, (role, words, text)
        assert "the role may not do this" in text, (role, words, text)
        assert "Traceback" not in text, (role, words, text)

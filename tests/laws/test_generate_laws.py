"""The law of `generate`: over generated machines, each scenario passes and shows what it names.

Every other part is left with a reason, and no scenario shows it.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings

from chartloop import load
from chartloop.scenarios import generate
from tests.laws.test_record_laws import OWN, accepted
from tests.strategies import costly_machines, small_machines
from tests.unit.test_generate import sound


def generates(data: dict[str, Any]) -> None:
    with TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "m.yaml"
        assume(accepted(path, data))
        sound(generate(path, folder, OWN, runs=25), load(path, tools=OWN), folder, OWN)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(small_machines())
@settings(deadline=None, max_examples=40)
def test_small_machines(data: dict[str, Any]) -> None:
    generates(data)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(costly_machines())
@settings(deadline=None, max_examples=20)
def test_machines_with_children_and_tools(data: dict[str, Any]) -> None:
    generates(data)

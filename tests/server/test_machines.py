"""Machines over HTTP: what they are called, and what is known of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.conftest import REVIEW, Serve

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django


def test_a_machine_is_called_what_its_file_declares(serve: Serve, tmp_path: Path) -> None:
    folders = tuple(tmp_path / name for name in ("one", "two", "three"))
    texts = REVIEW.replace("machine: review", 'machine: "first"'), REVIEW, "chartloop: 1\n"
    for folder, text in zip(folders, texts, strict=True):
        folder.mkdir()
        (folder / "machine.yaml").write_text(text)
    served = serve(machines=folders)
    listed = served.get("/machines")["machines"]
    assert [(one["name"], one["machine"]) for one in listed] == [
        ("first", "first"), ("review", "review"), ("machine", None),
    ]  # fmt: skip
    run = served.start("first", drive="none")
    assert served.get(f"/machines/{served.get(f'/runs/{run}')['machine']}")["name"] == "first"


def test_a_machine_keeps_its_name_while_its_file_has_errors(serve: Serve, machines: Path) -> None:
    served = serve()
    (machines / "review.yaml").write_text(REVIEW.replace("do: receive", "do: nonsense"))
    (broken,) = served.get("/machines")["machines"]
    assert (broken["name"], broken["machine"], broken["errors"] > 0) == ("review", None, True)
    assert served.get("/machines/review/findings")["findings"]
    refused = served.post("/runs", {"machine": "review", "task": "x"}, 422)
    assert "nonsense" in str(refused)

"""Machines over HTTP: what they are called, and what is known of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.conftest import REVIEW, Serve

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django


AGENT = Path(__file__).parents[2] / "machines" / "agent.yaml"


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


def test_a_machine_says_what_it_is_about_and_what_its_tools_do(
    serve: Serve, machines: Path
) -> None:
    text = AGENT.read_text().replace(
        "title:", "about: It answers.\ndata: {send_message: {sends: out}}\ntitle:", 1
    )
    (machines / "agent.yaml").write_text(text)
    found = serve().get("/machines/agent")
    assert found["about"] == "It answers."
    assert found["instructions"].startswith("{{ memory.persona }}")
    assert found["model"]["name"]
    tools = {tool["name"]: tool for tool in found["tools"]}
    assert tools["send_message"]["data"] == {"sends": "out"}
    assert tools["send_message"]["about"]
    assert tools["send_message"]["approved"] is False


def test_the_list_counts_the_runs_of_each_machine_and_names_the_last_that_failed(
    serve: Serve,
) -> None:
    served = serve()
    assert served.get("/machines")["machines"][0]["runs"] == {
        "count": 0,
        "more": False,
        "failed": None,
    }
    served.start("review", drive="none")
    failed = served.start("review", task="")
    served.until(failed, "error")
    runs = served.get("/machines")["machines"][0]["runs"]
    assert (runs["count"], runs["more"]) == (2, False)
    assert runs["failed"]["run"] == failed


def test_what_no_run_took_is_said_in_words(serve: Serve) -> None:
    served = serve()
    rows = {row["kind"]: row for row in served.get("/machines/review/coverage")["rows"]}
    assert "run.steps >= limits.steps → stop: steps_limit" in rows["rules"]["words"]
    assert "steps_limit" in rows["reasons"]["words"]
    assert len(rows["edges"]["words"]) == len(rows["edges"]["missing"])
    assert not [words for row in rows.values() for words in row["words"] if "#" in words]


@pytest.mark.system("dot", install="apt-get install graphviz")
def test_the_picture_shows_where_runs_went(serve: Serve) -> None:
    served = serve()
    served.until(served.start("review"), "paused")
    plain, heat = (
        served.get(f"/machines/review/picture?look={look}") for look in ("plain", "heat")
    )
    assert "never" not in plain
    assert "never" in heat
    assert heat.startswith("<svg")

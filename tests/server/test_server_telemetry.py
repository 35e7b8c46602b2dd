"""Runs that a server drives are followed like any others, by its workers and by the next server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.collector import Collector, ReadSpan, Spans, roots, tree
from tests.server.conftest import wait_for
from tests.server.test_serve_command import command

if TYPE_CHECKING:
    from tests.server.conftest import Served

pytestmark = [
    pytest.mark.extra("fastapi", install='pip install -e ".[server]"'),  # noqa: S610 - no Django
    pytest.mark.extra("opentelemetry.sdk", install='pip install -e ".[test-all]"'),  # noqa: S610 - no Django
]


def test_a_run_is_followed_up_to_its_wait_and_after_its_answer(
    serve: Callable[..., Served],
) -> None:
    spans = Spans()
    served = serve(components={"script": ["A draft."], "tracer": spans.telemetry})
    run = served.start()
    wait = served.until(run, "paused")["wait"]
    served.post(f"/runs/{run}/answer", {"event": "approve", "wait": wait})
    served.until(run, "completed")

    found = spans.all()
    stretches = [span for span in roots(found) if span.attributes["chartloop.run.id"] == run]
    events = [e["chartloop.record.seq"] for s in found for _, e in s.events]
    records = served.get(f"/runs/{run}/records")["records"]
    assert sorted(events) == [record["seq"] for record in records]
    first, *later = stretches
    assert all(span.links == [(first.trace, first.id)] for span in later)
    assert later[-1].attributes["chartloop.stop.reason"] == "completed"

    def below(span: ReadSpan) -> list[str]:
        return [name for name, _ in tree(found, span)[1]]

    assert [name for span in stretches for name in below(span)] == ["receive take", "infer draft"]


@pytest.mark.slow("starts a server in a process of its own")
def test_what_a_server_holds_is_exported_when_it_is_told_to_end(
    machines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script.yaml").write_text("- A draft.\n")
    with Collector(tmp_path / "collected") as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("CHARTLOOP_OTEL", "1")
        # each exporter would wait for a minute
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
        with command(tmp_path, "--script", "script.yaml") as server:
            body = {"machine": "review", "task": "x", "run_id": "r"}
            assert server.client.post("/runs", json=body).status_code == 201
            wait_for(lambda: server.run("r")["status"] == "paused")
            assert not collector.spans()
        spans = collector.spans()
        assert {"receive take", "infer draft", "chat scripted"} <= {span.name for span in spans}
        assert collector.figures()["chartloop.runs.waiting"]

"""The OpenAPI document: complete, with examples, and true of what the server does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from tests.effort import examples, many
from tests.server.conftest import Serve, Served

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django
ROUTES = """
/livez GET
/readyz GET
/metrics GET
/problems/{code} GET
/counts GET
/machines GET
/machines/{name} GET
/machines/{name}/findings GET
/machines/{name}/bound GET
/machines/{name}/coverage GET
/machines/{name}/changes GET
/machines/{name}/facts GET
/machines/{name}/picture GET
/agent/initialize_task_and_tick POST
/agent/execute POST
/agent/execute/stream POST
/agent/complete_text POST
/runs GET POST
/events GET
/requests/{request_id} GET
/runs/{run_id} GET
/runs/{run_id}/events GET
/runs/{run_id}/records GET
/runs/{run_id}/decision GET
/runs/{run_id}/result GET
/runs/{run_id}/trace GET
/runs/{run_id}/picture GET
/runs/{run_id}/compare GET
/runs/{run_id}/painting GET
/runs/{run_id}/moment GET
/runs/{run_id}/timeline GET
/runs/{run_id}/conversation GET
/runs/{run_id}/passage GET
/runs/{run_id}/children GET
/runs/{run_id}/place GET
/runs/{run_id}/spending GET
/runs/{run_id}/question GET
/runs/{run_id}/question/link GET POST DELETE
/answer/question GET
/answer POST
/me GET
/fleet GET
/limits POST
/limits/settle POST
/schedules/{name}/{order} POST
/runs/{run_id}/step POST
/runs/{run_id}/run POST
/runs/{run_id}/pause POST
/runs/{run_id}/resume POST
/runs/{run_id}/answer POST
/runs/{run_id}/enqueue POST
/runs/{run_id}/cancel POST
/runs/{run_id}/fork POST
/runs/{run_id}/retry GET POST
/runs/{run_id}/back POST
/runs/{run_id}/set POST
"""


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method.upper(), operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_route_is_there_with_a_summary_and_its_problems(served: Served) -> None:
    document = served.get("/openapi.json")
    found: dict[str, set[str]] = {}
    for path, method, operation in operations(document):
        found.setdefault(path, set()).add(method)
        assert operation.get("description"), (path, method)
        for status in ("401", "403", "500"):
            answer = operation["responses"][status]["content"]
            assert list(answer) == ["application/problem+json"], (path, method)
    wanted = {line.split()[0]: set(line.split()[1:]) for line in ROUTES.strip().splitlines()}
    assert found == wanted


def test_every_body_has_an_example_that_it_takes(served: Served) -> None:
    from pydantic import TypeAdapter  # noqa: PLC0415

    from chartloop.hosting.server import routes_agent, shapes  # noqa: PLC0415

    schemas = served.get("/openapi.json")["components"]["schemas"]
    bodies = {**vars(shapes), **vars(routes_agent)}
    checked = 0
    for name, schema in schemas.items():
        for example in schema.get("examples", []):
            TypeAdapter(bodies[name]).validate_python(example)
            checked += 1
    assert checked >= 12


def test_an_answer_has_the_fields_of_the_document_and_no_other(serve: Serve) -> None:
    served = serve(script=["First."] * 2)
    schemas = served.get("/openapi.json")["components"]["schemas"]
    left, right = served.start(), served.start()
    served.until(left, "paused")
    found = served.get("/runs", params={"waiting": True})
    compared = served.get(f"/runs/{left}/compare", params={"other": right})
    answers = {
        "RunList": found, "RunSummary": found["runs"][0], "Question": found["runs"][0]["question"],
        "WholeQuestion": served.get(f"/runs/{left}/question"), "Comparison": compared,
        "ComparedRun": compared["left"], "ComparedRecords": compared["steps"][0],
        "Me": served.get("/me"),
    }  # fmt: skip
    for name, answer in answers.items():
        assert set(answer) == set(schemas[name]["properties"]), name
        assert set(schemas[name]["required"]) <= set(answer), name


@pytest.mark.law
@pytest.mark.slow("asks a thousand things of a server")
@pytest.mark.extra("schemathesis", install='pip install "schemathesis>=4"')  # noqa: S610 - no Django
def test_schemathesis_finds_nothing(serve: Serve) -> None:
    """Whatever fits the document is answered as the document says, and nothing is a fault."""
    import schemathesis  # noqa: PLC0415

    served = serve(script=["First."] * 3)
    document = served.get("/openapi.json")
    document["paths"] = {
        path: methods for path, methods in document["paths"].items() if "/events" not in path and "stream" not in path
    }  # fmt: skip
    schema: Any = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=str(served.client.base_url))
    run = served.start()
    served.until(run, "paused")
    for result in schema.get_all_operations():
        _ask(result.ok(), run)


def _ask(operation: Any, run: str) -> None:
    """Whatever the document allows of one operation; every other time of a run that there is."""
    from hypothesis import HealthCheck, Phase, given, settings  # noqa: PLC0415
    from schemathesis import checks  # noqa: PLC0415
    from schemathesis.specs.openapi import checks as of_openapi  # noqa: PLC0415

    known: Any = {**vars(checks), **vars(of_openapi)}

    @settings(
        max_examples=examples(25), deadline=None, phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], derandomize=not many(), database=None,
    )  # fmt: skip
    @given(case=operation.as_strategy(), real=st.booleans())
    def asked(case: Any, real: bool) -> None:
        if real and "run_id" in (case.path_parameters or {}):
            case.path_parameters["run_id"] = run
        # 502 and 503 are answers of their own, a fault of the server is 500; and what a machine
        # takes (its limits, its events, its name) is not in the document
        left_out = [known["not_a_server_error"], known["positive_data_acceptance"]]
        answer = case.call_and_validate(excluded_checks=left_out)
        assert answer.status_code != 500

    asked()

"""The endpoints of document 000, asked as it prints them; shapes are read from its text."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.cases.test_geist import DONE, SAME, send, tick
from tests.cases.test_lines import document
from tests.server.conftest import Serve

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django
TEXT = "\n".join(document("000"))


def printed(endpoint: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The request and the response that the document prints for an endpoint."""
    block = TEXT[TEXT.index(f"POST {endpoint}\n{{") :].split("```")[0]
    request, response = re.findall(r"^\{$.*?^\}$", block, re.MULTILINE | re.DOTALL)
    return _as_json(request), _as_json(response)


def _as_json(text: str) -> dict[str, Any]:
    return json.loads(text.replace("{...}", "{}").replace("[...]", "[]"))


def same_kind(got: Any, shape: Any) -> bool:
    if isinstance(shape, bool) or isinstance(got, bool):
        return type(got) is type(shape)
    return (
        isinstance(got, (int, float))
        if isinstance(shape, (int, float))
        else isinstance(got, type(shape))
    )


def test_a_single_tick_gives_the_state_that_the_document_prints(serve: Serve) -> None:
    request, response = printed("/agent/initialize_task_and_tick")
    served = serve(script=SAME)
    got = served.post("/agent/initialize_task_and_tick", request)
    assert list(got) == list(response)
    assert all(same_kind(got[name], shape) for name, shape in response.items())


def test_an_execution_gives_the_result_that_the_document_prints(serve: Serve) -> None:
    request, response = printed("/agent/execute")
    served = serve(script=DONE)
    got = served.post("/agent/execute", request)
    assert response.keys() <= got.keys()
    free = {"result"}  # whatever the agent says when it is done
    assert [n for n in response.keys() - free if not same_kind(got[n], response[n])] == []
    assert (got["stopping_reason"], got["success"]) == (response["stopping_reason"], True)


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(part.removeprefix("data: ")) for part in text.split("\n\n") if part]


@pytest.mark.parametrize("path", ["/agent/execute/stream", "/agent/execute"])
def test_a_stream_has_an_update_for_each_tick_and_the_result_last(serve: Serve, path: str) -> None:
    served = serve(script=[*tick("One."), *DONE])
    body = {"task": "Write.", "stream": True}
    *updates, last = events(served.post(path, body))
    assert [(one["stopping_reason"], one["iterations_completed"]) for one in updates] == [
        (None, n) for n in range(1, len(updates) + 1)
    ]
    assert updates
    assert last["stopping_reason"] == "task_complete"


def test_the_preserved_completion_gives_a_text(serve: Serve) -> None:
    served = serve(script=["Hello."])
    assert served.post("/agent/complete_text", {"prompt": "Say hello."}) == {"text": "Hello."}
    (run,) = served.get("/runs")["runs"]
    assert (run["machine"], run["status"]) == ("complete_text", "completed")


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ({"stopping_conditions": {"custom_condition": "lambda c: True"}}, "/stopping_conditions/custom_condition"),
        ({"execution_classes": [{"class": "Adapter"}]}, "/execution_classes/0"),
        ({"execution_classes": ["send", "SendgridAdapter"]}, "/execution_classes/1"),
        ({"stopping_conditions": {"max_iterations": -1}}, "/stopping_conditions/max_iterations"),
        ({"stopping_conditions": {"max_steps": 1}}, "/stopping_conditions/max_steps"),
        ({"agent_settings": {"temperature": "hot"}}, "/agent_settings/temperature"),
        ({"task": ""}, "/task"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_python_or_wrong_is_refused_with_its_place(
    serve: Serve, body: dict[str, Any], at: str
) -> None:
    served = serve(tools=[send])
    problem = served.post("/agent/execute", {"task": "Write.", **body}, 422)
    assert [one["at"] for one in problem["errors"]] == [at]


def test_a_model_that_fails_is_no_fault_of_the_server(serve: Serve) -> None:
    served = serve(script=[{"error": {"category": "CRITICAL", "message": "no key"}}])
    problem = served.post("/agent/complete_text", {"prompt": "Hm."}, 502)
    assert "no key" in problem["detail"]

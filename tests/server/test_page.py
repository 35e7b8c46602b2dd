"""The files of the run page, what answers a link, and what only a page asks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Serve, Served

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django
HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
JSON = {"accept": "application/json"}


@pytest.mark.parametrize(
    "path",
    ["/", "/runs", "/runs?waiting=true", "/runs/r1", "/runs/r1?step=2", "/runs/r1/draft/0",
     "/inbox", "/compare?a=r1&b=r2", "/machines", "/machines/review"],
)  # fmt: skip
def test_a_browser_gets_the_page_at_each_link(served: Served, path: str) -> None:
    answer = served.client.get(path, headers=HTML)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["vary"] == "Accept"
    assert '<main id="main"' in answer.text


@pytest.mark.parametrize("path", ["/runs", "/machines", "/machines/review"])
@pytest.mark.parametrize("headers", [JSON, {"accept": "*/*"}], ids=["json", "anything"])
def test_a_program_gets_json_at_the_same_link(
    served: Served, path: str, headers: dict[str, str]
) -> None:
    answer = served.client.get(path, headers=headers)
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/machines/review/picture", "/runs/r1/picture"])
def test_a_picture_is_no_page(served: Served, path: str) -> None:
    served.start(run_id="r1")
    answer = served.client.get(path, headers=HTML)
    assert answer.headers["content-type"].startswith("image/svg+xml")


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT"])
def test_a_page_is_only_looked_at(served: Served, method: str) -> None:
    answer = served.client.request(method, "/inbox", headers=HTML)
    assert answer.status_code in (404, 405)


def test_no_script_or_style_runs_that_is_not_a_file(served: Served) -> None:
    policy = served.client.get("/", headers=HTML).headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "require-trusted-types-for 'script'" in policy


def test_every_file_that_the_page_names_is_there(served: Served) -> None:
    seen: set[str] = set()
    wanted = {"index.html", "answer.html"}
    while wanted:
        name = wanted.pop()
        seen.add(name)
        answer = served.client.get(f"/page/{name}")
        assert answer.status_code == 200, name
        named = re.findall(r'(?:"\./|/page/)([\w.]+)"', answer.text)
        wanted |= {*named} - seen
    from chartloop.hosting.server import page  # noqa: PLC0415

    own = {p.name for p in Path(page.__file__).parent.iterdir() if p.suffix in (".js", ".css")}
    assert own <= seen


@pytest.mark.parametrize(("page", "first"), [("/runs", "app.js"), ("/answer", "link.js")])
def test_every_module_is_loaded_ahead_of_those_that_import_it(
    served: Served, page: str, first: str
) -> None:
    wanted, needed = [first], set[str]()
    while wanted:
        text = served.client.get(f"/page/{wanted.pop()}").text
        found = set(re.findall(r'^import .* from "\./([a-z_]+\.js)"', text, re.MULTILINE)) - needed
        needed |= found
        wanted += found
    html = served.client.get(page, headers=HTML).text
    assert set(re.findall(r'rel="modulepreload" href="/page/([a-z_]+\.js)"', html)) == needed


def test_the_files_ask_nobody_outside_and_make_no_markup_of_text(served: Served) -> None:
    from chartloop.hosting.server import page  # noqa: PLC0415

    for path in Path(page.__file__).parent.iterdir():
        if path.suffix not in (".js", ".css", ".html"):
            continue
        text = path.read_text("utf-8").replace('"http://www.w3.org/2000/svg"', "")
        forbidden = ("http:", "https:", "import(", "url(", "@import", "innerHTML", "outerHTML",
                     "insertAdjacentHTML", "document.write", "eval(", " style=", " onclick=")  # fmt: skip
        assert [word for word in forbidden if word in text] == [], path.name


def test_a_file_that_did_not_change_is_not_sent_again(served: Served) -> None:
    first = served.client.get("/page/app.js")
    again = served.client.get("/page/app.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert served.client.head("/page/app.js").content == b""


@pytest.mark.parametrize("name", ["../safety.py", "__init__.py", "%2e%2e/safety.py", "none.js", ""])
def test_only_the_files_of_the_page_are_given(served: Served, name: str) -> None:
    assert served.client.get(f"/page/{name}").status_code == 404


def test_the_page_needs_no_token_and_what_it_shows_does(serve: Serve) -> None:
    from chartloop.hosting.server import Token  # noqa: PLC0415

    served = serve(tokens=(Token("a-secret-of-16-letters", "read"),))
    assert served.client.get("/runs", headers=HTML).status_code == 200
    assert served.client.get("/page/app.js").status_code == 200
    for path in ("/runs", "/runs/r1/painting", "/runs/r1/moment?seq=0", "/machines/review/changes"):
        assert served.client.get(path, headers=JSON).status_code == 401


# what only a page asks for ------------------------------------------------------------------------


@pytest.fixture
def waits(served: Served) -> str:
    """A run that waits for an answer, with three records."""
    run = served.start(task="Write <b>it</b>")
    served.until(run, "paused")
    return run


def test_a_moment_is_the_run_as_it_was(served: Served, waits: str) -> None:
    moments = [served.get(f"/runs/{waits}/moment?seq={seq}") for seq in range(3)]
    assert [m["record"]["seq"] for m in moments] == [0, 1, 2]
    assert [m["picture"]["state"] for m in moments] == ["take", "draft", "approve"]
    steps = [f["value"] for m in moments for f in m["facts"] if f["name"] == "run.steps"]
    assert steps == ["1", "2"]
    last = moments[-1]
    assert last["why"] == served.get(f"/runs/{waits}/decision?seq=2")
    assert last["full"]["outcome"]["reply"]["text"] == "First."
    assert [one["kind"] for one in last["prompt"]] == ["message"]
    assert all(fact["changed"] for fact in last["facts"])


def test_the_newest_moment_is_painted_as_the_run_is_now(served: Served, waits: str) -> None:
    now = served.get(f"/runs/{waits}/painting")
    then = served.get(f"/runs/{waits}/moment?seq=2&layout={now['layout']}")["picture"]
    assert now["svg"].startswith("<svg")
    assert "svg" not in then
    assert (then["layout"], then["style"], then["texts"]) == (
        now["layout"], now["style"], now["texts"],
    )  # fmt: skip


def test_a_layout_that_the_page_has_is_not_sent_again(served: Served, waits: str) -> None:
    layout = served.get(f"/runs/{waits}/painting")["layout"]
    assert "svg" not in served.get(f"/runs/{waits}/painting?layout={layout}")
    assert "svg" in served.get(f"/runs/{waits}/painting?layout=another")


def test_spending_goes_on_where_the_run_does(served: Served, waits: str) -> None:
    before: dict[str, Any] = served.get(f"/runs/{waits}/spending")
    assert [point[0] for point in before["points"]] == [0, 1, 2]
    served.post(f"/runs/{waits}/answer", {"event": "approve"})
    served.until(waits, "completed")
    after = served.get(f"/runs/{waits}/spending")
    assert after["points"][:3] == before["points"]
    assert after["points"][-1][2] == served.get("/runs?limit=1")["runs"][0]["tokens"]


@pytest.mark.parametrize(
    ("asked", "seqs", "left_out"),
    [("", [0, 1, 2], 0), ("?limit=2", [1, 2], 1), ("?before=2", [0, 1], 0),
     ("?before=2&limit=1", [1], 1), ("?before=0", [], 0)],
)  # fmt: skip
def test_older_steps_come_by_the_page(
    served: Served, waits: str, asked: str, seqs: list[int], left_out: int
) -> None:
    found = served.get(f"/runs/{waits}/timeline{asked}")
    assert [record["seq"] for record in found["records"]] == seqs
    assert found["left_out"] == left_out


def test_a_moment_that_the_run_has_not(served: Served, waits: str) -> None:
    told = served.get(f"/runs/{waits}/moment?seq=9", 404)
    assert told["detail"] == "the run has no record 9"
    served.get("/runs/none/painting", 404)


def test_spending_is_thinned_to_its_ends() -> None:
    from chartloop.run.tally import Tally  # noqa: PLC0415
    from chartloop.ui.view_model.moment import Spent, spending_of  # noqa: PLC0415

    steps = range(1, 1000)
    tally = Tally(
        elapsed=[float(n) for n in steps], acted=["a" for _ in steps],
        tokens=[2 * n for n in steps], costs=[n / 8 for n in steps],
    )  # fmt: skip
    found = spending_of(tally, 10)
    assert len(found) == 10
    assert (found[0], found[-1]) == (Spent(0, 0.0, 0, 0.0), Spent(999, 999.0, 1998, 999 / 8))
    assert [p.step for p in found] == sorted({p.step for p in found})
    assert [p.step for p in spending_of(tally, 1000)] == [0, *steps]
    assert spending_of(Tally(), 10) == [Spent(0, 0.0, 0, 0.0)]


def test_coverage_and_changes_of_a_machine(served: Served, waits: str, machines: Path) -> None:
    found = served.get("/machines/review/coverage")
    assert found["runs"] == 1
    states = next(row for row in found["rows"] if row["kind"] == "states")
    assert (states["seen"], states["missing"]) == (3, ["done"])
    assert served.get("/machines/review/changes")["since"] is None
    file = machines / "review.yaml"
    file.write_text(file.read_text().replace("steps: 50", "steps: 60"))
    found = served.get("/machines/review/changes")
    assert found["since"] == waits
    assert len(found["changes"]) == 1
    assert "`50` → `60`" in found["changes"][0]

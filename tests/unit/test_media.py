"""Images and files in a task, in a prompt and in what a tool returns, over real HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import zlib
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from struct import pack
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import File, Image, SetupError, ToolResult, load, tool
from chartloop.api import Machine
from chartloop.core.conversation import text_of
from chartloop.core.media_parts import image_tokens, say_part
from chartloop.core.transcript import PER_IMAGE, PER_MESSAGE, estimate_message
from chartloop.run.media import LARGEST, MOST, image_size, read_media
from chartloop.testing import LoopbackServer
from tests.provider import SECRET, Provider, http
from tests.tool_loop import CLAUDE, WITH_KEYS, http_model, needs_litellm, tool_loop

pytestmark = WITH_KEYS


def png(*, noise: bytes = b"") -> bytes:
    """A picture of one pixel, with a comment of these bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return pack(">I", len(data)) + body + pack(">I", zlib.crc32(body))

    head = chunk(b"IHDR", pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    pixel = chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"tEXt", noise) + pixel + chunk(b"IEND", b"")


PNG = png()
PDF = b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\n"


@tool
def camera() -> Any:
    """Take a picture."""
    return ["Taken.", Image(PNG)]


CALL: dict[str, Any] = {"tool_calls": [{"name": "camera", "arguments": {}}]}
TWO: dict[str, Any] = {"tool_calls": [{"name": "camera", "arguments": {}}] * 2}


def seeing(name: str, url: str) -> Machine:
    return tool_loop(http_model(name, url, "max_tokens: 500"), camera)


def scripted(tools: Any = camera) -> Machine:
    return tool_loop(given=tools)


def sent_png(part: Mapping[str, Any]) -> bytes:
    """The picture of a part, in either format."""
    if part["type"] == "image_url":
        return b64decode(part["image_url"]["url"].partition(",")[2])
    assert (part["type"], part["source"]["media_type"]) == ("image", "image/png")
    return b64decode(part["source"]["data"])


@needs_litellm
class TestOverTheWire:
    def test_a_task_with_an_image_and_a_file(self) -> None:
        task = ["What is this?", Image(PNG), File(PDF, "a.pdf"), File(b"x,y\n1,2\n", "t.csv")]
        with LoopbackServer(["A pixel."]) as server:
            result = seeing("openai/loopback", server.url).run(task)
        assert result.output == "A pixel."
        text, image, pdf, table = server.requests[0].body["messages"][0]["content"]
        assert text == {"type": "text", "text": "What is this?"}
        assert sent_png(image) == PNG
        assert "tokens" not in image  # a word of ours
        assert pdf["file"]["filename"] == "a.pdf"
        assert b64decode(pdf["file"]["file_data"].partition(",")[2]) == PDF
        assert table == {"type": "text", "text": "t.csv:\nx,y\n1,2\n"}

    def test_the_same_at_anthropic(self) -> None:
        task = ["What is this?", Image(PNG), File(PDF, "a.pdf")]
        with LoopbackServer(["A pixel."], models=[CLAUDE]) as server:
            result = seeing(f"anthropic/{CLAUDE}", server.messages_url).run(task)
        assert result.output == "A pixel."
        _, image, pdf = server.requests[0].body["messages"][0]["content"]
        assert sent_png(image) == PNG
        assert pdf["type"] == "document"
        assert b64decode(pdf["source"]["data"]) == PDF

    def test_a_tools_image_is_in_its_result_where_the_provider_takes_it(self) -> None:
        with LoopbackServer([CALL, "Seen."], models=[CLAUDE]) as server:
            result = seeing(f"anthropic/{CLAUDE}", server.messages_url).run("Look.")
        assert result.output == "Seen."
        (block,) = server.requests[1].body["messages"][-1]["content"]
        assert block["type"] == "tool_result"
        assert sent_png(block["content"][1]) == PNG

    def test_else_it_follows_the_results_of_all_calls(self) -> None:
        with LoopbackServer([TWO, "Seen."]) as server:
            result = seeing("openai/loopback", server.url).run("Look.")
        assert result.output == "Seen."
        messages = server.requests[1].body["messages"]
        assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool", *["user"] * 2]
        assert messages[2]["content"] == "Taken.\n[image 1 kB]"
        assert sent_png(messages[4]["content"][1]) == PNG

    def test_a_refused_image_is_named_with_its_cure(self) -> None:
        no = {"error": {"message": "This model does not support image input.", "type": "x"}}

        def refusing(_number: int, _body: Mapping[str, Any]) -> Iterator[bytes]:
            yield from http(no, "400 Bad Request")

        with Provider(refusing) as provider:
            result = seeing("openai/gpt-4o-mini", provider.url).run(["What?", Image(PNG)])
        assert "does not support image input" in str(result.errors)
        assert result.errors[0]["category"] == "RECOVERABLE"
        assert result.facts.errors.last is not None
        assert result.facts.errors.last.kind == "media"

    def test_an_image_in_which_the_journal_hid_a_secret_is_not_sent_broken(
        self, tmp_path: Path
    ) -> None:
        image, journal = Image(png(noise=SECRET.encode())), tmp_path / "j.db"
        with LoopbackServer(["ok"]) as server:
            machine = seeing("openai/loopback", server.url)
            run = machine.start(["What?", image], journal=journal)
            while run.state != "a":
                run.step()
            machine.open(run.id, journal=journal, take_over=True).run()
        part = server.requests[0].body["messages"][0]["content"][1]
        assert part["text"].startswith("[image 1 kB, hidden")


def test_data_is_in_the_journal_once_and_comes_back(tmp_path: Path) -> None:
    image, journal = Image(png(noise=bytes(range(1, 128)) * 400)), tmp_path / "j.db"
    machine = scripted()
    run = machine.start(["What?", image], journal=journal, script=["A pixel."])
    assert run.run().output == "A pixel."
    with contextlib.closing(sqlite3.connect(journal)) as db:
        assert db.execute("SELECT count(*) FROM event WHERE length(data) > 20000").fetchone() == (
            0,
        )
        assert db.execute("SELECT count(*) FROM blob WHERE length(data) > 20000").fetchone() == (1,)
    opened = machine.open(run.id, journal=journal)
    assert opened.messages[0]["content"][1] == image.part
    assert opened.replay().same


def test_a_prompt_shows_the_files_of_the_task() -> None:
    machine = load("""
chartloop: 1
machine: m
model: scripted
states:
  p: {do: prompt, with: {user: "Describe it.", files: true}, next: a}
  a: {do: infer, next: d}
  d: {stop: completed}
""")
    run = machine.start(["unused", Image(PNG)], script=["ok"])
    run.step()
    prompt = run.session.position.prompt
    assert prompt is not None
    assert prompt[0]["content"] == [{"type": "text", "text": "Describe it."}, Image(PNG).part]


def test_in_text_it_is_named_with_its_size() -> None:
    run = scripted().start(["What?", Image(PNG), File(PDF, "a.pdf")], script=["ok"])
    result = run.run()
    assert result.facts.run.task == "What?"
    assert text_of(run.messages[0]) == "What?\n[image 1 kB]\n[file a.pdf 1 kB]"
    assert say_part({"type": "audio"}) == "[audio]"


def test_what_a_tool_returned_is_on_the_record_by_name() -> None:
    run = scripted().start("x", script=[CALL, "ok"])
    run.run()
    assert run.messages[2]["content"] == [{"type": "text", "text": "Taken."}, Image(PNG).part]
    outcome = run.records[3].outcome
    assert outcome is not None
    assert outcome.result[0]["content"] == outcome.result[0]["result"] == "Taken.\n[image 1 kB]"


def test_a_tool_may_write_the_parts_itself() -> None:
    @tool
    def camera() -> ToolResult:
        """Take a picture."""
        return ToolResult("here", parts=(Image(PNG).part,))

    run = scripted(camera).start("x", script=[CALL, "ok"])
    assert run.run().output == "ok"
    assert run.messages[2]["content"] == [{"type": "text", "text": "here"}, Image(PNG).part]
    assert "base64" not in json.dumps(run.result.to_dict())


WRONG: list[Any] = [("x",), ({"a": object()},), ({},) * (MOST + 1)]


@pytest.mark.parametrize("parts", WRONG, ids=["text", "object", "too-many"])
def test_parts_that_are_none_fail_the_call(parts: Any) -> None:
    @tool
    def camera() -> ToolResult:
        """Take a picture."""
        return ToolResult("here", parts=parts)

    run = scripted(camera).start("x", script=[CALL, "ok"])
    result = run.run()
    assert result.output == "ok"
    assert "parts of a message" in str(result.errors)


def test_what_it_is_estimated_at() -> None:
    text = {"role": "user", "content": [{"type": "text", "text": "abcd"}]}
    unknown = {key: value for key, value in Image(PNG).part.items() if key != "tokens"}
    image = {"role": "user", "content": [unknown]}
    pages = {"role": "user", "content": [File(PDF + bytes(120_000), "a.pdf").part]}
    assert estimate_message(text) == PER_MESSAGE + 1
    assert estimate_message(image) == PER_MESSAGE + PER_IMAGE
    assert estimate_message(pages) == PER_MESSAGE + 3 * 2 * PER_IMAGE
    for said in (0, -5, 10**9, True, "many", 1.5):  # a part that somebody else wrote
        odd = {"role": "user", "content": [{**unknown, "tokens": said}]}
        assert estimate_message(odd) == PER_MESSAGE + PER_IMAGE


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    pipe, large = tmp_path / "a.png", tmp_path / "b.txt"
    os.mkfifo(pipe)
    with pytest.raises(SetupError, match="is not a file"):
        read_media(pipe)
    with large.open("wb") as file:
        file.truncate(25_300_000)
    with pytest.raises(SetupError, match=r"b\.txt` has 25\.3 MB"):
        read_media(large)


class Sized(NamedTuple):
    """The head of a picture, and its sides."""

    id: str
    data: bytes
    size: tuple[int, int] | None


def webp(kind: bytes, rest: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + kind + pack("<I", len(rest)) + rest


EXIF = b"\xff\xe1" + pack(">H", 5_002) + bytes(5_000)
FRAME = b"\xff\xc2\0\x11\x08" + pack(">HH", 300, 400) + bytes(10)
SIZED = [
    Sized("png", PNG, (1, 1)),
    Sized("png-large", PNG[:16] + pack(">II", 2**31, 3) + PNG[24:], (2**31, 3)),
    Sized("png-zero", PNG[:16] + bytes(8), None),
    Sized("png-short", PNG[:10], None),
    Sized("gif", b"GIF89a" + pack("<HH", 400, 300), (400, 300)),
    Sized("jpeg", b"\xff\xd8" + FRAME, (400, 300)),
    Sized("jpeg-behind-exif", b"\xff\xd8" + EXIF + b"\xff" + FRAME, (400, 300)),
    Sized("jpeg-without-frame", b"\xff\xd8" + EXIF, None),
    Sized("jpeg-endless", b"\xff\xd8" + b"\xff\xe1\0\0" * 5_000, None),
    Sized("jpeg-cut", (b"\xff\xd8" + FRAME)[:8], None),
    Sized("webp", webp(b"VP8 ", bytes(3) + b"\x9d\x01\x2a" + pack("<HH", 400, 300)), (400, 300)),
    Sized("webp-lossless", webp(b"VP8L", b"\x2f" + pack("<I", 399 | 299 << 14)), (400, 300)),
    Sized("webp-more", webp(b"VP8X", bytes(4) + b"\x8f\x01\0\x2b\x01\0"), (400, 300)),
    Sized("webp-odd", webp(b"VP9 ", bytes(20)), None),
]


@pytest.mark.parametrize("case", SIZED, ids=lambda case: case.id)
def test_the_sides_of_a_picture_are_in_its_head(case: Sized) -> None:
    assert image_size(case.data) == case.size
    assert ("tokens" in Image(case.data).part) is (case.size is not None)


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(1, 1, 255), (200, 200, 255), (1_000, 1_000, 1_334), (1_092, 1_092, 1_534), (2_048, 768, 1_445), (6_000, 4_000, 1_534)],
)  # fmt: skip
def test_an_image_is_estimated_by_its_size(width: int, height: int, tokens: int) -> None:
    assert image_tokens(width, height) == image_tokens(height, width) == tokens
    image = Image(PNG[:16] + pack(">II", width, height) + PNG[24:])
    assert estimate_message({"role": "user", "content": [image.part]}) == PER_MESSAGE + tokens


@given(st.integers(1, 2**32), st.integers(1, 2**32))
def test_an_estimate_is_within_what_providers_charge(width: int, height: int) -> None:
    assert 255 <= image_tokens(width, height) <= 1_600


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Image(b""), "is empty"),
        (lambda: Image(b"GIF"), "not a picture"),
        (lambda: Image(PNG + bytes(LARGEST)), "has 10.0 MB"),
        (lambda: File(b"MZ", "a.exe"), "not a kind of file"),
        (lambda: File(b"no", "a.pdf"), "not a PDF"),
        (lambda: Image.read("/nowhere/a.png"), "cannot be read"),
        (lambda: read_media("a\0b"), "cannot be read"),
        (lambda: scripted().start(["x", 7]), "part 2 of the task is a int"),
        (lambda: scripted().start([Image(PNG)] * (MOST + 1)), "too many"),
    ],
    ids=["empty", "cut", "large", "program", "no-pdf", "missing", "zero-byte", "number", "many"],
)
def test_what_cannot_be_sent_is_refused_at_once(make: Any, said: str) -> None:
    with pytest.raises(SetupError, match=said) as raised:
        make()
    assert raised.value.hint

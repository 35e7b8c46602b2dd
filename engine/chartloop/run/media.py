"""Images and files that a model sees: in a task, in a prompt, and in what a tool returns.

Belongs here: which media may be sent, and reading them from a file that the caller names. Never: a
provider's own format (`adapters.model.sent_parts`).
Source: OpenAI API reference, "Images and vision", "File inputs".
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Literal, Self

from chartloop.core.errors import SetupError
from chartloop.core.media_parts import TOKENS, image_tokens, say_size

LARGEST = 10_000_000
"""The most bytes of one image or file."""
MOST = 20
"""The most images and files in one message."""

_SIGNS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"), (b"GIF89a", "image/gif"),
)  # fmt: skip
_SUFFIXES = {
    ".pdf": "application/pdf", ".txt": "text/plain", ".md": "text/markdown", ".csv": "text/csv",
    ".html": "text/html", ".json": "application/json", ".xml": "text/xml",
    ".yaml": "text/plain", ".yml": "text/plain", ".log": "text/plain", ".py": "text/plain",
}  # fmt: skip


class Image:
    """A picture for a model: PNG, JPEG, GIF or WebP, at most 10 MB.

        run = machine.start(["What is in this picture?", Image.read("cat.png")])

    A tool may return one, alone or in a list with texts. `SetupError` if the data is not such a
    picture.
    """

    __slots__ = ("data", "media_type")

    def __init__(self, data: bytes) -> None:
        self.data = _check_size(data, "image")
        """The bytes of the file."""
        self.media_type = image_type(data)
        """The media type, detected from the data: ``image/png`` and the like."""
        if not self.media_type:
            raise SetupError("this is not a picture", hint="give PNG, JPEG, GIF or WebP")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The picture in a file."""
        return cls(_read(path))

    @property
    def part(self) -> dict[str, Any]:
        """The image as a part of a message, with an estimate of its tokens."""
        url = {"url": _url(self.media_type, self.data)}
        size = image_size(self.data)
        more = {} if size is None else {TOKENS: image_tokens(*size)}
        return {"type": "image_url", "image_url": url, **more}

    def __repr__(self) -> str:
        return f"Image({len(self.data):,} bytes, {self.media_type})"


class File:
    """A document for a model: a PDF or a text, at most 10 MB.

    `name` is shown to the model; its suffix determines the type if `media_type` is not given.
    `SetupError` for another kind of file.
    """

    __slots__ = ("data", "media_type", "name")

    def __init__(self, data: bytes, name: str, *, media_type: str = "") -> None:
        self.data = _check_size(data, "file")
        self.name = name
        found = media_type or _SUFFIXES.get(Path(name).suffix.lower(), "")
        self.media_type = "application/pdf" if data.startswith(b"%PDF-") else found
        if not self.media_type.startswith(("text/", "application/pdf", "application/json")):
            kinds = "a PDF, or a text such as .txt, .md, .csv, .json"
            raise SetupError(
                f"`{name}` is not a kind of file that models read", hint=f"give {kinds}"
            )
        if self.media_type == "application/pdf" and not data.startswith(b"%PDF-"):
            raise SetupError(f"`{name}` is not a PDF", hint="check the file")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The document in a file."""
        return cls(_read(path), Path(path).name)

    @property
    def part(self) -> dict[str, Any]:
        """The file as a part of a message. A text is sent as text, under its name."""
        if self.media_type != "application/pdf":
            text = self.data.decode("utf-8", "replace")
            return {"type": "text", "text": f"{self.name}:\n{text}"}
        file = {"filename": self.name, "file_data": _url(self.media_type, self.data)}
        return {"type": "file", "file": file}

    def __repr__(self) -> str:
        return f"File({self.name!r}, {len(self.data):,} bytes)"


def read_media(path: str | Path) -> Image | File:
    """Read an image or document from a file; its content decides which."""
    data = _read(path)
    return Image(data) if image_type(data) else File(data, Path(path).name)


def image_type(data: bytes) -> str:
    """The media type of a picture; empty if it is not a kind that models accept."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for sign, kind in _SIGNS if data.startswith(sign)), "")


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of a picture in pixels, from its header; None if unknown.

    Source: PNG, "Image header"; GIF89a, "Logical Screen Descriptor"; ITU T.81, B.2.2 (JPEG);
    RFC 9649, 2.5 to 2.7 (WebP).
    """
    match image_type(data):
        case "image/png":
            return _sides("big", data[16:20], data[20:24])
        case "image/gif":
            return _sides("little", data[6:8], data[8:10])
        case "image/jpeg":
            at = 2
            while at + 9 <= len(data) and data[at] == 0xFF:
                kind = data[at + 1]
                if kind == 0xFF:  # padding
                    at += 1
                elif 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
                    return _sides("big", data[at + 7 : at + 9], data[at + 5 : at + 7])
                else:
                    at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
            return None
        case "image/webp":
            return _webp_size(data)
        case _:
            return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8X":
            return _sides("little", data[24:27], data[27:30], more=1)
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            return _sides("little", data[26:28], data[28:30], mask=0x3FFF)
        case _:
            return None


def _sides(
    order: Literal["little", "big"], width: bytes, height: bytes, *, mask: int = -1, more: int = 0
) -> tuple[int, int] | None:
    wide, high = ((int.from_bytes(side, order) & mask) + more for side in (width, height))
    return (wide, high) if wide > 0 and high > 0 else None


def split_task(task: str | Sequence[Any]) -> tuple[str, list[dict[str, Any]]]:
    """The text of a task, and its images and files as parts. `SetupError` for anything else."""
    if isinstance(task, str):
        return task, []
    texts: list[str] = []
    media: list[Image | File] = []
    for number, given in enumerate(task, 1):
        if isinstance(given, str):
            texts.append(given)
        elif isinstance(given, (Image, File)):
            media.append(given)
        else:
            message = f"part {number} of the task is a {type(given).__name__}"
            raise SetupError(message, hint="write texts, `Image.read(...)` and `File.read(...)`")
    return "\n".join(texts), parts_of(media)


def parts_of(media: Sequence[Image | File]) -> list[dict[str, Any]]:
    """Images and files as parts of one message."""
    if len(media) > MOST:
        message = f"{len(media):,} images and files are too many for one message"
        raise SetupError(message, hint=f"give at most {MOST}")
    return [one.part for one in media]


def _url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{b64encode(data).decode()}"


def _check_size(data: bytes, what: str) -> bytes:
    if not data:
        raise SetupError(f"this {what} is empty", hint="check the file")
    if len(data) > LARGEST:
        message = f"this {what} has {say_size(len(data))}"
        raise SetupError(message, hint=f"give at most {say_size(LARGEST)}: make it smaller")
    return bytes(data)


def _read(path: str | Path) -> bytes:
    try:
        found = Path(path).stat()
        if not (S_ISREG(found.st_mode) or S_ISDIR(found.st_mode)):  # a pipe may never end
            raise SetupError(f"`{path}` is not a file", hint="give a file")
        if found.st_size > LARGEST:
            message = f"`{path}` has {say_size(found.st_size)}"
            hint = f"give at most {say_size(LARGEST)}: make it smaller"
            raise SetupError(message, hint=hint)
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SetupError(f"`{path}` cannot be read: {why}", hint="check the path") from error

"""The fault in a text of a file, with its offset: the base for labels and templates."""

from __future__ import annotations


class TextFault(Exception):
    """A fault in a text. `code` is one of `core.codes`; `offset` and `width` locate it."""

    def __init__(self, code: str, message: str, hint: str, offset: int, width: int) -> None:
        self.code = code
        self.message = message
        self.hint = hint
        self.offset = offset
        self.width = max(1, width)
        super().__init__(code, message, hint, offset, width)

    def __str__(self) -> str:
        return self.message

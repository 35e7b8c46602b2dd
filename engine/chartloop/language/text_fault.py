"""A text of a file cannot be used, and where in it: what labels and templates raise."""

from __future__ import annotations


class TextFault(Exception):
    """`code` is one of `core.codes`; `offset` and `width` say where in the text as it was given."""

    def __init__(self, code: str, message: str, hint: str, offset: int, width: int) -> None:
        self.code = code
        self.message = message
        self.hint = hint
        self.offset = offset
        self.width = max(1, width)
        super().__init__(code, message, hint, offset, width)

    def __str__(self) -> str:
        return self.message

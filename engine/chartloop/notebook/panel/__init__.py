"""The panel of a notebook: a run beside its picture, with buttons.

    page ──order──▶ widget ──▶ desk ──▶ the run
    page ◀─board── widget ◀── desk ◀──┘

`orders` reads what a page sends, `board` says what a page shows, `desk` does one thing at a time
on threads of its own, and `widget` is the only module that knows anywidget. The page is the plain
files of `page`: they ask nobody outside for anything.
"""

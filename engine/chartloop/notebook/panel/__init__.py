"""The panel of a notebook: a run next to its picture, with buttons.

    page ──order──▶ widget ──▶ controller ──▶ the run
    page ◀──view── widget ◀── controller ◀──┘

What a page sends is an order of `view_model`, what it shows a `RunView`. `controller` does one
thing at a time on its own threads, and `widget` is the only module that knows anywidget. The
page is the plain files of `page`: they ask no one outside for anything.
"""

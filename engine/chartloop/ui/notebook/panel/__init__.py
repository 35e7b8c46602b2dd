"""The panel of a notebook: a run next to its picture, with buttons.

    page ──order──▶ widget ──▶ controller ──▶ the run
    page ◀──view── widget ◀── controller ◀──┘

The page sends orders of `view_model` and shows a `RunView`. `controller` carries out one order at a
time on its own threads, and `widget` is the only module that imports anywidget. The page consists
of the plain files in `page`, which make no requests.
"""

"""The view of a run that every face shows, and the orders that a face may give.

    run ──build──▶ RunView ──▶ a face renders it: terminal, full screen, notebook, page
    run ◀─perform── Order ◀── a face reads it: a key, a line, a button, a request

`run_view` defines the records, `build` makes them from a run, `orders` parses an order and decides
which are allowed now, `perform` carries one out; `text` and `state_drawing` are for faces that show
characters.

Belongs here: the content of a view, the allowed orders. Never: markup, widgets, threads, streams.
"""

"""A run as every face shows it, and the orders that a face may give.

    run ──build──▶ RunView ──▶ a face paints it: terminal, full screen, notebook, page
    run ◀─perform── Order ◀── a face reads it: a key, a line, a button, a request

`run_view` holds the records, `build` reads them from a run, `orders` reads an order and says what
is allowed now, `perform` carries one out, `text` and `state_drawing` are for faces that show
characters.

Belongs here: what is shown and what is allowed. Never: markup, widgets, threads, streams.
"""

"""What people look at besides the command line: one view of a run, and where it is shown.

    view_model   what is shown of a run, as one plain record, and the orders that it takes
    tui          the full screen of `chartloop step`
    notebook     the live picture and the panel

Belongs here: showing a run and taking orders for it. Never: HTTP (`hosting`), deciding anything.
"""

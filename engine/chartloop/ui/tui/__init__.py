"""The full screen of `chartloop step`: the only folder that imports textual.

Belongs here: panes, keys, the thread on which a run is stepped. Never: what a command does, or how
a run is read. Both come from `board.Controls`, so that the prompt and the screen behave alike.
"""

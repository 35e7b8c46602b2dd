"""Runs in notebooks: tables, pandas frames, a picture that follows a run, a panel.

Belongs here: IPython, marimo, anywidget and pandas, each imported when it is used. Never: what a
picture looks like (`view`), what a run does. A run is known by a protocol only: `api` is above.
"""

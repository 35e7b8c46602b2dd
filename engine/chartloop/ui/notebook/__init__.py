"""Runs in notebooks: a picture that follows a run, and a panel with buttons.

Belongs here: IPython and anywidget, each imported on first use. Never: the look of a picture
(`pictures`), what a run does.
"""

"""What a notebook shows of a run: tables, pandas frames, and a picture that follows the run.

Belongs here: IPython, marimo and pandas, each imported when it is used. Never: what a picture
looks like (`view`), what a run does. A run is known by a protocol only: `api` stands above.
"""

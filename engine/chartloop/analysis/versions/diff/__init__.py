"""The differences between two machines: in words, as data, as one picture.

Belongs here: two specs, compared by meaning, and their flowcharts, merged. Never: files, git, runs.
"""

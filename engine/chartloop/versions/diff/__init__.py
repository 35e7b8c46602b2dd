"""What must change to make one machine the other: in words, as data, as one picture.

Belongs here: two specs, compared in meaning, and their flowcharts, merged. Never: files, git, runs.
"""

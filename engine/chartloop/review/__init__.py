"""Machines next to each other: what differs between two, in words and as one picture.

    git, sources ──▶ two machines ──compare──▶ Diff ──▶ words, JSON, one merged chart ──▶ a comment

Belongs here: comparing machines and showing that to whoever reviews them. Never: running one, or
importing what a file under review names.

Source: the issue "Pictures", 3
"""

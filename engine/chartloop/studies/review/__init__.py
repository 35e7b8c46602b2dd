"""Reviews of changed machines: their differences in words and as one picture, in one comment.

    git, sources ──▶ two machines ──compare──▶ Diff ──▶ words, JSON, one merged chart ──▶ a comment

Belongs here: finding changed machines and presenting the changes to reviewers. Never: running a
machine, or importing names from a file under review.

Source: the issue "Pictures", 3
"""

"""Proofs about every run of a machine, made before the first one.

    bound    the most that a run can cost
    query    which paths a run can take, and which it never takes
    guards   whether guards can hold together

All three read the abstract machine (`machine.abstract`). Belongs here: answers with a witness or a
reason. Never: running anything, or wording findings for authors (see `checker`).
"""

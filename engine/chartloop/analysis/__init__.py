"""What is known of a machine without running it.

    proofs     what holds in every run: bounds, queries, whether guards can hold together
    checker    what is wrong with a machine, as findings
    versions   two versions of a machine: the difference, and whether a recorded run can continue

Belongs here: reading a chart. Never: having an effect, or driving a run.
"""

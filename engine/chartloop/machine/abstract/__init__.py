"""Every way that a run may take, without running it: what bounds and queries are asked of.

    turning     from which value of a counter on a guard is decided
    growing     the graph while it is being made
    signalling  which signals may be raised at a moment, and by whom
    routes      the graph: where a run may be, and what leads on from there

The graph has every path that the engine can take and may have more, never fewer: a guard
that cannot be settled may hold or not, an action may fail in every way. What is proven of the
graph is true of every run. Pure.
"""

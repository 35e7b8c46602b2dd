"""Every path that a run may take, without running it: the graph for bounds and queries.

    position       places, routes and moves: the nodes and edges of the graph
    thresholds     the value of a counter from which a guard is decided
    counters       the facts and variables that are counters
    signals        the signals that may be raised at a moment, and their sources
    failures       the failures that no action causes
    edges          the file's own edges at a place
    graph_builder  the graph under construction
    graph          the graph: every place, and every route from there

The graph has every path that the engine can take, perhaps more, never fewer: an undecided guard may
hold or not, and an action may fail in every way. What is proven of the graph is true of every run.
Pure.
"""

"""Pictures: from the graph of a machine to a chart, its formats, and comparisons of charts.

Belongs here: the plain record of boxes and arrows, the formats in which it is written, the
comparison of charts. Never: loading files, running machines, the network.
"""

"""Graph to picture: what a machine looks like, and whether two charts are the same.

Belongs here: the plain record of boxes and arrows, the formats it is written in, the reader of
Mermaid text, the comparison of charts. Never: loading files, running machines, the network.
"""

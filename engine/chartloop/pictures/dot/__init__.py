"""Charts as pictures that Graphviz lays out."""

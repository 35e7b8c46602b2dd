"""Charts of documents: read, made into machine files, and compared with machines.

Belongs here: formats that chartloop does not define. Does not decide what a machine means.
"""

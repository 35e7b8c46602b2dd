"""The keys of a machine file, before its names are resolved.

    keys          what a key and a kind of value are
    file, parts   the parts of a file: each key with its kind, default and words
    shape         the reading of a document by these keys: every fault with its place
    unreadable    the parts that could not be read, which later checks skip
    schema        the keys as JSON Schema, for editors

Never: the meaning of a name; that is `language.readers`.
"""

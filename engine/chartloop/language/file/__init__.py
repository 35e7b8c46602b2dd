"""The shape of a machine file, before any name in it has a meaning.

    file, parts   what may be where, as pydantic models; base and names are their bricks
    shape         a document against these models: everything that does not fit, with its place
    unread        what of a file could not be read, of which nothing more is said
    schema        the same models as JSON Schema, for editors

Never: what a name stands for; that is `language.readers`.
"""

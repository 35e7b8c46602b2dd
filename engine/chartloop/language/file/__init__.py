"""The shape of a machine file, before its names are resolved.

    file, parts   the allowed keys and kinds of values, as pydantic models; `base` and `name_rules`
                  are their building blocks
    shape         validation of a document by these models: every fault with its place
    unreadable    the parts that could not be read, which later checks skip
    schema        the models as JSON Schema, for editors

Never: the meaning of a name; that is `language.readers`.
"""

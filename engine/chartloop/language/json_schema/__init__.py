"""JSON Schemas for model replies.

    faults      the faults in a schema
    validator   the validation of data, by `jsonschema-rs`
    cost        the depth of data that can be validated in time
    typed       the type of data that satisfies a schema
    of_type     the schema of a type
    reply       a schema for replies, with the class that it may come from

Source: JSON Schema 2020-12, "Core" and "Validation".
"""

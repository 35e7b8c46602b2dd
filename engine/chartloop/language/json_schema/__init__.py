"""The JSON Schema that a file asks of a model's reply.

    faults      what is wrong with a schema
    validator   the door to the validating library
    typed       the type of what satisfies a schema
    reply       a schema with the class that it may come from: reads replies

Source: JSON Schema 2020-12, "Core" and "Validation".
"""

"""The terms of chartloop: facts, outcomes, records, reasons, units, errors.

Pure: nothing here reads a clock, a file or the network, and nothing here knows
`transitions`, YAML or a model provider.
"""

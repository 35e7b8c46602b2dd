"""The core terms of chartloop: facts, outcomes, records, reasons, units, errors.

Pure: no module here reads a clock, a file or the network, or depends on `transitions`, YAML or
a model provider.
"""

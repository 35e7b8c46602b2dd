"""The core terms of chartloop: facts, outcomes, records, reasons, units, errors.

Pure: no module here reads a clock, a file or the network, or depends on `transitions`, YAML or
a model provider.

Of a step: `facts` and their types (`types`), `outcome`, `fold`, `reasons`, `records`, `position`.
Of the conversation: `transcript` (the list that grows), `conversation` (pruning and search),
`media_parts`, `reasoning`. Of what is declared: `specs`, `traits`. Of what is shown: `reports`,
`text_table`, `html_table`, `format`, `units`, `visible`. Of faults: `codes`, `errors`.
"""

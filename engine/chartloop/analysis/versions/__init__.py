"""Two versions of a machine: what changed, and which recorded runs can continue under the newer.

    diff        the differences, in words, as data and as one picture
    migration   the verdict for one recorded run: unchanged, safe, needs a state map, or unsafe

`Machine.open` asks `migration` before it continues a run under an edited file, so both are below
`api`. Belongs here: values computed from charts and records. Never: reading a journal.
"""

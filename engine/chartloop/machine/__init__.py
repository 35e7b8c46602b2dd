"""From spec to something that decides: live `transitions` machines, and `evolve`.

MachineSpec ──build──▶ Chart (two live machines + tables) ──evolve──▶ Position, Decision
"""

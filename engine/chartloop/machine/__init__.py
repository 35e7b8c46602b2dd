"""Compiles a spec to live `transitions` machines, and decides with them: `evolve`.

MachineSpec ──build──▶ Chart (two live machines + tables) ──evolve──▶ Position, Decision
"""

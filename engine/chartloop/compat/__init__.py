"""Faces of other systems over the machines that ship: their names, our runs.

A module here holds names and translations only. What decides is the machine.
"""

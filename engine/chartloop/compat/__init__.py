"""Interfaces of other systems over the shipped machines.

A module here holds names and translations only. The machine decides.
"""

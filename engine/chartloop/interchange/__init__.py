"""Machines in the languages of others: what is read from documents, what is written for libraries.

Belongs here: formats that chartloop does not own. Never: what a machine means, a picture.
"""

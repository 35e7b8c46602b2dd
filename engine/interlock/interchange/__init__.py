"""Machines in the languages of others: what is read from documents, what is written for libraries.

Belongs here: formats that interlock does not own. Never: what a machine means, a picture.
"""

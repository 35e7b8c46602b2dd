"""Foreign formats: flowcharts read from documents, machines written for other libraries.

Belongs here: formats that chartloop does not define. Never: the meaning of a machine, a picture.
"""

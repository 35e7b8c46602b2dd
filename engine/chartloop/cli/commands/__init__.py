"""One file per command, with the command's name; the table of all of them is in `cli.app`.

Belongs here: arguments, options, and the order in which things are done. Never: tables, words,
streams or runs, which are the parts beside this folder.
"""

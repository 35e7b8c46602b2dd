"""One module per command, with the command's name; `cli.app` has the table of all commands.

Belongs here: arguments, options and the sequence of calls. Never: tables, wording, streams or the
driving of runs, which are modules of `cli`.
"""

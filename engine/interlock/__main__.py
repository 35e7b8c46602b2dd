"""`python -m interlock`: the command line."""

from interlock.cli import main

main()

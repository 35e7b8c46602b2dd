"""`python -m chartloop`: the command line."""

from chartloop.cli import main

main()

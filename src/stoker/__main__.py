"""`python -m stoker`: the same as the command `stoker`."""

from stoker.cli.main import main

main()

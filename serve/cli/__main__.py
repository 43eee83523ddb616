"""`python -P -m serve.cli`: the command line without an installation."""

from serve.cli import main

main()

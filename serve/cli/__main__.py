"""`python -P -m serve.cli`: the command line where nothing was installed."""

from serve.cli import main

main()

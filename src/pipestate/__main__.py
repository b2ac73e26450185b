"""`python -m pipestate` is the same as `pipestate`."""

from pipestate.cli.main import main

main()

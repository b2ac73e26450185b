"""pipestate: runbooks that run, and destructive migrations that wait for their gate."""

# A constant, which the build reads from here: asking the installed metadata would take a third of `--version`.
__version__ = "0.1.0"

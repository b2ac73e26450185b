"""The command line: thin verbs that load, call, render and exit."""

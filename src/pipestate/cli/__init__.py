"""Command line: thin commands that load, call the library, render and exit."""

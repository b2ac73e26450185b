"""Built-in probe: a command that prints a number."""

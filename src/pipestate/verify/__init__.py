"""Checks and their verdicts: what was required, what was observed."""

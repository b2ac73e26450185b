"""Paths as people read them."""

from pathlib import Path


def from_here(path: Path) -> Path:
    """Return the path as somebody would write it from here: that is what messages and reports show."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path

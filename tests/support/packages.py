"""Packages that exist only for a test: a module, and the metadata that offers its entry points."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import invalidate_caches
from pathlib import Path


@contextmanager
def installed(directory: Path, name: str, code: str, **groups: dict[str, str]) -> Iterator[None]:
    """Let a distribution be found for a while; `groups` are its entry points, `commands` and the like."""
    module = name.replace("-", "_")
    home = directory / name
    metadata = home / f"{module}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (home / f"{module}.py").write_text(code)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    sections = (
        f"[pipestate.{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items())
        for group, points in groups.items()
    )
    (metadata / "entry_points.txt").write_text("\n".join(sections))
    sys.path.insert(0, str(home))
    invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(home))
        sys.modules.pop(module, None)

"""The database of the tour on migration/index.md. The demo itself: `make demo`, and at its poorest test_wheel.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.documentation import find_page

pytestmark = pytest.mark.scene


def test_the_database_of_the_tour_is_made_by_one_line_and_ended_by_another(tmp_path: Path) -> None:
    """A shell takes the URL from stdout; what to know, and how to end it, is on stderr."""
    line = 'eval "$(pipestate demo --only-database)"'
    assert line in find_page("migration/index.md").read_text()
    has_gate_of = "pipestate plan --shipped"
    script = "\n".join(("exec 2> said", line, has_gate_of, 'eval "$(tail -n 1 said)"', has_gate_of))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Next: alembic" in done.stdout, (tmp_path / "said").read_text()
    assert done.returncode == 3, "the server must be gone"
    assert "300 sites" in (tmp_path / "said").read_text()

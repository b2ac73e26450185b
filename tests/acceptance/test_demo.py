"""The demo where it is most dangerous, and where it is at its poorest. With all its parts: test_wheel.py."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from alembics import ROOT
from html_pages import Html, must_be_whole

WITHOUT_REDIS = """
from pipestate import embedded
from pipestate.pipeline.demo.story import demo

embedded.has_redis = lambda: False
demo()
"""


def test_without_redis_and_with_production_in_the_environment_it_stays_on_its_own_servers(
    tmp_path: Path,
) -> None:
    nowhere = "postgresql://app@127.0.0.1:1/production"  # whoever asks it for anything fails
    variables = {
        "PIPESTATE_DATABASE_URL": nowhere,
        "DATABASE_URL": nowhere,
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "STORAGE_DIR": "/nowhere",
        "ALEMBIC_CONFIG": "/nowhere/alembic.ini",
    }
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_REDIS],
        env={**os.environ, **variables},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = " ".join(done.stdout.split())
    assert "Migrated 105 sites" in printed
    assert "the queues and the workers are left out" in printed
    assert '$ alembic -x force="the demo without its queues" upgrade head' in printed
    assert "Every row and value of the 300 sites is back" in printed
    (shown,) = re.findall(r"Open file://(\S+)", printed)
    page = Path(shown)
    must_be_whole(Html(page.read_text()))
    shutil.rmtree(page.parent)


def test_the_database_of_the_tour_is_made_by_one_line_and_ended_by_another(tmp_path: Path) -> None:
    """A shell takes the URL from stdout; what to know, and how to end it, is on stderr."""
    line = 'eval "$(pipestate demo --only-database)"'
    assert line in (ROOT / "README.md").read_text()
    asks = "pipestate plan --shipped"
    script = "\n".join(("exec 2> said", line, asks, 'eval "$(tail -n 1 said)"', asks))
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

"""The demo where it is most dangerous, and where it is at its poorest. With all its parts: test_wheel.py."""

import os
import subprocess
import sys
from pathlib import Path

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

"""`rehearse --clone` and `compat --clone`: pipestate makes the clone itself, and removes it."""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks.project import Project, lay_out
from pipestate.config import parse_url
from support.servers import Database, memory

pytestmark = pytest.mark.scene

CLONES = "pipestate-clone-*"


@pytest.fixture
def place() -> Iterator[str]:
    """Where clones lie: a short path, for their socket."""
    with tempfile.TemporaryDirectory(prefix="c-", dir=memory()) as directory:
        yield directory


@pytest.fixture
def project(pg: Database, tmp_path: Path, place: str) -> Project:
    made = lay_out("shop", tmp_path / "project", pg)
    assert made.alembic("upgrade", "b2").returncode == 0
    pg.run("INSERT INTO order_log VALUES (1, 'x')")
    made.environment["TMPDIR"] = place
    return made


def clones(project: Project) -> list[Path]:
    return list(Path(project.environment["TMPDIR"]).glob(CLONES))


def test_a_rehearsal_on_a_clone_of_its_own_is_recorded_and_leaves_nothing(project: Project) -> None:
    done = project.pipestate("rehearse", "--clone", "--record", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert (data["before"], data["after"]) == ("b2", "d4")
    assert data["clone"].startswith("a clone of postgresql://")
    (evaluated,) = [gate for revision in data["revisions"] for gate in revision["gates"]]
    assert (evaluated["gate"], evaluated["state"]) == ("shop/ready", "closed")
    production = project.database
    assert production.rows("SELECT version_num FROM alembic_version") == [("b2",)]
    assert production.rows("SELECT target, ok, clone FROM pipestate.rehearsal") == [
        ("d4", True, data["clone"])
    ]
    assert "the clone is ready: " in done.stderr
    assert clones(project) == []


def test_compat_needs_no_rows_and_a_kept_clone_says_how_to_end_it(project: Project) -> None:
    project.write("today.sql", "SELECT id, old_status FROM orders WHERE id = $1")
    done = project.pipestate(
        "compat", "--clone", "--schema-only", "--keep-clone", "--statements", "today.sql"
    )
    assert done.returncode == 1, done.stderr
    assert 'column "old_status" does not exist' in done.stdout
    assert "left out: all rows but those of the version table and the ledger" in done.stderr
    found = re.search(r"the clone keeps running: (\S+); end it with: (.+)", done.stderr)
    assert found is not None
    clone = Database(parse_url(found[1]))
    assert clone.rows("SELECT version_num FROM alembic_version") == [("d4",)]
    assert clone.value("SELECT count(*) FROM orders") == 0
    clone.engine.dispose()
    subprocess.run(found[2], shell=True, check=True, capture_output=True)
    assert clones(project) == []


def test_a_clone_does_not_outlive_a_command_that_is_killed(project: Project) -> None:
    project.edit(
        "migrations/versions/d4_receipts.py", ("def upgrade", "import time\ntime.sleep(60)\n\n\ndef upgrade")
    )
    with project.running("-m", "pipestate", "rehearse", "--clone") as process:
        assert process.stderr is not None
        assert any("the clone is ready" in line for line in process.stderr)
        (place,) = clones(project)
        server = int((place / "data" / "postmaster.pid").read_text().splitlines()[0])
        process.kill()
    for _ in range(100):
        if not place.exists():
            break
        time.sleep(0.1)
    assert not place.exists()
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(server)], capture_output=True, text=True, check=False
    )
    assert state.stdout.strip()[:1] in ("", "Z")  # gone, or ended and not yet buried


def test_what_is_refused_before_anything_is_copied(project: Project) -> None:
    url = project.database.text
    said = {
        (): "name one clone: --on URL",
        ("--clone", "--on", url): "name one clone: --on URL",
        ("--on", url, "--keep-clone"): "--keep-clone works only with --clone",
        ("--clone", "--schema-only", "--max-wait", "1s"): "--max-wait needs times",
        ("--clone", "--max-size", "much"): "write a size such as 500MB or 10GB",
        ("--clone", "--max-size", "1MB"): "above --max-size (1 MB): raise it, or give --on",
        ("--clone", "--to", "b2"): "is at b2, so there is nothing to rehearse",
        ("--clone", "--from", "d4"): "nothing is pending behind d4",
    }
    long = Path(project.environment["TMPDIR"]) / ("long" * 20)
    long.mkdir()
    done = project.pipestate("rehearse", "--clone", TMPDIR=str(long))
    assert (done.returncode, list(long.iterdir())) == (2, [])
    assert "is too long for a socket in it: set TMPDIR to a shorter one" in done.stderr
    for options, sentence in said.items():
        done = project.pipestate("rehearse", *options)
        assert (done.returncode, done.stdout) == (2, ""), options
        assert sentence in done.stderr
    assert clones(project) == []

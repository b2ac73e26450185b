"""The wheel, installed away from the checkout: the commands of the README's "Without a checkout"."""

import os
import re
import shlex
import site
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.alembic_runs import ROOT, Migrations
from support.documentation import commands, find_page
from support.html_pages import Html, must_be_whole
from support.new_user import sections

pytestmark = pytest.mark.scene

ALEMBIC = "#!{python}\nfrom alembic.config import main\nmain(prog='alembic')\n"


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel in it, and an empty directory to be in."""

    environment: Path
    directory: Path

    def run(self, command: str, **more: str) -> "subprocess.CompletedProcess[str]":
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        path = f"{self.environment / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory,
            env={**kept, "PATH": path, **more},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def must(self, command: str, code: int = 0, **more: str) -> str:
        done = self.run(command, **more)
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """Built and installed without a download: its dependencies are those of this environment.

    A directory that a .pth file names is searched, but its own .pth files are not read: so the editable
    installation of the checkout is out of sight.
    """
    root = tmp_path_factory.mktemp("wheel")
    here = Installed(root / "venv", root / "empty")
    here.directory.mkdir()
    _call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(root))
    _call(sys.executable, "-m", "venv", "--without-pip", str(here.environment))
    python = here.environment / "bin" / "python"
    (wheel,) = root.glob("*.whl")
    _call(sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", str(wheel))
    (packages,) = here.environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    script = here.environment / "bin" / "alembic"
    script.write_text(ALEMBIC.format(python=python))
    script.chmod(0o755)
    yield here
    assert list(here.directory.iterdir()) == [], "a command left something behind"


def _call(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_the_wheel_that_is_imported(installed: Installed) -> None:
    where = installed.must("python -c 'import pipestate; print(pipestate.__file__)'").strip()
    assert Path(where).is_relative_to(installed.environment)
    assert installed.must("pipestate --version").startswith("pipestate ")
    ini = Path(installed.must("pipestate --alembic-ini").strip())
    assert ini.is_file()
    assert ini.is_relative_to(installed.environment)


def test_what_the_page_says_of_the_wheel(installed: Installed, pg_legacy: Migrations) -> None:
    """The section's commands, on a database that its tour has brought to 0005."""
    database = pg_legacy.database
    up = 'alembic -c "$(pipestate --alembic-ini)" upgrade 0005'
    installed.must(up, DATABASE_URL=database.text)
    assert pg_legacy.revision() == "0005"
    shown = sections(find_page("migration/index.md"))["Without a checkout"]
    for example in shown:
        lines = [f"{command.text}\n" for command in commands(example.text)]
        installed.must("set -e\n" + "".join(lines), DATABASE_URL=database.text)


def test_the_variants_for_sqlite_come_along(installed: Installed) -> None:
    said = installed.must(
        "pipestate runbook show sites-consolidation --phase expand --dialect sqlite --shipped"
    )
    assert "shipped/runbooks/sites-consolidation.sqlite.md:" in said


def test_a_closed_gate_names_lines_of_the_shipped_runbook(
    installed: Installed, pg_expanded: Migrations
) -> None:
    said = installed.must(
        "pipestate gate readiness --shipped --json", code=1, DATABASE_URL=pg_expanded.database.text
    )
    assert "shipped/runbooks/sites-consolidation.md:" in said


def test_the_report_brings_its_templates_along(installed: Installed, pg_expanded: Migrations) -> None:
    page = installed.must("pipestate report --shipped --output -", DATABASE_URL=pg_expanded.database.text)
    assert page.rstrip().endswith("</html>")


WITHOUT_REDIS = """
from pipestate.pipeline.demo import stage
from pipestate.pipeline.demo.story import demo

stage.has_redis = lambda: False
demo(keep=True, pause=True)
"""
NOWHERE = {  # whoever connects to one of these fails
    "PIPESTATE_DATABASE_URL": "postgresql://app@127.0.0.1:1/production",
    "DATABASE_URL": "postgresql://app@127.0.0.1:1/production",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "STORAGE_DIR": "/nowhere",
    "ALEMBIC_CONFIG": "/nowhere/alembic.ini",
}


def test_the_demo_runs_from_the_wheel_at_its_poorest_and_leaves_its_server_if_asked_to(
    installed: Installed,
) -> None:
    """Without Redis, with production in the environment, and with nobody there to press a key.

    With all its parts it runs in `make demo`, which stops at the first step that does not end as it should.
    """
    story = ["env", *(f"{name}={value}" for name, value in NOWHERE.items()), "python", "-c", WITHOUT_REDIS]
    printed = installed.must(f"{shlex.join(story)} < /dev/null")
    for line in (
        "$ pipestate backfill --dry-run",
        "Would migrate 105 sites",
        "Migrated 105 sites",
        "the queues and the workers are left out",
        '$ alembic -x force="the demo without its queues" upgrade head',
        "$ alembic downgrade -2",
        "Every row and value of the 300 sites is back",
    ):
        assert line in " ".join(printed.split()), line
    (page,) = re.findall(r"Open file://(\S+)", printed)
    must_be_whole(Html(Path(page).read_text()))
    exports = "; ".join(line for line in printed.splitlines() if line.startswith("export "))
    assert "0007 (head)" in installed.must(f"{exports}; alembic current")
    end = printed.splitlines()[-1]
    assert end.startswith("kill ")
    installed.must(end)
    assert "0007" not in installed.run(f"{exports}; alembic current").stdout


def test_the_workers_of_the_example_come_along(installed: Installed) -> None:
    examples = '$(dirname "$(pipestate --alembic-ini)")/examples'
    installed.must(f'PYTHONPATH="{examples}" python -c "import clerk.worker"')

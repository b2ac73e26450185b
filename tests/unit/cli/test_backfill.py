"""The form of a command without a name: what one package offers, and nothing where two do."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipestate.cli.backfill import backfill, with_default_backfill
from support.alembic_runs import ROOT
from support.packages import installed

OFFER = "def backfill(*, colour: str = 'red') -> None:\n    '''Paint.'''\n    print(colour)\n"


def own(*, name: str | None = None, dry_run: bool = False) -> str:
    """Fill."""
    return f"own {name}"


own.__name__ = "backfill"


def test_the_command_has_the_options_of_both_forms() -> None:
    options = inspect.signature(backfill).parameters
    assert {"name", "max_lag", "dry_run", "storage_dir", "threshold_hours"} <= set(options)
    assert "Without a name: " in str(backfill.__doc__)


def test_what_two_packages_offer_is_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with installed(tmp_path, "acme", OFFER, backfills={"backfill": "acme:backfill"}):
        assert with_default_backfill(own) is own
    said = capsys.readouterr().err
    assert said.startswith("pipestate: the default backfill backfill of ")
    assert said.endswith("is offered more than once: uninstall one of them\n")


def test_the_application_is_shown_only_where_its_migrations_are_served(tmp_path: Path) -> None:
    """Elsewhere its commands can still be called, and nobody has to read about OCR."""

    def shown(directory: Path, *words: str) -> str:
        program = [sys.executable, "-m", "pipestate", *words, "--help"]
        return subprocess.run(program, cwd=directory, capture_output=True, text=True, check=True).stdout

    for directory, is_served in ((ROOT, True), (tmp_path, False)):
        listed = re.findall(r"^  (\w+) ", shown(directory), re.MULTILINE)
        assert {"demo", "backfill"} <= set(listed)
        assert ({"queues", "reconcile"} <= set(listed)) is is_served
        assert ("--storage-dir" in shown(directory, "backfill")) is is_served
    (tmp_path / "alembic").mkdir()
    (tmp_path / "alembic.ini").write_text("[alembic]\nscript_location = %(here)s/alembic\n")
    for named in (["-c", "alembic.ini"], ["--config=alembic.ini"], ["--scripts", "alembic"]):
        assert "OCR" not in shown(tmp_path, "backfill", *named)
    assert "--storage-dir" in shown(tmp_path, "backfill", "-c", str(ROOT / "alembic.ini"))
    assert "--storage-dir" in shown(tmp_path, "backfill", "--shipped")
    assert "clear" in shown(tmp_path, "queues")

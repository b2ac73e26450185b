"""What the Tab key offers: the names of the pages that can be read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipestate.cli.options import complete_phase, complete_runbook


def test_a_broken_page_hides_no_names_of_the_others(miniature: Callable[[str], Path]) -> None:
    miniature("stock")
    Path("runbooks/broken.md").write_text("no front matter")
    assert complete_runbook("") == ["orders"]
    assert complete_phase("") == ["orders/ready", "ready"]
    assert complete_phase("ord") == ["orders/ready"]


def test_outside_a_project_nothing_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert complete_runbook("") == []

"""Drafts are written all together, or not at all."""

import os
from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError
from pipestate.project.scaffold.draft import Draft, write


def test_where_a_file_cannot_be_replaced_the_earlier_one_is_taken_back(tmp_path: Path) -> None:
    revision, page = tmp_path / "d4.py", tmp_path / "orders.md"
    page.write_text("old")
    (tmp_path / f".orders.md.{os.getpid()}.tmp").mkdir()  # in the way, also of whoever may write anywhere
    with pytest.raises(ConfigError, match=r"cannot write .*orders\.md: .*nothing was written"):
        write([Draft(revision, "new"), Draft(page, "new", replaces="old")])
    assert not revision.exists()
    assert page.read_text() == "old"


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    page = tmp_path / "orders.md"
    page.write_text("old")
    page.chmod(0o640)
    write([Draft(page, "new", replaces="old")])
    assert (page.read_text(), page.stat().st_mode & 0o777) == ("new", 0o640)

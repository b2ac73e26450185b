"""What a closed gate says in Python: the report of `pipestate verify`, and the revision that must not run."""

from pathlib import Path

import pytest

from pipestate.cli.formats.json import as_plain
from pipestate.gate import GateClosed
from support.servers import Database
from support.shop_project import open_shop


def test_a_closed_gate_carries_the_report_that_verify_would_give(database: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path / "shop", database)
    shop.upgrade("b2")
    shop.fill()
    with pytest.raises(GateClosed) as closed:
        shop.upgrade()
    wanted = shop.pipestate("verify")
    found = as_plain(closed.value.report)
    assert closed.value.revision == "c3"
    assert found["database"] == wanted["database"]
    assert (found["ok"], found["summary"]) == (wanted["ok"], wanted["summary"])

"""A broken page beside a good one: what names the good one works, and what must read all says which page stops it."""

import os
from pathlib import Path

import pytest

from support.programs import run_program
from support.runbook_samples import block, page
from support.servers import Database
from support.shop_project import Shop, open_shop

BROKEN = page(block("SELECT 1 AS x", colour="blue"), name="broken")
SIGN_OFF = "\n- [ ] `backup-taken` (24h): A backup lies on another machine.\n"
BACKFILL = """
```sql
-- backfill: status
-- table: orders
-- key: id
UPDATE orders SET status = 'new' WHERE id BETWEEN :first AND :last AND status IS NULL;
```
"""


def typed(value: object) -> str:
    return " ".join(value) if isinstance(value, list) else ""


@pytest.fixture
def shop(pg: Database, tmp_path: Path) -> Shop:
    """The shop before its contract, with a sign-off and a backfill on its page, and a broken page beside it."""
    shop = open_shop(tmp_path, pg)
    shop.upgrade("b2")
    shop.fill()
    good = shop.root / "runbooks" / "shop.md"
    good.write_text(good.read_text() + SIGN_OFF + BACKFILL)
    (good.parent / "broken.md").write_text(BROKEN)
    (shop.root / "fleet.txt").write_text(f"{pg.text}\n")
    return shop


def run(shop: Shop, *arguments: str) -> tuple[int, str]:
    done = run_program(["pipestate", *arguments], cwd=shop.root, environment=os.environ)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["verify", "shop"], 1),
        (["verify", "--phase", "shop/ready"], 1),
        (["gate", "shop/ready"], 1),
        (["status", "shop"], 0),
        (["report", "shop", "--output", "page.html"], 0),
        (["runbook", "show", "shop"], 0),
        (["runbook", "lint", "runbooks/shop.md"], 0),
        (["attest", "shop/ready/backup-taken", "--by", "dba"], 0),
        (["backfill", "shop/status", "--dry-run"], 0),
        (["fleet", "verify", "shop", "--databases", "fleet.txt"], 1),
        (["fleet", "verify", "--phase", "shop/ready", "--databases", "fleet.txt"], 1),
        (["fleet", "gate", "shop/ready", "--databases", "fleet.txt"], 1),
        (["history"], 0),
    ],
    ids=typed,
)
def test_what_names_another_page_works(shop: Shop, arguments: list[str], code: int) -> None:
    done, stderr = run(shop, *arguments)
    assert (done, "broken.md" in stderr) == (code, False), stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify"],
        ["status"],
        ["plan"],
        ["upgrade"],
        ["gate", "ready"],
        ["attest", "backup-taken", "--by", "dba"],
        ["backfill", "status"],
        ["fleet", "plan", "--databases", "fleet.txt"],
    ],
    ids=typed,
)
def test_what_must_read_all_says_which_page_stops_it(shop: Shop, arguments: list[str]) -> None:
    done, stderr = run(shop, *arguments)
    assert done == 2
    assert stderr.startswith("pipestate: runbooks/broken.md:11: unknown directive"), stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["verify"], 1), (["status"], 0), (["fleet", "plan", "--databases", "fleet.txt"], 0)],
    ids=typed,
)
def test_a_page_that_does_not_run_by_default_does_not_stop_those_that_do(
    shop: Shop, arguments: list[str], code: int
) -> None:
    (shop.root / "runbooks" / "broken.md").write_text(BROKEN.replace("default: true", "default: false"))
    done, stderr = run(shop, *arguments)
    assert (done, "broken.md" in stderr) == (code, False), stderr

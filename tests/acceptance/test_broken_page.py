"""A broken page beside a good one: what names the good one works, and what must read all says which page stops it."""

import os
from functools import partial
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
        (["gate", "ready"], 1),
        (["upgrade"], 1),
        (["status", "shop"], 0),
        (["report", "shop", "--output", "page.html"], 0),
        (["runbook", "show", "shop"], 0),
        (["runbook", "lint", "runbooks/shop.md"], 0),
        (["attest", "shop/ready/backup-taken", "--by", "dba"], 0),
        (["attest", "backup-taken", "--by", "dba"], 0),
        (["backfill", "shop/status", "--dry-run"], 0),
        (["backfill", "status", "--dry-run"], 0),
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
        ["gate", "one"],
        ["attest", "c", "--by", "dba"],
        ["backfill", "x"],
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


FRONT = BROKEN.partition("# Book")[0]
FAULTS = {
    "an unknown directive": BROKEN,
    "a sign-off without its length": page(
        "- [ ] `backup-taken`: A backup.\n", block("SELECT 1 AS x"), name="broken"
    ),
    "an id twice": page(block("SELECT 1 AS x"), block("SELECT 1 AS x"), name="broken"),
    "a fence that is not closed": BROKEN.removesuffix("```\n\n"),
    "a phase without a section": FRONT,
    "another name": BROKEN.replace("runbook: broken", "runbook: shop"),
    "front matter that is not YAML": BROKEN.replace("phases:", "phases: ["),
    "no front matter": "# Notes\n",
    "nothing": "",
    "other bytes": BROKEN.encode("utf-16"),
}


@pytest.fixture
def empty_shop(pg: Database, tmp_path: Path) -> Shop:
    return open_shop(tmp_path, pg)


def alembic(shop: Shop, *arguments: str) -> tuple[int, str]:
    done = run_program(["alembic", *arguments], cwd=shop.root, environment=os.environ)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("text", FAULTS.values(), ids=FAULTS)
def test_a_broken_page_stops_no_revision_that_it_does_not_name(empty_shop: Shop, text: str | bytes) -> None:
    broken = empty_shop.root / "runbooks" / "broken.md"
    broken.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert run(empty_shop, "runbook", "lint")[0] == 2
    code, stderr = alembic(empty_shop, "upgrade", "b2")
    assert (code, empty_shop.version()) == (0, "b2"), stderr
    empty_shop.fill()
    empty_shop.approve()
    code, stderr = run(empty_shop, "upgrade")
    assert (code, empty_shop.version()) == (0, "d4"), stderr


@pytest.mark.parametrize(
    "text",
    [
        BROKEN.replace("one: {}", 'one: {opens: ["b2"]}'),
        BROKEN.replace("one: {}", 'one: {opens: "b2"}'),
        "# Notes on b2\n",
        BROKEN.replace("one: {}", 'one: {opens: ["b2"]}').encode("utf-16"),
    ],
    ids=["opens", "opens, without brackets", "a mention, without front matter", "opens, in other bytes"],
)
def test_a_broken_page_stops_a_revision_that_it_may_open(empty_shop: Shop, text: str | bytes) -> None:
    broken = empty_shop.root / "runbooks" / "broken.md"
    broken.write_bytes(text if isinstance(text, bytes) else text.encode())
    for upgrade in (partial(run, empty_shop, "upgrade"), partial(alembic, empty_shop, "upgrade", "head")):
        code, said = upgrade()
        assert code != 0
        assert "this runbook may hold a gate of revision b2, so nothing of it was run" in said
        assert "runbooks/broken.md:" in said
        assert "pipestate runbook lint runbooks/broken.md" in said
        assert "pipestate.run" not in empty_shop.tables()  # b2 installs the ledger


@pytest.mark.parametrize("text", FAULTS.values(), ids=FAULTS)
def test_the_broken_page_of_a_gate_stops_its_revision_alone(empty_shop: Shop, text: str | bytes) -> None:
    good = empty_shop.root / "runbooks" / "shop.md"
    text = text if isinstance(text, bytes) else text.replace("broken", "shop").encode()
    good.write_bytes(
        text if b"colour" not in text else good.read_bytes().replace(b"-- check", b"-- colour: x\n-- check")
    )
    code, stderr = alembic(empty_shop, "upgrade", "b2")
    assert (code, empty_shop.version()) == (0, "b2"), stderr
    empty_shop.fill()
    empty_shop.approve()
    code, stderr = alembic(empty_shop, "upgrade", "head")
    assert code != 0
    assert "shop.md:" in stderr
    empty_shop.assert_untouched()


def test_a_box_without_a_name_stops_nothing(empty_shop: Shop) -> None:
    good = empty_shop.root / "runbooks" / "shop.md"
    good.write_text(good.read_text() + "\n- [ ] remember the milk\n")
    assert run(empty_shop, "runbook", "lint")[0] == 0
    code, stderr = alembic(empty_shop, "upgrade", "head")
    assert (code, empty_shop.version()) == (0, "d4"), stderr

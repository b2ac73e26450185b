"""The history on a terminal: one layout at every width, with titles, and data that stays data."""

import io
import re
from datetime import UTC, datetime

import pytest
from rich.console import Console

from pipestate.cli.formats.plan import print_history
from pipestate.ledger.history import Entry

AT = datetime(2026, 11, 18, 1, 59, 7, tzinfo=UTC)
TITLES = {"0006": "Contract: the old table."}
ENTRIES = [
    Entry(AT, 4, "force", "ops", "orders/ready closed: incident 42", "0006"),
    Entry(AT, 3, "upgrade", "ops", "1.2 s", "0006"),
    Entry(AT, 2, "sign-off", "dba", "orders/ready/backup-taken: s3", "0005"),
    Entry(AT, 1, "stamp", "ops", "0004", "0004"),
]


def seen(entries: list[Entry], width: int, limit: int = 20) -> list[str]:
    screen = Console(width=width, file=io.StringIO(), no_color=True, force_terminal=True)
    print_history(entries, TITLES, "shop.db", screen, limit=limit)
    assert isinstance(screen.file, io.StringIO)
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", screen.file.getvalue()).splitlines()]


def test_an_entry_says_when_what_and_who_and_a_revision_has_its_title() -> None:
    assert seen(ENTRIES, 120) == [
        "shop.db: 4 entries, the newest first; times are UTC",
        "",
        "2026-11-18 01:59  force     orders/ready closed: incident 42; by ops, for 0006 Contract: the old table",
        "2026-11-18 01:59  upgrade   0006 Contract: the old table; 1.2 s; by ops",
        "2026-11-18 01:59  sign-off  orders/ready/backup-taken: s3; by dba, at 0005",
        "2026-11-18 01:59  stamp     0004; by ops",
    ]


@pytest.mark.parametrize("width", [50, 60, 80, 120])
def test_the_layout_is_the_same_at_every_width(width: int) -> None:
    lines = seen(ENTRIES, width)
    begun = [line[:28] for line in lines if line.startswith("2026")]
    assert begun == [f"2026-11-18 01:59  {each.kind:<8}  " for each in ENTRIES]
    assert all(len(line) <= width for line in lines)
    assert "".join(line[28:] for line in lines if line.startswith((" ", "2026"))).count("incident") == 1


def test_an_empty_answer_and_a_full_one_say_so() -> None:
    assert seen([], 80) == ["shop.db: no entry"]
    assert seen(ENTRIES, 80, limit=4)[0].endswith("; --limit shows more")


@pytest.mark.parametrize("width", [60, 120])
def test_what_people_wrote_is_no_markup_and_is_not_obeyed(width: int) -> None:
    hostile = "x[/y] [bold]z\x1b[2J\n::error::owned\u202e"
    lines = seen([Entry(AT, 1, "sign-off", hostile, hostile, hostile)], width)
    assert "[bold]z" in "".join(lines)
    assert not re.findall("[\x00-\x1f\x7f-\x9f\u202a-\u202e]", "".join(lines))
    assert not [line for line in lines if line.lstrip().startswith("::")]

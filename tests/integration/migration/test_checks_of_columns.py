"""CHECKs of hidden columns: no write fails by one, and each returns under its name."""

import json
from pathlib import Path

import pytest

from integration.migration.test_odd_schemas import difference, everything
from integration.migration.test_soft_drop import HOW, VALIDATED, rows
from support.contract_project import lay_out
from support.servers import Database

# The columns, a row, the CHECK, and what turns the answer of the CHECK for that row.
CHANGING = {
    "a time written as text": (
        "x timestamptz",
        "'2020-01-01 00:00+00'",
        "x::text LIKE '2020-01-01 00%'",
        ("SET timezone = 'Asia/Tokyo'",),
        ("SET timezone = 'UTC'",),
    ),
    "a day compared with a time": (
        "x timestamptz, y date",
        "'2020-01-01 00:00+00', '2020-01-01'",
        "x <= y",
        ("SET timezone = 'Asia/Tokyo'",),
        ("SET timezone = 'UTC'",),
    ),
    "a label of an enum written as text": (
        "x mood",
        "'ok'",
        "x::text IN ('ok', 'bad')",
        ("ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'",),
        ("ALTER TYPE mood RENAME VALUE 'fine' TO 'ok'",),
    ),
    "a domain": (
        "x int",
        "1",
        "x::positive > 0",
        ("ALTER DOMAIN positive ADD CONSTRAINT more CHECK (VALUE > 5)",),
        ("ALTER DOMAIN positive DROP CONSTRAINT more",),
    ),
    "a domain without nulls": ("x int", "1", "x::present > 0", (), ()),
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("what", CHANGING)
def test_a_check_whose_answer_changes_fails_no_write(
    pg: Database, tmp_path: Path, what: str, how: str
) -> None:
    columns, row, condition, changes, back = CHANGING[what]
    pg.run(
        "SET timezone = 'UTC'",
        "CREATE TYPE mood AS ENUM ('ok', 'bad')",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        "CREATE DOMAIN present AS int NOT NULL",
        f"CREATE TABLE t (id int PRIMARY KEY, {columns}, note text)",
        f"INSERT INTO t VALUES (1, {row}, 'note')",
        f"ALTER TABLE t ADD CONSTRAINT c CHECK ({condition})",
    )
    before = everything(pg)
    project = lay_out(tmp_path, pg, how, columns={"t": [each.split()[0] for each in columns.split(", ")]})
    project.upgrade()
    pg.run(*changes, "UPDATE t SET note = 'other'", "UPDATE t SET note = 'note'", *back)
    project.downgrade("a1", "force=the row is as it was")
    assert difference(before, everything(pg)) == ""


FAMILIES = {
    "a default of the child": ("x int", "x int DEFAULT 5"),
    "a default of the parent": ("x int DEFAULT 5", "x int DEFAULT NULL"),
    "no default": ("x int", "x int"),
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_check_of_a_family_is_dropped_and_restored_as_one(
    pg: Database, tmp_path: Path, family: str, how: str
) -> None:
    parent, child = FAMILIES[family]
    pg.run(
        f"CREATE TABLE t (id int PRIMARY KEY, {parent}, note text, CONSTRAINT c CHECK (x > 0))",
        f"CREATE TABLE k ({child}, CONSTRAINT c CHECK (x > 0)) INHERITS (t)",
        "INSERT INTO k VALUES (1, 1, 'note')",
    )
    before = everything(pg)
    project = lay_out(tmp_path, pg, how, columns={"t": ["x"]})
    project.upgrade()
    pg.run(
        "ALTER TABLE k ADD CONSTRAINT c CHECK (id > 0)", "ALTER TABLE k DROP CONSTRAINT c"
    )  # its name is free
    pg.run("INSERT INTO k (id) VALUES (2)", "DELETE FROM t WHERE id = 2")
    project.downgrade()
    assert difference(before, everything(pg)) == ""


@pytest.mark.parametrize("how", HOW[:2])
def test_a_column_that_is_derived_only_later_breaks_no_write(pg: Database, tmp_path: Path, how: str) -> None:
    """Somebody edits the contract after it ran, and the CHECK refuses the derived value."""
    pg.run(
        "CREATE TABLE t (id int PRIMARY KEY, x text, note text, CONSTRAINT c CHECK (x <> 'd'))",
        "INSERT INTO t VALUES (1, 'x1', 'note')",
    )
    project = lay_out(tmp_path, pg, how, columns={"t": ["x"]})
    project.upgrade()
    pg.run("INSERT INTO t (id, note) VALUES (2, 'new')")
    edited = {"columns": {"t": ["x"]}, "derived": {"t": {"x": "'d'"}}}
    (tmp_path / "contract.json").write_text(json.dumps(edited), encoding="utf-8")
    pg.run("INSERT INTO t (id, note) VALUES (3, 'new')", "UPDATE t SET note = 'changed'")
    project.downgrade()
    assert rows(pg) == [(1, "d"), (2, "d"), (3, "d")]
    assert rows(pg, VALIDATED) == [("c", False)]  # the derived values break it

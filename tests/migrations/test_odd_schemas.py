"""Odd schemas, contracted and brought back: refused with nothing changed, identical, or in docs/limits.md."""

import re
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from alembics import ROOT, dump
from bed import Database
from contracted import Contracted, ScriptFailed, lay_out
from odd_schemas import COLUMN, EITHER, IDENTICAL, TABLE, Odd
from pipestate.ddl.failure import MigrationError

HEADING = "## The contract, and the way back"


TABLES = (
    "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'p') "
    "AND relnamespace::regnamespace::text !~ '^(pg_|pipestate)' "
    "AND relnamespace <> 'information_schema'::regnamespace AND relname <> 'alembic_version' ORDER BY 1"
)
SEQUENCES = "SELECT schemaname, sequencename, last_value FROM pg_sequences ORDER BY 1, 2"


BEFORE: dict[Odd, dict[str, object]] = {}


def everything(database: Database) -> dict[str, object]:
    """The schema as pg_dump writes it, every row, and where each sequence stands."""
    state: dict[str, object] = {"schema": schema(database)}
    with database.connect() as connection:
        tables = connection.exec_driver_sql(TABLES).scalars().all()
        for table in tables:
            query = f"SELECT t::text FROM {table} t ORDER BY 1"
            state[str(table)] = list(connection.exec_driver_sql(query).scalars())
        state["sequences"] = list(connection.exec_driver_sql(SEQUENCES))
    return state


def before_of(database: Database, odd: Odd) -> dict[str, object]:
    """Everything that is there before the contract: the same statements made it, so one dump does for all of them."""
    if odd not in BEFORE:
        BEFORE[odd] = everything(database)
    return BEFORE[odd]


def schema(database: Database) -> list[str]:
    """What the contract leaves of its own, the empty manifest, is left out; so is the project's version table."""
    blocks = dump(database).split(";\n")
    return [block for block in blocks if "pipestate_archive" not in block and "alembic_version" not in block]


def limits() -> str:
    text = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    section = text.partition(HEADING)[2].partition("\n## ")[0]
    assert section, f"docs/limits.md has no {HEADING}"
    return re.sub(r"\s+", " ", section)


def run_there_and_back(project: Contracted, odd: Odd) -> str:
    """Contract and go back; return which of the three answers that is."""
    before = before_of(project.database, odd)
    try:
        project.upgrade()
    except (MigrationError, ScriptFailed) as error:
        assert everything(project.database) == before, "refused, but something was changed"
        return str(error)
    assert taken_away(project), "nothing was taken away"
    project.downgrade()
    after = everything(project.database)
    if after == before:
        return IDENTICAL
    assert odd.limit is not None, difference(before, after)
    assert odd.limit in limits(), f"docs/limits.md does not say: {odd.limit}"
    return odd.limit


def taken_away(project: Contracted) -> bool:
    """Is what the contract names gone: the column x, or the table with all of its columns?"""
    kept = project.database.rows(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass('t') AND NOT attisdropped AND attnum > 0"
    )
    return ("x",) not in kept and (project.takes_columns or not kept)


def difference(before: dict[str, object], after: dict[str, object]) -> str:
    lines = []
    for key in before:
        was, now = before[key], after.get(key)
        if was != now and isinstance(was, list) and isinstance(now, list):
            lines += [f"- {each}" for each in was if each not in now] + [
                f"+ {each}" for each in now if each not in was
            ]
    return "\n".join(lines)


def judged(odd: Odd, project: Contracted) -> None:
    answer = run_there_and_back(project, odd)
    expected = odd.limit or odd.answer
    assert expected in answer, answer


def made(database: Database, odd: Odd) -> bool:
    """Make it; an older server must refuse what a newer one knows."""
    version = int(str(database.value("SHOW server_version_num"))) // 10000
    if version >= odd.since:
        database.run(*odd.statements)
        return True
    with pytest.raises(DBAPIError):
        database.run(*odd.statements)
    return False


# The same blocks run in one transaction and in scripts: there a few that go through all of them are enough.
ELSEWHERE = (
    "plain",
    "a domain that is not null",
    "a domain over a domain",
    "an owned sequence",
    "numbers of equal value",
    "times without end",
    "indexes of all kinds",
    "comments",
    "statistics",
    "a foreign key that is not valid",
    "a foreign key that is not enforced",
    "a key of two columns",
    "a view reads it",
)
COLUMN_CASES = [(name, "per migration") for name in (*EITHER, *COLUMN)] + [
    (name, how) for name in (*ELSEWHERE, "a policy reads it") for how in ("all at once", "script")
]
TABLE_CASES = [(name, "per migration") for name in (*EITHER, *TABLE)] + [
    (name, "script") for name in ELSEWHERE
]


@pytest.mark.parametrize(("name", "how"), COLUMN_CASES)
def test_a_column_goes_and_comes_back(pg: Database, tmp_path: Path, name: str, how: str) -> None:
    odd = (EITHER | COLUMN)[name]
    if made(pg, odd):
        judged(odd, lay_out(tmp_path, pg, how, columns={"t": ["x"]}))


@pytest.mark.parametrize(("name", "how"), TABLE_CASES)
def test_a_table_goes_and_comes_back(pg: Database, tmp_path: Path, name: str, how: str) -> None:
    odd = (EITHER | TABLE)[name]
    if made(pg, odd):
        judged(odd, lay_out(tmp_path, pg, how, tables=["t"]))

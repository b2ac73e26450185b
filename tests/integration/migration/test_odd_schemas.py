"""Odd schemas, dropped softly and restored: refused with nothing changed, or identical."""

from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from pipestate.migration.failure import MigrationError
from support.alembic_runs import dump
from support.contract_project import Contracted, ScriptFailed, lay_out
from support.odd_schemas import COLUMN, EITHER, IDENTICAL, TABLE, Odd
from support.servers import Database

TABLES = (
    "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'p') "
    "AND relnamespace::regnamespace::text !~ '^(pg_|pipestate)' "
    "AND relnamespace <> 'information_schema'::regnamespace AND relname <> 'alembic_version' ORDER BY 1"
)
SEQUENCES = "SELECT schemaname, sequencename, last_value FROM pg_sequences WHERE schemaname <> 'pipestate' ORDER BY 1, 2"


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
    """The ledger, the archive's schema and the project's version table are left out."""
    blocks = dump(database, "--exclude-schema=pipestate*", "--exclude-table=alembic_version").split(";\n")
    return [block for block in blocks if "pipestate_archive" not in block]


def run_there_and_back(project: Contracted, odd: Odd) -> str:
    """Contract and restore; return which answer that is."""
    before = before_of(project.database, odd)
    try:
        project.upgrade()
    except (MigrationError, ScriptFailed) as error:
        assert everything(project.database) == before, "refused, but something was changed"
        return str(error)
    assert taken_away(project), "nothing was taken away"
    project.downgrade()
    after = everything(project.database)
    assert after == before, difference(before, after)
    return IDENTICAL


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
    expected = odd.column if project.takes_columns and odd.column else odd.answer
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

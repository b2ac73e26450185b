"""Type changes that lose parts of values without an error, as online runs and scripts make them."""

import pytest
from sqlalchemy import Connection

from pipestate.ledger.functions import body_of
from pipestate.migration.postgresql.catalogue import Catalogue, type_change
from support.servers import Database

_TYPE = (
    "SELECT atttypid::int, atttypmod FROM pg_attribute WHERE attrelid = 'typed'::regclass AND attname = 'it'"
)


def read_type(connection: Connection, name: str) -> tuple[int, int]:
    connection.exec_driver_sql("DROP TABLE IF EXISTS typed")
    connection.exec_driver_sql(f"CREATE TABLE typed (it {name})")
    number, modifier = connection.exec_driver_sql(_TYPE).one()
    return number, modifier


def change_type(database: Database, old: str, new: str, *, by_hand: bool) -> tuple[str, bool]:
    with database.begin() as connection:
        query = type_change(read_type(connection, old), read_type(connection, new), by_hand=by_hand)
        said, loses = connection.exec_driver_sql(query, execution_options={"no_parameters": True}).one()
        connection.exec_driver_sql("DROP TABLE typed")
    return said, loses


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("numeric(12, 4)", "numeric(12, 2)", True),
        ("numeric(12, 2)", "numeric(12, 4)", False),
        ("numeric(12, 2)", "numeric", False),
        ("numeric", "numeric(12, 2)", True),
        ("numeric(12, 0)", "bigint", False),
        ("numeric(12, 1)", "bigint", True),
        ("numeric(12, 2)", "money", False),
        ("double precision", "real", True),
        ("real", "double precision", False),
        ("real", "numeric", False),
        ("integer", "double precision", False),
        ("integer", "real", True),
        ("bigint", "integer", False),
        ("timestamptz", "date", True),
        ("timestamptz", "timestamp", False),
        ("timestamp(3)", "timestamp(6)", False),
        ("timestamp", "timestamp(3)", True),
        ("date", "timestamp", False),
        ("timetz", "time", True),
        ("text", "timestamptz", False),
        ("text", "date", True),
        ("varchar(50)", "varchar(20)", False),
        ("date", "text", False),
        ("inet", "cidr", True),
        ("interval", "interval day", True),
        ("numeric(12, 4)[]", "numeric(12, 2)[]", True),
    ],
)
def test_a_change_loses(old: str, new: str, lost: bool, pg: Database) -> None:
    assert change_type(pg, old, new, by_hand=False)[1] is lost


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("text", "varchar(20)", True),
        ("varchar(50)", "varchar(20)", True),
        ("varchar(20)", "varchar(50)", False),
        ("varchar(20)", "text", False),
        ("integer", "varchar(20)", False),
        ("bit(8)", "bit(4)", True),
    ],
)
def test_a_cast_by_hand_cuts_text(old: str, new: str, lost: bool, pg: Database) -> None:
    assert change_type(pg, old, new, by_hand=True)[1] is lost


def test_the_change_is_named(pg: Database) -> None:
    said, _ = change_type(pg, "numeric(12, 4)", "timestamp(3)[]", by_hand=False)
    assert said == "numeric(12,4) becomes timestamp(3) without time zone"


def test_digits_before_the_point_since_15(pg: Database) -> None:
    scale = ((12 << 16) | (-2 & 0x7FF)) + 4
    query = type_change((1700, (12 << 16) + 4), (1700, scale), by_hand=False)
    assert pg.rows(query)[0][1] is True


def test_domains_count_as_what_they_are_made_of() -> None:
    catalogue = Catalogue({}, {90001: (90002, -1), 90002: (1700, 655366)})
    assert catalogue.below_domains((90001, -1)) == (1700, 655366)


def test_online_and_scripts_have_one_text() -> None:
    assert body_of("loses") in type_change((25, -1), (1043, 24), by_hand=True)

"""What is refused, by what production has; and what is only said."""

import pytest

from pipestate.core.errors import ConfigError
from pipestate.rehearse.copying import require
from pipestate.rehearse.copying.require import WantedClone, left_out, read_size, tables_with_rows
from pipestate.rehearse.copying.snapshot import Extension, Inventory, Relation

ALL, SCHEMA = WantedClone(2**30), WantedClone(2**30, schema_only=True)


def make_relation(name: str = "orders", **overrides: object) -> Relation:
    values: dict[str, object] = {
        "oid": hash(name),
        "quoted": f"public.{name}",
        "name": name,
        "schema": "public",
        "has_rows": True,
        "bytes": 8192,
        "is_readable": True,
        "hides_rows": False,
        "is_unlogged": False,
        "is_version_table": False,
    }
    return Relation(**(values | overrides))  # type: ignore[arg-type]


def make_inventory(**overrides: object) -> Inventory:
    values: dict[str, object] = {
        "version": 16,
        "role": "reader",
        "search_path": "public",
        "bytes": 2**20,
        "in_recovery": False,
        "encoding": "UTF8",
        "has_public": True,
        "large_objects": 0,
        "database": {"datname": "shop", "datcollate": "C", "datctype": "C"},
        "relations": (make_relation(),),
        "counters": (),
        "extensions": (Extension("plpgsql", ("function f()",)),),
        "extension_tables": (),
        "materialized_views": (),
        "foreign_tables": (),
        "roles": (),
        "settings": (),
    }
    return Inventory(**(values | overrides))  # type: ignore[arg-type]


def refusal(wanted: WantedClone = ALL, **overrides: object) -> str:
    with pytest.raises(ConfigError) as refused:
        require.require_copyable(make_inventory(**overrides), wanted)
    return str(refused.value)


@pytest.mark.parametrize(("production", "clone"), [(13, 16), (16, 16), (17, 18), (18, 18)])
def test_the_clone_is_of_the_same_version_or_the_next_one_there_is(production: int, clone: int) -> None:
    assert require.require_copyable(make_inventory(version=production), ALL) == clone


def test_a_production_that_is_newer_than_any_server_here_is_refused_with_the_recipes() -> None:
    said = refusal(version=99)
    assert said.startswith("production is PostgreSQL 99, the embedded server ")
    assert said.endswith("a restored backup, a branch of a managed server, or CREATE DATABASE … TEMPLATE")


def test_an_extension_that_is_needed_is_refused_and_one_that_is_not_is_left_out() -> None:
    needed = (Extension("postgis", ("column place of table shops",)), Extension("citext", ()))
    assert "postgis (for column place of table shops): give --on" in refusal(extensions=needed)
    unused = make_inventory(extensions=(Extension("pg_stat_statements", ()),))
    assert list(left_out(unused, ALL, require.require_copyable(unused, ALL))) == [
        "extensions that the embedded server does not have and no object depends on: pg_stat_statements"
    ]


def test_a_production_that_does_not_fit_on_the_disk_is_refused() -> None:
    assert "above --max-size (1 GB)" in refusal(bytes=2**31)
    assert require.require_copyable(make_inventory(bytes=2**60), SCHEMA)
    assert "set TMPDIR to a larger place" in refusal(WantedClone(2**61), bytes=2**60)


def test_without_rows_the_version_table_and_the_ledger_are_still_copied() -> None:
    relations = (
        make_relation("orders", hides_rows=True),
        make_relation("alembic_version", is_version_table=True),
        make_relation("pipestate.run", schema="pipestate"),
    )
    found = make_inventory(relations=relations)
    require.require_copyable(found, SCHEMA)
    assert [each.name for each in tables_with_rows(found, SCHEMA)] == ["alembic_version", "pipestate.run"]
    assert len(tables_with_rows(found, ALL)) == 3
    assert "row security hides rows of orders" in refusal(relations=relations)


def test_a_standby_has_no_rows_of_unlogged_tables() -> None:
    found = make_inventory(in_recovery=True, relations=(make_relation("cache", is_unlogged=True),))
    assert tables_with_rows(found, ALL) == []
    assert list(left_out(found, ALL, 18)) == ["the rows of unlogged tables, which a standby has not: cache"]


@pytest.mark.parametrize("size", ["10", "ten GB", "0MB", "-1GB", "", "5 XB"])
def test_a_size_that_is_none_is_refused(size: str) -> None:
    with pytest.raises(ConfigError, match="write a size such as 500MB or 10GB"):
        read_size(size)

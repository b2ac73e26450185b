"""A contract drops softly and restores: what is written meanwhile, families, tenants, stacked contracts, kills."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from integration.migration.test_odd_schemas import difference, everything
from pipestate.migration import sql
from pipestate.migration.failure import MigrationError
from support.contract_project import Contracted, ScriptFailed, lay_out
from support.programs import run_program
from support.servers import Database

HOW = ("per migration", "all at once", "script")
TABLE = (
    "CREATE TABLE t (id int PRIMARY KEY, x text, note text, changed timestamptz DEFAULT now())",
    "INSERT INTO t SELECT n, 'x' || n, 'note', '2025-01-01' FROM generate_series(1, 5) n",
)
HIDDEN = (
    "SELECT attname::text FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 AND NOT attisdropped "
    "AND attname LIKE '\\_pipestate\\_%' ORDER BY 1"
)


def contracted(root: Path, pg: Database, *statements: str, how: str = HOW[0], **contract: Any) -> Contracted:
    """A project whose contract has dropped t.x."""
    pg.run(*(statements or TABLE))
    project = lay_out(root, pg, how, **({"columns": {"t": ["x"]}} | contract))
    project.upgrade()
    return project


def rows(pg: Database, query: str = "SELECT id, x FROM t ORDER BY id") -> list[tuple[object, ...]]:
    return pg.rows(query)


@pytest.mark.parametrize("how", HOW)
def test_a_dropped_column_is_hidden_under_an_opaque_name(pg: Database, tmp_path: Path, how: str) -> None:
    contracted(tmp_path, pg, how=how)
    assert rows(pg, HIDDEN) == [("_pipestate_1_0",), ("_pipestate_1_1",)]
    with pytest.raises(DBAPIError, match='column "x" does not exist'):
        pg.rows("SELECT x FROM t")
    assert rows(pg, "SELECT revision, kind, table_name, state FROM pipestate.soft_drop") == [
        ("b2", "columns", "t", "hidden")
    ]


@pytest.mark.parametrize("how", HOW)
def test_rows_written_meanwhile_become_what_is_derived(pg: Database, tmp_path: Path, how: str) -> None:
    project = contracted(
        tmp_path,
        pg,
        how=how,
        derived={"t": {"x": "CASE WHEN s.note = 'keep' THEN a.x ELSE 'derived ' || s.note END"}},
        changed_at={"t": "changed"},
    )
    pg.run(
        "INSERT INTO t (id, note) VALUES (6, 'new')",
        "UPDATE t SET note = 'modified', changed = now() WHERE id = 2",
        "UPDATE t SET note = 'keep', changed = now() WHERE id = 3",
        "UPDATE t SET note = 'no time' WHERE id = 4",
        "DELETE FROM t WHERE id = 5",
    )
    project.downgrade()
    expected = [(1, "x1"), (2, "derived modified"), (3, "x3"), (4, "x4"), (6, "derived new")]
    assert rows(pg) == expected
    assert rows(pg, HIDDEN) == []


def test_rows_that_are_physically_untouched_are_never_derived(pg: Database, tmp_path: Path) -> None:
    pg.run(
        *TABLE, "UPDATE t SET changed = 'infinity' WHERE id = 1", "UPDATE t SET changed = NULL WHERE id = 2"
    )
    project = lay_out(
        tmp_path, pg, columns={"t": ["x"]}, derived={"t": {"x": "'derived'"}}, changed_at={"t": "changed"}
    )
    project.upgrade()
    project.downgrade()
    assert rows(pg) == [(n, f"x{n}") for n in range(1, 6)]


# What a transaction has done before the contract, and what it writes after it.
EARLY = {
    "only begun": ("SELECT 1",),
    "with a snapshot": ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM other"),
    "with an xid": ("INSERT INTO other VALUES (1)",),
    "in a subtransaction": ("INSERT INTO other VALUES (1)", "SAVEPOINT s", "INSERT INTO other VALUES (2)"),
    "after a subtransaction": ("SAVEPOINT s", "INSERT INTO other VALUES (2)", "RELEASE SAVEPOINT s"),
}
DERIVED: dict[str, Any] = {
    "columns": {"t": ["x"]},
    "derived": {"t": {"x": "'derived ' || s.note"}},
    "changed_at": {"t": "changed"},
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("early", EARLY)
def test_a_row_written_by_a_transaction_older_than_the_contract_is_modified_or_new(
    pg: Database, tmp_path: Path, how: str, early: str
) -> None:
    """Its now() is earlier than the contract, and so is its time of change."""
    pg.run(*TABLE, "CREATE TABLE other (id int)")
    project = lay_out(tmp_path, pg, how, **DERIVED)
    with pg.engine.connect() as writer:
        for statement in EARLY[early]:
            writer.exec_driver_sql(statement)
        project.upgrade()
        writer.exec_driver_sql("UPDATE t SET note = 'late', changed = now() WHERE id = 1")
        writer.exec_driver_sql("INSERT INTO t (id, note, changed) VALUES (6, 'late', now())")
        writer.commit()
    project.downgrade()
    assert rows(pg) == [(1, "derived late"), *((n, f"x{n}") for n in range(2, 6)), (6, "derived late")]


def test_a_row_written_beside_an_older_transaction_and_before_the_contract_keeps_its_value(
    pg: Database, tmp_path: Path
) -> None:
    """An old transaction that goes on makes nothing modified that others have written since it began."""
    pg.run(*TABLE, "CREATE TABLE other (id int)")
    project = lay_out(tmp_path, pg, **DERIVED)
    with pg.engine.connect() as old:
        old.exec_driver_sql("INSERT INTO other VALUES (1)")
        pg.run("UPDATE t SET x = 'written', changed = now() WHERE id = 1")
        project.upgrade()
        old.commit()
    project.downgrade()
    assert rows(pg) == [(1, "written"), *((n, f"x{n}") for n in range(2, 6))]


def test_a_table_that_is_derived_sees_writers_older_than_the_contract(pg: Database, tmp_path: Path) -> None:
    """The table that replaced it is written by a transaction that commits after the contract."""
    pg.run(
        *TABLE, "CREATE TABLE log (id int PRIMARY KEY, note text)", "INSERT INTO log SELECT id, 'old' FROM t"
    )
    project = lay_out(tmp_path, pg, tables=["log"], changed_at={"log": "changed"})
    revision = project.root / "migrations" / "versions" / "b2_contract.py"
    text = revision.read_text(encoding="utf-8").replace("**wanted", "**wanted, derived={'log': rows}")
    rows_of = "from pipestate.ddl import DerivedRows\nrows = DerivedRows('t', {'note': 's.note'})\n"
    revision.write_text(text.replace("contract = ", rows_of + "contract = "), encoding="utf-8")
    with pg.engine.connect() as writer:
        writer.exec_driver_sql("UPDATE t SET note = 'late', changed = now() WHERE id = 1")
        project.upgrade()
        writer.exec_driver_sql("UPDATE t SET note = 'later', changed = now() WHERE id = 2")
        writer.commit()
    project.downgrade()
    assert rows(pg, "SELECT id, note FROM log ORDER BY id LIMIT 3") == [(1, "late"), (2, "later"), (3, "old")]


def test_after_a_dump_and_restore_the_time_alone_decides(
    pg: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    project = contracted(tmp_path, pg, derived={"t": {"x": "'derived'"}}, changed_at={"t": "changed"})
    pg.run(
        "UPDATE t SET changed = now() WHERE id = 2",
        # as a dump and restore does: every row, that of the ledger too, is written anew
        "CREATE TABLE copy AS SELECT * FROM t",
        "DELETE FROM t",
        "INSERT INTO t SELECT * FROM copy",
        "CREATE TABLE entries AS SELECT * FROM pipestate.soft_drop",
        "DELETE FROM pipestate.soft_drop",
        "INSERT INTO pipestate.soft_drop SELECT * FROM entries",
    )
    project.downgrade()
    assert rows(pg) == [(1, "x1"), (2, "derived"), (3, "x3"), (4, "x4"), (5, "x5")]
    assert "was reloaded since revision b2: only changed says which rows were modified" in caplog.text


def test_an_insert_without_column_names_does_not_shift_into_a_hidden_column(
    pg: Database, tmp_path: Path
) -> None:
    contracted(tmp_path, pg)
    with pytest.raises(DBAPIError, match="_pipestate_1_c"):
        pg.run("INSERT INTO t VALUES (9, 'my note')")
    pg.run("INSERT INTO t (id, note) VALUES (9, 'my note')")


ORDERS = (
    "CREATE TABLE t (id int PRIMARY KEY, label text, x text NOT NULL DEFAULT 'standard', qty int)",
    "INSERT INTO t VALUES (1, 'a', 'old', 1)",
)
# Statements of an application, after the contract: each writes the row (500, 'pos', 7).
WRITERS = {
    "a copy of the table": (
        "CREATE TEMP TABLE copy (LIKE t); INSERT INTO copy (id, label, qty) VALUES (500, 'pos', 7);"
        "INSERT INTO t (id, label, qty) SELECT id, label, qty FROM copy",
    ),
    "a copy of whole rows": (
        "CREATE TEMP TABLE copy (LIKE t); INSERT INTO copy (id, label, qty) VALUES (500, 'pos', 7);"
        "INSERT INTO t SELECT * FROM copy",
    ),
    "json": (
        "INSERT INTO t SELECT * FROM jsonb_populate_recordset(NULL::t, "
        """'[{"id": 500, "label": "pos", "qty": 7}]')""",
    ),
}
DEFAULTS = {
    "a default": ORDERS,
    "a default of a domain": (
        "CREATE DOMAIN d AS text DEFAULT 'standard'",
        ORDERS[0].replace("x text NOT NULL DEFAULT 'standard'", "x d NOT NULL"),
        ORDERS[1],
    ),
    "partitions": (
        ORDERS[0] + " PARTITION BY RANGE (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (1000)",
        ORDERS[1],
    ),
    "a default of a partition": (
        ORDERS[0].replace(" DEFAULT 'standard'", "") + " PARTITION BY RANGE (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (1000)",
        "ALTER TABLE t1 ALTER x SET DEFAULT 'own'",
        ORDERS[1],
    ),
    "a default of a child": (
        "CREATE TABLE t (id int, label text, x text NOT NULL, qty int)",
        "CREATE TABLE c () INHERITS (t)",
        "ALTER TABLE c ALTER x SET DEFAULT 'own'",
        ORDERS[1],
    ),
    "a generated column": (
        "CREATE TABLE t (id int PRIMARY KEY, label text, x text NOT NULL GENERATED ALWAYS AS (label || '!') STORED, qty int)",
        "INSERT INTO t (id, label, qty) VALUES (1, 'a', 1)",
    ),
}


@pytest.mark.parametrize(
    ("made", "writer"),
    # Neither a generated column nor the default of a domain lets whole rows be copied.
    [
        (made, writer)
        for made in DEFAULTS
        for writer in WRITERS
        if made != "a generated column"
        and (made, writer) != ("a default of a domain", "a copy of whole rows")
    ],
)
def test_a_hidden_column_stops_no_writer(pg: Database, tmp_path: Path, made: str, writer: str) -> None:
    pg.run(*DEFAULTS[made])
    before = everything(pg)
    project = lay_out(tmp_path, pg, columns={"t": ["x"]})
    project.upgrade()
    pg.run(*WRITERS[writer])
    assert rows(pg, "SELECT id, label, qty FROM t ORDER BY id") == [(1, "a", 1), (500, "pos", 7)]
    pg.run("DELETE FROM t WHERE id = 500", "DROP TABLE IF EXISTS copy")
    project.downgrade()
    assert difference(before, everything(pg)) == ""


@pytest.mark.parametrize("made", DEFAULTS)
def test_an_insert_without_column_names_writes_into_no_wrong_column(
    pg: Database, tmp_path: Path, made: str
) -> None:
    contracted(tmp_path, pg, *DEFAULTS[made])
    shifted = ["t"] + [name for name in ("t1", "c") if pg.value(f"SELECT to_regclass('{name}')")]
    for table in shifted:
        with pytest.raises(DBAPIError, match=r"_pipestate_1_[c1]"):
            pg.run(f"INSERT INTO {table} VALUES (500, 'pos', 7)")
    assert pg.value("SELECT count(*) FROM t") == 1
    pg.run("INSERT INTO t (id, label, qty) VALUES (500, 'pos', 7)")


def test_several_hidden_columns_take_no_value_of_an_insert_without_column_names(
    pg: Database, tmp_path: Path
) -> None:
    contracted(
        tmp_path,
        pg,
        "CREATE TABLE t (id int, x text DEFAULT 'standard', label text, y int DEFAULT 7, qty int, z int DEFAULT 1)",
        "INSERT INTO t VALUES (1)",
        columns={"t": ["x", "y", "z"]},
    )
    for values in (
        "500, 'pos'",
        "500, 'standard', 'pos'",
        "500, NULL, 'pos', 7",
        "500, NULL, 'pos', NULL, 7, 1",
    ):
        with pytest.raises(DBAPIError, match="_pipestate_1_c"):
            pg.run(f"INSERT INTO t VALUES ({values})")
    assert pg.value("SELECT count(*) FROM t") == 1


def test_an_identity_is_refused_with_what_to_do(pg: Database, tmp_path: Path) -> None:
    """It stays NOT NULL, and its sequence would not survive."""
    with pytest.raises(MigrationError) as refused:
        contracted(
            tmp_path, pg, "CREATE TABLE t (id int PRIMARY KEY, x int GENERATED BY DEFAULT AS IDENTITY)"
        )
    pg.run(re.search("ALTER TABLE .* DROP NOT NULL", str(refused.value))[0])  # type: ignore[index]
    pg.run("INSERT INTO t VALUES (1, 1)")
    Contracted(tmp_path, pg).upgrade()
    pg.run("INSERT INTO t (id) VALUES (2)")


def test_new_rows_get_the_default_and_values_return(pg: Database, tmp_path: Path) -> None:
    project = contracted(
        tmp_path,
        pg,
        "CREATE TABLE t (id int PRIMARY KEY, x text NOT NULL DEFAULT 'standard')",
        "INSERT INTO t VALUES (1, 'a')",
    )
    pg.run("INSERT INTO t (id) VALUES (2)")
    project.downgrade("a1", "force=the default is right")
    assert rows(pg) == [(1, "a"), (2, "standard")]
    pg.run("INSERT INTO t (id) VALUES (3)")
    assert rows(pg)[-1] == (3, "standard")


RULES = {
    "a check": (
        "ALTER TABLE t ADD CONSTRAINT c CHECK (x <> 'd')",
        "c of public.t stays NOT VALID",
        [("c", False)],
    ),
    "a foreign key": (
        "ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY (x) REFERENCES p",
        "c of public.t stays NOT VALID",
        [("c", False)],
    ),
    "a unique constraint": (
        "ALTER TABLE t ADD CONSTRAINT c UNIQUE (x, note)",
        "unique c of public.t was not restored",
        [],
    ),
    "a unique index": ("CREATE UNIQUE INDEX c ON t (x, note)", "unique c of public.t was not restored", []),
    "a partial unique index": (
        "CREATE UNIQUE INDEX c ON t (x, note) WHERE id > 0",
        "unique c of public.t was not restored",
        [],
    ),
    "an exclusion constraint": (
        "ALTER TABLE t ADD CONSTRAINT c EXCLUDE USING btree (x WITH =, note WITH =)",
        "exclusion c of public.t was not restored",
        [],
    ),
    "not null": ("ALTER TABLE t ALTER x SET NOT NULL", "", []),
}
VALIDATED = "SELECT conname::text, convalidated FROM pg_constraint WHERE conrelid = 't'::regclass AND contype IN ('c', 'f', 'u', 'x') "


@pytest.mark.parametrize("how", HOW[:2])
@pytest.mark.parametrize("rule", RULES)
def test_what_rows_written_since_break_is_said_and_they_are_kept(
    pg: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture, rule: str, how: str
) -> None:
    statement, said, left = RULES[rule]
    project = contracted(
        tmp_path,
        pg,
        "CREATE TABLE p (x text PRIMARY KEY)",
        "INSERT INTO p VALUES ('x1')",
        "CREATE TABLE t (id int PRIMARY KEY, x text, note text)",
        "INSERT INTO t VALUES (1, 'x1', 'a')",
        statement,
        how=how,
        derived={"t": {"x": "'d'"}} if rule != "not null" else {},
    )
    pg.run("INSERT INTO t (id, note) VALUES (8, 'n'), (9, 'n')")
    project.downgrade("a1", *(["force=without a value"] if rule == "not null" else []))
    assert said in caplog.text
    value = "d" if rule != "not null" else None
    assert rows(pg) == [(1, "x1"), (8, value), (9, value)]
    assert rows(pg, VALIDATED) == left


@pytest.mark.parametrize("how", HOW)
def test_partitions_made_meanwhile_have_their_rows_restored_too(
    pg: Database, tmp_path: Path, how: str
) -> None:
    project = contracted(
        tmp_path,
        pg,
        "CREATE TABLE t (id int PRIMARY KEY, x text NOT NULL, note text) PARTITION BY RANGE (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "ALTER TABLE t ADD CONSTRAINT u UNIQUE (id, x)",
        "INSERT INTO t SELECT n, 'x' || n FROM generate_series(1, 3) n",
        how=how,
        derived={"t": {"x": "'derived ' || s.id"}},
    )
    pg.run(
        "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20)",
        "INSERT INTO t (id) VALUES (4), (11)",
        "UPDATE t SET id = 12 WHERE id = 3",
    )
    project.downgrade()
    assert rows(pg) == [(1, "x1"), (2, "x2"), (4, "derived 4"), (11, "derived 11"), (12, "derived 12")]
    assert rows(pg, VALIDATED) == [("u", True)]
    not_null = "SELECT bool_and(attnotnull) FROM pg_attribute WHERE attname = 'x' AND attrelid IN ('t'::regclass, 't1'::regclass, 't2'::regclass)"
    assert pg.value(not_null) is True


def test_a_family_is_hidden_and_restored_as_a_whole(pg: Database, tmp_path: Path) -> None:
    statements = (
        "CREATE TABLE t (id int, x text)",
        "CREATE TABLE child (extra int) INHERITS (t)",
        "INSERT INTO t VALUES (1, 'a')",
        "INSERT INTO child VALUES (2, 'b', 7)",
    )
    project = contracted(tmp_path, pg, *statements, derived={"t": {"x": "'new'"}})
    pg.run("INSERT INTO child (id, extra) VALUES (3, 8)")
    project.downgrade()
    assert rows(pg) == [(1, "a"), (2, "b"), (3, "new")]


def test_two_tables_with_a_foreign_key_between_them_are_dropped_together(
    pg: Database, tmp_path: Path
) -> None:
    pg.run(
        "CREATE TABLE outer_world (id int PRIMARY KEY)",
        "INSERT INTO outer_world VALUES (1)",
        "CREATE TABLE p (id serial PRIMARY KEY, o int REFERENCES outer_world)",
        "CREATE TABLE c (id serial PRIMARY KEY, p int REFERENCES p)",
        "INSERT INTO p (o) VALUES (1)",
        "INSERT INTO c (p) VALUES (1)",
    )
    project = lay_out(tmp_path, pg, tables=["p", "c"])
    before = everything(pg)
    project.upgrade()
    pg.run("DELETE FROM outer_world WHERE false")
    # every name is free again
    pg.run("CREATE TABLE p (id serial PRIMARY KEY)", "DROP TABLE p")
    project.downgrade()
    after = everything(pg)
    assert after == before, difference(before, after)


def test_the_same_table_in_several_schemas(pg: Database, tmp_path: Path) -> None:
    """One revision for each tenant, one archive, one ledger."""
    for tenant in ("a", "b"):
        pg.run(
            f"CREATE SCHEMA {tenant}",
            f"CREATE TABLE {tenant}.t (id int PRIMARY KEY, x text)",
            f"CREATE TABLE {tenant}.log (id int PRIMARY KEY, line text)",
            f"INSERT INTO {tenant}.t VALUES (1, '{tenant}')",
            f"INSERT INTO {tenant}.log VALUES (1, '{tenant}')",
        )
    project = lay_out(tmp_path, pg, columns={"t": ["x"]}, tables=["log"])
    for tenant in ("a", "b"):
        pg.run(f"CREATE TABLE {tenant}.alembic_version AS TABLE public.alembic_version")
    before = everything(pg)

    def for_tenant(tenant: str, step: Callable[[], None]) -> None:
        name = pg.url.database
        pg.run(f'ALTER DATABASE "{name}" SET search_path = {tenant}')
        try:
            step()
        finally:
            pg.run(f'ALTER DATABASE "{name}" RESET search_path')

    for_tenant("a", project.upgrade)
    for_tenant("b", project.upgrade)
    assert rows(pg, "SELECT schema_name, kind FROM pipestate.soft_drop ORDER BY 1, 2") == [
        ("a", "columns"),
        ("a", "table"),
        ("b", "columns"),
        ("b", "table"),
    ]
    for_tenant("a", project.downgrade)
    for_tenant("b", project.downgrade)
    after = everything(pg)
    assert after == before, difference(before, after)


SECOND = """from pipestate import Contract
revision, down_revision = 'c3', 'b2'
contract = Contract("odd/ready", columns={"t": ["note"]}, revision=revision)
upgrade, downgrade = contract.upgrade, contract.downgrade
"""


def test_two_contracts_on_one_table_are_taken_back_one_by_one(pg: Database, tmp_path: Path) -> None:
    pg.run(*TABLE, "ALTER TABLE t ADD CONSTRAINT u UNIQUE (x, note)")
    project = lay_out(tmp_path, pg, columns={"t": ["x"]})
    (project.root / "migrations" / "versions" / "c3_second.py").write_text(SECOND)
    page = project.root / "runbooks" / "odd.md"
    page.write_text(
        page.read_text().replace('until: "b2", opens: ["b2"]', 'until: "c3", opens: ["b2", "c3"]')
    )
    before = everything(pg)
    project.upgrade("c3")
    assert rows(pg, "SELECT * FROM t WHERE id = 1")[0][0] == 1
    project.downgrade("b2")
    assert rows(pg, "SELECT note FROM t WHERE id = 1") == [("note",)]
    project.downgrade("a1")
    after = everything(pg)
    assert after == before, difference(before, after)


def test_the_status_offers_a_downgrade_only_where_it_undoes_nothing_else(
    pg: Database, tmp_path: Path
) -> None:
    pg.run(*TABLE)
    project = lay_out(tmp_path, pg, columns={"t": ["x"]})
    (project.root / "migrations" / "versions" / "c3_second.py").write_text(SECOND)
    page = project.root / "runbooks" / "odd.md"
    page.write_text(
        page.read_text().replace('until: "b2", opens: ["b2"]', 'until: "c3", opens: ["b2", "c3"]')
    )
    project.upgrade("c3")
    said = status(project)
    assert "restore: a downgrade below b2 would undo later revisions, too: c3; purge" in said
    assert "restore: pipestate downgrade c3-1" in said
    project.downgrade("b2")
    assert "restore: pipestate downgrade b2-1" in status(project)


def test_the_status_of_a_tenant_shows_no_soft_drop_of_another(pg: Database, tmp_path: Path) -> None:
    project = contracted(tmp_path, pg)
    assert "x of public.t" in status(project)
    pg.run("CREATE SCHEMA tenant", "CREATE TABLE tenant.alembic_version AS TABLE public.alembic_version")
    pg.run(f'ALTER DATABASE "{pg.url.database}" SET search_path = tenant')
    pg.leave()
    assert "public.t" not in status(project)


def status(project: Contracted) -> str:
    argv = ["pipestate", "status", "--database-url", project.database.text]
    done = run_program(argv, cwd=project.root, environment={**os.environ, "COLUMNS": "300"})
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def test_a_table_that_was_renamed_or_moved_since_is_found(pg: Database, tmp_path: Path) -> None:
    project = contracted(tmp_path, pg)
    pg.run("CREATE SCHEMA elsewhere", "ALTER TABLE t RENAME TO u", "ALTER TABLE u SET SCHEMA elsewhere")
    project.downgrade()
    assert rows(pg, "SELECT id, x FROM elsewhere.u ORDER BY 1") == [(n, f"x{n}") for n in range(1, 6)]


def test_a_column_of_the_old_name_made_since_is_refused(pg: Database, tmp_path: Path) -> None:
    project = contracted(tmp_path, pg)
    pg.run("ALTER TABLE t ADD COLUMN x text DEFAULT 'other'")
    with pytest.raises(MigrationError, match="has a column x again, made since revision b2"):
        project.downgrade()
    pg.run("ALTER TABLE t DROP COLUMN x")
    project.downgrade()
    assert rows(pg)[0] == (1, "x1")


def test_a_column_that_a_definition_names_and_that_was_renamed_since_is_refused(
    pg: Database, tmp_path: Path
) -> None:
    project = contracted(tmp_path, pg, *TABLE, "ALTER TABLE t ADD CONSTRAINT c CHECK (x <> note)")
    pg.run("ALTER TABLE t RENAME COLUMN note TO remark")
    with pytest.raises(MigrationError, match=r"check c of public\.t cannot be restored"):
        project.downgrade()
    assert rows(pg, HIDDEN) == [("_pipestate_1_0",), ("_pipestate_1_1",)]
    pg.run("ALTER TABLE t RENAME COLUMN remark TO note")
    project.downgrade()
    assert rows(pg)[0] == (1, "x1")


NAMESAKES = {
    "an index": ("CREATE INDEX i ON t (x)", "CREATE INDEX i ON t (note)", "index i exists already"),
    "a check": (
        "ALTER TABLE t ADD CONSTRAINT c CHECK (x <> note)",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (note <> '')",
        "check c of public.t was not restored: another one of that name",
    ),
    "a foreign key": (
        "ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY (x) REFERENCES p",
        "ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY (note) REFERENCES p",
        "foreign key c of public.t was not restored: another one of that name",
    ),
    "statistics": (
        "CREATE STATISTICS st ON x, note FROM t",
        "CREATE STATISTICS st ON id, note FROM t",
        "statistics st exists already",
    ),
}


@pytest.mark.parametrize("kind", NAMESAKES)
def test_something_of_the_same_name_made_since_is_said(
    pg: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    before, since, said = NAMESAKES[kind]
    parent = "CREATE TABLE p AS SELECT x FROM t UNION SELECT note FROM t WHERE note IS NOT NULL"
    project = contracted(tmp_path, pg, *TABLE, parent, "ALTER TABLE p ADD PRIMARY KEY (x)", before)
    pg.run(since)
    project.downgrade()
    assert said in caplog.text
    assert rows(pg)[0] == (1, "x1")


def test_no_row_of_the_contract_left_is_refused_unless_forced(pg: Database, tmp_path: Path) -> None:
    project = contracted(tmp_path, pg)
    pg.run("DELETE FROM t", "INSERT INTO t (id) VALUES (9)")
    with pytest.raises(MigrationError, match="no row of x of t is left from before revision b2"):
        project.downgrade()
    project.downgrade("a1", "force=the table was reloaded")
    assert rows(pg) == [(9, None)]
    assert pg.value("SELECT reason FROM pipestate.run WHERE event = 'force'") == (
        "downgrade without a restore, no row of x of t is left from before revision b2: the table was reloaded"
    )


DUAL_WRITE = (
    *TABLE,
    "CREATE FUNCTION dual() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.x := NEW.note; RETURN NEW; END'",
    "CREATE TRIGGER dual_write BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION dual()",
    "ALTER TABLE t ENABLE ALWAYS TRIGGER dual_write",
    "COMMENT ON TRIGGER dual_write ON t IS 'both'",
)


@pytest.mark.parametrize("how", HOW)
def test_triggers_are_dropped_and_restored_with_the_columns(pg: Database, tmp_path: Path, how: str) -> None:
    pg.run(*DUAL_WRITE)
    project = lay_out(tmp_path, pg, how, columns={"t": ["x"]})
    with pytest.raises((MigrationError, ScriptFailed), match=r"drop_triggers=\['dual_write'\]"):
        project.upgrade()
    (tmp_path / "contract.json").write_text(
        json.dumps({"columns": {"t": ["x"]}, "drop_triggers": ["dual_write"]})
    )
    before = everything(pg)
    project.upgrade()
    pg.run("UPDATE t SET note = 'written' WHERE id = 1", "UPDATE t SET note = 'note' WHERE id = 1")
    project.downgrade("a1", "force=the note is as it was")
    after = everything(pg)
    assert after == before, difference(before, after)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("what", ["columns", "tables"])
def test_keep_false_drops_for_good_behind_the_same_gate(
    pg: Database, tmp_path: Path, how: str, what: str
) -> None:
    contract: dict[str, Any] = {"columns": {"t": ["x"]}} if what == "columns" else {"tables": ["t"]}
    pg.run(*TABLE)
    project = lay_out(tmp_path, pg, how, keep=False, **contract)
    project.upgrade()
    if what == "columns":
        assert rows(pg, "SELECT * FROM t WHERE id = 1")[0][:2] == (1, "note")
        assert rows(pg, HIDDEN) == []
    else:
        assert pg.value("SELECT to_regclass('t')") is None
    if how != "script":
        with pytest.raises(MigrationError, match="dropped for good"):
            project.downgrade()


def test_a_published_table_that_is_dropped_for_good_wants_a_signed_backup(
    pg: Database, tmp_path: Path
) -> None:
    pg.run(*TABLE, "CREATE PUBLICATION pub FOR TABLE t")
    project = lay_out(tmp_path, pg, columns={"t": ["x"]}, keep=False)
    with pytest.raises(MigrationError, match="must name the sign-off backup-taken"):
        project.upgrade()
    assert rows(pg)[0] == (1, "x1")


# --- Killed after any statement ---------------------------------------------------------------------


class Killed(BaseException):
    """In the place of SIGKILL: what was committed stays, nothing else."""


HANGING = (
    *TABLE,
    "ALTER TABLE t ALTER x SET NOT NULL",
    "ALTER TABLE t ADD CONSTRAINT c CHECK (x <> '')",
    "ALTER TABLE t ADD CONSTRAINT u UNIQUE (x, id) DEFERRABLE",
    "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES t",
    "CREATE INDEX i ON t (x)",
    "CREATE TABLE log (id int PRIMARY KEY, t int REFERENCES t)",
    "INSERT INTO log VALUES (1, 1)",
)


def killed_after(number: int, run: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run, and end after that many statements of ours; say whether it got that far."""
    emit, count = sql.emit, 0

    def counted(statement: str) -> None:
        nonlocal count
        emit(statement)
        count += 1
        if count == number:
            raise Killed

    monkeypatch.setattr(sql, "emit", counted)
    try:
        run()
    except Killed:
        return True
    finally:
        monkeypatch.undo()
    return False


@pytest.mark.parametrize("how", HOW[:2])
def test_killed_after_any_statement_it_is_as_before_or_finished_by_a_rerun(
    postgres: Any, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract: dict[str, Any] = {
        "columns": {"t": ["x"]},
        "tables": ["log"],
        "derived": {"t": {"x": "'new ' || s.id"}},
        "changed_at": {"t": "changed"},
    }
    number = 0
    while True:
        number += 1
        pg = postgres.create()
        pg.run(*HANGING)
        project = lay_out(tmp_path / str(number), pg, how, **contract)
        before = everything(pg)
        up = killed_after(number, project.upgrade, monkeypatch)
        if up:
            assert everything(pg) == before, number
            project.upgrade()
        pg.run("INSERT INTO t (id, note) VALUES (9, 'new')")
        down = killed_after(number, project.downgrade, monkeypatch)
        if down:
            pg.run("INSERT INTO t (id, note{}) VALUES (10, 'n'{})".format(*_filled(pg)))
            pg.run("DELETE FROM t WHERE id = 10")
            project.downgrade()
        assert pg.value("SELECT x FROM t WHERE id = 9") == "new 9"
        pg.run("DELETE FROM t WHERE id = 9")
        after = everything(pg)
        assert after == before, f"{number}: {difference(before, after)}"
        postgres.drop(pg)
        if not up and not down:
            break
    assert number > 8, "too few statements were counted"


def _filled(pg: Database) -> tuple[str, str]:
    """Name x in an INSERT where it is visible: then it must have a value."""
    there = pg.value("SELECT count(*) FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'x'")
    return (", x", ", 'given'") if there else ("", "")

"""Attacks on soft drop and restore: writes that would fail afterwards, objects made since, other sessions, purges."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attacks.project import Project, point_at
from attacks.test_contracts import OURS
from integration.migration.test_odd_schemas import difference, everything
from integration.migration.test_soft_drop import HIDDEN, HOW, TABLE, contracted, rows
from pipestate.gate import GateClosed
from pipestate.ledger.soft_drops import find_orphans, find_soft_drops
from pipestate.migration import purge, sql
from pipestate.migration.failure import MigrationError
from support.contract_project import lay_out
from support.servers import Database

# --- Operators on the path ---------------------------------------------------------------------------

# The extension intarray has operators for integer[] that fit better than the server's own, which are for any array.
SHADOWS = tuple(
    f"CREATE OPERATOR public.{operator} (LEFTARG = {kind}[], RIGHTARG = {kind}[], FUNCTION = public.shadow_{kind})"
    for kind in ("int2", "int4", "int8", "oid", "text", "name")
    for operator in ("&&", "@>", "<@", "=", "<>", "||")
)
SHADOWING = tuple(
    f"CREATE FUNCTION public.shadow_{kind}({kind}[], {kind}[]) RETURNS boolean LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE 'an impostor was called'; END $$"
    for kind in ("int2", "int4", "int8", "oid", "text", "name")
)


@pytest.mark.parametrize("path", ["public", "public, pg_catalog"])
@pytest.mark.parametrize("how", HOW)
def test_operators_of_an_extension_answer_nothing(pg: Database, tmp_path: Path, how: str, path: str) -> None:
    """They belong to a superuser, as those of an extension do, so nobody is warned."""
    pg.run(*SHADOWING, *SHADOWS)
    pg.run(f"ALTER DATABASE {pg.url.database} SET search_path = {path}")
    pg.run(
        *TABLE,
        "ALTER TABLE t ADD COLUMN many int[] DEFAULT '{1,2}', ADD CONSTRAINT u UNIQUE (x, note, id), "
        "ADD CONSTRAINT c CHECK (x <> '')",
        "CREATE TABLE log (id int PRIMARY KEY REFERENCES t, many int[])",
        "INSERT INTO log VALUES (1, '{3}')",
    )
    project = lay_out(tmp_path, pg, how, columns={"t": ["x", "many"]}, tables=["log"])
    before = everything(pg)
    project.upgrade()
    pg.run("INSERT INTO t (id, note) VALUES (9, 'new')", "DELETE FROM t WHERE id = 9")
    project.downgrade()
    after = everything(pg)
    assert after == before, difference(before, after)


# --- Writes after the soft drop ---------------------------------------------------------------------

FUNCTION = "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {} RETURN NEW; END $$"
ROW_TRIGGER = "CREATE TRIGGER g BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f()"
AUDIT = "CREATE TABLE audit (at timestamptz, LIKE t)"
NAMING = {
    "in capitals": (FUNCTION.format("PERFORM NEW.X;"), ROW_TRIGGER),
    "in quotes": (FUNCTION.format('PERFORM new . "x";'), ROW_TRIGGER),
    "in parentheses": (FUNCTION.format("PERFORM (NEW).x;"), ROW_TRIGGER),
    "as a parameter": (FUNCTION.format("EXECUTE 'SELECT ($1).x' USING NEW;"), ROW_TRIGGER),
    "in a format": (FUNCTION.format("EXECUTE format('SELECT ($1).%I', 'x') USING NEW;"), ROW_TRIGGER),
    "as an argument": (
        "ALTER TABLE t ADD COLUMN tsv tsvector",
        "CREATE TRIGGER g BEFORE INSERT OR UPDATE ON t FOR EACH ROW "
        "EXECUTE FUNCTION tsvector_update_trigger(tsv, 'pg_catalog.english', x, note)",
    ),
    "whole rows as values": (AUDIT, FUNCTION.format("INSERT INTO audit VALUES (now(), NEW.*);"), ROW_TRIGGER),
    "whole rows selected": (AUDIT, FUNCTION.format("INSERT INTO audit SELECT now(), NEW.*;"), ROW_TRIGGER),
    "whole rows of a transition table": (
        AUDIT,
        FUNCTION.format("INSERT INTO audit SELECT now(), n.* FROM fresh n;"),
        "CREATE TRIGGER g AFTER INSERT ON t REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION f()",
    ),
}
INNOCENT = {
    "compares whole rows": (
        FUNCTION.format("IF NEW.* IS DISTINCT FROM NULL THEN NULL; END IF;"),
        ROW_TRIGGER,
    ),
    "keeps them as json": (
        "CREATE TABLE audit (line jsonb)",
        FUNCTION.format("INSERT INTO audit VALUES (to_jsonb(NEW.*));"),
        ROW_TRIGGER,
    ),
    "waits for any change": (
        FUNCTION.format("NULL;"),
        "CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION f()",
    ),
    "names another column": (FUNCTION.format("NEW.note := NEW.note || 'x';"), ROW_TRIGGER),
}


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("how", NAMING)
def test_a_trigger_that_would_fail_every_write_is_refused(
    pg: Database, tmp_path: Path, how: str, keep: bool
) -> None:
    pg.run(*TABLE, *NAMING[how])
    project = lay_out(tmp_path, pg, columns={"t": ["x"]}, keep=keep)
    before = everything(pg)
    with pytest.raises(MigrationError, match=r"drop_triggers=\['g'\]"):
        project.upgrade()
    assert everything(pg) == before


@pytest.mark.parametrize("how", INNOCENT)
def test_a_trigger_that_goes_on_stops_no_contract(pg: Database, tmp_path: Path, how: str) -> None:
    contracted(tmp_path, pg, *TABLE, *INNOCENT[how])
    pg.run("INSERT INTO t (id, note) VALUES (9, 'new')", "UPDATE t SET note = 'changed' WHERE id = 1")


WRITABLE = {
    "a computed column that is not null, dropped with its source": (
        "CREATE TABLE t (id int PRIMARY KEY, note text, x text, y text GENERATED ALWAYS AS (upper(x)) STORED NOT NULL)",
        "INSERT INTO t (id, x) VALUES (1, 'x1')",
    ),
    "a unique computed column, dropped with its source": (
        "CREATE TABLE t (id int PRIMARY KEY, note text, x text, "
        "y text GENERATED ALWAYS AS (coalesce(x, '-')) STORED UNIQUE)",
        "INSERT INTO t (id, x) VALUES (1, 'x1')",
    ),
    "a check of the whole row": (
        "CREATE TABLE t (id int PRIMARY KEY, note text, x text, y text)",
        "ALTER TABLE t ADD CONSTRAINT whole CHECK (t IS NOT NULL)",
        "INSERT INTO t VALUES (1, 'note', 'x1', 'y1')",
    ),
}


@pytest.mark.parametrize("what", WRITABLE)
def test_new_rows_can_be_written_and_everything_returns(pg: Database, tmp_path: Path, what: str) -> None:
    pg.run(*WRITABLE[what])
    project = lay_out(tmp_path, pg, columns={"t": ["x", "y"]})
    before = everything(pg)
    project.upgrade()
    pg.run("INSERT INTO t (id, note) VALUES (8, 'new'), (9, 'new')", "UPDATE t SET note = note WHERE id = 1")
    pg.run("DELETE FROM t WHERE id > 7")
    project.downgrade("a1", "force=the note is as it was")
    after = everything(pg)
    assert after == before, difference(before, after)


CHILDREN = {
    "a child": (
        "CREATE TABLE t (id int, x int, note text)",
        "CREATE TABLE c () INHERITS (t)",
        "ALTER TABLE c ALTER x SET NOT NULL",
        "INSERT INTO c VALUES (1, 1)",
    ),
    "a partition": (
        "CREATE TABLE t (id int, x int, note text) PARTITION BY RANGE (id)",
        "CREATE TABLE c PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "ALTER TABLE c ALTER x SET NOT NULL",
        "INSERT INTO c VALUES (1, 1)",
    ),
}


@pytest.mark.parametrize("what", CHILDREN)
def test_not_null_of_a_child_alone_returns(pg: Database, tmp_path: Path, what: str) -> None:
    pg.run(*CHILDREN[what])
    project = lay_out(tmp_path, pg, columns={"t": ["x"]})
    before = everything(pg)
    project.upgrade()
    pg.run("INSERT INTO c (id) VALUES (2)", "DELETE FROM c WHERE id = 2")
    project.downgrade()
    after = everything(pg)
    assert after == before, difference(before, after)


# --- Foreign keys, families and purges --------------------------------------------------------------

PAIR = (
    "CREATE TABLE p (id int PRIMARY KEY)",
    "INSERT INTO p VALUES (1)",
    "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p)",
    "INSERT INTO c VALUES (1, 1)",
)
FAMILY = ("CREATE TABLE p (id int)", "CREATE TABLE c (extra int) INHERITS (p)", "INSERT INTO c VALUES (1, 2)")


def test_a_foreign_key_that_stays_holds_its_table(pg: Database, tmp_path: Path) -> None:
    """The contract drops another column of the table that has the key."""
    pg.run(*PAIR, "ALTER TABLE c ADD x int")
    project = lay_out(tmp_path, pg, tables=["p"], columns={"c": ["x"]})
    with pytest.raises(MigrationError, match=r"foreign key c_p_fkey of public\.c"):
        project.upgrade()


def test_a_foreign_key_that_is_dropped_with_its_column_holds_nothing(pg: Database, tmp_path: Path) -> None:
    pg.run(*PAIR)
    project = lay_out(tmp_path, pg, tables=["p"], columns={"c": ["p"]})
    before = everything(pg)
    project.upgrade()
    project.downgrade()
    after = everything(pg)
    assert after == before, difference(before, after)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("statements", [PAIR, FAMILY], ids=["foreign key", "family"])
@pytest.mark.parametrize("tables", [["p", "c"], ["c", "p"]])
def test_tables_that_depend_on_each_other_are_dropped_for_good(
    pg: Database, tmp_path: Path, statements: tuple[str, ...], tables: list[str], keep: bool
) -> None:
    pg.run(*statements)
    lay_out(tmp_path, pg, tables=tables, keep=keep).upgrade()
    with pg.begin() as connection:
        purge.drop(connection, purge.find(connection), revision="b2")
    archived = "SELECT relname::text FROM pg_class WHERE relnamespace = 'pipestate_archive'::regnamespace"
    assert rows(pg, archived) == []
    assert pg.value("SELECT to_regclass('p') IS NULL AND to_regclass('c') IS NULL") is True


@pytest.mark.parametrize("statements", [PAIR, FAMILY], ids=["foreign key", "family"])
@pytest.mark.parametrize("tables", [["p", "c"], ["c", "p"]])
def test_tables_that_depend_on_each_other_return(
    pg: Database, tmp_path: Path, statements: tuple[str, ...], tables: list[str]
) -> None:
    pg.run(*statements)
    project = lay_out(tmp_path, pg, tables=tables)
    before = everything(pg)
    project.upgrade()
    assert pg.value("SELECT to_regclass('p') IS NULL AND to_regclass('c') IS NULL") is True
    project.downgrade()
    after = everything(pg)
    assert after == before, difference(before, after)


@pytest.mark.parametrize(
    "contract", [{"columns": {"t": ["x"]}}, {"tables": ["t"]}], ids=["columns", "tables"]
)
def test_a_foreign_table_in_the_family_is_refused(
    pg: Database, tmp_path: Path, contract: dict[str, Any]
) -> None:
    pg.run(
        "CREATE FOREIGN DATA WRAPPER nothing",
        "CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing",
        "CREATE TABLE t (id int, x int) PARTITION BY RANGE (id)",
        "CREATE FOREIGN TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (9) SERVER nowhere",
    )
    with pytest.raises(MigrationError, match=r"public\.t1 is a foreign table"):
        lay_out(tmp_path, pg, **contract).upgrade()


# --- Objects made since -----------------------------------------------------------------------------


def test_a_view_of_hidden_columns_made_since_is_named(pg: Database, tmp_path: Path) -> None:
    project = contracted(tmp_path, pg)
    pg.run("CREATE VIEW v AS SELECT * FROM t")
    before = everything(pg)
    with pytest.raises(
        MigrationError, match=r"hidden columns of public\.t are read by view public\.v, made since"
    ):
        project.downgrade()
    point_at(tmp_path, pg)
    purged = Project(tmp_path, pg).pipestate("purge", "--older-than", "0m", "--yes")
    assert (purged.returncode, "Traceback" in purged.stderr) == (2, False), purged.stderr
    assert (
        "t cannot be purged: view public.v depends on column _pipestate_1_1 of table public.t"
        in purged.stderr
    )
    assert everything(pg) == before
    pg.run("DROP VIEW v")
    project.downgrade()
    assert rows(pg)[0] == (1, "x1")


def test_a_copy_of_a_table_that_was_renamed_is_not_taken_for_it(pg: Database, tmp_path: Path) -> None:
    project = contracted(tmp_path, pg)
    pg.run("CREATE TABLE a_copy AS SELECT * FROM t", "ALTER TABLE t RENAME TO u")
    with pytest.raises(MigrationError, match=r"public\.a_copy.*public\.u"):
        project.downgrade()
    pg.run("DROP TABLE a_copy")
    project.downgrade()
    assert rows(pg, "SELECT id, x FROM u ORDER BY id")[0] == (1, "x1")


def test_a_partition_that_was_detached_since_is_left_alone(pg: Database, tmp_path: Path) -> None:
    project = contracted(
        tmp_path,
        pg,
        "CREATE TABLE t (id int, x text) PARTITION BY RANGE (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20)",
        "INSERT INTO t VALUES (1, 'a'), (11, 'b')",
    )
    pg.run("ALTER TABLE t DETACH PARTITION t2")
    project.downgrade()
    assert rows(pg) == [(1, "a")]
    assert rows(pg, "SELECT _pipestate_1_1 FROM t2") == [("b",)]


# --- Other sessions ---------------------------------------------------------------------------------


FILLED = {
    "a table": (TABLE, "t"),
    "a child": ((*TABLE, "CREATE TABLE c () INHERITS (t)"), "c"),
    "a partition": (
        (
            "CREATE TABLE t (id int PRIMARY KEY, x text, note text, changed timestamptz) PARTITION BY RANGE (id)",
            "CREATE TABLE c PARTITION OF t FOR VALUES FROM (0) TO (100)",
            "INSERT INTO t VALUES (1, 'x1', 'note')",
        ),
        "c",
    ),
}


@pytest.mark.parametrize("what", FILLED)
def test_rows_written_while_others_are_filled_are_derived_too(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    statements, table = FILLED[what]
    project = contracted(
        tmp_path, pg, *statements, derived={"t": {"x": "'derived ' || s.note"}}, changed_at={"t": "changed"}
    )
    done = False

    def write() -> None:
        nonlocal done
        done = True
        pg.run(f"INSERT INTO {table} (id, note) VALUES (9, 'late')")

    fill = sql.do

    def filled(body: str, *arguments: Any, **named: Any) -> None:
        fill(body, *arguments, **named)
        if "CALL pipestate.fill(" in body and not done:
            write()

    monkeypatch.setattr(sql, "do", filled)
    project.downgrade()
    assert done
    assert rows(pg, "SELECT x FROM t WHERE id = 9") == [("derived late",)]


def test_a_late_row_that_cannot_be_derived_is_said(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    project = contracted(tmp_path, pg, derived={"t": {"x": "(1 / length(s.note))::text"}})
    fill = sql.do

    def filled(body: str, *arguments: Any, **named: Any) -> None:
        fill(body, *arguments, **named)
        if "CALL pipestate.fill(" in body:
            pg.run("INSERT INTO t (id, note) VALUES (9, '')")

    monkeypatch.setattr(sql, "do", filled)
    project.downgrade()
    assert rows(pg, "SELECT x FROM t WHERE id = 9") == [(None,)]
    assert "writes to t during this restore whose values could not be derived: 1" in caplog.text


def test_a_row_that_cannot_be_derived_stops_the_restore(pg: Database, tmp_path: Path) -> None:
    project = contracted(tmp_path, pg, derived={"t": {"x": "(1 / length(s.note))::text"}})
    pg.run("INSERT INTO t (id, note) VALUES (9, '')")
    with pytest.raises(MigrationError, match="division by zero"):
        project.downgrade()
    pg.run("DELETE FROM t WHERE id = 9")
    project.downgrade()
    assert rows(pg)[0] == (1, "x1")


@pytest.mark.parametrize("step", ["upgrade", "downgrade"])
def test_of_two_at_once_one_acts_and_the_other_is_refused_in_one_sentence(
    pg: Database, tmp_path: Path, step: str
) -> None:
    pg.run(*TABLE)
    project = lay_out(tmp_path, pg, columns={"t": ["x"]}, derived={"t": {"x": "'derived'"}})
    if step == "downgrade":
        project.upgrade()
    url = pg.url.render_as_string(hide_password=False)
    ini = tmp_path / "alembic.ini"
    text = ini.read_text().replace("driver://user:pass@localhost/dbname", url.replace("%", "%%"))
    ini.write_text(text)
    command = [sys.executable, "-m", "alembic", step, {"upgrade": "b2", "downgrade": "a1"}[step]]
    runs = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [run.communicate(timeout=60)[1] for run in runs]
    assert [run.returncode for run in runs].count(0) >= 1, said
    assert "Traceback" not in "".join(said), said
    assert pg.value("SELECT version_num FROM alembic_version") == {"upgrade": "b2", "downgrade": "a1"}[step]
    if step == "upgrade":
        assert len(rows(pg, HIDDEN)) == 2
        project.downgrade()
    assert rows(pg) == [(n, f"x{n}") for n in range(1, 6)]


SETTINGS = {
    "another time zone": "timezone = 'Pacific/Kiritimati'",
    "another date style": "datestyle = 'German, DMY'",
    "another path": "search_path = elsewhere, public",
    "no path": "search_path = ''",
    "a statement timeout": "statement_timeout = '5s'",
    "no sequential scans": "enable_seqscan = off",
    "backslashes": "standard_conforming_strings = off",
    "quotes": "quote_all_identifiers = on",
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_of_the_database_change_nothing(pg: Database, tmp_path: Path, setting: str) -> None:
    pg.run("CREATE SCHEMA elsewhere", *TABLE, "ALTER TABLE t ADD CONSTRAINT u UNIQUE (x, note)")
    table = "public.t" if setting == "no path" else "t"
    project = lay_out(
        tmp_path,
        pg,
        columns={table: ["x"]},
        derived={table: {"x": "'derived ' || s.note"}},
        changed_at={table: "changed"},
    )
    if setting == "no path":
        env = tmp_path / "migrations" / "env.py"
        env.write_text(
            env.read_text().replace("options = {", "options = {'version_table_schema': 'public', ")
        )
    pg.run(f'ALTER DATABASE "{pg.url.database}" SET {SETTINGS[setting]}')
    project.upgrade()
    with pg.begin() as connection:
        connection.exec_driver_sql("INSERT INTO public.t (id, note) VALUES (6, 'new')")
        connection.exec_driver_sql("UPDATE public.t SET note = 'since', changed = now() WHERE id = 2")
    project.downgrade()
    expected = [(1, "x1"), (2, "derived since"), (3, "x3"), (4, "x4"), (5, "x5"), (6, "derived new")]
    assert rows(pg, "SELECT id, x FROM public.t ORDER BY id") == expected


@pytest.mark.parametrize("how", HOW[:2])
@pytest.mark.parametrize("derived", [{}, {"t": {"x": "'derived'"}}], ids=["nothing", "derived"])
def test_a_restore_says_how_many_rows_are_left(
    pg: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture, derived: dict[str, Any], how: str
) -> None:
    project = contracted(tmp_path, pg, how=how, derived=derived)
    pg.run(
        "DELETE FROM t WHERE id > 3", "INSERT INTO t (id) VALUES (9)", "UPDATE t SET note = '' WHERE id = 1"
    )
    caplog.set_level("INFO")
    if not derived:
        with pytest.raises(
            MigrationError, match=r"new rows of t: 1, modified rows: 1\. The contract has no `derived` for x"
        ):
            project.downgrade()
        assert pg.value("SELECT version_num FROM alembic_version") == "b2"
    project.downgrade("a1", *([] if derived else ["force=old values are right"]))
    assert "rows of t from before revision b2: 3, modified since: 1; new rows: 1" in caplog.text
    assert [row[1] for row in rows(pg)] == [
        "derived" if derived else "x1",
        "x2",
        "x3",
        "derived" if derived else None,
    ]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_stricter_isolation_is_refused_at_the_gate_and_stops_no_restore(
    pg: Database, tmp_path: Path, level: str
) -> None:
    pg.run(*TABLE)
    project = lay_out(
        tmp_path, pg, columns={"t": ["x"]}, derived={"t": {"x": "'derived'"}}, changed_at={"t": "changed"}
    )
    stricter = f"ALTER DATABASE \"{pg.url.database}\" SET default_transaction_isolation = '{level}'"
    pg.run(stricter)
    with pytest.raises(MigrationError, match="needs READ COMMITTED"):
        project.upgrade()
    pg.run(f'ALTER DATABASE "{pg.url.database}" RESET default_transaction_isolation')
    project.upgrade()
    pg.run("INSERT INTO t (id, note) VALUES (6, 'new')", stricter)
    project.downgrade()
    assert rows(pg) == [*((n, f"x{n}") for n in range(1, 6)), (6, "derived")]


def test_a_role_that_a_policy_binds_restores_nothing_instead_of_a_part(pg: Database, tmp_path: Path) -> None:
    """The contract ran as a superuser; the owner, whom FORCE ROW LEVEL SECURITY binds, would see one row."""
    project = contracted(tmp_path, pg, derived={"t": {"x": "'derived'"}})
    pg.run(
        "INSERT INTO t (id, note) VALUES (9, 'new')",
        "CREATE POLICY one ON t USING (id = 1)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
        "CREATE ROLE bound_by_policy LOGIN",
        "GRANT bound_by_policy TO CURRENT_USER",
    )
    try:
        pg.run(*(f"ALTER {kind} {name} OWNER TO bound_by_policy" for kind, name in pg.rows(OURS)))
        pg.run(
            "ALTER TABLE t OWNER TO bound_by_policy",
            "ALTER TABLE alembic_version OWNER TO bound_by_policy",
            "ALTER ROLE bound_by_policy SET lock_timeout = 0",
            f'GRANT CREATE ON DATABASE "{pg.url.database}" TO bound_by_policy',
            "GRANT CREATE ON SCHEMA public TO bound_by_policy",
        )
        env = tmp_path / "migrations" / "env.py"
        env.write_text(
            env.read_text().replace(
                "        context.configure(connection=connection",
                "        connection.exec_driver_sql('SET ROLE bound_by_policy'); connection.commit()\n"
                "        context.configure(connection=connection",
            )
        )
        with pytest.raises(MigrationError, match="row-level security"):
            project.downgrade()
        assert len(rows(pg, HIDDEN)) == 2
    finally:
        pg.run("REASSIGN OWNED BY bound_by_policy TO CURRENT_USER", "DROP OWNED BY bound_by_policy")
        pg.run("DROP ROLE bound_by_policy")
    env.write_text(env.read_text().replace("SET ROLE bound_by_policy", "SELECT 1"))
    project.downgrade()
    assert rows(pg) == [*((n, f"x{n}") for n in range(1, 6)), (9, "derived")]


RENAMED = {
    "changed_at": ("ALTER TABLE t RENAME changed TO altered", "changed_at names changed, which"),
    "derived": ("ALTER TABLE t RENAME note TO remark", "column s.note does not exist"),
}


@pytest.mark.parametrize("what", RENAMED)
def test_a_column_that_the_contract_names_and_that_was_renamed_since_is_refused(
    pg: Database, tmp_path: Path, what: str
) -> None:
    statement, said = RENAMED[what]
    project = contracted(tmp_path, pg, derived={"t": {"x": "s.note"}}, changed_at={"t": "changed"})
    pg.run("INSERT INTO t (id, note) VALUES (9, 'new')", statement)
    with pytest.raises(MigrationError, match=said) as caught:
        project.downgrade()
    assert "\n" not in str(caught.value)
    assert len(rows(pg, HIDDEN)) == 2
    pg.run("UPDATE t SET id = id")  # writes go on


SIGNED = """
- [ ] `backup-taken` (24h): A backup was taken, and restored once.
"""


def test_a_published_table_is_dropped_for_good_after_the_backup_was_signed(
    pg: Database, tmp_path: Path
) -> None:
    pg.run(*TABLE, "CREATE PUBLICATION pub FOR TABLE t")
    project = lay_out(tmp_path, pg, columns={"t": ["x"]}, keep=False, must_pass=["backup-taken"])
    with pytest.raises(MigrationError, match="backup-taken"):
        project.upgrade()
    page = tmp_path / "runbooks" / "odd.md"
    page.write_text(page.read_text() + SIGNED)
    with pytest.raises(GateClosed, match="backup-taken"):
        project.upgrade()
    assert rows(pg)[0] == (1, "x1")
    point_at(tmp_path, pg)
    signed = Project(tmp_path, pg).pipestate("attest", "odd/ready/backup-taken", "--by", "Ada")
    assert signed.returncode == 0, signed.stderr
    project.upgrade()
    assert rows(pg, "SELECT * FROM t WHERE id = 1")[0][:2] == (1, "note")


def test_sizes_and_orphans_are_those_of_tables(pg: Database, tmp_path: Path) -> None:
    """A view made since has the hidden names, too."""
    contracted(tmp_path, pg)
    pg.run("CREATE VIEW v AS SELECT * FROM t", "CREATE TABLE a_copy AS SELECT * FROM t WHERE false")
    with pg.connect() as connection:
        (found,) = find_soft_drops(connection)
        assert find_orphans(connection) is None
    assert (found.name, found.columns, (found.bytes or 0) > 0) == ("public.t", ("x",), True)
    pg.run("DELETE FROM pipestate.soft_drop", "DROP TABLE a_copy")
    with pg.connect() as connection:
        assert find_orphans(connection) == "t"

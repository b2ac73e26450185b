import pytest

from pipestate.runbook.statement import explains, objections

FUNCTIONS = [
    "nextval",
    "setval",
    "lo_create",
    "lo_import",
    "lo_export",
    "lo_unlink",
    "lowrite",
    "set_config",
    "pg_terminate_backend",
    "pg_cancel_backend",
    "pg_advisory_lock",
    "pg_advisory_xact_lock_shared",
    "pg_advisory_unlock_all",
    "pg_try_advisory_lock",
    "pg_notify",
    "pg_sleep",
    "pg_sleep_for",
    "pg_switch_wal",
    "pg_reload_conf",
    "pg_rotate_logfile",
    "pg_promote",
    "pg_wal_replay_pause",
    "pg_backup_start",
    "pg_create_restore_point",
    "pg_create_logical_replication_slot",
    "pg_drop_replication_slot",
    "pg_copy_logical_replication_slot",
    "pg_replication_origin_create",
    "pg_replication_slot_advance",
    "pg_logical_emit_message",
    "pg_logical_slot_get_changes",
    "pg_export_snapshot",
    "txid_current",
    "pg_current_xact_id",
    "pg_stat_reset",
    "pg_stat_reset_shared",
    "pg_stat_statements_reset",
    "pg_clear_relation_stats",
    "pg_read_file",
    "pg_read_binary_file",
    "pg_ls_dir",
    "pg_stat_file",
    "pg_file_write",
    "dblink",
    "dblink_exec",
    "query_to_xml",
    "query_to_xml_and_xmlschema",
    "cursor_to_xml",
    "ts_stat",
    "crosstab",
    "load_extension",
    "writefile",
    "edit",
    "fts3_tokenizer",
]


@pytest.mark.parametrize("dialect", [None, "postgresql", "sqlite"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "select count(*) from sites;",
        "-- why\nSELECT 1 /* because; */",
        "WITH a AS (SELECT 1), b(x) AS (SELECT 2) SELECT * FROM a, b",
        "WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT 2) SELECT * FROM a",
        "VALUES (1), (2)",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "EXPLAIN SELECT 1",
        "SELECT 'DELETE FROM a; DROP TABLE b', 'nextval(1)', 'INTO'",
        'SELECT "update", "delete" AS "into" FROM a',
        "SELECT a.update, a.delete, a.into FROM a",
        "SELECT replace(a, 'x', 'y'), substr(a, 1) FROM b",
        "SELECT nextval FROM a",
        "SELECT 1 -- DELETE, nextval(x), FOR UPDATE",
        "SELECT updated_at, deleted FROM inserted",
        "SELECT a FROM b WHERE c LIKE 'x!_%' ESCAPE '!'",
        "SELECT a FROM b WHERE c LIKE 'x\\_%' ESCAPE '\\'",
        "SELECT txid_current_if_assigned(), pg_current_xact_id_if_assigned()",
        "SELECT pg_relation_size('a'), pg_stat_get_db_stat_reset_time(1), now()",
        'SELECT u & "x", a&"x" FROM a',
    ],
)
def test_a_plain_read_is_a_plain_read(sql: str, dialect: str | None) -> None:
    assert objections(sql, dialect) == []


@pytest.mark.parametrize(
    ("sql", "dialect"),
    [
        ("TABLE sites", "postgresql"),
        ("EXPLAIN (VERBOSE, COSTS off) SELECT 1", "postgresql"),
        ("EXPLAIN VERBOSE WITH a AS (SELECT 1) SELECT * FROM a", "postgresql"),
        ("EXPLAIN ((SELECT 1))", "postgresql"),
        ("EXPLAIN (SELECT 1)", "postgresql"),
        ("SELECT $$ ; DELETE $$, E'\\'; DELETE'", "postgresql"),
        ("SELECT substring(a FROM 1 FOR 2) FROM b", "postgresql"),
        ("WITH a AS MATERIALIZED (SELECT 1) SELECT * FROM a", "postgresql"),
        ("SELECT ARRAY[1, 2], a[1] FROM b", "postgresql"),
        ("EXPLAIN QUERY PLAN SELECT 1", "sqlite"),
        ("SELECT name FROM pragma_table_info('sites')", "sqlite"),
        ("SELECT [delete] FROM `update`", "sqlite"),
    ],
)
def test_a_plain_read_of_one_engine(sql: str, dialect: str) -> None:
    assert objections(sql, dialect) == []


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO a VALUES (1)",
        "UPDATE a SET b = 1",
        "DELETE FROM a",
        "MERGE INTO a USING b ON true WHEN MATCHED THEN DELETE",
        "REPLACE INTO a VALUES (1)",
        "DROP TABLE a",
        "CREATE TABLE a AS SELECT 1",
        "ALTER TABLE a RENAME TO b",
        "TRUNCATE a",
        "COPY a TO PROGRAM 'rm -rf /'",
        "COPY (SELECT 1) TO '/tmp/a'",
        "DO $$ BEGIN DELETE FROM a; END $$",
        "CALL a()",
        "LOCK TABLE a",
        "SET search_path = a",
        "RESET ALL",
        "SHOW server_version",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT a",
        "PREPARE a AS SELECT 1",
        "EXECUTE a",
        "DECLARE a CURSOR FOR SELECT 1",
        "FETCH ALL FROM a",
        "LISTEN a",
        "NOTIFY a",
        "ATTACH 'a.db' AS b",
        "DETACH b",
        "VACUUM INTO 'a.db'",
        "ANALYZE a",
        "REINDEX TABLE a",
        "REFRESH MATERIALIZED VIEW a",
        "GRANT ALL ON a TO b",
        "IMPORT FOREIGN SCHEMA a FROM SERVER b INTO c",
        "(DELETE FROM a)",
        "1",
        "'SELECT'",
        '"SELECT" 1',
        "(",
    ],
)
def test_a_statement_that_begins_otherwise_is_refused(sql: str) -> None:
    reported = objections(sql, "postgresql") or objections(sql, "sqlite")

    assert "not with a plain read: begin with SELECT, WITH or VALUES" in reported[0]


def test_a_pragma_is_refused_with_how_to_read_it() -> None:
    [reported] = objections("PRAGMA query_only = off", "sqlite")

    assert reported.startswith(
        "begins with PRAGMA, not with a plain read: read it as a table, SELECT … FROM pragma_"
    )


@pytest.mark.parametrize(
    "sql",
    [
        "EXPLAIN ANALYZE SELECT 1",
        "EXPLAIN ANALYZE DELETE FROM a",
        "explain analyse select 1",
        "EXPLAIN VERBOSE ANALYZE SELECT 1",
        "EXPLAIN (ANALYZE) SELECT 1",
        "EXPLAIN (COSTS off, ANALYZE true) SELECT 1",
        "EXPLAIN (ANALYZE off) SELECT 1",
        'EXPLAIN ("analyze") SELECT 1',
        "EXPLAIN DELETE FROM a",
        "EXPLAIN (VERBOSE) UPDATE a SET b = 1",
        "EXPLAIN EXPLAIN SELECT 1",
        "EXPLAIN EXECUTE a",
        "EXPLAIN CREATE TABLE a AS SELECT 1",
        "EXPLAIN",
        "EXPLAIN (",
        "EXPLAIN (VERBOSE)",
    ],
)
def test_an_explain_that_runs_something_or_is_of_no_read_is_refused(sql: str) -> None:
    assert "EXPLAIN a SELECT, and without ANALYZE, which runs it" in objections(sql, "postgresql")[0]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("WITH a AS (DELETE FROM b RETURNING *) SELECT * FROM a", "holds DELETE, and a check only reads"),
        ("WITH a AS MATERIALIZED (UPDATE b SET c = 1 RETURNING *) SELECT 1", "holds UPDATE"),
        ("WITH a AS NOT MATERIALIZED (insert INTO b VALUES (1)) SELECT 1", "holds INSERT"),
        ("WITH a AS (SELECT 1) DELETE FROM b", "holds DELETE"),
        ("WITH a AS (SELECT 1) MERGE INTO b USING a ON true WHEN MATCHED THEN DO NOTHING", "holds MERGE"),
        ("WITH a AS (SELECT 1) /* x */ UPDATE b SET c = 1", "holds UPDATE"),
        ("WITH RECURSIVE a AS (SELECT 1) SEARCH DEPTH FIRST BY b SET c DELETE FROM d", "holds DELETE"),
        ("WITH a AS (SELECT 1) REPLACE INTO b VALUES (1)", "writes INTO a table"),
        ("SELECT delete FROM a", "a column of that name goes in quotes"),
        ("SELECT * INTO b FROM a", "writes INTO a table: a check only reads, take INTO out"),
        ("SELECT 1into b", "writes INTO a table"),
        ("SELECT 1 INTO TEMP b", "writes INTO a table"),
        ("SELECT * FROM a FOR UPDATE", "locks rows with FOR UPDATE or FOR SHARE, which is a write"),
        ("SELECT * FROM a FOR NO KEY UPDATE NOWAIT", "locks rows"),
        ("SELECT * FROM a FOR SHARE OF a SKIP LOCKED", "locks rows"),
        ("SELECT * FROM a for /* x */ key share", "locks rows"),
        ("SELECT 1 \\gexec", "a backslash outside quotes begins a psql command"),
        ("\\! rm -rf /", "a backslash outside quotes begins a psql command"),
        ("SELECT U&\"\\006eextval\"('a')", 'a name in U&"…" cannot be checked: write the plain name'),
        ("SELECT E'a'\n'b\\'' , '", "a second string literal continues E'…'"),
    ],
)
def test_what_does_more_than_read_is_refused(sql: str, message: str) -> None:
    [reported] = objections(sql, "postgresql")

    assert message in reported


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    "call", ["{}(1)", "{} (1)", "pg_catalog.{}(1)", '"{}"(1)', 'a."{}" /* x */ (1)', "{}\n(1)"]
)
def test_a_function_with_effects_is_refused_however_it_is_written(call: str, function: str) -> None:
    expected = [f"calls {function}(), which does more than read: take the call out"]

    assert objections(f"SELECT {call.format(function)}", None) == expected
    assert objections(f"SELECT {call.format(function.upper())}", None) == expected


@pytest.mark.parametrize("call", ["[Load_Extension](1)", "`load_extension`(1)"])
def test_sqlite_quotes_hide_no_function(call: str) -> None:
    assert "calls load_extension()" in objections(f"SELECT {call}", "sqlite")[0]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "there is no SQL in the block: write the query below the directives"),
        ("-- nothing", "there is no SQL in the block"),
        ("SELECT 1; SELECT 2", "2 statements in one block: a block is exactly one, split it"),
        ("SELECT 1; COMMIT; DROP TABLE a", "3 statements in one block"),
        ("SELECT 'a", 'a quote or a comment is never closed, from "\'a" on: close it'),
        ("SELECT 1 /* a", "a quote or a comment is never closed, from '/* a' on"),
    ],
)
def test_what_is_not_one_statement_is_refused(sql: str, message: str) -> None:
    [reported] = objections(sql, None)

    assert reported.startswith(message)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT /* /* */ 1; DROP TABLE a /* */ */",
            "2 statements in one block: a block is exactly one, split it",
        ),
        ("SELECT $$ ; DROP TABLE a $$", "2 statements in one block: a block is exactly one, split it"),
        ("TABLE sites", "SQLite has no TABLE statement: write SELECT * FROM"),
    ],
)
def test_without_a_dialect_both_engines_must_agree(sql: str, message: str) -> None:
    assert objections(sql, "postgresql") == []
    assert objections(sql, None) == [f"{message} (as SQLite reads it)"]


def test_an_explain_is_known_as_one() -> None:
    assert explains("-- why\nexplain SELECT 1", None)
    assert not explains("SELECT 1", None)
    assert not explains("", None)

"""Scripts under the guard: `--sql` writes revisions that the server judges and records.

Where the migrations have installed the ledger they call its functions; otherwise they bring the same functions along.
"""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from alembic.util import CommandError

from attacks import destructive, harmless
from attacks.destructive import sql
from attacks.guarded import Guarded
from attacks.psql import feed
from attacks.test_denied import fill, started
from pipestate.ledger.install import install
from support.long_form import LONG
from support.servers import Database, Postgres

MODES = ("script", "script_per_migration", "script_not_transactional")
# Python that needs a connection has none in a script, and Alembic itself says so.
NEEDS_CONNECTION = ("get_bind()", "recreate='always'", "try:", "raise ")
ENDS_ITSELF: tuple[str, ...] = (
    "'COMMIT'",
    "'ROLLBACK'",
    "commit;",
    "; COMMIT",
    "PREPARE TRANSACTION",
    "op.execute('BEGIN')",
)
# The server refuses them in a transaction, and writing refuses a ROLLBACK: nothing is left to judge.
ENDS_ITSELF += ("ROLLBACK AND CHAIN", "CALL tidy()", "CALL drop_and_commit()")


def is_written(body: str) -> bool:
    """Say whether a form can be written as a script that leaves its transactions to Alembic."""
    return not any(word in body for word in (*NEEDS_CONNECTION, *ENDS_ITSELF))


FORMS = {name: body for name, body in destructive.FORMS.items() if is_written(body)}
HARMLESS = {name: body for name, body in harmless.HARMLESS.items() if is_written(body)}


def modes_of(number: int) -> tuple[str, ...]:
    return MODES if LONG else (MODES[0], MODES[1 + number % 2])


TURNS = {form: modes_of(number) for number, form in enumerate(FORMS)}
HARMLESS_TURNS = {form: modes_of(number) for number, form in enumerate(HARMLESS)}


@pytest.fixture(scope="module", params=[False, True], ids=["session", "ledger"])
def has_ledger(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def world(postgres: Postgres, has_ledger: bool) -> Iterator[Database]:
    """One database for all forms: none of them may change it."""
    database = postgres.copy_of("destroyed", lambda fresh: fresh.run(*destructive.SETUP))
    if has_ledger:
        install_in(database)
    yield database
    postgres.drop(database)


@pytest.fixture
def project(postgres: Postgres, has_ledger: bool, tmp_path: Path) -> Iterator[Guarded]:
    database = postgres.copy_of("harmless", fill)
    project = started_with(database, tmp_path, has_ledger=has_ledger)
    project.use("script")
    yield project
    postgres.drop(database)


def install_in(database: Database) -> None:
    with database.begin() as connection:
        install(connection)


def started_with(database: Database, to: Path, *, has_ledger: bool) -> Guarded:
    """Open the project; with a ledger, the first revision of the migrations installs it."""
    project = started(database, to)
    if has_ledger:
        install_in(database)
        project.head = None
        project.write("a0", "install_ledger()", top="from pipestate.ddl import install_ledger")
    return project


def test_a_script_brings_the_functions_only_where_the_migrations_have_no_ledger(
    project: Guarded, has_ledger: bool
) -> None:
    project.write("b1", "op.drop_table('items')")
    script = project.script()
    assert ("CALL pipestate.end_revision('b1'" in script) is has_ledger
    assert ("CREATE OR REPLACE PROCEDURE pg_temp.pipestate_end_revision(" in script) is not has_ledger


@pytest.mark.parametrize("form", FORMS)
def test_a_script_loses_nothing(form: str, world: Database, has_ledger: bool, tmp_path: Path) -> None:
    project = started_with(world, tmp_path, has_ledger=has_ledger)
    project.write("b1", FORMS[form])
    before = destructive.everything(world)
    for mode in TURNS[form]:
        project.use(mode)
        said = feed(world, project.script(), "-v", "ON_ERROR_STOP=1")
        assert " loses " in said, (mode, said)
        assert destructive.everything(world) == before, (mode, said)
        assert project.version() == "a0", (mode, said)


@pytest.mark.parametrize("form", HARMLESS)
def test_a_script_that_loses_nothing_is_not_refused(
    form: str, postgres: Postgres, has_ledger: bool, tmp_path: Path
) -> None:
    for mode in HARMLESS_TURNS[form]:
        database = postgres.copy_of("harmless", fill)
        harmless.require_form(form, database)
        project = started_with(database, tmp_path / mode, has_ledger=has_ledger)
        project.write("b1", HARMLESS[form])
        project.use(mode)
        said = feed(database, project.script(), "-v", "ON_ERROR_STOP=1")
        assert project.version() == "b1", (mode, said)
        postgres.drop(database)


GOING_ON = pytest.mark.parametrize(
    ("options", "rc"),
    [
        (("-v", "ON_ERROR_STOP=0"), ""),
        (("-1",), ""),
        (("-v", "ON_ERROR_STOP=0"), "\\set ON_ERROR_ROLLBACK on\n"),
        (("-1", "-v", "ON_ERROR_STOP=0"), "\\set ON_ERROR_ROLLBACK on\n"),
    ],
)


@GOING_ON
@pytest.mark.parametrize("mode", MODES)
def test_a_psql_that_goes_on_judges_the_next_revision_too(
    mode: str, options: tuple[str, ...], rc: str, project: Guarded, tmp_path: Path
) -> None:
    project.use(mode)
    project.write("b1", "op.drop_table('items')")
    project.write("c2", "op.drop_column('orders', 'code')")
    project.write("d3", "with op.get_context().autocommit_block():\n    op.execute('DROP TABLE orders')")
    psqlrc = tmp_path / "psqlrc"
    psqlrc.write_text(rc)
    feed(project.database, project.script(), *options, psqlrc=psqlrc)
    assert project.database.value("SELECT count(*) FROM items") == 1993
    assert project.database.value("SELECT count(code) FROM orders") == 3


@GOING_ON
@pytest.mark.parametrize("mode", MODES)
def test_a_session_of_a_replica_loses_nothing_either(
    mode: str, options: tuple[str, ...], rc: str, project: Guarded, tmp_path: Path
) -> None:
    """Its deferred keys are not checked, so the COMMIT of a revision that was refused would succeed."""
    project.use(mode)
    project.write("b1", "op.drop_table('items')")
    script = "".join(line for line in project.script().splitlines(keepends=True) if not line.startswith("\\"))
    project.database.run(
        f"ALTER DATABASE {project.database.url.database} SET session_replication_role = replica"
    )
    psqlrc = tmp_path / "psqlrc"
    psqlrc.write_text(rc)
    said = feed(project.database, script, *options, psqlrc=psqlrc)
    assert "SET session_replication_role = origin" in said
    assert project.database.value("SELECT count(*) FROM items") == 1993


@GOING_ON
@pytest.mark.parametrize("has_ledger", [True], scope="module")
def test_a_psql_that_goes_on_without_the_ledger_loses_nothing(
    options: tuple[str, ...], rc: str, project: Guarded, tmp_path: Path
) -> None:
    project.write("b1", "op.drop_table('items')")
    project.write("c2", "op.drop_column('orders', 'code')")
    project.use("script_per_migration")
    project.database.run("DROP SCHEMA pipestate CASCADE")
    psqlrc = tmp_path / "psqlrc"
    psqlrc.write_text(rc)
    said = feed(project.database, project.script(), *options, psqlrc=psqlrc)
    assert "this database has no ledger" in said
    assert project.database.value("SELECT count(*) FROM items") == 1993
    assert project.database.value("SELECT count(code) FROM orders") == 3
    assert project.version() == "a0"


@pytest.mark.parametrize("top", ["", "from pipestate.ddl import add_columns"])
@pytest.mark.parametrize(
    "text", ["DROP TABLE items /* CALL pipestate.fill(true) */", "/* INDEX CONCURRENTLY */ DROP TABLE items"]
)
def test_the_words_of_our_calls_let_nothing_pass(text: str, top: str, project: Guarded) -> None:
    project.write("b1", f"with op.get_context().autocommit_block():\n    op.execute({text!r})", top=top)
    said = feed(project.database, project.script())
    assert "revision b1 loses the table items" in said, said
    assert project.database.value("SELECT count(*) FROM items") == 1993


@GOING_ON
def test_a_psql_that_goes_on_keeps_the_rows(
    options: tuple[str, ...], rc: str, project: Guarded, tmp_path: Path
) -> None:
    project.write("b1", "op.drop_table('items')")
    psqlrc = tmp_path / "psqlrc"
    psqlrc.write_text(rc)
    feed(project.database, project.script(), *options, psqlrc=psqlrc)
    assert project.database.value("SELECT count(*) FROM items") == 1993
    assert project.version() == "a0"


@pytest.mark.parametrize("mode", MODES[:2])
def test_a_commit_by_text_is_judged_before_and_after_it(mode: str, project: Guarded) -> None:
    project.write("b1", sql("COMMIT", "DROP TABLE items"))
    project.use(mode)
    assert "revision b1 loses the table items" in feed(project.database, project.script())
    project.head = "a0"
    project.write("b1", sql("DROP TABLE items", "COMMIT"))
    assert "revision b1 loses the table items" in feed(project.database, project.script())
    project.head = "a0"
    project.write(
        "b1", sql("COMMIT", "ALTER TYPE mood ADD VALUE 'calm'", "ALTER TABLE orders ADD COLUMN fresh text")
    )
    said = feed(project.database, project.script())
    assert project.version() == "b1", said
    assert project.database.value("SELECT count(*) FROM items") == 1993


@pytest.mark.parametrize("text", ["ROLLBACK", "DROP TABLE items; COMMIT"])
def test_a_script_that_could_not_be_judged_is_not_written(text: str, project: Guarded) -> None:
    project.write("b1", sql(text))
    with pytest.raises(CommandError, match="in a way that a script cannot check"):
        project.script()


def test_what_an_earlier_revision_created_is_free(project: Guarded) -> None:
    project.write("b1", sql("CREATE TABLE t AS SELECT * FROM orders"))
    project.write("c2", sql("DROP TABLE t"))
    project.use("script_per_migration")
    said = feed(project.database, project.script())
    assert project.version() == "c2", said


def test_a_copy_is_not_free_in_the_next_revision(project: Guarded) -> None:
    project.write("b1", harmless.HARMLESS["create, copy, drop, rename"])
    project.write("c2", "op.drop_table('items')")
    project.use("script_per_migration")
    said = feed(project.database, project.script())
    assert "the upgrade of revision c2 loses the table items" in said
    assert project.version() == "b1"


def test_a_table_that_an_earlier_revision_filled_is_not_emptied(project: Guarded) -> None:
    project.write("b1", sql("INSERT INTO hollow VALUES (1)"))
    project.write("c2", sql("DELETE FROM hollow"))
    said = feed(project.database, project.script())
    assert "the upgrade of revision c2 loses the rows of hollow" in said


def test_a_table_that_was_emptied_with_a_reason_is_empty(project: Guarded) -> None:
    env = project.root / "migrations" / "env.py"
    env.write_text(env.read_text().replace("guard(context)", "guard(context, since='b1')"))
    project.write("b1", sql("DELETE FROM items"))
    project.write("c2", sql("UPDATE items SET id = 1"))
    said = feed(project.database, project.script())
    assert project.version() == "c2", said


def test_the_sentence(project: Guarded) -> None:
    project.write("b1", "op.drop_table('items')", down="op.drop_column('orders', 'code')")
    said = feed(project.database, project.script())
    assert (
        "the upgrade of revision b1 loses the table items (about 1,993 rows), so this transaction "
        "is rolled back; earlier COMMITs stay. To go on, put it behind "
        "a gate: pipestate revision --contract RUNBOOK/PHASE --drop-table items; or write the script with a reason: "
        'alembic -x force="reason" upgrade ... --sql'
    ) in said
    said = feed(project.database, project.script("b1:a0", to="downgrade"))
    assert (
        "the downgrade of revision b1 loses the column orders.code (about 3 rows), so this transaction"
        in said
    )
    assert "--contract" not in said


def test_a_reason_goes_through_and_is_kept(project: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPESTATE_ACTOR", "who wrote it")
    project.write("b1", "install_ledger()", top="from pipestate.ddl import install_ledger")
    project.write("c2", "op.drop_table('items')")
    said = feed(project.database, project.script(x=("force=nobody reads it",)))
    assert "revision c2 loses the table items (about 1,993 rows), and is forced: nobody reads it" in said
    file = project.root / "migrations" / "versions" / "c2.py"
    query = "SELECT revision, reason, file_sha256, version_table, dropped, actor, role = current_user FROM pipestate.run WHERE event = 'upgrade'"
    b1, c2 = project.database.rows(f"{query} ORDER BY id")
    assert (b1[0], b1[1], b1[4]) == ("b1", None, None)
    assert c2 == (
        "c2",
        "nobody reads it",
        sha256(file.read_bytes()).hexdigest(),
        '"public"."alembic_version"',
        [{"kind": "table", "name": "items", "rows": 1993}],
        "who wrote it",
        True,
    )


def test_revisions_up_to_since_are_not_judged(project: Guarded) -> None:
    env = project.root / "migrations" / "env.py"
    env.write_text(env.read_text().replace("guard(context)", "guard(context, since='b1')"))
    project.write("b1", "op.drop_table('cache')")
    said = feed(project.database, project.script())
    assert project.version() == "b1", said


def test_a_laptop_is_warned(project: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPESTATE_ENFORCE", "warn")
    project.write("b1", "op.drop_table('items')")
    said = feed(project.database, project.script())
    assert "revision b1 loses the table items (about 1,993 rows); losses are not enforced here" in said
    assert project.version() == "b1"

"""Indexes: rebuilt where a build was interrupted or the definition is another one, refused where they are another's."""

import logging
from collections.abc import Iterator
from io import StringIO

import pytest
import sqlalchemy as sa

from pipestate.ddl import Index, create_index
from pipestate.migration.failure import MigrationError
from support.alembic_runs import Migrations, psql
from support.revision_context import revision
from support.servers import Database
from support.verdicts import not_passed, shipped, verdicts

NAME = "uix_cips_content_item_pipeline"
STAGES = ("fetch", "ocr", "compilation", "extraction", "deploy")
COUNTERS = [f"{stage}_{what}" for stage in STAGES for what in ("total", "completed", "failed")]


class Said(logging.Handler):
    """What is logged; the env.py of the migrations takes the handlers of the root logger away."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def said() -> Iterator[list[str]]:
    handler = Said()
    logging.getLogger("pipestate").addHandler(handler)
    yield handler.lines
    logging.getLogger("pipestate").removeHandler(handler)


def make_invalid(migrations: Migrations, name: str, definition: str) -> None:
    """What an interrupted CREATE INDEX CONCURRENTLY leaves behind."""
    migrations.database.run(
        definition,
        f"UPDATE pg_index SET indisvalid = false, indisready = false WHERE indexrelid = '{name}'::regclass",
    )


def test_an_invalid_index_of_the_right_name_is_rebuilt(pg_0002: Migrations) -> None:
    pg_0002.database.run("ALTER TABLE sites ADD COLUMN updated_at timestamptz")
    make_invalid(pg_0002, "idx_sites_updated_at", "CREATE INDEX idx_sites_updated_at ON sites (updated_at)")
    pg_0002.upgrade("0003")
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'idx_sites_updated_at'::regclass"
    assert pg_0002.database.value(valid) is True


def own_table(migrations: Migrations, *statements: str) -> None:
    """The application's own `content_item_pipeline_state`, with two rows."""
    key = "INTEGER" if migrations.database.is_sqlite else "SERIAL"
    migrations.database.run(
        f"CREATE TABLE content_item_pipeline_state (id {key} PRIMARY KEY, content_item_id INTEGER NOT NULL, "
        "pipeline VARCHAR NOT NULL, status VARCHAR NOT NULL)",
        "INSERT INTO content_item_pipeline_state (content_item_id, pipeline, status) "
        "VALUES (1, 'technical', 'pending'), (2, 'technical', 'pending')",
        *statements,
    )


def definition(migrations: Migrations, name: str) -> str:
    query = (
        f"SELECT sql FROM sqlite_master WHERE name = '{name}'"
        if migrations.database.is_sqlite
        else f"SELECT pg_get_indexdef('{name}'::regclass)"
    )
    return str(migrations.database.value(query))


@pytest.mark.parametrize(
    "other",
    [
        "CREATE INDEX uix_cips_content_item_pipeline ON content_item_pipeline_state (content_item_id, pipeline)",
        "CREATE UNIQUE INDEX uix_cips_content_item_pipeline ON content_item_pipeline_state (pipeline, content_item_id)",
        "CREATE UNIQUE INDEX uix_cips_content_item_pipeline ON content_item_pipeline_state "
        "(content_item_id, pipeline) WHERE id > 1",
    ],
)
def test_an_index_of_the_right_name_with_another_definition_is_rebuilt_and_said(
    legacy_0003: Migrations, other: str, said: list[str]
) -> None:
    own_table(legacy_0003, other)
    rows = "SELECT * FROM content_item_pipeline_state ORDER BY id"
    kept = [row[:4] for row in legacy_0003.database.rows(rows)]
    legacy_0003.upgrade("0004")
    assert [line for line in said if line.startswith(f"index {NAME} had another definition")]
    built = definition(legacy_0003, NAME)
    assert "UNIQUE" in built
    assert "(content_item_id, pipeline)" in built
    assert "WHERE" not in built
    assert [row[:4] for row in legacy_0003.database.rows(rows)] == kept
    legacy_0003.downgrade("0003")
    assert NAME in definition(legacy_0003, NAME), "it was the application's, and stays"


def own_counters(database: Database) -> None:
    """The head of the application's own migrations: all counters, and an index whose predicate its models do not have."""
    time = "TIMESTAMP" if database.is_sqlite else "TIMESTAMP WITH TIME ZONE"
    columns = {
        "current_stage": "VARCHAR",
        **dict.fromkeys(("started_at", "updated_at", "last_error_at"), time),
        **dict.fromkeys(COUNTERS, "INTEGER DEFAULT 0 NOT NULL"),
        "coordinator_enqueued": "BOOLEAN DEFAULT FALSE NOT NULL",
        "last_error_stage": "VARCHAR",
        "last_error_message": "TEXT",
    }
    database.run(
        *(f"ALTER TABLE sites ADD COLUMN {name} {kind}" for name, kind in columns.items()),
        "CREATE INDEX idx_sites_current_stage ON sites (current_stage)",
        "CREATE INDEX idx_sites_updated_at ON sites (updated_at)",
        "CREATE INDEX idx_sites_coordinator_enqueued ON sites (subdomain, coordinator_enqueued)",
        "UPDATE sites SET current_stage = 'ocr', ocr_total = 7",
    )


def test_the_index_of_a_real_application_gets_its_predicate_and_it_is_said(
    legacy_migrations: Migrations, said: list[str]
) -> None:
    own_counters(legacy_migrations.database)
    legacy_migrations.upgrade("0005")
    (line,) = [line for line in said if "had another definition" in line]
    assert line.startswith("index idx_sites_coordinator_enqueued had another definition (CREATE INDEX")
    assert "rebuilt as CREATE INDEX idx_sites_coordinator_enqueued" in line
    assert "WHERE" in definition(legacy_migrations, "idx_sites_coordinator_enqueued")
    assert legacy_migrations.database.value("SELECT sum(ocr_total) FROM sites") == 2100
    assert not_passed(verdicts(legacy_migrations.database, shipped("sites-consolidation"), "expand")) == {}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ("CREATE INDEX uix_cips_content_item_pipeline ON sites (name)", "is no index of"),
        ("CREATE TABLE uix_cips_content_item_pipeline (id int)", "is no index of|already a table named"),
    ],
)
def test_a_name_that_belongs_to_somebody_else_is_refused(
    legacy_0003: Migrations, other: str, said: str
) -> None:
    own_table(legacy_0003, other)
    with pytest.raises(MigrationError, match=said):
        legacy_0003.upgrade("0004")
    assert legacy_0003.revision() == "0003"


def test_an_index_of_a_constraint_is_not_replaced(pg_0003: Migrations) -> None:
    own_table(
        pg_0003,
        f"ALTER TABLE content_item_pipeline_state ADD CONSTRAINT {NAME} UNIQUE (pipeline, content_item_id)",
    )
    with pytest.raises(MigrationError, match="It belongs to a constraint"):
        pg_0003.upgrade("0004")
    assert pg_0003.revision() == "0003"


def test_duplicates_leave_the_old_index_standing_until_they_are_gone(legacy_0003: Migrations) -> None:
    database = legacy_0003.database
    old = f"CREATE INDEX {NAME} ON content_item_pipeline_state (content_item_id, pipeline)"
    own_table(legacy_0003, old, "UPDATE content_item_pipeline_state SET content_item_id = 1")
    for _ in range(2):
        with pytest.raises(MigrationError, match=r"[Dd]uplicate|unique|UNIQUE"):
            legacy_0003.upgrade("0004")
        assert "UNIQUE" not in definition(legacy_0003, NAME), "the old one is gone"
        if not database.is_sqlite:
            invalid = "SELECT count(*) FROM pg_index WHERE NOT indisvalid"
            assert database.value(invalid) == 0, "half an index goes on refusing duplicates"
    database.run("DELETE FROM content_item_pipeline_state WHERE id = 2")
    legacy_0003.upgrade("0004")
    assert "UNIQUE" in definition(legacy_0003, NAME)


@pytest.mark.parametrize("killed_at", ["DROP INDEX", "half built", "built"])
def test_a_rebuild_that_was_killed_is_finished_by_a_rerun(pg_0003: Migrations, killed_at: str) -> None:
    """What a kill leaves: a spare index that is valid and not yet in its place, or INVALID, or one too many."""
    database, spare = pg_0003.database, f"pipestate_new_{NAME}"
    new = f"CREATE UNIQUE INDEX {spare} ON content_item_pipeline_state (content_item_id, pipeline)"
    old = f"CREATE INDEX {NAME} ON content_item_pipeline_state (pipeline)"
    if killed_at == "DROP INDEX":
        old = new.replace(spare, NAME)
    own_table(pg_0003, old)
    database.run(new)
    if killed_at == "half built":
        make_invalid(pg_0003, spare, "SELECT 1")
    pg_0003.upgrade("0004")
    assert "UNIQUE" in definition(pg_0003, NAME)
    assert database.value(f"SELECT to_regclass('{spare}') IS NULL") is True
    assert database.value("SELECT count(*) FROM pg_index WHERE NOT indisvalid") == 0


def test_a_script_rebuilds_it_too(pg_0003: Migrations) -> None:
    own_table(pg_0003, f"CREATE INDEX {NAME} ON content_item_pipeline_state (pipeline)")
    done = psql(pg_0003.database, pg_0003.script("upgrade", "0003:0004"))
    assert done.returncode == 0, done.stderr
    assert f"index {NAME} had another definition" in done.stderr
    assert "UNIQUE" in definition(pg_0003, NAME)


READ_BY_CHECKS = {
    "idx_sites_contradictions",
    "idx_sites_legacy_times",
    "idx_sites_without_stage",
    "idx_site_progress_ocr",
    "idx_site_progress_touched",
}


def read_by_checks(migrations: Migrations) -> set[str]:
    found = migrations.database.rows("SELECT indexrelid::regclass::text FROM pg_index WHERE indisvalid")
    return {str(name) for (name,) in found} & READ_BY_CHECKS


@pytest.mark.parametrize("kind", ["varchar(20)", "text", "stage"])
def test_what_checks_read_is_indexed_once_whatever_type_a_stage_has(
    pg_0002: Migrations, said: list[str], kind: str
) -> None:
    stages = "'fetch', 'ocr', 'compilation', 'extraction', 'deploy', 'completed'"
    pg_0002.database.run(
        f"CREATE TYPE stage AS ENUM ({stages})",
        f"ALTER TABLE sites ADD COLUMN current_stage {kind}",
        "ALTER TABLE sites ALTER last_updated TYPE text, ALTER last_extracted TYPE varchar(40)",
    )
    pg_0002.upgrade("0003")
    assert read_by_checks(pg_0002) == READ_BY_CHECKS
    pg_0002.database.run("UPDATE pipestate_alembic_version SET version_num = '0002'")
    pg_0002.upgrade("0003")
    assert [line for line in said if "had another definition" in line] == [], "it is taken for another one"
    pg_0002.downgrade("0002")
    assert read_by_checks(pg_0002) == set()


def test_what_the_application_has_otherwise_is_not_indexed(pg_0002: Migrations) -> None:
    pg_0002.database.run(
        "ALTER TABLE sites DROP COLUMN last_deployed, DROP COLUMN status",
        "ALTER TABLE site_progress ALTER updated_at TYPE timestamp, ALTER started_at TYPE date",
    )
    done = psql(pg_0002.database, pg_0002.script("upgrade", "0002:0003"))
    assert done.returncode == 0, done.stderr
    assert read_by_checks(pg_0002) == {"idx_sites_contradictions", "idx_site_progress_ocr"}


def test_a_long_text_where_a_time_was_meant_can_still_be_written(pg_legacy: Migrations) -> None:
    """A btree takes no more than 2,704 bytes of a row: an index of whole texts would refuse the application's write."""
    long = "SELECT string_agg(md5(n::text), '') FROM generate_series(1, 1000) n"
    pg_legacy.database.run(f"UPDATE sites SET last_extracted = ({long}) WHERE subdomain < 'site010'")
    pg_legacy.upgrade("0003")
    assert "idx_sites_legacy_times" in read_by_checks(pg_legacy)
    pg_legacy.database.run(f"UPDATE sites SET last_updated = ({long})")


def test_a_table_that_is_gone_needs_no_index(pg_0002: Migrations) -> None:
    pg_0002.database.run("DROP TABLE site_progress")
    pg_0002.upgrade("0003")
    assert read_by_checks(pg_0002) == {
        "idx_sites_contradictions",
        "idx_sites_legacy_times",
        "idx_sites_without_stage",
    }


def test_the_old_accounts_indexes_go_with_it_and_come_back(pg_expanded: Migrations) -> None:
    pg_expanded.contract()
    assert read_by_checks(pg_expanded) == {"idx_sites_contradictions"}
    pg_expanded.downgrade("0005")
    assert read_by_checks(pg_expanded) == READ_BY_CHECKS


EVENTS = "CREATE TABLE events (id int PRIMARY KEY, kind text, done boolean, at timestamptz)"
DEFINITION = "SELECT indexrelid, pg_get_indexdef(indexrelid) FROM pg_index WHERE indexrelid = 'ix'::regclass"
SPELLINGS = {
    "(kind)": "(kind)",
    "((kind))": "(kind)",
    "Kind ASC": "(kind)",
    "kind desc nulls first": "(kind DESC)",
    "kind desc NULLS last, id": "(kind DESC NULLS LAST, id)",
    "(lower(kind)), id": "(lower(kind), id)",
}


@pytest.mark.parametrize("script", [False, True], ids=["online", "script"])
@pytest.mark.parametrize(("keys", "printed"), SPELLINGS.items(), ids=SPELLINGS)
def test_keys_in_parentheses_are_built_once(
    pg: Database, keys: str, printed: str, script: bool, said: list[str]
) -> None:
    pg.run(EVENTS)
    text = StringIO() if script else None
    with revision(pg, text):
        create_index(Index("ix", "events", keys))
    if text is not None:
        assert psql(pg, text.getvalue(), "-v", "ON_ERROR_STOP=1").returncode == 0
    ((oid, definition),) = pg.rows(DEFINITION)
    assert str(definition).endswith(f"USING btree {printed}")
    with revision(pg):
        create_index(Index("ix", "events", keys))
    assert pg.rows(DEFINITION) == [(oid, definition)]
    assert said == []


def test_a_spelling_that_no_rule_knows_is_built_once_and_said(pg: Database, said: list[str]) -> None:
    pg.run(EVENTS)
    with revision(pg):
        create_index(Index("ix", "events", "lower( kind )"))
    (line,) = said
    assert "PostgreSQL prints its definition as (lower(kind)); write it so" in line


def test_an_index_of_sqlalchemy_is_taken(pg: Database, said: list[str]) -> None:
    pg.run(EVENTS)
    events = sa.Table(
        "events", sa.MetaData(), sa.Column("id"), sa.Column("kind", sa.Text), sa.Column("done", sa.Boolean)
    )
    index = sa.Index(
        "ix",
        events.c.id.desc(),
        sa.func.lower(events.c.kind),
        unique=True,
        postgresql_where=events.c.done.is_(None),
    )
    for _ in range(2):
        with revision(pg):
            create_index(index)
    ((_, definition),) = pg.rows(DEFINITION)
    assert str(definition) == (
        "CREATE UNIQUE INDEX ix ON public.events USING btree (id DESC, lower(kind)) WHERE (done IS NULL)"
    )
    assert said == []


def test_what_an_index_of_sqlalchemy_says_besides_is_refused(pg: Database) -> None:
    events = sa.Table("events", sa.MetaData(), sa.Column("kind", sa.Text))
    with (
        revision(pg),
        pytest.raises(MigrationError, match=r"create_index\('ix'\): postgresql_using is not supported"),
    ):
        create_index(sa.Index("ix", events.c.kind, postgresql_using="gin"))
    with (
        revision(pg),
        pytest.raises(MigrationError, match=r"create_index\('ix'\): the index belongs to no table"),
    ):
        create_index(sa.Index("ix", "kind"))

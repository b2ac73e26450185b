"""A DBA can paste every block of a runbook into psql, also as somebody who may only read."""

from collections.abc import Iterator

import pytest

from pipestate.runbook.directives import has_directives
from pipestate.runbook.markdown import Fence, blocks
from support.alembic_runs import Migrations, psql
from support.servers import Database, Postgres
from support.verdicts import shipped

RUNBOOKS = ("content-item-pipeline-state", "queue-cutover")


def fences(name: str) -> list[str]:
    """The SQL blocks exactly as they stand in the page, which is for PostgreSQL."""
    found = blocks(shipped(name).text)
    return [block.content for block in found if isinstance(block, Fence) and block.language == "sql"]


@pytest.fixture
def at_0005(postgres: Postgres) -> Iterator[Database]:
    database = postgres.copy_of("at-0005", lambda database: Migrations(database).upgrade("0005"))
    yield database
    postgres.drop(database)


@pytest.mark.parametrize("name", RUNBOOKS)
def test_every_block_pastes_into_psql(at_0005: Database, name: str) -> None:
    done = psql(at_0005, "".join(fences(name)), "-v", "ON_ERROR_STOP=1")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", RUNBOOKS)
def test_what_runs_only_reads(at_0005: Database, name: str) -> None:
    run = [content for content in fences(name) if has_directives(content)]
    script = "".join(["BEGIN READ ONLY;\n", *run, "COMMIT;\n"])
    done = psql(at_0005, script, "-v", "ON_ERROR_STOP=1")
    assert (done.returncode, done.stderr) == (0, "")

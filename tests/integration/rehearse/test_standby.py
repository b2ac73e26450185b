"""What replication means for a rehearsal: a standby is no clone, and its primary is production."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError
from pipestate.rehearse.run import rehearse
from support.miniatures import copy_project
from support.rehearsals import job_for
from support.servers import Database
from support.standby import replicated


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Database, Database]]:
    with replicated(
        "CREATE TABLE orders (id integer)",
        "CREATE TABLE alembic_version (version_num text)",
        "INSERT INTO alembic_version VALUES ('a1')",
    ) as pair:
        yield pair


def test_a_standby_is_no_clone(servers: tuple[Database, Database], tmp_path: Path) -> None:
    _, standby = servers
    with pytest.raises(
        ConfigError, match="is a standby, which cannot be migrated: rehearse on a clone of it"
    ):
        rehearse(job_for(copy_project("blocking_reader", tmp_path), standby), ["b2"])


def test_the_primary_of_a_standby_that_is_evaluated_as_production_is_production(
    servers: tuple[Database, Database], tmp_path: Path
) -> None:
    primary, standby = servers
    with pytest.raises(ConfigError, match=r"is the primary of .*, so it is production itself"):
        rehearse(job_for(copy_project("blocking_reader", tmp_path), primary, standby), ["b2"])
    assert primary.value("SELECT version_num FROM alembic_version") == "a1"

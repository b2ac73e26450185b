from collections.abc import Iterator
from pathlib import Path

import pytest

from pipestate.project.find import Project
from support.fleets import Tenants, project_in
from support.miniatures import copy_project
from support.servers import Postgres


@pytest.fixture
def tenants(postgres: Postgres, tmp_path: Path) -> Iterator[Tenants]:
    found = Tenants(postgres, tmp_path)
    yield found
    found.drop()


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    """The project whose databases these are."""
    return project_in(copy_project("shop", tmp_path))

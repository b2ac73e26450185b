from collections.abc import Iterator
from pathlib import Path

import pytest

from bed import Postgres
from fleets import Tenants, project_in
from miniatures import copy_project
from pipestate.chain.project import Project


@pytest.fixture
def tenants(postgres: Postgres, tmp_path: Path) -> Iterator[Tenants]:
    found = Tenants(postgres, tmp_path)
    yield found
    found.drop()


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    """The project whose databases these are."""
    return project_in(copy_project("shop", tmp_path))

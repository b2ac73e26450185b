"""Clones of tests lie where the servers of tests do: in memory, where that has room."""

import tempfile
from collections.abc import Iterator

import pytest

from support.servers import memory


@pytest.fixture(autouse=True, scope="package")
def clones_in_memory() -> Iterator[None]:
    before = tempfile.gettempdir()
    tempfile.tempdir = str(memory() or before)
    yield
    tempfile.tempdir = before

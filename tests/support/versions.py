"""Tests of what an older Alembic or SQLAlchemy does not have or does otherwise; limits.md must say so."""

import re

import alembic
import pytest
import sqlalchemy

from support.documentation import find_page

LIMITS = find_page("limits.md").read_text(encoding="utf-8")


def alembic_is(version: str) -> bool:
    """Say whether this is that Alembic or a later one; `make lowest` has an older one."""
    return _is(alembic.__version__, "Alembic", version)


def sqlalchemy_is(version: str) -> bool:
    return _is(sqlalchemy.__version__, "SQLAlchemy", version)


def needs_alembic(version: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not alembic_is(version), reason=f"Alembic {version}: see the page limits")


def _is(installed: str, package: str, version: str) -> bool:
    assert f"before {package} {version}" in LIMITS, f"limits.md must say what needs {package} {version}"
    return _numbers(installed) >= _numbers(version)


def _numbers(version: str) -> list[int]:
    """Read `2.0.44`, and of `2.1.0b1` what can be compared: 2, 1, 0."""
    return [int(number) for number in re.findall(r"(?:^|\.)(\d+)", version)]

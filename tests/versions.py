"""Tests of what an older Alembic does not have or does otherwise; docs/limits.md must say so."""

import alembic
import pytest

from alembics import ROOT

LIMITS = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")


def alembic_is(version: str) -> bool:
    """Say whether this is that Alembic or a later one; `make lowest` has an older one."""
    assert f"Alembic {version}" in LIMITS, f"say in docs/limits.md what needs Alembic {version}"
    return _numbers(alembic.__version__) >= _numbers(version)


def needs_alembic(version: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not alembic_is(version), reason=f"Alembic {version}: see docs/limits.md")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]

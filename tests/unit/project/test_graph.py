"""`Migrations` says of heads, ancestors and order what Alembic says, over many histories."""

import random
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from pipestate.project.find import Named, Project
from pipestate.project.graph import Migrations
from pipestate.project.revision_files import read_migrations

HISTORIES = 60


def write_history(versions: Path, dice: random.Random) -> None:
    """Write a history: revisions that follow one or more others, or begin anew; labels and dependencies."""
    labels: list[str] = []
    ids: list[str] = []
    for number in range(dice.randint(1, 14)):
        name = f"{dice.getrandbits(32):08x}"
        down = dice.sample(ids, min(len(ids), dice.choice([0, 1, 1, 1, 1, 2, 3])))
        rest = [each for each in ids if each not in down] + labels
        depends = dice.sample(rest, min(len(rest), dice.choice([0, 0, 0, 1, 2])))
        label = f"branch{number}" if dice.random() < 0.2 else None
        (versions / f"{name}.py").write_text(
            f'"""{number}"""\nrevision = {name!r}\ndown_revision = {tuple(down) or None!r}\n'
            f"branch_labels = {label!r}\ndepends_on = {depends or None!r}\n"
        )
        ids.append(name)
        labels += [label] if label else []


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_as_alembic_has_it(tmp_path: Path, seed: int) -> None:
    versions = tmp_path / "versions"
    versions.mkdir()
    write_history(versions, random.Random(seed))
    script = ScriptDirectory(str(tmp_path))
    migrations = read_migrations(Project(None, tmp_path, (versions,), named=Named(scripts=tmp_path)))
    assert sorted(revision.revision for revision in script.walk_revisions()) == sorted(migrations.by_id)
    assert migrations.heads == tuple(sorted(script.get_heads()))
    for revision in script.walk_revisions():
        theirs = {each.revision for each in script.iterate_revisions(revision.revision, "base")}
        assert migrations.ancestors([revision.revision]) == theirs
    assert_in_order(migrations)
    stored = random.Random(seed).sample(sorted(migrations.by_id), min(3, len(migrations.by_id)))
    applied = {each for one in stored for each in migrations.ancestors([one])}
    assert migrations.position(stored).applied == applied


def assert_in_order(migrations: Migrations) -> None:
    """Each revision stands after those that it needs."""
    seen: set[str] = set()
    for revision in migrations:
        assert set(revision.needs) <= seen
        seen.add(revision.id)

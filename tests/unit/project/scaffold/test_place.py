"""Where a new revision goes, as the project's settings say."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError
from pipestate.project.find import Named, Project, find_project
from pipestate.project.revision_files import read_migrations
from pipestate.project.scaffold.revision import NewRevision, WantedRevision, find_place

Miniature = Callable[[str], Path]


def found(
    project: Project, *, id: str | None = None, head: str | None = None, version_path: str | None = None
) -> NewRevision:
    path = Path(version_path) if version_path else None
    return find_place(
        project, read_migrations(project), WantedRevision("The log, and what it says", id, head, path)
    )


def with_options(*lines: str) -> Project:
    ini = Path("alembic.ini")
    ini.write_text(ini.read_text().replace("[alembic]\n", "\n".join(["[alembic]", *lines, ""])))
    return find_project(Named())


def test_it_follows_the_head_and_is_named_as_alembic_would(miniature: Miniature) -> None:
    miniature("stock")
    place = found(find_project(Named()))
    assert place.down == "b2"
    assert re.fullmatch(r"alembic/versions/[0-9a-f]{12}_the_log_and_what_it_says\.py", str(place.path))


def test_the_projects_own_template(miniature: Miniature) -> None:
    miniature("stock")
    template = "file_template = %%(year)d/%%(month).2d-%%(rev)s_%%(slug)s"
    place = found(with_options(template, "truncate_slug_length = 10", "timezone = UTC"), id="c3")
    assert re.fullmatch(r"alembic/versions/\d{4}/\d\d-c3_the_log_\.py", str(place.path))
    assert place.created_at.tzinfo is not None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("file_template = %%(revision)s", "file_template %(revision)s cannot be filled in"),
        ("timezone = Moon/Base", "there is no timezone Moon/Base"),
        ("truncate_slug_length = many", "truncate_slug_length many is no number"),
    ],
)
def test_settings_that_cannot_be_used_are_named(miniature: Miniature, line: str, said: str) -> None:
    miniature("stock")
    with pytest.raises(ConfigError, match=re.escape(said)):
        found(with_options(line))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"id": "a1"}, r"there is a revision a1 already \(alembic/versions/a1_orders.py:\d+\)"),
        ({"id": "a/1"}, "--rev-id a/1: an id is letters"),
        ({"head": "a1"}, "--head a1 is not one head of this project; there are b2"),
        ({"head": "zz"}, "--head zz is not one head of this project; there are b2"),
    ],
)
def test_wrong_wishes(miniature: Miniature, said: dict[str, str], message: str) -> None:
    miniature("stock")
    with pytest.raises(ConfigError, match=message):
        found(find_project(Named()), **said)


def test_a_place_where_alembic_does_not_look_is_refused(miniature: Miniature) -> None:
    miniature("stock")
    with pytest.raises(
        ConfigError, match="elsewhere is no version location of this project; there are alembic/"
    ):
        found(find_project(Named()), version_path="elsewhere")


def test_of_several_heads_one_must_be_named(miniature: Miniature) -> None:
    miniature("branches")
    project = find_project(Named())
    heads = read_migrations(project).heads
    assert len(heads) > 1
    with pytest.raises(ConfigError, match=f"{', '.join(heads)}: say with --head which one"):
        found(project)
    assert found(project, head=heads[0]).down == heads[0]


def test_a_branch_is_named_by_its_label(miniature: Miniature) -> None:
    miniature("branches")
    project = find_project(Named())
    assert found(project, head="left").down == found(project, head="right@head").down == "both"


def test_of_several_locations_it_takes_that_of_the_head(miniature: Miniature) -> None:
    miniature("locations")
    project = find_project(Named())
    heads = read_migrations(project).heads
    places = {found(project, head=head).path.parent for head in heads}
    assert places == {Path("core/versions"), Path("billing/versions")}


def test_several_locations_without_migrations_need_a_choice(miniature: Miniature) -> None:
    directory = miniature("locations")
    for file in [*directory.glob("core/versions/**/*.py"), *directory.glob("billing/versions/*.py")]:
        file.unlink()
    project = find_project(Named())
    with pytest.raises(ConfigError, match=r"several version locations, .*: name one with --version-path"):
        found(project)
    place = found(project, version_path="billing/versions")
    assert (place.down, place.path.parent) == (None, Path("billing/versions"))


@pytest.mark.parametrize("zone", ["utc", "UTC", "Europe/Berlin"])
def test_a_timezone_is_tried_in_capitals_as_alembic_does(miniature: Miniature, zone: str) -> None:
    miniature("stock")
    ini = Path("alembic.ini")
    ini.write_text(ini.read_text().replace("[alembic]\n", f"[alembic]\ntimezone = {zone}\n"))
    assert found(find_project(Named())).created_at.tzinfo is not None

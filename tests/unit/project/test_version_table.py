"""Which of a database's tables says where it stands: found for certain, or refused with the candidates."""

from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError
from pipestate.project.graph import Migrations, Revision
from pipestate.project.version_table import Candidate, Declared, choose_table

MIGRATIONS = Migrations(
    tuple(Revision(name, (), (), (), "", Path(name), 1) for name in ("a1", "a2", "0001")),
)
UNCERTAIN = Declared(certain=False)
OPTION = Declared("versions", None, "--version-table")


def table(
    name: str = "alembic_version", *stored: str, schema: str = "public", visible: bool = True
) -> Candidate:
    return Candidate(schema, name, visible, True, stored)


def hidden(name: str = "alembic_version", *stored: str) -> Candidate:
    return table(name, *stored, schema="app", visible=False)


def chosen(declared: Declared, *candidates: Candidate) -> Candidate | None:
    return choose_table(MIGRATIONS, declared, candidates, lambda each: each)


@pytest.mark.parametrize("declared", [Declared(), UNCERTAIN, OPTION, Declared("v", "s", "env.py")])
def test_no_table_is_the_base(declared: Declared) -> None:
    assert chosen(declared) is None


@pytest.mark.parametrize("declared", [Declared(), UNCERTAIN])
def test_the_default_on_the_search_path_wins(declared: Declared) -> None:
    ours = table("alembic_version", "a1")
    assert chosen(declared, hidden("alembic_version", "a2"), ours, table("other", "a2")) is ours


@pytest.mark.parametrize("declared", [Declared(), UNCERTAIN])
def test_the_only_table_may_be_empty(declared: Declared) -> None:
    empty = table()
    assert chosen(declared, empty) is empty


@pytest.mark.parametrize("declared", [Declared(), UNCERTAIN])
def test_an_empty_one_beside_another_is_refused(declared: Declared) -> None:
    with pytest.raises(ConfigError, match=r"public\.alembic_version \(empty\), app\.alembic_version \(a1\)"):
        chosen(declared, table(), hidden("alembic_version", "a1"))


def test_the_default_is_found_outside_the_search_path() -> None:
    ours = hidden("alembic_version", "a1")
    assert chosen(Declared(), ours, table("other", "a2")) is ours
    assert chosen(Declared(), table("other", "a2")) is None, "env.py says that it is not this one"


def test_a_table_is_found_by_its_rows_where_env_does_not_say_it() -> None:
    ours = hidden("versions", "a1", "a2")
    assert chosen(UNCERTAIN, table("alembic_version", "ffff"), ours) is ours
    for doubtful in (table(), table("alembic_version", "a1", "ffff"), hidden("copy", "a2")):
        with pytest.raises(ConfigError, match="several tables could be"):
            chosen(UNCERTAIN, doubtful, ours)


def test_rows_of_another_project_are_refused() -> None:
    for declared in (Declared(), UNCERTAIN):
        with pytest.raises(
            ConfigError, match=r"at revision ffff \(public\.alembic_version\), which this project"
        ):
            chosen(declared, table("alembic_version", "a1", "ffff"))


def test_a_name_is_taken_at_its_word() -> None:
    ours = table("versions", "a1", schema="s", visible=False)
    default = table("alembic_version", "a2")
    assert chosen(Declared("versions", "s", "env.py"), default, ours) is ours
    assert chosen(Declared("versions", None, "env.py"), default) is None
    with pytest.raises(
        ConfigError, match=r"env\.py names the version table versions, .* there is s\.versions"
    ):
        chosen(Declared("versions", None, "env.py"), default, ours)


def test_a_misspelt_option_is_refused_where_another_table_fits() -> None:
    with pytest.raises(
        ConfigError, match=r"--version-table names .* there is public\.alembic_version \(a1\)"
    ):
        chosen(OPTION, table("alembic_version", "a1"))
    assert chosen(OPTION, table("alembic_version", "ffff")) is None


def test_what_may_not_be_read_is_refused() -> None:
    closed = Candidate("public", "alembic_version", True, False)
    with pytest.raises(ConfigError, match=r"alembic_version may not be read: grant SELECT"):
        chosen(Declared(), closed)
    with pytest.raises(ConfigError, match=r"public\.alembic_version \(may not be read\)"):
        chosen(UNCERTAIN, closed, hidden("versions", "a1"))


def test_thousands_of_tables_are_not_read() -> None:
    tenants = [hidden("alembic_version", "a1") for _ in range(5000)]
    with pytest.raises(ConfigError, match="5,000 tables could be the version table: name the right one"):
        chosen(Declared(), *tenants)
    ours = table("alembic_version", "a1")
    assert chosen(Declared(), *tenants, ours) is ours

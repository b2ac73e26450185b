"""Whose migrations: which project is meant, and what its files say of it. Nothing of it is imported."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError
from pipestate.database.urls import shipped_root
from pipestate.project.find import Named, find_project
from pipestate.project.revision_files import read_migrations
from support.versions import needs_alembic

Enter = Callable[[str], Path]
SECRET = "s3cr3t-pa55w0rd"


def ids(named: Named = Named()) -> list[str]:  # noqa: B008
    return [revision.id for revision in read_migrations(find_project(named))]


# --- Which one -------------------------------------------------------------------------------------


def test_outside_a_project_nothing_is_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"there is no alembic\.ini here: .*--config.*--scripts.*--shipped"):
        find_project(Named())


def test_the_order_is_option_variable_here(miniature: Enter, tmp_path: Path) -> None:
    from support.miniatures import copy_project

    other = copy_project("branches", tmp_path)
    miniature("stock")
    assert ids() == ["a1", "b2"]
    variable = {"ALEMBIC_CONFIG": str(other / "alembic.ini")}
    assert find_project(Named(), variable).scripts.resolve() == other / "alembic"
    assert find_project(Named(config=Path("alembic.ini")), variable).scripts == Path("alembic")
    assert find_project(Named(), {"ALEMBIC_CONFIG": " "}).scripts == Path("alembic")
    assert find_project(Named(shipped=True), variable).scripts == shipped_root() / "alembic"


def test_the_shipped_one_is_served_in_its_checkout_or_when_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_project(Named(shipped=True)).runbooks == shipped_root() / "runbooks"
    monkeypatch.chdir(shipped_root())
    assert find_project(Named()).runbooks == Path("runbooks")


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (Named(config=Path("gone.ini")), r"there is no gone\.ini: --config takes"),
        (Named(config=Path("alembic")), r"there is no alembic: --config takes"),
        (Named(scripts=Path("gone")), r"there is no directory gone: --scripts takes"),
        (Named(config=Path("alembic.ini"), shipped=True), "give one of them"),
        (Named(scripts=Path("alembic"), section="x"), "--name is a section"),
        (Named(section="sales"), r"alembic\.ini has no section \[sales\]; there are \[alembic\]"),
    ],
)
def test_a_wrong_name_is_one_sentence(miniature: Enter, named: Named, said: str) -> None:
    miniature("stock")
    with pytest.raises(ConfigError, match=said):
        find_project(named)


def test_a_variable_that_names_nothing(miniature: Enter) -> None:
    miniature("stock")
    with pytest.raises(ConfigError, match=r"there is no gone\.ini: ALEMBIC_CONFIG takes"):
        find_project(Named(), {"ALEMBIC_CONFIG": "gone.ini"})


# --- What it says ----------------------------------------------------------------------------------


def test_sections_are_chosen_by_name(miniature: Enter) -> None:
    home = miniature("sections")
    assert ids() == ["main1"]
    sales = find_project(Named(section="sales"))
    assert [revision.id for revision in read_migrations(sales)] == ["sales1"]
    assert sales.option("sqlalchemy.url") == f"sqlite:///{home}/sales.sqlite"


def test_revisions_may_lie_in_several_places(miniature: Enter) -> None:
    miniature("locations")
    assert sorted(ids()) == ["bill1", "core1", "core2"]


@pytest.mark.parametrize(
    "lines",
    [
        "version_locations = %(here)s/core/versions %(here)s/billing/versions",
        "version_locations = %(here)s/core/versions, %(here)s/billing/versions",
        "version_locations = %(here)s/core/versions:%(here)s/billing/versions\npath_separator = os",
        "version_locations = core/versions:billing/versions\nversion_path_separator = :",
        "version_locations =\n    core/versions\n    billing/versions\npath_separator = newline",
    ],
)
def test_every_way_to_separate_them(miniature: Enter, lines: str) -> None:
    miniature("locations")
    Path("alembic.ini").write_text(f"[alembic]\nscript_location = alembic\n{lines}\n")
    assert sorted(ids()) == ["bill1", "core1"]


def test_an_unknown_separator(miniature: Enter) -> None:
    miniature("locations")
    Path("alembic.ini").write_text(
        "[alembic]\nscript_location = alembic\nversion_locations = a\npath_separator = |\n"
    )
    with pytest.raises(ConfigError, match=r"alembic\.ini: path_separator is \|; it may be space, newline"):
        find_project(Named())


@pytest.mark.parametrize("given", [None, "pyproject.toml"])
def test_a_pyproject_is_a_project(miniature: Enter, given: str | None) -> None:
    miniature("pyproject")
    project = find_project(Named(config=Path(given) if given else None))
    assert [revision.id for revision in read_migrations(project)] == ["p1"]
    assert (project.config, project.runbooks) == (Path("pyproject.toml"), Path("runbooks"))


def test_an_ini_beside_the_pyproject_outranks_it(miniature: Enter) -> None:
    miniature("pyproject")
    Path("alembic.ini").write_text("[alembic]\nsqlalchemy.url = sqlite:///x\n")
    project = find_project(Named())
    assert (project.option("sqlalchemy.url"), project.scripts) == ("sqlite:///x", Path("db/migrations"))
    assert find_project(Named(config=Path("pyproject.toml"))).option("sqlalchemy.url") == "sqlite:///x"


@pytest.mark.parametrize(
    "text",
    [
        '[tool]\nalembic = {script_location = "db/migrations"}\n',
        'tool.alembic.script_location = "db/migrations"\n',
        'tool = {alembic = {script_location = "db/migrations"}}\n',
        '["tool" . "alembic"]\nscript_location = "db/migrations"\n',
        '[ tool.alembic ]\nscript_location = "db/migrations"\n',
    ],
)
def test_every_way_to_write_the_table(miniature: Enter, text: str) -> None:
    miniature("pyproject")
    Path("pyproject.toml").write_text(text)
    assert find_project(Named()).scripts == Path("db/migrations")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.alembic\n", r"pyproject\.toml is no TOML"),
        ('[tool.alembic]\nscript_location = "%(home)s/x"\n', r"neither %\(here\)s nor escaped"),
        ('[tool.alembic]\nscript_location = "gone"\n', "there is no such directory"),
        ("[tool.other]\n", r"there is no alembic\.ini here"),
    ],
)
def test_a_faulty_pyproject(miniature: Enter, text: str, said: str) -> None:
    miniature("pyproject")
    Path("pyproject.toml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        find_project(Named())


def test_scripts_alone_are_a_project(miniature: Enter) -> None:
    miniature("no_ini")
    project = find_project(Named(scripts=Path("app/migrations")))
    assert [revision.id for revision in read_migrations(project)] == ["n1"]
    assert project.runbooks == Path("app/migrations/runbooks")
    assert project.option("sqlalchemy.url") is None


def test_a_package_is_looked_up_and_not_imported(miniature: Enter, tmp_path: Path) -> None:
    miniature("no_ini")
    Path("app/__init__.py").write_text("raise RuntimeError('imported')\n")
    ini = tmp_path / "no_ini" / "alembic.ini"
    ini.write_text("[alembic]\nscript_location = app:migrations\nprepend_sys_path = .\n")
    assert ids() == ["n1"]
    assert "app" not in sys.modules
    ini.write_text("[alembic]\nscript_location = no_such_package:migrations\n")
    with pytest.raises(ConfigError, match="that package is found neither"):
        find_project(Named())


# --- Relative paths --------------------------------------------------------------------------------


def test_a_relative_location_lies_beside_the_ini(
    miniature: Enter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = miniature("own_version_table")
    monkeypatch.chdir(tmp_path)
    project = find_project(Named(config=home / "alembic.ini"))
    assert project.scripts == Path("own_version_table/migrations")


def test_two_places_for_a_relative_location_are_refused(
    miniature: Enter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Alembic would take the one of the current directory, which is another project's."""
    home = miniature("own_version_table")
    (tmp_path / "migrations").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"beside that file and here as well: write %\(here\)s/migrations"):
        find_project(Named(config=home / "alembic.ini"))


def test_runbooks_lie_beside_the_ini_else_in_the_script_directory(
    miniature: Enter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = miniature("stock")
    (tmp_path / "runbooks").mkdir()
    monkeypatch.chdir(tmp_path)
    named = Named(config=home / "alembic.ini")
    assert find_project(named).runbooks == Path("stock/runbooks")
    (home / "runbooks").rename(home / "alembic" / "runbooks")
    assert find_project(named).runbooks == Path("stock/alembic/runbooks")


# --- Faulty files ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("script_location = x\n", "alembic.ini:1: this line is in no section"),
        (f"{SECRET}\n[alembic]\n", "alembic.ini:1: this line is in no section"),
        (f"[alembic]\n{SECRET}\n", "alembic.ini:2: this line is neither a [section] nor"),
        ("[alembic]\na = 1\na = 2\n", "alembic.ini:3: a appears twice in [alembic]"),
        ("[alembic]\n[alembic]\n", "alembic.ini:2: [alembic] appears twice"),
        ("[other]\n", "alembic.ini has no section [alembic]; there are [other]"),
        ("", "alembic.ini has no section [alembic]; there are none"),
        ("[alembic]\n", "alembic.ini: [alembic] has no script_location"),
        ("[alembic]\nscript_location = gone\n", "script_location is gone, and there is no such directory"),
        (
            "[alembic]\nscript_location = %(HOME)s/x\n",
            "script_location in [alembic] refers to %(home)s, which",
        ),
        ("[alembic]\nscript_location = 100%\n", "has a % that is not escaped: write %% for a plain %"),
    ],
)
def test_a_faulty_ini_is_one_sentence(miniature: Enter, text: str, said: str) -> None:
    miniature("stock")
    Path("alembic.ini").write_text(text)
    with pytest.raises(ConfigError) as caught:
        find_project(Named())
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("password", [f"50%{SECRET}", f"%({SECRET})s", f"%%%{SECRET}"])
def test_a_password_with_a_percent_sign_is_not_shown(miniature: Enter, password: str) -> None:
    miniature("stock")
    Path("alembic.ini").write_text(
        f"[alembic]\nscript_location = alembic\nsqlalchemy.url = postgresql://app:{password}@db/x\n"
    )
    project = find_project(Named())
    with pytest.raises(ConfigError, match=r"sqlalchemy\.url in \[alembic\]") as caught:
        project.option("sqlalchemy.url")
    assert SECRET not in str(caught.value)


def test_an_ini_that_is_no_text(miniature: Enter) -> None:
    miniature("stock")
    Path("alembic.ini").write_bytes(b"[alembic]\nname = \xff\xfe\n")
    with pytest.raises(ConfigError, match=r"alembic\.ini is not written in UTF-8"):
        find_project(Named())


@pytest.mark.parametrize(
    "template", ["generic", "async", "multidb", pytest.param("pyproject", marks=needs_alembic("1.16"))]
)
def test_what_alembic_init_writes_is_a_project(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from alembic import command
    from alembic.config import Config

    monkeypatch.chdir(tmp_path)
    with (tmp_path / "said").open("w") as said:
        silent = Config("alembic.ini", stdout=said)
        if template == "pyproject":
            silent.toml_file_name = "pyproject.toml"
        command.init(silent, "migrations", template=template)
    assert find_project(Named()).scripts == Path("migrations")
    assert ids() == []

"""Revisions are read from the syntax of their files; whatever is wrong is one sentence with file and line."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError
from pipestate.project.find import Named, find_project
from pipestate.project.graph import Migrations
from pipestate.project.revision_files import read_migrations, read_revision

Enter = Callable[[str], Path]
VERSIONS = Path("alembic/versions")


def migrations() -> Migrations:
    return read_migrations(find_project(Named()))


def written(directory: Path, text: str, name: str = "x1.py") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def test_a_project_whose_packages_are_missing(miniature: Enter) -> None:
    miniature("missing_package")
    first, second = migrations()
    assert (first.id, first.down, first.title, first.line) == ("m1", (), "Members", 6)
    assert (second.id, second.down, second.gates) == ("m2", ("m1",), ("members/moved",))
    assert second.source == "alembic/versions/m2.py:8"
    assert "acme_models" not in sys.modules


def test_the_title_is_the_first_line(miniature: Enter) -> None:
    miniature("stock")
    assert [revision.title for revision in migrations()] == ["Orders", "Drop the old orders."]


def test_branches_merges_labels_and_dependencies(miniature: Enter) -> None:
    miniature("branches")
    found = migrations()
    assert found.heads == ("alone", "both")
    assert found.labels == {"left": "left1", "right": "right1"}
    assert found.by_id["both"].down == ("left2", "right1")
    assert found.by_id["alone"].depends_on == ("left1",)
    assert found.ancestors(["alone"]) == {"alone", "left1", "r0"}
    position = found.position(["left2", "right1"])
    assert (position.current, position.head) == ("left2 right1", "alone both")
    assert position.applied == {"r0", "left1", "left2", "right1"}


@pytest.mark.parametrize(
    "text",
    [
        'revision = "x1"\ndown_revision = "a"\n',
        'revision: str = "x1"\ndown_revision: str | None = ("a",)\n',
        'revision, down_revision = "x1", ["a"]\n',
        'BEFORE = "a"\nID = "x" + "1"\nrevision = ID\ndown_revision = BEFORE\n',
        "import gone\nrevision = 'x1'\ndown_revision = {'a'}\nif gone.flag:\n    other = 1\n",
        "# -*- coding: latin-1 -*-\nrevision = 'x1'\ndown_revision = 'a'\npattern = '\\d'\n",
        'revision = "0"\nrevision = "x1"\ndown_revision = "a"\n',
    ],
)
def test_every_way_to_write_it(tmp_path: Path, text: str) -> None:
    revision = read_revision(written(tmp_path, text))
    assert (revision.id, revision.down) == ("x1", ("a",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("revision = \n", "x1_y.py:1: this is no Python"),
        ("revision = 'x'\ndown_revision = None\n\n    oops = 1\n", "x1_y.py:4: this is no Python"),
        ("\0", "x1_y.py:1: this is no Python"),
        ("", "x1_y.py:1: this file has no `revision`"),
        ("from x import revision\ndown_revision = None\n", "x1_y.py:1: `revision` is not a literal"),
        ("from x import down_revision\nrevision = 'x'\n", "x1_y.py:2: `down_revision` is not a literal"),
        ("revision = make()\ndown_revision = None\n", "x1_y.py:1: `revision` is not a literal"),
        (
            "revision = 'a@b'\ndown_revision = None\n",
            "x1_y.py:1: `revision` is not a literal that Alembic accepts",
        ),
        ("revision = 'x'\n", "x1_y.py:1: there is no `down_revision`"),
        ("\nrevision = 'x'\ndown_revision = last()\n", "x1_y.py:2: `down_revision` is not a literal"),
        ("revision = 'x'\ndown_revision = ('a', 7)\n", "x1_y.py:1: `down_revision` is not a literal"),
        (
            "revision = 'x'\ndown_revision = None\ndepends_on = D\n",
            "x1_y.py:1: `depends_on` is not a literal",
        ),
        ("if True:\n    revision = 'x'\ndown_revision = None\n", "x1_y.py:1: `revision` is not a literal"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_revision(written(tmp_path, text, "x1_y.py"))
    assert said in str(caught.value)


def test_of_old_the_name_of_a_file_could_be_its_id(tmp_path: Path) -> None:
    assert read_revision(written(tmp_path, "down_revision = None\n", "ab12.py")).id == "ab12"


def test_which_files_are_looked_at(miniature: Enter) -> None:
    """As Alembic has it: editors' locks, packages and what is compiled are no revisions."""
    miniature("stock")
    for name in ("__init__.py", ".#a1_orders.py", "notes.txt", "a1.pyc", "a1.py.orig"):
        (VERSIONS / name).write_text("no Python at all\n")
    (VERSIONS / "archive").mkdir()
    written(VERSIONS / "archive", "revision, down_revision = 'z', None\n")
    assert [revision.id for revision in migrations()] == ["a1", "b2"]
    written(VERSIONS, "revision, down_revision = '_', None\n", "_hidden.py")
    assert "_" in migrations()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "revision, down_revision = 'a1', None\n",
            "z.py:1: revision a1 is also in alembic/versions/a1_orders.py:",
        ),
        (
            "revision, down_revision = 'z', 'gone'\n",
            "z.py:1: down_revision is gone, which no file of this project",
        ),
        ("revision, down_revision = 'z', None\ndepends_on = 'gone'\n", "z.py:1: depends_on names gone"),
        ("revision, down_revision = 'z', 'z'\n", "z.py:1: revision z comes before itself"),
        (
            "revision, down_revision = 'z', None\nbranch_labels = ['l', 'l']\n",
            "the branch label l is also on",
        ),
    ],
)
def test_files_that_do_not_make_a_history(miniature: Enter, text: str, said: str) -> None:
    miniature("stock")
    written(VERSIONS, text, "z.py")
    with pytest.raises(ConfigError) as caught:
        migrations()
    assert said in str(caught.value)


def test_a_cycle_names_its_way(miniature: Enter) -> None:
    miniature("stock")
    for name, down in (("x", "z"), ("y", "x"), ("z", "y")):
        written(VERSIONS, f"revision, down_revision = {name!r}, {down!r}\n", f"{name}.py")
    with pytest.raises(ConfigError, match=r"x\.py:1: revision x comes before itself \(x → y → z → x\)"):
        migrations()


def test_a_deep_history_is_read(tmp_path: Path) -> None:
    from pipestate.project.graph import Revision, make_migrations

    made = [
        Revision(f"r{n}", (f"r{n - 1}",) if n else (), (), (), "", tmp_path, 1) for n in reversed(range(3000))
    ]
    assert [revision.id for revision in make_migrations(made)][-1] == "r2999"


# --- Gates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        ("from pipestate.gate import gate\ndef upgrade():\n    with gate('o/r', lock=[]): ...\n", ("o/r",)),
        ("from pipestate.gate import gate as g\nP = 'o/r'\ndef upgrade():\n    with g(P): ...\n", ("o/r",)),
        ("import pipestate.gate\ndef upgrade():\n    with pipestate.gate.gate(phase='r'): ...\n", ("r",)),
        ("import pipestate.gate as pg\ndef upgrade():\n    with pg.gate('r'): ...\n", ("r",)),
        (
            "from pipestate import Contract\nc = Contract('o/r', tables=['t'])\nupgrade = c.upgrade\n",
            ("o/r",),
        ),
        ("import pipestate\nc = pipestate.Contract('o/r')\n", ("o/r",)),
        ("from pipestate import gate\ndef upgrade():\n    with gate.gate('r'): ...\n", ("r",)),
        ("def gate(phase): ...\ndef upgrade():\n    gate('o/r')\n", ()),
        ("from mine import gate\ndef upgrade():\n    with gate('o/r'): ...\n", ()),
        ("from pipestate.gate import gate\ndef upgrade():\n    with gate(find()): ...\n", ()),
        ("from pipestate.gate import gate\ndef downgrade():\n    with gate('o/r'): ...\n", ()),
        ("from pipestate.gate import require\ndef upgrade():\n    require('o/r', ['c'])\n", ()),
        ("from pipestate.gate import gate\ndef upgrade():\n    '''gate('o/r')'''\n", ()),
    ],
)
def test_which_gates_a_revision_has(tmp_path: Path, text: str, gates: tuple[str, ...]) -> None:
    path = written(tmp_path, f"revision, down_revision = 'x', None\n{text}")
    assert read_revision(path).gates == gates


def test_the_shipped_contracts_check_their_gate() -> None:
    shipped = read_migrations(find_project(Named(shipped=True)))
    assert [revision.id for revision in shipped if revision.gates] == ["0006", "0007"]
    assert {gate for revision in shipped for gate in revision.gates} == {"sites-consolidation/readiness"}

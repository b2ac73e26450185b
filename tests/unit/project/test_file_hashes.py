"""The hash of a revision: its own file, what it imports from the project, and env.py."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipestate.project.file_hashes import code_of, hash_files

REVISION = "migrations/versions/c3.py"
Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    written("alembic.ini", "[alembic]")
    written("migrations/env.py", "import shop.models")
    return written


def names(path: Path) -> list[str]:
    root = path.parents[2]
    return sorted(str(each.relative_to(root)) for each in code_of(path).files)


def test_an_edited_helper_or_env_py_is_another_hash(write: Write) -> None:
    path = write(
        REVISION, "from alembic import op\nfrom shop.helpers import fill\nimport json, shop.sql.parts\n"
    )
    write("shop/__init__.py", "")
    write("shop/helpers.py", "from . import deeper\nfrom .sql import parts")
    write("shop/deeper.py", "import shop.helpers")
    write("shop/sql/__init__.py", "")
    write("shop/sql/parts.py", "")
    write("shop/models.py", "")
    write("alembic/op.py", "")
    write("json.py", "")
    covered = [
        "migrations/env.py",
        REVISION,
        "shop/__init__.py",
        "shop/deeper.py",
        "shop/helpers.py",
        "shop/sql/__init__.py",
        "shop/sql/parts.py",
    ]
    assert names(path) == covered
    before = hash_files({"c3": path})
    write("shop/models.py", "changed = 1")  # env.py's own imports are not the revision's
    write("alembic/op.py", "changed = 1")
    assert hash_files({"c3": path}) == before
    hashes = {before["c3"]}
    for name in covered:
        write(name, path.parents[2].joinpath(name).read_text() + "\nchanged = 1")
        hashes.add(hash_files({"c3": path})["c3"])
    assert len(hashes) == len(covered) + 1


@pytest.mark.parametrize("root", ["src/shop/data.py", "migrations/data.py", "migrations/versions/data.py"])
def test_a_module_is_found_wherever_a_project_may_have_it(write: Write, root: str) -> None:
    module = "shop.data" if "shop" in root else "data"
    path = write(REVISION, f"import importlib\nimportlib.import_module({module!r})")
    write(root, "")
    assert root in names(path)


def test_the_package_that_the_revision_is_in(write: Write, tmp_path: Path) -> None:
    write("app/alembic.ini", "[alembic]")
    write("app/migrations/env.py", "")
    write("app/models.py", "")
    path = write("app/migrations/versions/c3.py", "from app.models import Order")
    assert tmp_path / "app/models.py" in code_of(path).files


@pytest.mark.parametrize(
    "text",
    [
        "import importlib\nimportlib.import_module('shop.' + name)",
        "import importlib.util\nimportlib.util.spec_from_file_location('x', 'x.py')",
        "from shop import plugins",
    ],
)
def test_what_is_loaded_by_a_computed_name_has_no_hash(write: Write, text: str) -> None:
    path = write(REVISION, text)
    write("shop/plugins.py", "__import__(NAME)")
    assert hash_files({"c3": path}) == {}
    assert (code_of(path).unknown or "").endswith("loads code by a computed name")


def test_without_an_env_py_nothing_is_known(write: Write, tmp_path: Path) -> None:
    path = write(REVISION, "")
    (tmp_path / "migrations/env.py").unlink()
    assert hash_files({"c3": path, "gone": tmp_path / "gone.py"}) == {}
    write("scripts/env.py", "")
    path.write_text("# one time")  # a process reads it again only then
    assert names(path) == [REVISION, "scripts/env.py"]
    write("other/env.py", "")
    path.write_text("# another time")
    assert hash_files({"c3": path}) == {}

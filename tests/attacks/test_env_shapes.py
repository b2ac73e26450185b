"""The guard under each env.py of Alembic's templates and of the miniature projects, with each end of its transaction."""

import ast
import re
from pathlib import Path

import alembic
import pytest
from sqlalchemy import inspect

from attacks.attacked import run
from support.miniatures import PROJECTS
from support.servers import Database, Postgres, Sqlite

TEMPLATES = {
    path.parent.name: path.read_text(encoding="utf-8")
    for path in sorted((Path(alembic.__file__).parent / "templates").glob("*/env.py"))
}
# An env.py that is a test's own program, has no connection, or needs a package or a caller that is not here.
NOT_HERE = (
    *("caller.py", "callers_connection.py", "handed_over.py", "settings_of_its_own.py", "run.py"),
    *("linted/", "/script", "missing_package/", "flask_shop/", "scratch/", "tenants.py", "translated.py"),
)
# An env.py that names schemas or functions of PostgreSQL.
ON_POSTGRESQL = ("advisory_lock", "lock_of_", "own_version_table")
IMPORT = "from alembic import context\n"
GUARD = "from pipestate.environment import guard\n\nguard(context)\n"
REVISION = """
from alembic import op
import sqlalchemy as sa

revision, down_revision = {revision!r}, {before!r}


def upgrade(engine_name=None):
    {body}
"""
LOST = "ended its transaction without a commit, so no revision of this run was applied"


def online_shapes() -> dict[str, str]:
    """Give each env.py of the miniature projects, without those that differ only in comments."""
    shapes: dict[str, str] = {}
    files = [
        *PROJECTS.glob("*environments/*.py"),
        *PROJECTS.rglob("environments/*.py"),
        *PROJECTS.rglob("env.py"),
    ]
    for path in sorted(files):
        name, text = path.relative_to(PROJECTS).as_posix(), path.read_text(encoding="utf-8")
        if "run_migrations" in text and not any(each in f"/{name}" for each in NOT_HERE):
            shapes.setdefault(code_of(text), name)
    return {name: (PROJECTS / name).read_text(encoding="utf-8") for name in shapes.values()}


def with_guard(env: str) -> str:
    return env if "guard(context)" in env else env.replace(IMPORT, IMPORT + GUARD)


def code_of(text: str) -> str:
    """Give the code of an env.py with the guard, without comments and docstrings."""
    tree = ast.parse(with_guard(text))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    return "\n".join(sorted(ast.unparse(tree).splitlines()))


SHAPES = online_shapes()
BLOCK = r"( +)with context\.begin_transaction\(\):\n +(context\.run_migrations\(.*\))\n"
COMMIT = r"(rec\[.transaction.\]|transaction)\.commit\(\)"
# How the transaction ends: what is replaced in env.py.
ENDS: dict[str, list[tuple[str, str]]] = {
    "as written": [],
    "a commit of its own": [(BLOCK, r"\1\2\n\1connection.commit()\n")],
    "no commit": [(BLOCK, r"\1\2\n"), (COMMIT, "pass")],
}


def ended(env: str, end: str) -> str:
    for pattern, replacement in ENDS[end]:
        env = re.sub(pattern, replacement, env)
    return env


# The miniatures run as written in other tests.
CASES = [(name, "as written") for name in TEMPLATES] + [
    (name, end) for name, env in (TEMPLATES | SHAPES).items() for end in ENDS if ended(env, end) != env
]


def lay_out(root: Path, shape: str, end: str, databases: list[Database]) -> None:
    """Begin a project with `alembic init`, with that env.py and the guard."""
    root.mkdir()
    template = shape if shape in TEMPLATES else "generic"
    done = run("alembic", "init", "--template", template, "migrations", cwd=root)
    assert done.returncode == 0, done.stderr
    env, ini = root / "migrations" / "env.py", root / "alembic.ini"
    env.write_text(ended(with_guard(SHAPES.get(shape) or env.read_text(encoding="utf-8")), end))
    urls = iter([url_of(database, "async" in shape) for database in databases])
    setting = re.compile("(?m)^sqlalchemy.url = driver:.*")
    config = setting.sub(lambda _: f"sqlalchemy.url = {next(urls)}", ini.read_text())
    if "databases =" not in config:
        config = config.replace("[alembic]\n", "[alembic]\ndatabases = one\n")
    ini.write_text(config)
    write(root, "b1", None, "op.create_table('fresh', sa.Column('id', sa.Integer))")


def url_of(database: Database, asynchronous: bool) -> str:
    name = database.url.get_backend_name()
    driver = {"postgresql": "postgresql+asyncpg", "sqlite": "sqlite+aiosqlite"}[name]
    url = database.url.set(drivername=driver) if asynchronous else database.url
    return url.render_as_string(hide_password=False).replace("%", "%%")


def write(root: Path, revision: str, before: str | None, body: str) -> None:
    text = REVISION.format(revision=revision, before=before, body=body)
    (root / "migrations" / "versions" / f"{revision}.py").write_text(text)


def upgrade(root: Path) -> tuple[int, str]:
    done = run("alembic", "upgrade", "head", cwd=root)
    return done.returncode, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(("shape", "end"), CASES)
def test_applied_and_stamped_or_one_sentence(
    shape: str, end: str, bed: Postgres | Sqlite, tmp_path: Path
) -> None:
    if isinstance(bed, Sqlite) and any(name in shape for name in ON_POSTGRESQL):
        pytest.skip("needs PostgreSQL")
    databases = [bed.create() for _ in range(1 + (shape == "multidb"))]
    if isinstance(bed, Postgres):
        databases[0].run("CREATE SCHEMA billing", "CREATE TABLE approvals (what text)")
    root = tmp_path / "project"
    lay_out(root, shape, end, databases)
    code, said = upgrade(root)
    stamped = run("alembic", "current", cwd=root).stdout.count("b1 (head)")
    applied = sum(inspect(database.engine).has_table("fresh") for database in databases)
    assert applied == stamped, said
    if code == 0:
        assert applied == len(databases), said
        for database in databases:
            database.run("INSERT INTO fresh VALUES (1)")
        write(root, "b2", "b1", "op.drop_table('fresh')")
        assert "revision b2 loses the table fresh" in upgrade(root)[1]
        assert all(database.value("SELECT count(*) FROM fresh") == 1 for database in databases)
    else:
        assert (end, applied) == ("no commit", 0), said
        assert LOST in said
        assert "Traceback" not in said
    for database in databases:
        bed.drop(database)

"""A project that is attacked: a copy of one of `tests/projects`, and a database of its own."""

import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from attacks import attacked
from attacks.attacked import Done, Started
from support.servers import Database

PROJECTS = Path(__file__).parents[1] / "projects"
URL = "driver://user:pass@localhost/dbname"


@dataclass(frozen=True)
class Project:
    """Commands run in its directory, on its database."""

    root: Path
    database: Database
    environment: dict[str, str] = field(default_factory=dict)

    def alembic(self, *arguments: str, cwd: Path | None = None) -> Done:
        return attacked.run("alembic", *arguments, cwd=cwd or self.root, environment=self.environment)

    def pipestate(self, *arguments: str, cwd: Path | None = None, **environment: str) -> Done:
        wanted = {**self.environment, **environment}
        return attacked.run("pipestate", *arguments, cwd=cwd or self.root, environment=wanted)

    def running(self, *arguments: str) -> AbstractContextManager[Started]:
        """Start Python with these arguments, `-m`, `alembic`, …, and go on."""
        return attacked.running(*arguments, cwd=self.root, environment=self.environment)

    def script(self, revisions: str, *options: str) -> str:
        """Return what `--sql` writes, be it refused half-way: some people look at no exit code."""
        return self.alembic(*options, "upgrade", revisions, "--sql").stdout

    def connect_as(self, database: Database) -> "Project":
        """Return the same project, for another role."""
        point_at(self.root, database)
        return Project(self.root, database, self.environment)

    def read(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def edit(self, path: str, *changes: tuple[str, str]) -> None:
        """Replace text that must be there."""
        text = self.read(path)
        for old, new in changes:
            assert old in text, f"{old!r} is not in {path}"
            text = text.replace(old, new)
        self.write(path, text)

    def use_environment(self, name: str) -> None:
        """Replace the stock env.py by one of `tests/projects/attacked_environments`."""
        text = (PROJECTS / "attacked_environments" / f"{name}.py").read_text(encoding="utf-8")
        self.write("migrations/env.py", text)

    def add_check(
        self, sql: str, require: str, *, check: str = "more", path: str = "runbooks/orders.md"
    ) -> None:
        """Put one more check at the end of the page, and so into its last phase."""
        block = f"\n```sql\n-- check: {check}\n-- dialect: postgresql\n-- require: {require}\n{sql};\n```\n"
        self.write(path, self.read(path) + block)


def lay_out(name: str, root: Path, database: Database) -> Project:
    """Copy that project, and point its alembic.ini at the database."""
    shutil.copytree(PROJECTS / name, root, dirs_exist_ok=True)
    point_at(root, database, given=URL)
    return Project(root, database)


def point_at(root: Path, database: Database, *, given: str | None = None) -> None:
    ini = root / "alembic.ini"
    text = ini.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("sqlalchemy.url"))
    assert given is None or given in line
    url = database.url.render_as_string(hide_password=False).replace("%", "%%")
    ini.write_text(text.replace(line, f"sqlalchemy.url = {url}"), encoding="utf-8")

"""A new user in an empty directory, who types what the pages under docs/start/ show."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from support.ci_page import runner
from support.documentation import Example, Shell, commands, examples, find_page, missing_of
from support.servers import Database

PROJECT = find_page("start/project.md")
WORKFLOW = ".github/workflows/database.yml"
IMPORT = "from alembic import context\n"


def words_of_flask() -> dict[str, str]:
    """The table of project.md: what to type and write with Flask-Migrate."""
    text = PROJECT.read_text(encoding="utf-8").partition("with Flask-Migrate |")[2]
    rows = [re.findall("`([^`]+)`", line) for line in text.splitlines() if line.startswith("| `")]
    found = {old: row[-1] for row in rows for old in row[:-1]}
    return dict(sorted(found.items(), key=lambda each: -len(each[0])))


def sections(of: Path) -> dict[str, list[Example]]:
    """The examples of a page, by the heading that they stand under."""
    lines = of.read_text(encoding="utf-8").splitlines()
    found: dict[str, list[Example]] = {}
    for example in examples(of):
        heading = next((line[3:] for line in lines[example.line :: -1] if line.startswith("## ")), "")
        found.setdefault(heading, []).append(example)
    return found


@dataclass
class Walk:
    """`template` is Alembic's, or `flask` for a project of Flask-Migrate."""

    directory: Path
    database: Database
    template: str = "generic"
    other: Database | None = None
    said: str = ""
    shell: Shell = field(init=False)

    def __post_init__(self) -> None:
        self.directory.mkdir(exist_ok=True)
        named = {"DATABASE_URL": self.database.text} if self.template in ("multidb", "flask") else {}
        self.shell = Shell(self.directory, {"COLUMNS": "100", **named})

    def make_project(self) -> None:
        """Do what project.md says."""
        ours, flask = sections(PROJECT).values()
        if self.template == "flask":
            ours = flask + [each for each in ours if each.file != "alembic.ini" and "init" not in each.text]
        for example in ours:
            self.take(example)

    def make_shop(self) -> None:
        """Go on until the ledger is installed: the project in which the how-to pages begin."""
        self.make_project()
        for name in ("guard", "first-check", "first-contract"):
            for example in examples(find_page(f"start/{name}.md")):
                if example.file and "drop_log" not in example.file:
                    self.take(example)
        self._type("alembic upgrade head", 0)

    def take(self, example: Example) -> None:
        """Do what one fence of the page says."""
        if example.file is not None:
            self._write(example.file, example.text)
        elif example.language == "sql":
            self._use(example.text)
        elif example.language == "output":
            said = self._spelt(example.text, paths=self.template != "flask")
            assert not missing_of(said, self.said), self.said
        elif example.language == "console":
            self.said = ""
            for command in commands(example.text):
                self._type(command.text, command.code)

    def run_ci(self, database: Database) -> tuple[int, str]:
        """Run the steps of the workflow on a database, and return the last exit code and all that was printed."""
        jobs: dict[str, Any] = yaml.safe_load((self.directory / WORKFLOW).read_text())["jobs"]
        (job,) = jobs.values()
        steps = [step for step in job["steps"] if "pip install" not in step.get("run", "")]
        for step in (each for each in steps if "run" in each):
            step["run"] = self._spelt(step["run"])
        config = {"ALEMBIC_CONFIG": "migrations/alembic.ini"} if self.template == "flask" else {}
        done = runner(self.directory, database, **config).run_steps(steps)
        return done[-1].code, "".join(each.printed for each in done)

    def _type(self, command: str, code: int) -> None:
        command = self._spelt(command)
        done = self.shell.run(command)
        said = f"$ {command}\n{done.stdout}\n{done.stderr}"
        failed = 1 if code == 255 and self.template == "flask" else code
        assert done.returncode == failed, f"exit code {done.returncode}\n{said}"
        assert "Traceback" not in said, said
        self.said += said

    def _spelt(self, text: str, *, paths: bool = False) -> str:
        """As the pages say that it is written with this template."""
        if self.template == "flask":
            for old, new in words_of_flask().items():
                if not paths or old.endswith("/"):
                    text = re.sub(rf"(?<![\w/]){re.escape(old)}", new, text)
            return text.replace("postgresql+psycopg2://you@localhost/shop", f"'{self.database.text}'")
        if paths:
            return text
        text = text.replace("alembic init", f"alembic init --template {self.template}")
        several = self.template == "multidb" and "revision --contract" in text
        return f"{text} --engine engine1" if several else text

    def _use(self, sql: str) -> None:
        for database in filter(None, (self.database, self.other)):
            database.run(*(each for each in sql.split(";\n") if each.strip()))

    def _write(self, name: str, text: str) -> None:
        name, _, appended = name.partition(" ")
        path = self.directory / self._spelt(name, paths=True)
        if name == "alembic.ini":
            self._point_at_databases(path)
        elif name == "alembic/env.py":
            assert path.read_text().count(IMPORT) == 1
            path.write_text(path.read_text().replace(IMPORT, IMPORT + text))
        elif appended:
            before = path.read_text().replace("  expand: {}\n", "  expand: {}\n  readiness: {}\n")
            path.write_text(f"{before}\n{text}")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            several = self.template == "multidb" and "versions/" in name
            path.write_text(text.replace("grade():", "grade(engine_name):") if several else text)

    def _point_at_databases(self, ini: Path) -> None:
        """Write the address for every `sqlalchemy.url` that the template left open."""
        driver = "postgresql+asyncpg" if self.template == "async" else self.database.url.drivername
        urls = [each.url.set(drivername=driver) for each in (self.database, self.other or self.database)]
        texts = iter([url.render_as_string(hide_password=False).replace("%", "%%") for url in urls])
        text = ini.read_text()
        assert len(re.findall("(?m)^sqlalchemy.url = driver:", text)) == 1 + (self.template == "multidb")
        ini.write_text(
            re.sub("(?m)^sqlalchemy.url = driver:.*", lambda _: f"sqlalchemy.url = {next(texts)}", text)
        )

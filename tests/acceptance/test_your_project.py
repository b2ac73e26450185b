"""docs/your-project.md, walked by a new user: with Alembic's templates, and on SQLite."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from alembics import ROOT
from bed import Database, Postgres, Sqlite
from pages import Example, Shell, commands, examples
from pipestate.ledger.tables import ledger_on
from versions import needs_alembic

pytestmark = pytest.mark.scene

PAGE = ROOT / "docs" / "your-project.md"
TEXT = PAGE.read_text(encoding="utf-8")
WEEK = TEXT[: TEXT.index("<!-- a week passes -->")].count("\n") + 1
LAST_STEP = TEXT[: TEXT.index("## Other templates")].count("\n") + 1
VARIANTS = "runbooks/orders.sqlite.md"
CONTENT = ("SELECT * FROM orders ORDER BY id", "SELECT * FROM order_log ORDER BY id")


def is_check(example: Example) -> bool:
    return example.language == "sql" and "-- check:" in example.text


def in_steps() -> list[Example]:
    return [example for example in examples(PAGE) if example.line < LAST_STEP]


@dataclass
class Walk:
    """A user in an empty directory, who types what the page shows; `template` is Alembic's."""

    directory: Path
    database: Database
    other: Database
    template: str
    shell: Shell = field(init=False)
    said: str = ""

    def __post_init__(self) -> None:
        named = {"DATABASE_URL": self.database.text} if self.template == "multidb" else {}
        self.shell = Shell(self.directory, {"COLUMNS": "80", **named})

    def take(self, example: Example) -> None:
        """Do what one fence of the page says."""
        if example.file is not None:
            self._write(example.file, example.text)
        elif is_check(example):
            self._fill_in(example.text)
        elif example.language == "sql":
            self._use(example.text)
        else:
            for command in commands(example.text):
                self._type(self._spelt(command.text), command.code)

    def _type(self, command: str, code: int) -> None:
        done = self.shell.run(command)
        said = f"$ {command}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == code, said
        assert "Traceback" not in said
        self.said += said

    def _use(self, sql: str) -> None:
        databases = [self.database, self.other] if self.template == "multidb" else [self.database]
        for database in databases:
            database.run(*(each for each in sql.split(";\n") if each.strip()))

    def _spelt(self, command: str) -> str:
        """With the template, and where there are several databases with the one that is meant."""
        command = command.replace("alembic init", f"alembic init --template {self.template}")
        several = self.template == "multidb" and "revision --contract" in command
        return f"{command} --engine engine1" if several else command

    def _write(self, name: str, text: str) -> None:
        path = self.directory / name
        if name == "alembic.ini":
            self._point_at_databases(path)
        elif name == "alembic/env.py":
            line = "from alembic import context\n"
            assert path.read_text().count(line) == 1
            path.write_text(path.read_text().replace(line, line + text))
        else:
            several = self.template == "multidb"
            path.write_text(text.replace("grade():", "grade(engine_name):") if several else text)

    def _point_at_databases(self, ini: Path) -> None:
        """Write the address for every `sqlalchemy.url` that the template left open."""
        driver = "postgresql+asyncpg" if self.template == "async" else self.database.url.drivername
        urls = [each.url.set(drivername=driver) for each in (self.database, self.other)]
        texts = iter([url.render_as_string(hide_password=False).replace("%", "%%") for url in urls])
        text = ini.read_text()
        assert len(re.findall("(?m)^sqlalchemy.url = driver:", text)) == 1 + (self.template == "multidb")
        ini.write_text(
            re.sub("(?m)^sqlalchemy.url = driver:.*", lambda _: f"sqlalchemy.url = {next(texts)}", text)
        )

    def _fill_in(self, check: str) -> None:
        """Replace the block of the same id on the page that `init` wrote."""
        page = self.directory / "runbooks" / "orders.md"
        name = re.findall("-- check: (.*)", check)[0]
        block = re.compile(rf"-- check: {name}\n.*?(?=```)", re.DOTALL)
        assert len(block.findall(page.read_text())) == 1
        page.write_text(block.sub(lambda _: check, page.read_text()))


def a_week_passes(database: Database) -> None:
    """Move what is on record into the past, and record the same on every day since."""
    run = ledger_on(database.engine.dialect.name).run
    with database.begin() as connection:
        last = connection.execute(
            select(run).where(run.c.phase == "backfill").order_by(run.c.id.desc())
        ).first()
        assert last is not None
        assert last.gate == "open"
        long_ago = datetime.now(UTC) - timedelta(days=8)
        connection.execute(update(run).values(recorded_at=long_ago))
        for day in range(8):
            days = {"id": last.id + day + 100, "recorded_at": long_ago + timedelta(days=day)}
            connection.execute(insert(run).values({**last._mapping, **days}))


CASES = [
    ("sqlite", "generic"),
    ("postgres", "generic"),
    ("postgres", "async"),
    ("postgres", "multidb"),
    pytest.param(("postgres", "pyproject"), marks=needs_alembic("1.16")),
]


@pytest.fixture(params=CASES, ids=lambda case: "-".join(case))
def walk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Walk]:
    engine, template = request.param
    bed: Postgres | Sqlite = request.getfixturevalue(engine)
    database, other = bed.create(), bed.create()
    (tmp_path / "shop").mkdir()
    yield Walk(tmp_path / "shop", database, other, template)
    bed.drop(database)
    bed.drop(other)


def test_the_page_leads_from_alembic_init_to_a_contract_and_back(walk: Walk) -> None:
    database = walk.database
    kept: list[object] = []
    for example in in_steps():
        if example.line > WEEK and not kept:
            a_week_passes(database)
            kept = [database.rows(query) for query in CONTENT]
        walk.take(example)
        if "init orders" in example.text and database.is_sqlite:
            (variants,) = [each for each in examples(PAGE) if each.file == VARIANTS]
            walk.take(variants)
    assert [database.rows(query) for query in CONTENT] == kept, "the way back loses nothing"
    assert database.rows("SELECT gate FROM pipestate.run WHERE event = 'gate'") == [("open",)]
    applied = database.rows("SELECT event FROM pipestate.run WHERE event LIKE '%grade' ORDER BY id")
    assert applied[-2:] == [("upgrade",), ("downgrade",)]
    if not database.is_sqlite:
        assert "old_status of orders are copied under the lock" in walk.said, "a warning is seen"
    if walk.template == "multidb":
        assert walk.other.value("SELECT count(*) FROM order_log") == 2, "the other database keeps its log"


def test_four_steps_and_at_most_40_lines() -> None:
    steps = re.findall(r"^## (\d)\.", TEXT, re.MULTILINE)
    by_hand = [
        line
        for example in in_steps()
        if example.file is not None or is_check(example)
        for line in example.text.splitlines()
        if line.strip()
    ]
    assert steps == ["1", "2", "3", "4"]
    assert len(by_hand) <= 40
    assert f"You write {len(by_hand)} lines by hand" in " ".join(TEXT.split())

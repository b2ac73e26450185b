"""Sites that stand still in OCR, in the old account, and their documents."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.alembic_runs import ROOT, Migrations
from support.programs import run_program
from support.servers import Database

OLD, LIVE = "-3 days", "-1 minutes"


@dataclass(frozen=True)
class Stuck:
    """A database at 0005 and a storage directory."""

    database: Database
    root: Path

    def site(self, name: str, total: int | None = 0, *, at: str | None = OLD, site: bool = True) -> None:
        """A row of site_progress in OCR, and unless it is an orphan its site."""
        if site:
            self.database.run(f"INSERT INTO sites (subdomain) VALUES ('{name}')")
        self.database.run(
            "INSERT INTO site_progress (subdomain, current_stage, stage_total, started_at, updated_at) VALUES "
            f"('{name}', 'ocr', {'NULL' if total is None else total}, {self.ago(OLD)}, {self.ago(at)})"
        )

    def ago(self, age: str | None) -> str:
        if age is None:
            return "NULL"
        if self.database.is_sqlite:
            return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '{age}')"
        return f"now() + interval '{age}'"

    def put(self, name: str, *files: str) -> None:
        for file in files:
            path = self.root / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def counters(self, name: str) -> tuple[object, ...]:
        query = "SELECT current_stage, ocr_completed, ocr_failed, ocr_total FROM sites WHERE subdomain = "
        return self.database.rows(f"{query}'{name}'")[0]

    def everything(self) -> list[list[tuple[object, ...]]]:
        return [
            self.database.rows(f"SELECT * FROM {table} ORDER BY 1") for table in ("sites", "site_progress")
        ]

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """`pipestate backfill ...` in a shell."""
        return run_program(["pipestate", "backfill", *arguments], cwd=ROOT, environment=self.environment)

    def data(self, *arguments: str) -> dict[str, Any]:
        done = self.command("--json", *arguments)
        assert done.returncode in (0, 1), done.stderr
        data: dict[str, Any] = json.loads(done.stdout)
        return data

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PIPESTATE_DATABASE_URL": self.database.text, "STORAGE_DIR": str(self.root)}


def fill_expanded(database: Database) -> None:
    """The migrations at 0005; `stage_total` may be NULL, as an application's own table may have it."""
    Migrations(database).upgrade("0005")
    if database.is_sqlite:
        database.run(
            "DROP TABLE site_progress",
            "CREATE TABLE site_progress (subdomain VARCHAR NOT NULL PRIMARY KEY, current_stage VARCHAR, "
            "stage_total INTEGER, stage_completed INTEGER, started_at TIMESTAMP, updated_at TIMESTAMP)",
        )
    else:
        database.run("ALTER TABLE site_progress ALTER stage_total DROP NOT NULL")

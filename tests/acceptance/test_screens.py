"""What people see, kept as files: at 80 columns and at 120, in a real terminal.

`make screens` writes them anew; look at the difference before you commit it.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from redis import Redis
from sqlalchemy import URL

from pipestate.pipeline.demo import scene
from support.alembic_runs import ROOT, Migrations
from support.legacy_database import fill_legacy
from support.programs import run_program
from support.queues import RqBed
from support.servers import Database, Sqlite
from support.stuck_sites import Pipeline
from support.terminal import Typed, in_terminals, plain
from support.two_weeks import let_weeks_pass

pytestmark = pytest.mark.scene

WIDTHS = (80, 120)
SCREENS = ROOT / "tests" / "screens"
WRITE = "PIPESTATE_WRITE_SCREENS" in os.environ
SCREEN_COMMANDS = {
    "help": ("--help",),
    "help-verify": ("verify", "--help"),
    "plan": ("plan",),
    "plan-verbose": ("plan", "--verbose"),
    "verify": ("verify",),
    "verify-verbose": ("verify", "content-item-pipeline-state", "--verbose"),
    "verify-readiness": ("verify", "--phase", "readiness"),
    "verify-expand": ("verify", "--phase", "expand"),
    "gate-readiness": ("gate", "readiness"),
    "fleet-verify": ("fleet", "verify", "--databases", "fleet.txt"),
    "fleet-gate": ("fleet", "gate", "content-item-pipeline-state/schema", "--databases", "fleet.txt"),
    "fleet-plan": ("fleet", "plan", "--databases", "fleet.txt"),
    "status": ("status",),
    "status-weeks": ("status", "sites-consolidation", "--database-url", "sqlite:///weeks.db"),
    "history": ("history",),
    "backfill": ("backfill", "--dry-run", "--threshold-hours", "1"),
    "reconcile": ("reconcile", "--dry-run"),
    "queues-show": ("queues", "show"),
    "queues-clear": ("queues", "clear", "--dry-run"),
    "lint": ("runbook", "lint", "broken.md"),
    "lint-open": ("runbook", "lint"),
    "unknown-phase": ("verify", "--phase", "nowhere"),
    "unknown-option": ("verify", "--jsn"),
    "upgrade-closed": ("alembic", "upgrade", "head"),
}
COLOUR = r"\x1b\[[0-9;]*3[1-6]m"
BROKEN = """---
runbook: broken
phases:
  only: {from: base}
---
## Phase: only

```sql
-- check: one
-- requires: n = 0
SELECT 1 AS n;
```
"""


def fill(database: Database) -> None:
    fill_legacy(database)
    Migrations(database).upgrade("0005")
    pipeline = Pipeline(database, Path(), RqBed(Redis()))
    for number, stage in enumerate(("ocr", "ocr", "extraction", "deploy", "completed", "completed")):
        columns = {f"{stage}_total": 5, f"{stage}_completed": 5} if stage != "completed" else {}
        pipeline.put(f"new{number}.example.gov", stage, hours=number + 2.51, **columns)
    database.run(
        "INSERT INTO pipestate.attestation (runbook, phase, name, person, note) "
        "VALUES ('sites-consolidation', 'readiness', 'backup-taken', 'dba', 's3')",
        "UPDATE pipestate.run SET actor = 'ops', duration_ms = 1200",
    )


def fill_fleet(directory: Path) -> None:
    """Six tenants of which two are alike, and a list that names one again and one that is not there."""
    changes = {
        "north": (),
        "south": (),
        "early": ("UPDATE pipestate_alembic_version SET version_num = '0001'",),
        "shorn": ("DROP INDEX idx_cips_updated_at", "ALTER TABLE sites ADD COLUMN nickname text"),
        "alien": ("UPDATE pipestate_alembic_version SET version_num = 'f00d'",),
    }
    for name, statements in changes.items():
        shutil.copyfile(directory / "civic.db", directory / f"{name}.db")
        Database(URL.create("sqlite", database=str(directory / f"{name}.db"))).run(*statements)
    urls = [f"sqlite:///{name}.db" for name in (*changes, "lost", "north")]
    (directory / "fleet.txt").write_text("# the tenants\n" + "\n".join(urls) + "\n")


@pytest.fixture(scope="module")
def place(
    sqlite: Sqlite, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, dict[str, str]]]:
    """A directory with a database, files and queues that are the same every time."""
    directory = tmp_path_factory.mktemp("screens")
    database = sqlite.copy_of("screens", fill)
    shutil.copyfile(str(database.url.database), directory / "civic.db")
    let_weeks_pass(database)
    shutil.copyfile(str(database.url.database), directory / "weeks.db")
    shutil.copyfile(ROOT / "alembic.ini", directory / "alembic.ini")
    for name in ("alembic", "runbooks"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
    (directory / "broken.md").write_text(BROKEN)
    fill_fleet(directory)
    for number in (6, 12, 18, 24, 30, 36, 48, 54):
        for kind, suffix, count in (("pdfs", "pdf", 5), ("txt", "txt", number % 5)):
            meeting = directory / "sites" / f"site{number:03}.example.gov" / kind / "Council"
            meeting.mkdir(parents=True)
            for day in range(count):
                (meeting / f"{day}.{suffix}").touch()
    with Redis.from_url(redis_url) as redis:
        redis.flushall()
        scene.fill_queues(redis, directory / "sites")
    yield directory, {"DATABASE_URL": "sqlite:///civic.db", "REDIS_URL": redis_url, "STORAGE_DIR": "sites"}
    sqlite.drop(database)


def test_screens_are_as_they_were(place: tuple[Path, dict[str, str]]) -> None:
    directory, environment = place
    typed = {
        f"{name}-{columns}": as_typed(arguments, columns)
        for columns in WIDTHS
        for name, arguments in SCREEN_COMMANDS.items()
    }
    screens = in_terminals(list(typed.values()), cwd=directory, **environment)
    for (name, command), written in zip(typed.items(), screens, strict=True):
        seen = settled(plain(written))
        ours = [line for line in seen.splitlines() if not line.startswith("INFO  ")]  # Alembic's own
        too_wide = [line for line in ours if len(line) > command.columns]
        assert too_wide == [], f"{name} is too wide"
        kept = SCREENS / f"{name}.txt"
        if WRITE:
            SCREENS.mkdir(exist_ok=True)
            kept.write_text(seen)
        assert seen == kept.read_text(), name


def as_typed(arguments: Sequence[str], columns: int) -> Typed:
    if arguments[0] == "alembic":
        return Typed(arguments[1:], columns, program="alembic")
    return Typed(arguments, columns)


def test_every_kept_screen_is_still_used() -> None:
    by_others = ["rehearse"]  # tests/unit/render/test_rehearse.py
    names = {f"{name}-{columns}.txt" for name in [*SCREEN_COMMANDS, *by_others] for columns in WIDTHS}
    assert {path.name for path in SCREENS.glob("*.txt")} == names


def settled(text: str) -> str:
    """Without what differs from run to run; as wide as before, so that columns stay where they are."""
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?", lambda found: re.sub(r"\d", "0", found[0]), text)
    text = re.sub(r"\b[A-Z][a-z]{2} \d\d( to today|\s+\d\d:\d\d)", _some_day, text)
    # On a busy machine the running check is shown until the answer is there; a terminal erases it.
    text = re.sub(r"(?m)(?:^\d+ s, (?:check [^\n]*|connecting)\n)+\n?", "", text)
    text = re.sub(r"\b3\d minutes\b", "30 minutes", text)  # half an hour ago, when the scene was laid
    text = re.sub(r"age_seconds is \d+", "age_seconds is N", text)
    text = re.sub(r"\b\d+ ms\b", "N ms", text)
    text = re.sub(r"evaluated in \d+\.\d s", "evaluated in N s", text)
    text = re.sub(r"sqlite 3\.\d+\.\d+", "sqlite 3.x", text)
    lines = [line.rstrip() for line in text.splitlines() if "━" not in line]  # a bar, at any moment
    return "\n".join(lines).lstrip("\n") + "\n"


def _some_day(found: re.Match[str]) -> str:
    return "Mon 00" + re.sub(r"\d", "0", found[1])


def test_long_work_has_a_bar_on_a_terminal_and_none_in_a_pipe(place: tuple[Path, dict[str, str]]) -> None:
    directory, environment = place
    command = ["backfill", "--dry-run", "--threshold-hours", "1"]
    (written,) = in_terminals([Typed(command)], cwd=directory, **environment)
    assert re.search(r"counting ━+ \d+/\d+ .*sites/s", plain(written))
    done = run_program(["pipestate", *command], cwd=directory, environment={**os.environ, **environment})
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout


def test_colour_is_for_terminals_that_want_it(place: tuple[Path, dict[str, str]]) -> None:
    directory, environment = place
    wanted, unwanted = Typed(["plan"]), Typed(["plan"], environment={"NO_COLOR": "1"})
    coloured, grey = in_terminals([wanted, unwanted], cwd=directory, **environment)
    assert re.search(COLOUR, coloured)
    assert not re.search(COLOUR, grey)
    assert plain(grey) == plain(coloured)

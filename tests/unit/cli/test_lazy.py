"""A command loads only what it needs: seen in a fresh interpreter."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
from pipestate.cli.main import main
sys.argv = ["pipestate", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
print("LOADED", *sorted(sys.modules))
"""


def loaded(*arguments: str) -> set[str]:
    """Run a command, and return the modules that were imported for it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "Traceback" not in done.stderr
    return set(done.stdout.rpartition("LOADED ")[2].split())


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--help"], {"sqlalchemy", "alembic"}),
        (
            ["--version"],
            {"sqlalchemy", "alembic", "rich", "yaml", "importlib.metadata", "pipestate.core.plugins"},
        ),
        (["runbook", "lint"], {"sqlalchemy", "alembic", "rich", "pipestate.core.plugins"}),
        (["runbook", "lint", "--json"], {"sqlalchemy", "alembic", "rich", "pipestate.core.plugins"}),
        (
            ["runbook", "lint", "runbooks/queue-cutover.md", "-c", "alembic.ini"],
            {"sqlalchemy", "alembic", "rich"},
        ),
        (["init", "orders", "--dry-run"], {"sqlalchemy", "alembic", "rich", "pipestate.core.plugins"}),
        (["runbook", "--help"], {"sqlalchemy", "alembic", "pipestate.core.plugins"}),
        (["verify", "--help"], {"sqlalchemy", "alembic", "pipestate.core.plugins"}),
        (["fleet", "verify", "--help"], {"sqlalchemy", "alembic", "pipestate.core.plugins"}),
        (
            ["fleet", "verify", "--json", "--databases", "nowhere.txt"],
            {
                "alembic",
                "rich",
                "pipestate.pipeline",
                "pipestate.schema",
                "pipestate.ddl",
                "pipestate.core.plugins",
            },
        ),
        (
            [
                "verify",
                "--jobs",
                "2",
                "--timeout",
                "0.5",
                "--format",
                "junit",
                "--output",
                "/dev/null",
                "--database-url",
                "sqlite:///no-such-file",
            ],
            {"alembic", "rich", "pipestate.pipeline"},
        ),
        (
            ["ready", "--database-url", "sqlite:///no-such-file"],
            {
                "alembic",
                "rich",
                "sqlalchemy.orm",
                "pipestate.pipeline",
                "pipestate.schema",
                "pipestate.ddl",
                "pipestate.core.plugins",
                "pipestate.verify",
                "pipestate.ledger.tables",
                "yaml",
                "pipestate.runbook",
            },
        ),
        (["report", "--database-url", "sqlite:///no-such-file"], {"alembic", "pipestate.pipeline"}),
        (
            ["verify", "--json", "--database-url", "sqlite:///no-such-file"],
            {
                "alembic",
                "rich",
                "pipestate.pipeline",
                "pipestate.schema",
                "pipestate.ddl",
                "pipestate.core.plugins",
                "pipestate.probes",
                "pipestate.web",
                "boto3",
            },
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_does_not_import(arguments: list[str], unwanted: set[str]) -> None:
    assert not loaded(*arguments) & {*unwanted, "jinja2"}


def test_the_modules_are_seen_at_all() -> None:
    assert {"typer", "pipestate.runbook.lint"} <= loaded("runbook", "lint")

"""The schema: pg_dump writes it into a file, pg_restore reads it from there, one half before the rows, one behind them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg2.extensions import make_dsn
from sqlalchemy import URL

from pipestate.config import shown, without_secrets
from pipestate.errors import Unreachable
from pipestate.rehearse.copying.programs import last_line, run_program, way_to
from pipestate.rehearse.copying.wanted import RECIPES

LOCK_WAIT_MS = 10_000
JOBS = 2
SAID = re.compile(r"^pg_restore: error: (?:could not execute query: )?(?:[A-Z]+:\s+)?(.*)", re.MULTILINE)
# Entries of a dump, as pg_restore lists them: `12; 3079 16397 EXTENSION - vector `.
EXTENSION = re.compile(r"^\d+; \d+ \d+ (?:COMMENT - EXTENSION|EXTENSION -) (.+?) *$")
GRANT = re.compile(r"^\d+; \d+ \d+ (?:DEFAULT )?ACL ")


@dataclass(frozen=True, slots=True)
class Dump:
    """A file that holds the schema, and the version of the programs that write and read it."""

    file: Path
    version: int


def dump_schema(driver: Any, url: URL, snapshot: str, dump: Dump, without: Sequence[str]) -> None:
    """Write the schema of the moment that `driver` has exported into the file."""
    options = [
        "--format=custom",
        "--schema-only",
        f"--snapshot={snapshot}",
        f"--file={dump.file}",
        f"--lock-wait-timeout={LOCK_WAIT_MS}",
        "--no-password",
        "--no-subscriptions",
        "--no-tablespaces",
        "--no-security-labels",
        *(f"--exclude-table={table}" for table in without),
    ]
    with way_to(driver, dump.file.parent) as (where, secret):
        done = run_program(dump.version, "pg_dump", [*options, f"--dbname={where}"], secret)
    if done.returncode:
        said = without_secrets(last_line(done), url)
        raise Unreachable(f"pg_dump cannot read the schema of {shown(url)}: {said}")


def restore_tables(dump: Dump, clone: URL, without: Sequence[str]) -> None:
    """Make what the rows need: types, functions, tables. The extensions in `without` are left out."""

    def is_wanted(entry: str) -> bool:
        found = EXTENSION.search(entry)
        return found is None or found[1].strip('"') not in without

    _restore_all(dump, clone, "--section=pre-data", _only(dump, is_wanted))


def restore_rest(dump: Dump, clone: URL) -> None:
    """Make what stands on the rows: indexes, constraints, triggers; event triggers come last."""
    _restore_all(dump, clone, "--section=post-data", f"--jobs={JOBS}")


def restore_grants(dump: Dump, clone: URL) -> list[str]:
    """Grant what is granted; return what cannot be, such as on parts of an extension that was left out."""
    return _restore(dump, clone, _only(dump, lambda entry: GRANT.search(entry) is not None))


def _restore_all(dump: Dump, clone: URL, *options: str) -> None:
    complaints = _restore(dump, clone, "--no-acl", "--exit-on-error", *options)
    if complaints:
        raise Unreachable(
            f"production's schema cannot be made on the embedded server: {complaints[0]}; {RECIPES}"
        )


def _restore(dump: Dump, clone: URL, *options: str) -> list[str]:
    """Run pg_restore, and return what it complains of."""
    where = make_dsn(**clone.get_dialect()().create_connect_args(clone)[1])
    done = run_program(dump.version, "pg_restore", [*options, f"--dbname={where}", str(dump.file)], {})
    complaints = [found[1] for found in SAID.finditer(done.stderr)]
    return complaints or ([last_line(done)] if done.returncode else [])


def _only(dump: Dump, is_wanted: Callable[[str], bool]) -> str:
    """Write the list of the entries that are wanted; return the option that names it."""
    listed = run_program(dump.version, "pg_restore", ["--list", str(dump.file)], {}).stdout
    entries = [entry for entry in listed.splitlines() if is_wanted(entry)]
    chosen = dump.file.with_suffix(".list")
    chosen.write_text("\n".join(entries) + "\n", encoding="utf-8")
    return f"--use-list={chosen}"

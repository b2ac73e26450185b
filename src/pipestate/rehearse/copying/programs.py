"""PostgreSQL's programs from the wheel: pg_dump reads production, pg_restore and psql fill the clone.

The schema is kept in a file: its first half is restored before the rows, its second half after them. Rows are piped
from pg_dump to psql, so that they are on the disk only once.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

from psycopg2.extensions import make_dsn
from sqlalchemy import URL

from pipestate.core.errors import Unreachable
from pipestate.database.embedded import embedded_binaries
from pipestate.database.postgresql import CONNECT_TIMEOUT_S
from pipestate.database.urls import shown, without_secrets
from pipestate.rehearse.copying.require import RECIPES
from pipestate.rehearse.copying.snapshot import Snapshot, ask

CHUNK = 2**18
JOBS = 2
REMOVED = "the clone was removed, production was not changed"
DUMP = (
    *("--lock-wait-timeout=10000", "--no-password"),
    *("--no-subscriptions", "--no-tablespaces", "--no-security-labels"),
)
SAID = re.compile(
    r"^pg_restore: error: (?:could not execute query: )?(?:[A-Z]+:\s+)?(.*)(?:\nCommand was: (.*))?",
    re.MULTILINE,
)
GRANTS = ("GRANT ", "REVOKE ", "ALTER DEFAULT PRIVILEGES ")
# Entries of a dump, as pg_restore lists them: `12; 3079 16397 EXTENSION - vector `.
EXTENSION = re.compile(r"^\d+; \d+ \d+ (?:COMMENT - EXTENSION|EXTENSION -) (.+?) *$")
NO_PATH = b"SELECT pg_catalog.set_config('search_path', '', false);\n"
READ = {"PGOPTIONS": "-c lc_monetary=C -c DateStyle=ISO,MDY"}
DOLLARS = ("C", "POSIX", "en_US")  # locales of money that the clone reads unchanged
Done = subprocess.CompletedProcess[str]
COPIED = re.compile(rb"^COPY (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Dump:
    """A schema file, and the version of the programs that write and read it."""

    file: Path
    version: int


def dump_schema(moment: Snapshot, dump: Dump, without: Sequence[str]) -> None:
    """Write the schema of the snapshot into the file."""
    options = [*DUMP, "--format=custom", "--schema-only", f"--file={dump.file}", f"--snapshot={moment.id}"]
    options += [f"--exclude-table={table}" for table in without]
    with way_to(moment.driver, dump.file.parent) as (where, secret):
        done = run_program(dump.version, "pg_dump", [*options, f"--dbname={where}"], secret)
    if done.returncode:
        said = without_secrets(last_line(done.stderr), moment.url)
        raise Unreachable(f"pg_dump cannot read the schema of {shown(moment.url)}: {said}")


def restore_tables(dump: Dump, clone: URL, without: Sequence[str]) -> list[str]:
    """Create the objects that rows need: types, functions, tables. Extensions in `without` are omitted."""
    listed = run_program(dump.version, "pg_restore", ["--list", str(dump.file)], {}).stdout
    chosen = dump.file.with_suffix(".list")
    with chosen.open("w", encoding="utf-8") as file:
        for entry in listed.splitlines():
            found = EXTENSION.search(entry)
            if found is None or found[1].strip('"') not in without:
                print(entry, file=file)
    return _restore(dump, clone, "--section=pre-data", f"--use-list={chosen}")


def restore_rest(dump: Dump, clone: URL) -> list[str]:
    """Create indexes, constraints, triggers; event triggers come last."""
    return _restore(dump, clone, "--section=post-data", f"--jobs={JOBS}")


def _restore(dump: Dump, clone: URL, *options: str) -> list[str]:
    """Run pg_restore; return the failed grants, such as those on parts of an omitted extension."""
    arguments = [*options, f"--dbname={_dsn(clone)}", str(dump.file)]
    done = run_program(dump.version, "pg_restore", arguments, {})
    complaints = SAID.findall(done.stderr)
    failed = [said for said, command in complaints if not command.startswith(GRANTS)]
    if failed or (done.returncode and not complaints):
        why = failed[0] if failed else last_line(done.stderr)
        raise Unreachable(f"production's schema cannot be made on the embedded server: {why}; {RECIPES}")
    return [said for said, _ in complaints]


def copy_rows(
    moment: Snapshot, dump: Dump, clone: URL, options: Sequence[str], on_bytes: Callable[[int], None]
) -> list[int]:
    """Copy the snapshot's rows and the values of sequences; return the number of rows of each table.

    Functions in CHECK constraints may name tables without a schema, so the clone reads rows on production's path.
    """
    reads = [*DUMP, "--section=data", "--no-large-objects", f"--snapshot={moment.id}", *options]
    takes = ["--no-psqlrc", "--no-password", "--set=ON_ERROR_STOP=1", "--set=VERBOSITY=terse"]
    with (
        way_to(moment.driver, dump.file.parent) as (where, secret),
        tempfile.TemporaryFile() as said,
        tempfile.TemporaryFile() as complained,
        tempfile.TemporaryFile() as out,
        program(dump.version, "pg_dump", [*reads, f"--dbname={where}"], secret, stderr=said) as reader,
        program(
            dump.version,
            "psql",
            [*takes, f"--dbname={_dsn(clone)}"],
            READ,
            stdin=PIPE,
            stdout=out,
            stderr=complained,
        ) as writer,
    ):
        took_all = _pump(reader.stdout, writer.stdin, moment.found.path, on_bytes)
        if took_all and reader.wait():
            why = without_secrets(last_line(_text(said)), moment.url)
            raise Unreachable(f"production did not give its rows: {why}; {REMOVED}")
        if writer.wait():
            raise Unreachable(
                f"the clone did not take production's rows: {last_line(_text(complained))}; {REMOVED}"
            )
        out.seek(0)
        return [int(count) for count in COPIED.findall(out.read())]


def _pump(reader: Any, writer: Any, path: str, on_bytes: Callable[[int], None]) -> bool:
    """Pass on a script, with its search path replaced; return False if the clone stopped reading it."""
    count = 0
    try:
        for line in reader:
            if line == NO_PATH:
                writer.write(f"SET search_path = {path};\n".encode())
                break
            writer.write(line)
        while data := reader.read1(CHUNK):
            writer.write(data)
            count += len(data)
            on_bytes(count)
        writer.close()
    except BrokenPipeError:
        return False
    return True


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _dsn(clone: URL) -> str:
    return str(make_dsn(**clone.get_dialect()().create_connect_args(clone)[1]))


@contextmanager
def program(
    version: int, name: str, options: Sequence[str], environment: Mapping[str, str], **files: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Run one of PostgreSQL's programs; if it still runs at the end, make it cancel its query.

    Only the arguments select the server: PGHOST, PGSSLMODE and similar variables are removed.
    """
    others = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    process = subprocess.Popen(
        [str(embedded_binaries(version) / name), *options],
        env={**others, "LC_ALL": "C", **environment},
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **files},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def run_program(version: int, name: str, options: Sequence[str], environment: Mapping[str, str]) -> Done:
    """Run one of PostgreSQL's programs to its end."""
    with program(version, name, options, environment) as process:
        out, err = (text.decode(errors="replace") for text in process.communicate())
    return Done(process.args, process.returncode, out, err)


@contextmanager
def way_to(driver: Any, place: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the connection string and the environment that lead a program to the server of `driver`.

    The password is passed in the environment. The wheel's programs lack TLS: if the session uses it, they connect
    through our tunnel.
    """
    info = driver.info
    ((money,),) = ask(driver, "SHOW lc_monetary")
    options = (info.options or "") + ("" if money.startswith(DOLLARS) else " -c lc_monetary=C")
    where = {"user": info.user, "dbname": info.dbname, "options": options or None}
    secret = {"PGPASSWORD": info.password} if info.password else {}
    host = info.dsn_parameters.get("hostaddr") or info.host
    way: AbstractContextManager[tuple[str, int]] = nullcontext((host, info.port))
    if info.ssl_in_use:
        from pipestate.rehearse.copying.tunnel import tunnel  # imports asyncio

        way = tunnel(info, host, place)
    with way as (host, port):
        yield make_dsn(**where, host=host, port=port, connect_timeout=CONNECT_TIMEOUT_S), secret


def last_line(said: str) -> str:
    """Return the last line of a program's output."""
    lines = said.strip().splitlines()
    return " ".join(lines[-1].split()) if lines else "it ended without a message"

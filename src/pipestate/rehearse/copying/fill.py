"""Fill the clone: its database, then schema and rows with PostgreSQL's programs, then the rest.

The database has production's roles, name, encoding and locale. Foreign servers are disconnected. pg_dump writes the
schema to a file: its first half is restored before the rows, its second half after them. Rows are piped from pg_dump
to psql, so that they are on the disk only once.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

from psycopg2 import Error
from psycopg2.extensions import make_dsn, quote_ident
from sqlalchemy import URL

from pipestate.core.errors import Unreachable
from pipestate.core.text import many
from pipestate.database.embedded import UNSAFE, embedded_binaries
from pipestate.database.postgresql import CONNECT_TIMEOUT_S
from pipestate.database.queries import filled, named_query
from pipestate.database.urls import shown, without_secrets
from pipestate.rehearse.copying.require import RECIPES
from pipestate.rehearse.copying.snapshot import Counter, Inventory, Snapshot, fetch, quoted, session

ICU, BUILTIN = "i", "b"
NO_HANDLERS = named_query("rehearse.copying", "no_handlers")
BEHIND_ITS_COLUMN = named_query("rehearse.copying", "behind_its_column")
TAKE_OVER = named_query("rehearse.copying", "take_over")
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
TLS = (
    "hostaddr",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslcrl",
    "sslcrldir",
    "channel_binding",
    "sslpassword",
)
SERVICE = "--dbname=service=production"  # the section of the service file
COPIED = re.compile(rb"^COPY (\d+)$", re.MULTILINE)


def create_database(admin: URL, found: Inventory) -> tuple[URL, bool]:
    """Create an empty database like production's; return True if it has production's locale."""
    with session(admin.set(database="template1"), autocommit=True) as driver:
        for statement in found.roles:
            fetch(driver, statement)
        fetch(driver, "DROP DATABASE postgres")  # production's database may have that name
        is_same = _create(driver, found)
    clone = admin.set(database=found.name)
    if not found.has_public:
        with session(clone, autocommit=True) as driver:
            fetch(driver, "DROP SCHEMA public")
    return clone, is_same


def _create(driver: Any, found: Inventory) -> bool:
    """Try production's locale, then the nearest one that every machine has."""
    create = f"CREATE DATABASE {quote_ident(found.name, driver)} TEMPLATE template0 ENCODING {quoted(found.encoding)}"
    wanted = locale_of(found.database)
    if wanted is not None and _succeeds(driver, f"{create} {wanted}"):
        return True
    if found.encoding == "UTF8" and _succeeds(driver, f"{create} {_libc('C', 'C.UTF-8')}"):
        return False
    fetch(driver, f"{create} {_libc('C', 'C')}")
    return False


def locale_of(database: Mapping[str, Any]) -> str | None:
    """Write the locale options for a row of pg_database; None for ICU, which the wheel lacks.

    >>> locale_of({"datcollate": "en_US.UTF-8", "datctype": "en_US.UTF-8"})
    "LOCALE_PROVIDER libc LC_COLLATE 'en_US.UTF-8' LC_CTYPE 'en_US.UTF-8'"
    """
    provider = database.get("datlocprovider")
    if provider == ICU:
        return None
    if provider == BUILTIN:
        return f"LOCALE_PROVIDER builtin BUILTIN_LOCALE {quoted(database['datlocale'])} LOCALE 'C'"
    return _libc(database["datcollate"], database["datctype"])


def _libc(collate: str, kind: str) -> str:
    return f"LOCALE_PROVIDER libc LC_COLLATE {quoted(collate)} LC_CTYPE {quoted(kind)}"


def _succeeds(driver: Any, statement: str) -> bool:
    try:
        fetch(driver, statement)
    except Error:
        return False
    return True


def set_unread_sequences(clone: Any, counters: Sequence[Counter]) -> None:
    """Advance sequences that the role may not read beyond the values in their columns."""
    for each in counters:
        if not each.is_readable and each.table is not None:
            names = {"column": each.column, "table": each.table, "sequence": quoted(each.quoted)}
            names["aggregate"] = "max" if each.increment > 0 else "min"
            fetch(clone, filled(BEHIND_ITS_COLUMN, **names))


def refresh_views(clone: Any, views: Sequence[str]) -> dict[str, str]:
    """Fill the materialized views in order of dependency; return those that failed, with the reason.

    Event triggers do not fire here: `session_replication_role` is `replica`.
    """
    fetch(clone, "SET session_replication_role = replica")
    left, failed = list(views), dict[str, str]()
    while left:
        failed = {}
        for view in left:
            try:
                fetch(clone, f"REFRESH MATERIALIZED VIEW {view}")
            except Error as error:
                failed[view] = str(error).splitlines()[0]
        if len(failed) == len(left):
            break
        left = list(failed)
    return failed


def apply_settings(clone: Any, found: Inventory) -> list[str]:
    """Copy production's settings and search path to the database; return the settings that failed."""
    database = quote_ident(found.name, clone)
    values = {name: quoted(value) for name, value in found.settings.items()} | {"search_path": found.path}
    refused = []
    for name, value in values.items():
        try:
            fetch(clone, f"ALTER DATABASE {database} SET {name} = {value}")
        except Error:
            refused.append(name)
    return refused


def wait_for_the_disk(clone: Any) -> None:
    """Restore durable writes, so that the server waits for its disk as production does."""
    for setting in UNSAFE:
        fetch(clone, f"ALTER SYSTEM RESET {setting}")
    fetch(clone, "SELECT pg_reload_conf()")
    fetch(clone, "CHECKPOINT")


def unlike(grants: Sequence[str], empty: Mapping[str, str], refused: Sequence[str]) -> Iterator[str]:
    """Describe the steps that failed: grants, empty views, settings."""
    if grants:
        yield f"{many(len(grants), 'grant')} left out, the first because {grants[0]}"
    for view, why in empty.items():
        yield f"the materialized view {view} stays empty: {why}"
    if refused:
        yield f"settings of the database that the clone does not take: {', '.join(refused)}"


@dataclass(frozen=True, slots=True)
class Dump:
    """A schema file, the clone's version of PostgreSQL, and the pg_dump that reads production."""

    file: Path
    version: int
    pg_dump: Path

    def program(self, name: str) -> Path:
        return self.pg_dump if name == "pg_dump" else embedded_binaries(self.version) / name


def dump_schema(moment: Snapshot, dump: Dump, without: Sequence[str]) -> None:
    """Write the schema of the snapshot into the file."""
    options = [*DUMP, "--format=custom", "--schema-only", f"--file={dump.file}", f"--snapshot={moment.id}"]
    options += [f"--exclude-table={table}" for table in without]
    done = run_program(dump.program("pg_dump"), [*options, SERVICE], way_to(moment.driver, dump.file.parent))
    if done.returncode:
        said = without_secrets(last_line(done.stderr), moment.url)
        raise Unreachable(f"pg_dump cannot read the schema of {shown(moment.url)}: {said}")


def restore_tables(dump: Dump, clone: URL, without: Sequence[str]) -> list[str]:
    """Create the objects that rows need: types, functions, tables. Extensions in `without` are omitted."""
    listed = run_program(dump.program("pg_restore"), ["--list", str(dump.file)], {}).stdout
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
    done = run_program(dump.program("pg_restore"), arguments, {})
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
    way = way_to(moment.driver, dump.file.parent)
    with (
        tempfile.TemporaryFile() as said,
        tempfile.TemporaryFile() as complained,
        tempfile.TemporaryFile() as out,
        program(dump.program("pg_dump"), [*reads, SERVICE], way, stderr=said) as reader,
        program(
            dump.program("psql"),
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
            raise Unreachable(f"the rows of production could not be read: {why}; {REMOVED}")
        if writer.wait():
            raise Unreachable(
                f"production's rows could not be written to the clone: {last_line(_text(complained))}; {REMOVED}"
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
    path: Path, options: Sequence[str], environment: Mapping[str, str], **files: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Run one of PostgreSQL's programs; if it still runs at the end, make it cancel its query.

    Only the arguments select the server: PGHOST, PGSSLMODE and similar variables are removed.
    """
    others = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    process = subprocess.Popen(
        [str(path), *options],
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


def run_program(path: Path, options: Sequence[str], environment: Mapping[str, str]) -> Done:
    """Run one of PostgreSQL's programs to its end."""
    with program(path, options, environment) as process:
        out, err = (text.decode(errors="replace") for text in process.communicate())
    return Done(process.args, process.returncode, out, err)


def way_to(driver: Any, directory: Path) -> dict[str, str]:
    """Write the way to the server of `driver` into a service file; return the environment that leads pg_dump there.

    The directory is private: the file may hold the password of a key. TLS is kept as strict as in the session.
    """
    info = driver.info
    ((money,),) = fetch(driver, "SHOW lc_monetary")
    options = (info.options or "") + ("" if money.startswith(DOLLARS) else " -c lc_monetary=C")
    where = {"user": info.user, "dbname": info.dbname, "options": options.strip(), "port": info.port}
    where |= {"host": info.dsn_parameters.get("hostaddr") or info.host, "connect_timeout": CONNECT_TIMEOUT_S}
    if info.ssl_in_use:
        where |= {name: info.dsn_parameters.get(name) for name in TLS} | {"host": info.host}
    file = directory / "service"
    lines = [f"{name}={value}\n" for name, value in where.items() if value]
    file.write_text("".join(["[production]\n", *lines]), encoding="utf-8")
    return {"PGSERVICEFILE": str(file)} | ({"PGPASSWORD": info.password} if info.password else {})


def last_line(said: str) -> str:
    """Return the last line of a program's output."""
    lines = said.strip().splitlines()
    return " ".join(lines[-1].split()) if lines else "it ended without a message"

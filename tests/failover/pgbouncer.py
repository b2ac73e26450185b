"""PgBouncer in front of an embedded PostgreSQL: each command in session mode and in transaction mode.

    python tests/failover/pgbouncer.py

Other clients use the same pool, and server sessions go round: in transaction mode a client's next transaction is in
another session. In session mode every command must do what it does without a pooler. In transaction mode all but
migrations must; a migration ends well, or stops with a message, and the same command on PostgreSQL itself ends it.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg2
from sqlalchemy import URL

from failover.cluster import Unavailable, free_port, install_packages, wait_until
from failover.run import ENDED, LONGEST_S, counters, start_case, verify_record
from faults.case import Case, Rows, Subject, differences
from faults.subjects import contract, downgrade, own_backfill, upgrade
from faults.world import World
from pipestate.database.embedded import embedded_server
from pipestate.ledger.server_guard import install_server_guard
from support.alembic_runs import ROOT, Migrations
from support.legacy_database import fill_legacy
from support.servers import Database, Postgres

PROGRAM = "/usr/sbin/pgbouncer"
MODES = ("session", "transaction")
LOST = "the migration lock was lost"
NEIGHBOURS = 4
SETTINGS = """[databases]
* = host={host} port=5432 user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = app
pool_mode = {mode}
default_pool_size = 20
server_round_robin = 1
server_reset_query = DISCARD ALL
logfile = {directory}/log
pidfile = {directory}/pid
"""


def gate(world: World) -> Case:
    """Check a gate that is closed."""
    return _command(world, ["pipestate", "gate", "readiness"])


def status(world: World) -> Case:
    return _command(world, ["pipestate", "status"])


def attest(world: World) -> Case:
    return _command(world, ["pipestate", "attest", "preflight/backup-taken", "--by", "dba@example.com"])


def refused_drop(world: World) -> Case:
    """Drop a table under the guard in the server, without a reason."""
    script = str(Path(__file__).with_name("drop_table.py"))
    return _command(world, [script])


def _command(world: World, argv: list[str]) -> Case:
    database = world.postgres.copy_of("expanded and guarded", _fill_guarded)

    def read() -> Rows:
        return {
            "sites": database.rows("SELECT count(*) FROM sites"),
            "jobs": database.rows("SELECT count(*) FROM jobs"),
        }

    return Case(argv, ROOT, {"PIPESTATE_DATABASE_URL": database.text}, read, read(), [database])


def _fill_guarded(database: Database) -> None:
    fill_legacy(database)
    Migrations(database).upgrade("0005")
    with database.begin() as connection:
        install_server_guard(connection)


MIGRATIONS: dict[str, Subject] = {"expand": upgrade, "contract": contract, "restore": downgrade}
SUBJECTS: dict[str, Subject] = {
    **MIGRATIONS,
    "gate": gate,
    "status": status,
    "attest": attest,
    "backfill": own_backfill,
    "verify --record": verify_record,
    "counters": counters,
    "refused drop": refused_drop,
}
CODES = {**ENDED, "gate": (1,), "refused drop": (1,)}


@dataclass
class Pooler:
    """A running PgBouncer."""

    server: URL
    port: int
    mode: str

    def before(self, database: Database) -> str:
        """The database's URL through the pooler; psycopg 3 would prepare statements, which 1.18 cannot carry."""
        url = URL.create(
            "postgresql+psycopg2", "app", host="127.0.0.1", port=self.port, database=database.url.database
        )
        return url.render_as_string(hide_password=False)

    def reconnect(self) -> None:
        """End every server session as soon as it is idle, as the documentation says."""
        with _connected(self.port, "pgbouncer") as connection, connection.cursor() as cursor:
            cursor.execute("RECONNECT")


@contextmanager
def _connected(port: int, database: str) -> Iterator["psycopg2.extensions.connection"]:
    connection = psycopg2.connect(host="127.0.0.1", port=port, user="app", dbname=database)
    connection.autocommit = True
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def open_pooler(server: URL, mode: str) -> Iterator[Pooler]:
    """Start PgBouncer as the user of the server's files: it refuses to run as root."""
    host = str(server.query["host"])
    owner = Path(host).stat()
    with tempfile.TemporaryDirectory(prefix="pipestate-pgbouncer-") as directory:
        port = free_port()
        given = {"host": host, "user": server.username, "port": port, "mode": mode, "directory": directory}
        (Path(directory) / "ini").write_text(SETTINGS.format(**given))
        os.chown(directory, owner.st_uid, owner.st_gid)
        who = {"user": owner.st_uid, "group": owner.st_gid} if os.getuid() == 0 else {}
        process = subprocess.Popen([PROGRAM, "-q", f"{directory}/ini"], **who)  # type: ignore[call-overload]
        try:
            wait_until(lambda: _answers(port), "PgBouncer does not answer")
            yield Pooler(server, port, mode)
        finally:
            process.kill()
            process.wait()


def _answers(port: int) -> bool:
    try:
        with _connected(port, "pgbouncer"):
            return True
    except psycopg2.OperationalError:
        return False


@contextmanager
def neighbours(pooler: Pooler, database: Database) -> Iterator[None]:
    """Other clients of the same pool, with short transactions all the time."""
    over = threading.Event()

    def work() -> None:
        with _connected(pooler.port, str(database.url.database)) as connection, connection.cursor() as cursor:
            while not over.is_set():
                cursor.execute("SELECT pg_sleep(0.002)")

    threads = [threading.Thread(target=work, daemon=True) for _ in range(NEIGHBOURS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@dataclass
class Figures:
    """Commands that were tried, migrations that stopped with the message, and what is wrong."""

    tried: int = 0
    stopped: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"PgBouncer: {self.tried} commands, {self.stopped} migrations in transaction mode stopped with "
            f"the message and were finished on PostgreSQL itself, {len(self.wrong)} wrong"
        )


def try_command(name: str, case: Case, pooler: Pooler, figures: Figures) -> None:
    """Run the command through the pooler, and compare what it leaves."""
    (database,) = case.databases
    pooled = replace(case, variables=dict.fromkeys(case.variables, pooler.before(database)))
    with neighbours(pooler, database):
        code, said = _run(pooled)
    figures.tried += 1
    where = f"{name}, {pooler.mode} mode"
    if "Traceback" in said:
        figures.wrong.append(f"{where}: {said[-800:]}")
    if code not in CODES.get(name, (0,)) and name in MIGRATIONS and pooler.mode == "transaction":
        figures.stopped += LOST in said
        if LOST not in said:
            figures.wrong.append(f"{where}: exit {code}: {said[-800:]}")
        pooler.reconnect()
        code, said = _run(case)
    if code not in CODES.get(name, (0,)):
        figures.wrong.append(f"{where}: exit {code}: {said[-800:]}")
    elif found := differences(case.wanted, case.read()):
        figures.wrong.append(f"{where}: {found}")


def two_at_once(world: World, pooler: Pooler, figures: Figures) -> None:
    """Start the same upgrade twice: one waits for the other."""
    case = upgrade(world)
    (database,) = case.databases
    pooled = replace(case, variables=dict.fromkeys(case.variables, pooler.before(database)))
    programs = [start_case(pooled) for _ in range(2)]
    printed = [program.communicate(timeout=LONGEST_S)[1] for program in programs]
    figures.tried += 1
    codes = [program.returncode for program in programs]
    if codes != [0, 0] or not any("another migration is running" in said for said in printed):
        figures.wrong.append(f"two upgrades at once: exit {codes}: {printed}")
    elif found := differences(case.wanted, case.read()):
        figures.wrong.append(f"two upgrades at once: {found}")
    world.postgres.drop(database)


def _run(case: Case) -> tuple[int, str]:
    with start_case(case) as program:
        out, err = program.communicate(timeout=LONGEST_S)
        return program.returncode, out + err


def try_all() -> Figures:
    """Try every command in both modes."""
    if not Path(PROGRAM).exists():
        install_packages("pgbouncer")
    figures = Figures()
    with embedded_server() as url, tempfile.TemporaryDirectory() as directory:
        server = Postgres(url)
        world = World(server, None, Path(directory))  # type: ignore[arg-type]
        for mode in MODES:
            for name, subject in SUBJECTS.items():
                start, case = time.monotonic(), subject(world)
                with open_pooler(url, mode) as pooler:
                    try_command(name, case, pooler, figures)
                    print(f"{name}, {mode} mode: {time.monotonic() - start:.1f} s", flush=True)
                for database in case.databases:
                    server.drop(database)
        with open_pooler(url, "session") as pooler:
            two_at_once(world, pooler, figures)
        server.drop_templates()
    return figures


def main() -> int:
    try:
        figures = try_all()
    except Unavailable as error:
        print(f"pgbouncer: {error}", file=sys.stderr)
        return 2
    for wrong in figures.wrong:
        print(wrong)
    print(figures)
    return 1 if figures.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Failover in the middle of each command: `python tests/failover/run.py`, or `make failover`. Figures come last.

A round: a command runs on a Patroni cluster; in the middle the primary hands over, or is killed. Then the same command
runs again until it ends well, and what it leaves is compared with a run that nobody disturbed. `--rounds 2` is two
rounds for each command and each kind of failover; `--only contract` is one command.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from failover.cluster import Cluster, Unavailable, open_cluster, wait_until
from failover.finish_jobs import JOBS, SITE, STAGE
from faults.case import Case, Complaint, Rows, Struck, Subject, differences
from faults.subjects import contract, downgrade, own_backfill, upgrade
from faults.world import World
from pipestate.pipeline.counters.start import initialize_stage
from support.alembic_runs import ROOT, Migrations
from support.legacy_database import fill_legacy
from support.servers import Database, Postgres

TRIES, PAUSE_S, LONGEST_S = 40, 1.0, 300
KINDS = ("lost", "doubled", "different", "unfinished", "tracebacks", "no message")
# Words of which one must stand in what a command says that lost its server.
SAID = (
    "connection",
    "takes no writes",
    "read-only",
    "standby",
    "cannot reach",
    "shutting down",
    "terminat",
    "recovery",
)
# A caught-up standby: what is committed before the round cannot be lost in it.
CAUGHT_UP = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= '{position}'"


class Replicated(Postgres):
    """The cluster as a server of tests. libpq may find the standby first, which must know a new database by then."""

    def _execute(self, statement: str) -> None:
        super()._execute(statement)
        if statement.startswith("CREATE DATABASE"):
            self.wait_for_standby()

    def wait_for_standby(self) -> None:
        """Wait until the standby has replayed all that is committed now."""
        position = self.query("SELECT pg_current_wal_lsn()")
        wait_until(
            lambda: int(str(self.query(CAUGHT_UP.format(position=position)))) > 0, "the standby lags behind"
        )

    def query(self, query: str) -> object:
        with self.engine.connect() as connection:
            return connection.exec_driver_sql(query).scalar_one()


def verify_record(world: World) -> Case:
    """Record every check of the old world: a run is there with all of its results, or not at all."""
    database = world.postgres.copy_of("expanded", _fill_expanded)

    def read() -> Rows:
        """Runs that have another number of results than they say."""
        halves = (
            "SELECT r.id, r.passed + r.failed + r.warned + r.errored + r.skipped, count(x) FROM pipestate.run r "
            "LEFT JOIN pipestate.result x ON x.run_id = r.id WHERE r.event = 'verify' GROUP BY r.id "
            "HAVING r.passed + r.failed + r.warned + r.errored + r.skipped <> count(x)"
        )
        some = "SELECT DISTINCT event FROM pipestate.run WHERE event = 'verify'"
        return {"halves": database.rows(halves), "verified": database.rows(some)}

    argv = ["pipestate", "verify", "--record"]
    wanted = {"halves": [], "verified": [("verify",)]}
    return Case(argv, ROOT, {"PIPESTATE_DATABASE_URL": database.text}, read, wanted, [database])


def counters(world: World) -> Case:
    """Finish the jobs of a stage, each under its key."""
    database = world.postgres.copy_of("counted", _fill_counted)

    def read() -> Rows:
        columns = f"{STAGE}_total, {STAGE}_completed, {STAGE}_failed"
        return {"sites": database.rows(f"SELECT {columns} FROM sites WHERE subdomain = '{SITE}'")}

    argv = [str(Path(__file__).with_name("finish_jobs.py"))]
    variables = {"PIPESTATE_DATABASE_URL": database.text}
    return Case(argv, ROOT, variables, read, {"sites": [(JOBS, JOBS, 0)]}, [database])


SUBJECTS: dict[str, Subject] = {
    "expand": upgrade,
    "contract": contract,
    "restore": downgrade,
    "backfill": own_backfill,
    "verify --record": verify_record,
    "counters": counters,
}
FAILOVERS: dict[str, Callable[[Cluster], None]] = {
    "switchover": Cluster.switch_over,
    "primary killed": Cluster.kill_primary,
}
# Exit codes with which a command has ended: verify says 1 where a check fails.
ENDED = {"verify --record": (0, 1, 2)}


@dataclass
class Figures:
    """What was tried, and what is wrong after it. `replication` counts jobs that were confirmed and not yet copied."""

    rounds: int = 0
    hit: int = 0
    replication: int = 0
    complaints: list[Complaint] = field(default_factory=list)

    def __str__(self) -> str:
        wrong = Counter(each.kind for each in self.complaints)
        return (
            f"{self.rounds} rounds ({self.hit} interrupted the command), lost {wrong['lost']}, doubled "
            f"{wrong['doubled']}, {', '.join(f'{wrong[kind]} {kind}' for kind in KINDS[2:])}; confirmed jobs that "
            f"asynchronous replication had not copied: {self.replication}, counted by the rerun"
        )


@dataclass
class Rounds:
    """A cluster, and what is known of the commands on it."""

    cluster: Cluster
    server: Replicated
    world: World
    figures: Figures = field(default_factory=Figures)
    undisturbed: dict[str, tuple[float, Rows]] = field(default_factory=dict)

    def play(self, name: str, failover: str, fraction: float) -> None:
        """Play one round."""
        if name not in self.undisturbed:
            self.undisturbed[name] = self._run_alone(name)
        seconds, wanted = self.undisturbed[name]
        case = self._prepared(name)
        with start_case(case) as program:
            self._wait_for_connection(case, program)
            time.sleep(fraction * seconds)
            FAILOVERS[failover](self.cluster)
            printed = [_finished(program)]
        hit = printed[0][0] not in ENDED.get(name, (0,))
        self._leave(case)
        confirmed = {line.split()[0] for line in printed[0][1].splitlines()} if name == "counters" else set()
        if confirmed:
            kept = case.databases[0].rows(f"SELECT {STAGE}_completed FROM sites WHERE subdomain = '{SITE}'")
            self.figures.replication += max(0, len(confirmed) - int(str(kept[0][0])))
        reported = self._finish(name, case, printed) + differences(wanted, case.read())
        reported += case.complaints(Struck(failover, "\n".join(text for _, _, text in printed)))
        reported += [Complaint("tracebacks", text[-600:]) for _, _, text in printed if "Traceback" in text]
        if (
            hit
            and printed[0][0] not in ENDED.get(name, (0,))
            and not any(word in printed[0][2] for word in SAID)
        ):
            reported.append(Complaint("no message", printed[0][2][-600:]))
        self.figures.rounds += 1
        self.figures.hit += hit
        self.figures.complaints += [Complaint(kind, f"{name}, {failover}: {text}") for kind, text in reported]
        said = (printed[0][2].strip().splitlines() or ["it ended"])[-1]
        print(
            f"{name}, {failover} at {fraction:.0%}: {len(printed)} runs, {len(reported)} complaints; {said}"[
                :300
            ],
            flush=True,
        )
        for database in case.databases:
            self.world.postgres.drop(database)

    def _prepared(self, name: str) -> Case:
        """Lay the case out, and wait until the standby has all of it."""
        self.server.engine.dispose()
        wait_until(
            lambda: bool(self.server.query("SELECT NOT pg_is_in_recovery()")), "the primary does not answer"
        )
        case = SUBJECTS[name](self.world)
        for database in case.databases:
            database.leave()
        self.server.wait_for_standby()
        return case

    def _run_alone(self, name: str) -> tuple[float, Rows]:
        case = self._prepared(name)
        with start_case(case) as program:
            self._wait_for_connection(case, program)
            start = time.monotonic()
            code, out, err = _finished(program)
        assert code in ENDED.get(name, (0,)), (code, out, err)
        rows = case.read()
        wrong = differences(case.wanted, rows)
        assert not wrong, wrong
        seconds = time.monotonic() - start
        for database in case.databases:
            self.world.postgres.drop(database)
        return seconds, rows

    def _finish(self, name: str, case: Case, printed: list[tuple[int, str, str]]) -> list[Complaint]:
        """Run the command again until it ends well, at least once: what it had confirmed may be lost."""
        for _ in range(TRIES):
            with start_case(case) as program:
                printed.append(_finished(program))
            if printed[-1][0] in ENDED.get(name, (0,)):
                return []
            time.sleep(PAUSE_S)
        return [Complaint("unfinished", f"exit {printed[-1][0]}: {printed[-1][2][-600:]}")]

    def _wait_for_connection(self, case: Case, program: "subprocess.Popen[str]") -> None:
        wait_until(
            lambda: program.poll() is not None or self.world.count_sessions(case.databases) > 0,
            "the command does not connect",
        )

    def _leave(self, case: Case) -> None:
        self.world.postgres.engine.dispose()
        for database in case.databases:
            database.leave()


def start_case(case: Case) -> "subprocess.Popen[str]":
    module = [] if case.argv[0].endswith(".py") else ["-m"]
    return subprocess.Popen(
        [sys.executable, *module, *case.argv],
        cwd=case.cwd,
        env={**os.environ, **case.variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _finished(program: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = program.communicate(timeout=LONGEST_S)
    return program.returncode, out, err


def _fill_expanded(database: Database) -> None:
    fill_legacy(database)
    Migrations(database).upgrade("0005")


def _fill_counted(database: Database) -> None:
    Migrations(database).upgrade("0005")
    database.run(f"INSERT INTO sites (subdomain) VALUES ('{SITE}')")
    with database.begin() as connection:
        initialize_stage(connection, SITE, STAGE, JOBS)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=list(SUBJECTS), action="append")
    options = parser.parse_args()
    chance, start = random.Random(29), time.monotonic()
    try:
        with open_cluster() as cluster, tempfile.TemporaryDirectory() as directory:
            cluster.wait_whole()
            server = Replicated(cluster.url)
            world = World(server, None, Path(directory))  # type: ignore[arg-type]
            rounds = Rounds(cluster, server, world)
            for name in options.only or SUBJECTS:
                for failover in FAILOVERS:
                    for _ in range(options.rounds):
                        rounds.play(name, failover, chance.uniform(0.1, 0.8))
            rounds.world.postgres.drop_templates()
    except Unavailable as error:
        print(f"failover: {error}", file=sys.stderr)
        return 2
    for complaint in rounds.figures.complaints:
        print(f"{complaint.kind}: {complaint.text}")
    print(f"{rounds.figures}; {time.monotonic() - start:.0f} s")
    return 1 if rounds.figures.complaints else 0


if __name__ == "__main__":
    sys.exit(main())

import os
from time import monotonic

import pytest

from pipestate.core.errors import Unreachable
from pipestate.rehearse.child_process import Trace
from pipestate.rehearse.clone import tables_of, vacuum
from pipestate.rehearse.run import read_figures
from pipestate.rehearse.watch import WRITER, PolledConnection, RepeatedMessage, Watcher, run_tasks
from support.servers import Database

ODD = (
    'CREATE SCHEMA "S.x"',
    'CREATE TABLE "S.x"."a ""t" (id integer)',
    "CREATE TABLE part (id integer) PARTITION BY RANGE (id)",
    "CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (1000)",
    "INSERT INTO part SELECT generate_series(1, 500)",
    "CREATE TABLE alembic_version (version_num text)",
)


def test_the_tables_that_somebody_may_wait_for(pg: Database) -> None:
    pg.run(*ODD)
    vacuum(pg.url)
    tables = tables_of(pg.url)
    assert {table.name: table.rows for table in tables} == {"part1": 500, "part": 0, 'S.x.a "t': 0}
    odd = next(table for table in tables if table.name.startswith("S.x"))
    assert read_figures(pg.url, [odd]) == {'S.x.a "t': (0, None)}
    with pg.begin() as reader:
        reader.exec_driver_sql(f"SELECT count(*) FROM {odd.quoted}")
        _, age = read_figures(pg.url, [odd])['S.x.a "t']
        assert age is not None
        assert age >= 0
    watcher = Watcher(pg.url, tables, Trace())  # it can prepare its probes for all of them
    watcher.close()


def test_a_table_that_the_role_may_not_touch_is_named_and_not_probed(pg: Database) -> None:
    pg.run("CREATE TABLE secret AS SELECT 1 AS id", "CREATE TABLE orders AS SELECT 1 AS id")
    role = f"plain_{pg.url.database}"
    pg.run(f"CREATE ROLE {role} LOGIN", f"GRANT ALL ON orders TO {role}")
    vacuum(pg.url)
    receiver, sender = os.pipe()
    watcher = Watcher(pg.url.set(username=role), tables_of(pg.url), Trace())
    probes = [task for each in watcher.probes.values() for task in each]
    try:
        with os.fdopen(receiver, "rb", buffering=0) as pipe:
            while sum(probe.ended is not None for probe in probes) < 2:
                run_tasks(probes, pipe)
            os.close(sender)
            assert watcher.wait(pipe)
            seen = watcher.finish()
    finally:
        watcher.close()
        pg.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")
    assert seen.not_probed == {"secret": "permission denied for table secret"}


def test_a_probe_waits_as_long_as_a_writer_would(pg: Database) -> None:
    pg.run("CREATE TABLE orders (id integer)")
    line, waited = PolledConnection(pg.url), []
    task = RepeatedMessage(
        line,
        f"BEGIN; LOCK TABLE orders IN {WRITER} MODE; ROLLBACK",
        0.005,
        lambda _rows, sent, now: waited.append(now - sent),
    )
    receiver, sender = os.pipe()
    with pg.begin() as holder:
        holder.exec_driver_sql("LOCK TABLE orders IN SHARE MODE")
        end = monotonic() + 0.2
        while monotonic() < end:
            run_tasks([task], receiver)
        assert waited == []
    while not waited:
        run_tasks([task], receiver)
    line.close()
    for end_ in (receiver, sender):
        os.close(end_)
    assert waited[0] >= 0.2


def test_a_clone_that_vanishes_is_one_sentence(pg: Database) -> None:
    line = PolledConnection(pg.url)
    pg.run(f"SELECT pg_terminate_backend({line.pid})")
    with pytest.raises(Unreachable, match=r"does not answer: .*use a new one; production was not touched"):
        line.query("SELECT 1")

"""Any sequence of jobs, redeliveries, restarts and coordinators, beside a model in plain Python."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from pipestate.core.errors import PipestateError
from pipestate.pipeline import (
    STAGES,
    advance_stage,
    claim_coordinator_enqueue,
    finish_job,
    initialize_stage,
    should_trigger_coordinator,
)
from support.alembic_runs import Migrations
from support.long_form import times
from support.servers import Database, Postgres, Sqlite

SITE = "a.gov"
STEP = {"fetch": 0, "ocr": 1, "compilation": 2, "extraction": 2, "deploy": 3, "completed": 4}


@dataclass
class Model:
    """One site, as a reader of the documentation would keep it on paper."""

    current: str | None = None
    claimed: bool = False
    counts: dict[str, list[int]] = field(default_factory=lambda: {stage: [0, 0, 0] for stage in STAGES})
    keys: set[tuple[str, str]] = field(default_factory=set)
    claims: int = 0

    def finish(self, stage: str, key: str | None, failed: bool) -> object:
        count = self.counts[stage]
        if self.current is None or count[2] == 0:
            return "StageNotStarted"
        if key is not None and (stage, key) in self.keys:
            return (*count, False)
        if key is not None:
            self.keys.add((stage, key))
        count[failed] += 1
        return (*count, self.claim() if self.is_in(stage) else False)

    def claim(self) -> bool:
        if self.claimed or self.current not in STAGES or not all(map(self.done, self.step(self.current))):
            return False
        self.claimed = True
        self.claims += 1
        return True

    def ready(self, stage: str) -> bool:
        peers = self.step(stage)
        some = any(self.counts[peer][2] for peer in peers)
        return self.is_in(stage) and some and all(map(self.done, peers)) and not self.claimed

    def initialize(self, stage: str, total: int, restart: bool) -> object:
        if self.is_in(stage) and (self.counts[stage][2] or self.claimed) and not restart:
            return "StageRunning"
        return self.start(stage, {stage: total})

    def advance(self, to: str, totals: dict[str, int]) -> object:
        if self.current is not None:
            if STEP[to] < STEP[self.current] or self.current == to == "completed":
                return "WrongTransition"
            busy = self.current == to or any(self.counts[stage][2] for stage in totals)
            if STEP[to] == STEP[self.current] and busy:
                return "StageRunning"
        if to == "completed":
            self.current, self.claimed, self.claims = to, False, 0
            return False
        return self.start(to, totals)

    def start(self, to: str, totals: dict[str, int]) -> bool:
        fresh = set(totals) if self.is_in(to) else set(self.step(to))
        for stage in fresh:
            self.counts[stage] = [0, 0, totals.get(stage, 0)]
        self.keys = {(stage, key) for stage, key in self.keys if self.counts[stage][2] and stage not in fresh}
        self.current, self.claimed, self.claims = to, False, 0
        return not any(totals.values()) and self.claim()

    def is_in(self, stage: str) -> bool:
        return self.current is not None and STEP[self.current] == STEP[stage]

    def step(self, stage: str) -> list[str]:
        return [name for name in STAGES if STEP[name] == STEP[stage]]

    def done(self, stage: str) -> bool:
        completed, failed, total = self.counts[stage]
        return completed + failed >= total


def totals_for(to: str) -> st.SearchStrategy[dict[str, int]]:
    if to == "completed":
        return st.just({})
    peers = {stage: st.integers(0, 3) for stage in STAGES if STEP[stage] == STEP[to] and stage != to}
    return st.fixed_dictionaries({to: st.integers(0, 3)}, optional=peers)


# Mostly ocr and what follows it, so that sequences meet instead of passing each other.
busy = st.sampled_from(["ocr", "ocr", "compilation", "extraction", *STAGES])
operations = st.one_of(
    st.tuples(st.just("finish"), busy, st.none() | st.sampled_from("abcd"), st.booleans()),
    st.tuples(st.just("finish"), busy, st.none() | st.sampled_from("abcd"), st.booleans()),
    st.tuples(st.just("initialize"), busy, st.integers(0, 3), st.booleans()),
    st.sampled_from([*STAGES, "completed"]).flatmap(
        lambda to: st.tuples(st.just("advance"), st.just(to), totals_for(to))
    ),
    st.tuples(st.just("claim")),
)


def perform(conn: Connection, operation: tuple[object, ...]) -> object:
    match operation:
        case ("finish", str(stage), key, failed):
            error = "broken" if failed else None
            return tuple(
                finish_job(conn, SITE, stage, error=error, job_key=None if key is None else str(key))
            )
        case ("initialize", str(stage), int(total), bool(restart)):
            return initialize_stage(conn, SITE, stage, total, restart=restart)
        case ("advance", str(to), dict(totals)):
            return advance_stage(conn, SITE, to=to, totals=totals)
        case _:
            return claim_coordinator_enqueue(conn, SITE)


def expect(model: Model, operation: tuple[object, ...]) -> object:
    match operation:
        case ("finish", str(stage), key, bool(failed)):
            return model.finish(stage, None if key is None else str(key), failed)
        case ("initialize", str(stage), int(total), bool(restart)):
            return model.initialize(stage, total, restart)
        case ("advance", str(to), dict(totals)):
            return model.advance(to, totals)
        case _:
            return model.claim()


def state(conn: Connection) -> tuple[object, ...]:
    columns = [f"{stage}_{what}" for stage in STAGES for what in ("completed", "failed", "total")]
    query = f"SELECT current_stage, coordinator_enqueued, {', '.join(columns)} FROM sites"
    keys = conn.exec_driver_sql("SELECT stage, job_key FROM pipeline_job")
    claims = conn.exec_driver_sql("SELECT count(*) FROM pipeline_claim").scalar()
    return (*conn.exec_driver_sql(query).one(), {tuple(row) for row in keys}, claims)


def fill(database: Database) -> None:
    Migrations(database).upgrade("0005")
    database.run(f"INSERT INTO sites (subdomain) VALUES ('{SITE}')")


@pytest.fixture
def one_site(bed: Postgres | Sqlite) -> Iterator[Database]:
    database = bed.copy_of("one site", fill)
    yield database
    bed.drop(database)


@settings(
    max_examples=times(30, long=200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(sequence=st.lists(operations, max_size=25))
def test_whatever_the_sequence_counts_are_exact_and_a_stage_run_has_one_claim(
    one_site: Database, sequence: list[tuple[object, ...]]
) -> None:
    model = Model()
    with one_site.engine.connect() as conn:
        for operation in sequence:
            expected = expect(model, operation)
            try:
                got = perform(conn, operation)
            except PipestateError as error:
                got = type(error).__name__
            assert got == expected, operation
            counts = [number for stage in STAGES for number in model.counts[stage]]
            assert state(conn) == (model.current, model.claimed, *counts, model.keys, int(model.claimed))
            assert model.claims <= 1
            for stage in STAGES:
                assert should_trigger_coordinator(conn, SITE, stage) == model.ready(stage)
        conn.rollback()

"""The SQL of the pipeline as the drivers get it, kept as files that a DBA can read without running Python.

`make rendered` writes them anew; look at the difference before you commit it.
"""

import os
from collections.abc import Iterator
from itertools import combinations

import pytest

from pipestate.pipeline import backfill
from pipestate.pipeline.backfill import stale_rows
from pipestate.pipeline.counters.finish_sql import CLAIM_SQL, FINISH_SQL
from pipestate.pipeline.counters.start import COMPLETE_SQL, start_sql
from pipestate.pipeline.sql import ENGINES
from pipestate.pipeline.stages import STAGES, step_of
from support.alembic_runs import ROOT

RENDERED = ROOT / "tests" / "rendered"
WRITE = "PIPESTATE_WRITE_RENDERED" in os.environ
FOLDERS = ("counters", "backfill")

Named = tuple[str, str]  # what a statement is for, and the statement


def finishing(engine: str, stage: str) -> Iterator[Named]:
    sql = FINISH_SQL[engine, stage]
    only = {"finish_late": "sqlite", "finish_locked": "postgresql", "finish_keyed": "postgresql"}
    for name in ("finish", "finish_late", "finish_locked", "finish_keyed", "increment"):
        if only.get(name, engine) == engine:
            for how, statement in zip(("completed", "failed"), getattr(sql, name), strict=True):
                yield f"{name}: a job has {how}", statement
    if engine == "sqlite":
        yield "remember: a job's key", sql.remember
    yield "read: the counters", sql.read
    yield "trigger: should the coordinator start?", sql.trigger
    yield "record_claim", sql.record_claim


def starting(engine: str, stage: str) -> Iterator[Named]:
    step = step_of(stage)
    groups = (each for size in range(1, len(step) + 1) for each in combinations(step, size))
    for started in (each for each in groups if stage in each):
        sql = start_sql(engine, stage, frozenset(started))
        what = " and ".join(started)
        if len(started) == 1:
            yield f"initialize {what}", sql.initialize
            yield f"restart {what}", sql.restart
        yield f"advance to {stage}, starting {what}", sql.advance
        yield f"forget the jobs of what starts: {what}", sql.forget
        if sql.peers:
            yield "forget the jobs of an idle peer as well", sql.forget_idle


def any_stage(engine: str) -> Iterator[Named]:
    yield "claim: the coordinator of the step that the site is in", CLAIM_SQL[engine].claim
    yield "forget_claim", CLAIM_SQL[engine].forget_claim
    yield "current_stage", CLAIM_SQL[engine].current_stage
    yield "complete", COMPLETE_SQL[engine]


def backfilling(engine: str) -> Iterator[Named]:
    yield "how many rows are stale, and how many expect documents", stale_rows.COUNT_SQL[engine]
    yield "a page of stale rows", stale_rows.READ_SQL[engine]
    yield from (("before a batch", statement) for statement in backfill.PREPARE_SQL[engine])
    yield "a batch", backfill.UPDATE_SQL[engine]


def files() -> dict[str, list[Named]]:
    found = {
        f"counters/{engine}/{stage}.sql": [*finishing(engine, stage), *starting(engine, stage)]
        for engine in ENGINES
        for stage in STAGES
    }
    for engine in ENGINES:
        found[f"counters/{engine}/any-stage.sql"] = list(any_stage(engine))
        found[f"backfill/{engine}.sql"] = list(backfilling(engine))
    return found


FILES = files()


@pytest.mark.parametrize("name", FILES)
def test_the_statements_are_what_they_were(name: str) -> None:
    written = "\n".join(f"-- {title}\n{statement};\n" for title, statement in FILES[name])
    kept = RENDERED / name
    if WRITE:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(written)
    assert written == kept.read_text(), f"{name} is another now: make rendered, then look at the difference"


def test_every_kept_file_is_still_written() -> None:
    kept = {
        str(path.relative_to(RENDERED)) for folder in FOLDERS for path in (RENDERED / folder).rglob("*.sql")
    }
    assert kept == set(FILES)


def test_every_statement_is_kept() -> None:
    """A statement that a stage has and no file shows would be one that nobody reviews."""
    shown = {statement for named in FILES.values() for _, statement in named}
    for (engine, stage), sql in FINISH_SQL.items():
        for name in sql.__slots__:
            value = getattr(sql, name)
            used = not (engine == "postgresql" and name in ("finish_late", "remember")) and not (
                engine == "sqlite" and name in ("finish_locked", "finish_keyed")
            )
            for statement in value if isinstance(value, tuple) else (value,):
                assert (statement in shown) == used, f"{engine} {stage} {name}"

"""Compatibility of today's statements with the pending revisions: prepared before and after each.

Preparing and planning a statement on a server shows its errors, and the columns that it would return.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, text
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import ConfigError
from pipestate.core.text import many
from pipestate.database import connections as db
from pipestate.database.connections import engine_of, run_own, send
from pipestate.database.drivers import message, sqlstate
from pipestate.database.queries import named_query
from pipestate.database.urls import shown
from pipestate.ledger.record import COMPAT, Rehearsed
from pipestate.ledger.statements import Objects, changed_names, make_watch, read_objects
from pipestate.rehearse.child_process import (
    Begins,
    Begun,
    Failure,
    Trace,
    ini_directory,
    near,
    no_progress,
    refusal,
    run_child,
)
from pipestate.rehearse.clone import HIDDEN_COLUMN, Job, migrated
from pipestate.rehearse.run import start, write_record
from pipestate.runbook.statement import statements, tokens

PARAMETERS = "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'pipestate_compat'"
COLUMNS = named_query("rehearse", "returned_columns")
REQUIRED = named_query("rehearse", "required_columns")
NO_RIGHTS = "42501"
NOT_ONE = "it is not one statement"
EXTENSION = "pg_stat_statements"
UTILITY = "a command that cannot be prepared"
HIDDEN = "its text is hidden from this role: GRANT pg_read_all_stats"
QUERIES = text(named_query("rehearse", "statements"))


Column = tuple[str, str]  # name and type


@dataclass(frozen=True, slots=True)
class Prepared:
    """The error of preparing or planning a statement, and the columns that it returns, if known."""

    error: str | None
    columns: tuple[Column, ...] | None = None
    plan_error: str | None = None


States = Sequence[tuple[str | None, Sequence[Prepared]]]  # of all statements, after each revision


def prepare(url: URL, given: Sequence[str]) -> list[Prepared]:
    """Prepare and plan each statement, and read its columns, without running it."""
    with db.autocommit(url) as connection:
        return [_prepared(connection, statement) for statement in given]


def _prepared(connection: Connection, statement: str) -> Prepared:
    if statement == "<insufficient privilege>":
        return Prepared(HIDDEN)
    if len(statements(tokens(statement, "postgresql"))) != 1:  # a second one would be run
        return Prepared(NOT_ONE)
    try:
        send(connection, "BEGIN", "SET LOCAL plan_cache_mode = force_generic_plan")
        send(connection, f"PREPARE pipestate_compat AS {statement}")
        ((count,),) = run_own(connection, PARAMETERS)
        arguments = f"({', '.join(['NULL'] * count)})" if count else ""
        execute = f"EXECUTE pipestate_compat{arguments}"
        plan_error = _plan_error(connection, execute)
        return Prepared(None, tuple(_columns(connection, execute)) or None, plan_error)
    except DBAPIError as error:
        said = message(error).partition("\n")[0]
        is_utility = said == f'syntax error at or near "{statement.split()[0]}"'
        return Prepared(UTILITY if is_utility else said)
    finally:
        send(connection, "ROLLBACK", "DEALLOCATE ALL")


def _plan_error(connection: Connection, execute: str) -> str | None:
    """Return the error of planning a statement, or of a NULL that it inserts into a NOT NULL column.

    Parameters are planned as unknown values. Rights are ignored: the statement may belong to another role.
    """
    send(connection, "SAVEPOINT pipestate_plan")
    try:
        plans = connection.exec_driver_sql(
            f"EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) {execute}", execution_options={"no_parameters": True}
        ).scalar_one()
        return next(_missing_values(connection, plans[0].get("Plan", {})), None)
    except DBAPIError as error:
        send(connection, "ROLLBACK TO SAVEPOINT pipestate_plan")
        return None if sqlstate(error) == NO_RIGHTS else message(error).partition("\n")[0]


def _missing_values(connection: Connection, plan: dict[str, Any]) -> Iterator[str]:
    """Find the NOT NULL columns that an INSERT leaves NULL; a plan lists the values of all columns."""
    inner = plan.get("Plans", [])
    if plan.get("Operation") == "Insert" and inner:
        values, table = inner[0].get("Output", []), plan["Relation Name"]
        for number, name in run_own(connection, REQUIRED, schema=plan["Schema"], table=table):
            if number <= len(values) and values[number - 1].startswith("NULL::"):
                yield f'null value in column "{name}" of relation "{table}" violates not-null constraint'
    for each in inner:
        yield from _missing_values(connection, each)


def _columns(connection: Connection, execute: str) -> Iterator[Column]:
    """Describe the columns of a prepared SELECT: create an empty table of them."""
    try:
        send(connection, f"CREATE TEMPORARY TABLE pipestate_columns AS {execute} WITH NO DATA")
    except DBAPIError:
        return  # it writes, or two of its columns share a name
    for name, kind in connection.exec_driver_sql(COLUMNS):
        if not re.match(HIDDEN_COLUMN, name):
            yield str(name), str(kind)


def read_statements(source: str, url: URL) -> list[str]:
    """Read the statements of a file, or those of a database in pg_stat_statements."""
    given = list(_of_server(url) if source == EXTENSION else _of_file(Path(source)))
    if not given:
        raise ConfigError(f"{source} holds no statement: there is nothing to compare")
    return given


def _of_file(path: Path) -> Iterator[str]:
    try:
        written = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: --statements takes a file of SQL, or {EXTENSION}") from error
    for statement in statements(tokens(written, "postgresql")):
        end = statement[-1]
        yield written[statement[0].start : end.start + len(end.text)]


def _of_server(url: URL) -> Iterator[str]:
    if engine_of(url).IS_FILE:
        raise ConfigError(f"{shown(url)} has no {EXTENSION}: give a file of SQL")
    with db.reader(url) as connection:
        try:
            found = connection.execute(QUERIES).scalars().all()
        except DBAPIError as error:
            raise ConfigError(
                f"{EXTENSION} cannot be read on {shown(url)}: create the extension, or give --statements a file of SQL"
            ) from error
    yield from (str(each) for each in found)


@dataclass(frozen=True, slots=True)
class StatementResult:
    """A statement and its outcome; `revision` caused it, in the file `path`."""

    statement: str
    what: str
    revision: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Compat:
    """The outcome for today's statements."""

    clone: str
    before: str | None
    after: str | None
    statements: int
    broken: tuple[StatementResult, ...]
    changed: tuple[StatementResult, ...]
    unprepared: tuple[StatementResult, ...]
    failure: Failure | None = None
    duration_ms: float = 0.0

    @property
    def exit_code(self) -> int:
        return 1 if self.broken or self.failure else 0


def compat(
    job: Job,
    wanted: Sequence[str],
    given: Sequence[str],
    say: Callable[[str], None] = print,
    *,
    since: Sequence[str] = (),
    record: bool = False,
    begins: Begins = no_progress,
) -> Compat:
    """Prepare the statements on the clone before and after each pending revision after `since`."""
    if engine_of(job.clone).IS_FILE:
        raise ConfigError(f"{shown(job.clone)} is not PostgreSQL: compat prepares statements on a server")
    position, needed, files = start(job, wanted, since, say, record=record)
    states: list[tuple[str | None, Sequence[Prepared]]] = [(None, prepare(job.clone, given))]
    if all(each.error for each in states[0][1]):
        raise ConfigError(
            f"none of the {len(given)} statements can be prepared on the clone as it is, so there is nothing to compare: "
            f"{states[0][1][0].error} (parameters are written $1, $2)"
        )
    say(f"preparing {many(len(given), 'statement')} before and after {many(len(needed), 'revision')}")
    begin = time.monotonic()
    with db.reader(job.clone) as connection:
        before = read_objects(connection)
    with migrated(job.clone):

        def take(begun: Begun) -> None:
            begins(begun)
            if len(trace.begun) > 1:  # the revision before it is committed
                states.append((trace.begun[-2].revision, prepare(job.clone, given)))

        trace = Trace(begins=take)
        run_child(job, [("upgrade", revision) for revision in needed], trace, waits=True)
        if not trace.begun:
            raise refusal(trace)
        if trace.failure is None:
            states.append((trace.begun[-1].revision, prepare(job.clone, given)))
        made = compare(job, position.current, given, states, trace.failure)
    made = replace(made, duration_ms=(time.monotonic() - begin) * 1000)
    if record:
        write_record(job, _as_record(made, files, _watch(job, made, files, before, given)))
    return made


def _watch(
    job: Job, made: Compat, files: Mapping[str, str], before: Objects, given: Sequence[str]
) -> Mapping[str, Any] | None:
    """List the statements that `disuse` watches, and those that the revisions leave untouched."""
    with db.reader(job.clone) as connection:
        changed = changed_names(before, read_objects(connection)) if made.failure is None else []
    touched = {each.statement for each in (*made.broken, *made.changed, *made.unprepared)}
    broken = [(each.statement, each.revision) for each in made.broken]
    assert job.production is not None, "`start` refuses this earlier"
    with db.reader(job.production) as connection:
        return make_watch(connection, changed, files, broken, set(given) - touched)


def _as_record(made: Compat, files: Mapping[str, str], watch: Mapping[str, Any] | None) -> Rehearsed:
    """Make the ledger's row; after a failed revision the effect of later ones is unknown."""
    failed = made.failure is not None
    return Rehearsed(
        kind=COMPAT,
        revision=made.before,
        target=made.after,
        files=dict(files),
        clone=made.clone,
        ok=made.exit_code == 0,
        duration_ms=round(made.duration_ms, 1),
        statements=made.statements,
        broken=None if failed else len(made.broken),
        changed=None if failed else len(made.changed),
        unprepared=len(made.unprepared),
        watch=watch,
    )


def compare(
    job: Job, before: str | None, given: Sequence[str], prepared: States, failure: Failure | None
) -> Compat:
    """Find broken statements and changed columns, each with its revision."""
    unprepared: list[StatementResult] = []
    broken: list[StatementResult] = []
    changed: list[StatementResult] = []
    for number, statement in enumerate(given):
        states = [(revision, found[number]) for revision, found in prepared]
        was, now = states[0][1], states[-1][1]
        if was.error:
            unprepared.append(StatementResult(statement, was.error))
        elif broke := _breakage([(revision, _error(was, each)) for revision, each in states]):
            broken.append(StatementResult(statement, broke[1], broke[0], _path(job, broke[0])))
        elif now.columns != was.columns:
            revision = _since(states)
            changed.append(StatementResult(statement, _difference(was, now), revision, _path(job, revision)))
    with db.reader(job.clone) as connection:
        after = job.locate(connection).current
    return Compat(
        job.clone_name, before, after, len(given), tuple(broken), tuple(changed), tuple(unprepared), failure
    )


def _path(job: Job, revision: str) -> str:
    return near(str(job.migrations.by_id[revision].path), ini_directory(job.project))


def _error(first: Prepared, each: Prepared) -> str | None:
    """Return the error of a statement; planning errors count only if planning worked before."""
    return each.error or (each.plan_error if first.plan_error is None else None)


def _breakage(errors: Sequence[tuple[str | None, str | None]]) -> tuple[str, str] | None:
    """Find the revision that breaks a statement, for good or until a later one, with its error."""
    last = next((number for number in reversed(range(len(errors))) if errors[number][1]), None)
    if last is None:
        return None
    first = last
    while errors[first - 1][1]:
        first -= 1
    breaks, error = errors[first][0], errors[last][1]
    assert breaks is not None
    repaired = f"; it works again after {errors[last + 1][0]}" if last + 1 < len(errors) else ""
    return breaks, f"{error}{repaired}"


def _since(states: Sequence[tuple[str | None, Prepared]]) -> str:
    """Find the revision from which on a statement returns its final columns."""
    last, since = states[-1][1], states[-1][0]
    for revision, each in reversed(states):
        if each.columns != last.columns:
            break
        since = revision
    assert since is not None
    return since


def _difference(before: Prepared, after: Prepared) -> str:
    """Describe lost, new and retyped columns of a statement."""
    was, now = dict(before.columns or ()), dict(after.columns or ())
    parts = [f"without {name}" for name in was if name not in now]
    parts += [f"with {name} ({kind})" for name, kind in now.items() if name not in was]
    parts += [
        f"{name} as {kind}, not {was[name]}" for name, kind in now.items() if was.get(name, kind) != kind
    ]
    return f"returns {', '.join(parts) or 'its columns in another order'}"

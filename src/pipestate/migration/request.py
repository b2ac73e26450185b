"""The request of a gate: the checks of its phase at this revision, and the tables that the change needs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from alembic import op
from alembic.runtime.migration import MigrationContext

from pipestate.database.connections import choose
from pipestate.migration import sql
from pipestate.migration.alembic import beside, resolve, resolve_below
from pipestate.migration.failure import MigrationError
from pipestate.migration.run import current_run
from pipestate.migration.sqlite import catalog
from pipestate.project.graph import Position
from pipestate.runbook.files import runbook_directory, runbooks_at
from pipestate.runbook.model import Check, Level, Phase, Runbook
from pipestate.verify.select import SelectedCheck, find_phases, select_checks

OTHER_CASE = "{named} does not exist, and {other} does: write the name in the revision as it is spelt there"


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables that the change needs, and whether they may be absent."""

    names: tuple[str, ...]
    may_be_gone: bool
    also: str | None = None  # a query for more tables to lock


@dataclass(frozen=True, slots=True)
class GateRequest:
    """A phase as it is evaluated now: all of its `checks`, and those that are evaluated `again` under the lock.

    `position` is the database's revision, with the files of the chain: a check may compare those with a rehearsal's.
    """

    runbook: Runbook
    phase: Phase
    revision: str
    checks: tuple[SelectedCheck, ...]
    again: tuple[SelectedCheck, ...]
    position: Position

    @property
    def name(self) -> str:
        return f"{self.runbook.name}/{self.phase.name}"

    @property
    def evaluated(self) -> list[SelectedCheck]:
        """List the checks that apply now, warnings included."""
        return [each for each in self.checks if each.skipped is None]

    @property
    def blocking(self) -> list[SelectedCheck]:
        """List the checks that can close the gate now."""
        return [each for each in self.checks if _is_blocking(each)]


def read_request(
    name: str,
    revision: str,
    *,
    tables: Sequence[str] = (),
    recheck: Sequence[str] | None = (),
    insist: Sequence[str] = (),
) -> GateRequest:
    """Find the phase; refuse a runbook that does not open this revision, or lacks an item of `insist`.

    Without `recheck`, the blocking checks that read one of `tables` are evaluated again under the lock.
    """
    runbook, phase = find_phase(op.get_context(), name)
    phase = phase if phase.opens else replace(phase, opens=(revision,))
    if revision not in phase.opens:
        raise MigrationError(
            f"{runbook.path}:{phase.line}: phase {phase.name} opens {', '.join(phase.opens)}, "
            f"not {revision}: add it to `opens` in the front matter, or name the right phase in the revision"
        )
    position = current_position(revision)
    _refuse_other_branches(op.get_context(), runbook, phase, revision)
    checks = tuple(select_checks(runbook, phase, position, op.get_context().dialect.name))
    if recheck is None:
        again = tuple(each for each in checks if _is_blocking(each) and _reads(each, tables))
    else:
        again = tuple(each for each in checks if each.check.id in recheck)
    request = GateRequest(runbook, phase, revision, checks, again, position)
    _require(request, [*insist, *(recheck or ())])
    return request


def _is_blocking(selected: SelectedCheck) -> bool:
    return selected.skipped is None and selected.check.level is Level.BLOCK


def _reads(selected: SelectedCheck, tables: Sequence[str]) -> bool:
    """Say whether a check names one of the tables, comments included."""
    names = [re.escape(table.rpartition(".")[2]) for table in tables]
    words = rf"(?<!\w)(?:{'|'.join(names)})(?!\w)"
    return (
        isinstance(selected.check, Check) and re.search(words, selected.check.sql, re.IGNORECASE) is not None
    )


def _refuse_other_branches(context: MigrationContext, runbook: Runbook, phase: Phase, revision: str) -> None:
    """Refuse a script if a check depends on another branch: a script cannot read that branch's revisions."""
    if not context.as_sql or context.script is None:
        return
    others = beside(context.script, revision)
    for scope in (phase, *phase.checks):
        for named in (scope.from_, scope.until):
            if named in others:
                raise MigrationError(
                    f"{runbook.path}:{scope.line}: phase {phase.name} depends on revision {named} of another branch, and a "
                    f"script for {revision} cannot know whether the database has it: run it without --sql"
                )


def _require(request: GateRequest, ids: Sequence[str]) -> None:
    """Refuse a phase in which a check or sign-off of `ids` is missing, does not block, or does not apply now."""
    there = {each.check.id: each for each in request.checks}
    for id_ in dict.fromkeys(ids):
        found = there.get(id_)
        fault = None
        if found is None:
            fault = "does not have: put it back into the runbook"
        elif found.check.level is not Level.BLOCK:
            fault = "has with `level: warn`, which closes nothing: take that line out"
        elif found.skipped is not None:
            fault = f"does not ask now ({found.skipped}): change its `from`, `until` or `dialect`"
        if fault is not None:
            raise MigrationError(
                f"{request.runbook.path}:{request.phase.line}: revision {request.revision} insists on {id_}, "
                f"which phase {request.phase.name} {fault}"
            )


def find_phase(context: MigrationContext, name: str) -> tuple[Runbook, Phase]:
    """Find a phase by `runbook/phase` or `phase` beside the project's alembic.ini."""
    directory = runbooks_of(context)
    (found,) = find_phases(runbooks_at(name, directory), [name])
    return found


def runbooks_of(context: MigrationContext) -> Path:
    """Find the directory of the runbooks: beside the configuration, else in the script directory."""
    if context.script is None:
        raise MigrationError(
            "this program runs revisions without Alembic's environment, so no runbook is found: give it to "
            'MigrationContext.configure(..., opts={"script": ScriptDirectory.from_config(config), ...})'
        )
    files = (getattr(context.config, name, None) for name in ("config_file_name", "toml_file_name"))
    config = next((Path(file) for file in files if file and Path(file).is_file()), None)
    return runbook_directory(config, Path(context.script.dir))


def current_position(revision: str) -> Position:
    """Return the database's position from Alembic's context; a script starts below its revision."""
    context = op.get_context()
    assert context.script is not None
    if not context.as_sql:
        return resolve(context.script, tuple(context.get_current_heads()))
    return resolve_below(context.script, revision)


def down_revisions(context: MigrationContext, revision: str) -> tuple[str, ...]:
    """List the revisions directly below this one."""
    assert context.script is not None
    found = context.script.get_revision(revision)
    before = found.down_revision if found is not None else None
    return (before,) if isinstance(before, str) else tuple(before or ())


def running_revision(given: str | None) -> str:
    """Name the revision that runs: the one that the caller gave, else the one that the environment knows."""
    revision = given or current_run().revision
    if not revision:
        raise MigrationError(
            "the gate does not know which revision asks it: write gate(..., revision=revision)"
        )
    return revision


def refuse_other_case(tables: Sequence[str], columns: Mapping[str, Sequence[str]]) -> None:
    """Refuse each name that exists only in another spelling: `may_be_gone` would treat it as dropped."""
    by_engine = {"postgresql": _refuse_on_postgresql, "sqlite": _refuse_on_sqlite}
    choose(by_engine, op.get_context().dialect.name)([*tables, *columns], columns)


def _refuse_on_sqlite(tables: Sequence[str], columns: Mapping[str, Sequence[str]]) -> None:
    for table in tables:
        _compare(table, table, catalog.inspector().get_table_names())
    for table, names in columns.items():
        known = catalog.column_names(table) if catalog.has_table(table) else []
        for name in names:
            _compare(name, f"{table}.{name}", known)


def _compare(name: str, named: str, known: Sequence[str]) -> None:
    other = next((each for each in known if each.lower() == name.lower()), None)
    if other is not None and name not in known:
        raise MigrationError(OTHER_CASE.format(named=named, other=other))


def _refuse_on_postgresql(tables: Sequence[str], columns: Mapping[str, Sequence[str]]) -> None:
    for table in tables:
        schema, _, name = table.rpartition(".")
        known = "FROM pg_catalog.pg_class WHERE relkind OPERATOR(pg_catalog.=) ANY ('{r,p}') AND "
        if not schema:
            _refuse(table, "relname", name, f"{known}pg_catalog.pg_table_is_visible(oid)")
            continue
        place = f"relnamespace OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace({sql.literal(sql.identifier(schema))})"
        near = (
            "relnamespace OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT n.oid FROM pg_catalog.pg_namespace n WHERE "
            f"pg_catalog.lower(n.nspname::pg_catalog.text) OPERATOR(pg_catalog.=) {_folded(schema)}))"
        )
        _refuse(table, "relname", name, known + place, known + near)
    for table, names in columns.items():
        relation = f"pg_catalog.to_regclass({sql.literal(sql.name(table))})"
        known = f"FROM pg_catalog.pg_attribute WHERE attrelid OPERATOR(pg_catalog.=) {relation} AND NOT attisdropped"
        for name in names:
            _refuse(f"{table}.{name}", "attname", name, known)


def _refuse(named: str, column: str, name: str, known: str, near: str = "") -> None:
    """Refuse a name missing from `known` if `near` has it in another case; `near` defaults to `known`."""
    near = near or known
    exact = f"{column} OPERATOR(pg_catalog.=) {sql.literal(name)}::pg_catalog.name"
    alike = f"pg_catalog.lower({column}::pg_catalog.text) OPERATOR(pg_catalog.=) {_folded(name)}"
    sql.refuse_when(
        f"NOT EXISTS (SELECT {known} AND {exact}) AND EXISTS (SELECT {near} AND {alike})",
        OTHER_CASE.replace("{named}", named),
        other=f"(SELECT {column} {near} AND {alike} LIMIT 1)",
    )


def _folded(name: str) -> str:
    bare = name.strip().strip('"')
    return f"pg_catalog.lower({sql.literal(bare)}::pg_catalog.text)"

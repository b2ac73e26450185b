"""Everything that is wrong with a runbook, before anything of it runs."""

from collections.abc import Iterator
from pathlib import Path

from pipestate.errors import RunbookError
from pipestate.runbook.finding import Finding
from pipestate.runbook.model import Check, Evidence, Phase, Runbook, View
from pipestate.runbook.parse import collect, read_text
from pipestate.runbook.plainread import explains, objections


def load(path: str | Path) -> Runbook:
    """A runbook that may be run; RunbookError with the first finding where it may not."""
    runbook, found = _examined(read_text(path), path)
    if runbook is None or found:
        raise _error(found)
    return runbook


def lint(path: str | Path) -> list[Finding]:
    """The findings of a file, in the order of its lines; ConfigError where there is no file."""
    return examine(path)[1]


def examine(path: str | Path) -> tuple[Runbook | None, list[Finding]]:
    """Read a file, and find what is wrong with it; the runbook is None where it cannot be read at all."""
    try:
        return _examined(read_text(path), path)
    except RunbookError as error:
        return None, [Finding(error.path, error.line, error.what)]


def findings(text: str, path: str | Path) -> list[Finding]:
    return _examined(text, path)[1]


def _examined(text: str, path: str | Path) -> tuple[Runbook | None, list[Finding]]:
    runbook, found = collect(text, path)
    if runbook is None:
        return None, found
    sql = {finding for phase in runbook.phases for finding in _in_sql(phase, runbook.path)}
    return runbook, sorted({*found, *sql})


def _in_sql(phase: Phase, path: str) -> Iterator[Finding]:
    for query in _queries(phase):
        for objection in objections(query.sql, query.dialect):
            yield Finding(path, query.line, f"{_name(query)}: {objection}")
        if isinstance(query, Check) and query.dialect != "sqlite" and explains(query.sql, query.dialect):
            yield Finding(path, query.line, f"{_name(query)}: {_PLAN}")


# A criterion cannot name the column "QUERY PLAN", and a gate's script cannot select from an EXPLAIN.
_PLAN = "a plan is something to look at: make the EXPLAIN evidence or a view (SQLite's may be a check)"


def _queries(phase: Phase) -> Iterator[Check | Evidence | View]:
    for check in phase.checks:
        if isinstance(check, Check):
            yield check
            yield from check.evidence
    yield from phase.views


def _name(query: Check | Evidence | View) -> str:
    if isinstance(query, Evidence):
        return f"evidence for {query.check_id}"
    return f"{'check' if isinstance(query, Check) else 'view'} {query.id}"


def _error(found: list[Finding]) -> RunbookError:
    first, more = found[0], len(found) - 1
    hint = f" ({more} more: pipestate runbook lint {first.path})" if more else ""
    return RunbookError(first.path, first.line, first.message + hint)

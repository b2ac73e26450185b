"""Everything that is wrong with a runbook, before anything of it runs."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pipestate.errors import RunbookError
from pipestate.runbook.files import beside, is_beside, page_of, read_beside, read_text
from pipestate.runbook.finding import Finding
from pipestate.runbook.model import BESIDE, Backfill, Check, Evidence, Phase, Runbook, View, is_variant
from pipestate.runbook.parse import collect
from pipestate.runbook.plainread import explains, objections
from pipestate.runbook.repeats import PlacedBlock, repeated
from pipestate.runbook.rules import Query, faults, foreign
from pipestate.runbook.updates import update_faults
from pipestate.runbook.variants import KINDS


def load(path: str | Path) -> Runbook:
    """Read a runbook that may be run; RunbookError with the first finding where it may not."""
    if is_beside(path):
        page = page_of(path)
        raise RunbookError(
            str(path), 1, f"it holds variants of {page} and is no runbook of its own: name that"
        )
    runbook, found = _examined_once(read_text(path), path, read_beside(path))
    if runbook is None or found:
        raise _error(found)
    return runbook


def lint(path: str | Path) -> list[Finding]:
    """List the findings of a page and of the variants beside it; ConfigError where there is no file."""
    return examine(path)[1]


def examine(path: str | Path) -> tuple[Runbook | None, list[Finding]]:
    """Read a page, and find what is wrong with it; the runbook is None where it cannot be read at all."""
    page = page_of(path)
    if is_beside(path) and not page.is_file():
        return None, [
            Finding(str(path), 1, f"there is no page {page}: write it, or take these variants away")
        ]
    try:
        return _examined(read_text(page), page, read_beside(page))
    except RunbookError as error:
        return None, [Finding(error.path, error.line, error.what)]


def findings(text: str, path: str | Path, variants: str | None = None) -> list[Finding]:
    return _examined(text, path, variants)[1]


@lru_cache(maxsize=16)
def _examined_once(text: str, path: str | Path, variants: str | None) -> tuple[Runbook | None, list[Finding]]:
    """Examine a text once: an upgrade reads a page for its promises, and again for every gate it asks."""
    return _examined(text, path, variants)


def _examined(text: str, path: str | Path, variants: str | None) -> tuple[Runbook | None, list[Finding]]:
    runbook, found = collect(text, path, variants)
    if runbook is None:
        return None, found
    standing = [PlacedBlock(phase.name, query) for phase in runbook.phases for query in _queries(phase)]
    every = [
        *found,
        *(_finding(each.query, what) for each in standing for what in _in_sql(each.query)),
        *(_finding(query, what) for query, what in repeated(standing)),
        *_asked_again(runbook),
        *_backfilled_twice(runbook),
        *_unread_by_sqlite(runbook),
    ]
    return runbook, sorted(set(every))


def _in_sql(query: Query) -> Iterator[str]:
    if isinstance(query, Backfill):
        yield from update_faults(query)
        return
    yield from objections(query.sql, query.dialect)
    if isinstance(query, Check):
        if not is_variant(query) and explains(query.sql, query.dialect):
            yield _PLAN
        yield from faults(query)


# A criterion cannot name the column "QUERY PLAN", and a gate's script cannot select from an EXPLAIN.
_PLAN = "a plan is something to look at: make the EXPLAIN evidence or a view (SQLite's may be a check)"


def _asked_again(runbook: Runbook) -> Iterator[Finding]:
    """Find what another criterion makes wrong of a block that is right where it stands."""
    written = {
        (f"{phase.name}/{check.id}", check.dialect): set(faults(check))
        for phase in runbook.phases
        for check in phase.checks
        if isinstance(check, Check) and check.again is None
    }
    for phase in runbook.phases:
        for check in (check for check in phase.checks if isinstance(check, Check) and check.again):
            for fault in set(faults(check)) - written.get((check.again or "", check.dialect), set()):
                yield Finding(runbook.path, check.line, f"again {check.again}: {fault}")


def _backfilled_twice(runbook: Runbook) -> Iterator[Finding]:
    """Find a backfill whose id an earlier phase has: `pipestate backfill` names it by page and id alone."""
    first: dict[str, Backfill] = {}
    for backfill in (each for phase in runbook.phases for each in phase.backfills):
        same = first.setdefault(backfill.id, backfill)
        if same.line != backfill.line:
            yield _finding(backfill, f"that id stands at {same.block} already: give it another id")


def _unread_by_sqlite(runbook: Runbook) -> Iterator[Finding]:
    """Find what SQLite cannot read: variants, and blocks without one on a page that has some."""
    if runbook.variants is None:
        return
    for phase in runbook.phases:
        for query in _queries(phase):
            if is_variant(query):
                yield from (_finding(query, what) for what in foreign(query))
            elif _runs_on_sqlite(query, phase):
                for what in foreign(query):
                    yield _finding(
                        query, f"{what}: write its variant into {beside(runbook.path)}, {_OR_SAY_SO}"
                    )


_OR_SAY_SO = "under the same `## Phase:` and id, or say `-- dialect: postgresql` here, where SQLite cannot hold this state"


def _runs_on_sqlite(query: Query, phase: Phase) -> bool:
    """Tell whether SQLite would be sent this very block of the page."""
    if isinstance(query, Evidence):
        checks = [check for check in phase.checks_for(BESIDE) if isinstance(check, Check)]
        return any(check.evidence_for(BESIDE) == query for check in checks)
    if isinstance(query, Backfill):
        return any(each.block == query.block for each in phase.backfills_for(BESIDE))
    chosen = phase.views_for(BESIDE) if isinstance(query, View) else phase.checks_for(BESIDE)
    return any(each.block == query.block for each in chosen)


def _queries(phase: Phase) -> Iterator[Query]:
    """List the blocks that stand in this phase, each once; what is asked again stands elsewhere."""
    seen: dict[str, Query] = {}
    for check in phase.checks:
        if isinstance(check, Check) and check.again is None:
            seen.setdefault(check.block, check)
            for evidence in check.evidence:
                seen.setdefault(evidence.block, evidence)
    yield from seen.values()
    yield from phase.views
    yield from phase.backfills


def _finding(query: Query, what: str) -> Finding:
    path, _, line = query.block.rpartition(":")
    return Finding(path, int(line), f"{_name(query)}: {what}")


def _name(query: Query) -> str:
    if isinstance(query, Evidence):
        return f"evidence for {', '.join(query.check_ids)}"
    return f"{KINDS[type(query)]} {query.id}"


def _error(found: list[Finding]) -> RunbookError:
    first, more = found[0], len(found) - 1
    hint = f" ({more} more: pipestate runbook lint {first.path})" if more else ""
    return RunbookError(first.path, first.line, first.message + hint)

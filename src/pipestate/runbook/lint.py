"""Lint a runbook: find all of its faults before it runs."""

from collections.abc import Container, Iterator
from functools import lru_cache
from itertools import accumulate, takewhile
from pathlib import Path

from pipestate.core.errors import RunbookError
from pipestate.runbook.directives import stands_in
from pipestate.runbook.files import beside, is_beside, read_beside, read_text, runbook_file
from pipestate.runbook.model import (
    SQLITE,
    Backfill,
    Check,
    Evidence,
    Finding,
    Phase,
    Runbook,
    SqlBlock,
    View,
    is_for_postgresql,
    is_variant,
    label,
)
from pipestate.runbook.parse import collect
from pipestate.runbook.statement import explains, objections, tokens
from pipestate.runbook.variants import only_postgresql


def load(path: str | Path) -> Runbook:
    """Load a valid runbook; raise RunbookError with the first finding if it has faults."""
    if is_beside(path):
        fault = f"this file has only the SQLite variants of {runbook_file(path)}: name that runbook"
        raise RunbookError(str(path), 1, fault)
    runbook, found = _examined(read_text(path), path, read_beside(path))
    if runbook is None or found:
        first, more = found[0], len(found) - 1
        hint = f" ({more} more: pipestate runbook lint {first.path})" if more else ""
        raise RunbookError(first.path, first.line, first.message + hint)
    return runbook


def examine(path: str | Path) -> tuple[Runbook | None, list[Finding]]:
    """Read a runbook and its variants file, and list their findings; None if the runbook is unreadable.

    Raise ConfigError if the file is missing.
    """
    runbook = runbook_file(path)
    if is_beside(path) and not runbook.is_file():
        fault = f"there is no runbook {runbook}: write it, or take these variants away"
        return None, [Finding(str(path), 1, fault)]
    try:
        return _examined(read_text(runbook), runbook, read_beside(runbook))
    except RunbookError as error:
        return None, [Finding(error.path, error.line, error.what)]


def findings(text: str, path: str | Path, variants: str | None = None) -> list[Finding]:
    return _examined(text, path, variants)[1]


@lru_cache(maxsize=16)  # an upgrade reads a runbook for its promises and again for every gate
def _examined(text: str, path: str | Path, variants: str | None) -> tuple[Runbook | None, list[Finding]]:
    runbook, found = collect(text, path, variants)
    if runbook is None:
        return None, found
    queries = [query for phase in runbook.phases for query in _queries(phase)]
    every = [
        *found,
        *(_finding(query, what) for query in queries for what in _in_sql(query)),
        *_repeated_checks(runbook),
        *_backfilled_twice(runbook),
        *_unread_by_sqlite(runbook),
    ]
    return runbook, sorted(set(every))


def _in_sql(query: SqlBlock) -> Iterator[str]:
    if isinstance(query, Backfill):
        from pipestate.runbook.update import update_faults

        yield from update_faults(query)
        return
    yield from objections(query.sql, query.dialect)
    if isinstance(query, Check):
        if explains(query.sql, query.dialect):
            yield _PLAN
        yield from faults(query)


# A compiled check selects from its query, and nothing can select from an EXPLAIN.
_PLAN = (
    "a check cannot be an EXPLAIN, because its verdict selects from it: make the EXPLAIN evidence or a view"
)


def _repeated_checks(runbook: Runbook) -> Iterator[Finding]:
    """Find faults that a changed criterion causes in a repeated block that is valid in its own phase."""
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
    """Find a backfill id used in two phases: `pipestate backfill` identifies it by runbook and id."""
    first: dict[str, Backfill] = {}
    for backfill in (each for phase in runbook.phases for each in phase.backfills):
        same = first.setdefault(backfill.id, backfill)
        if same.line != backfill.line:
            yield _finding(backfill, f"that id is used at {same.block} already: give it another id")


def _unread_by_sqlite(runbook: Runbook) -> Iterator[Finding]:
    """Find SQL that SQLite cannot parse: in variants, and in blocks that lack one if the runbook has some."""
    if runbook.variants is None:
        return
    advice = f": write its variant into {beside(runbook.path)}, {_OR_SAY_SO}"
    for phase in runbook.phases:
        for query in _queries(phase):
            runs = is_variant(query) or (_runs_on_sqlite(query, phase) and not is_for_postgresql(query))
            if names := [f"`{each}`" for each in only_postgresql(query.sql) if runs]:
                shown = ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")
                more = "" if is_variant(query) else advice
                yield _finding(query, f"SQLite does not know {shown}{more}")


_OR_SAY_SO = "under the same `## Phase:` and id, or say `-- dialect: postgresql` here, where SQLite cannot hold this state"


def _runs_on_sqlite(query: SqlBlock, phase: Phase) -> bool:
    """Tell whether SQLite would execute this block of the runbook itself."""
    checks = phase.checks_for(SQLITE)
    if isinstance(query, Evidence):
        return any(isinstance(check, Check) and check.evidence_for(SQLITE) == query for check in checks)
    chosen = (*checks, *phase.views_for(SQLITE), *phase.backfills_for(SQLITE))
    return any(each.block == query.block for each in chosen)


def _queries(phase: Phase) -> Iterator[SqlBlock]:
    """List the blocks written in this phase, each once; repeated checks belong to their own phase."""
    seen: dict[str, SqlBlock] = {}
    for check in phase.checks:
        if isinstance(check, Check) and check.again is None:
            seen.setdefault(check.block, check)
            for evidence in check.evidence:
                seen.setdefault(evidence.block, evidence)
    yield from seen.values()
    yield from phase.views
    yield from phase.backfills


def _finding(query: SqlBlock, what: str) -> Finding:
    return Finding.at(query.block, f"{label(query)}: {what}")


# Rules beyond a plain read, which keep verdicts and rows truthful.


AGE = "age_seconds"


def faults(check: Check) -> Iterator[str]:
    """Find conflicts between a check's SQL and its directives, each with a fix."""
    if check.require.shows_own_rows and cuts_rows(check.sql, check.dialect):
        yield (
            f"LIMIT hides rows from `{check.require.text}`: take it out; "
            "the first rows are shown, and all are counted"
        )
    if check.window and check.again is None and not stands_in(check.sql, check.window, check.dialect):
        yield (
            f"`-- window: {check.window}` is not in a literal of its SQL, so `over` could not replace it: write the "
            f"length there as '{check.window}', or take the line out"
        )
    if not checks_age(check):
        yield (
            f"an observation may be a year old: add `and {AGE} <= 3600`, or the like, to what it requires "
            f"of latest_observation (or compare {AGE} in its SQL)"
        )


def checks_age(check: Check) -> bool:
    """Tell whether a check on the newest observation also checks its age."""
    seen = tokens(check.sql, check.dialect)
    if not any(token.identifier == "latest_observation" for token in seen):
        return True
    if any(each.column.lower() == AGE for each in check.require.comparisons):
        return True
    for before, token, after in zip([None, *seen], seen, [*seen[1:], None], strict=False):
        if token.identifier == AGE:
            begins = before is None or before.text in (",", ".") or before.keyword in ("SELECT", "DISTINCT")
            ends = after is None or after.text in (",", ")") or after.keyword in ("FROM", "AS")
            if not (begins and ends):  # more than a plain item of the SELECT list
                return True
    return False


def cuts_rows(sql: str, dialect: str | None) -> bool:
    """Tell whether a LIMIT or FETCH FIRST at the top level of the statement cuts its rows.

    >>> cuts_rows("SELECT a FROM b LIMIT 10", None), cuts_rows("SELECT (SELECT a FROM b LIMIT 1)", None)
    (True, False)
    """
    seen = tokens(sql, dialect)
    depths = list(accumulate((token.text == "(") - (token.text == ")") for token in seen))
    opening = sum(1 for _ in takewhile(lambda token: token.text == "(", seen))
    closing = sum(1 for _ in takewhile(lambda token: token.text == ")", reversed(seen)))
    # Parentheses may enclose the whole statement: its own level is that of its outermost token.
    level = min(opening, closing, *depths[opening : len(seen) - closing])
    top = [token for token, depth in zip(seen, depths, strict=True) if depth == level]
    for before, token, after in zip(top, top[1:], top[2:], strict=False):
        fetches = token.keyword == "FETCH" and after.keyword in ("FIRST", "NEXT")
        named = before.text == "." or before.keyword == "AS"
        if (token.keyword == "LIMIT" or fetches) and not named:
            return True
    return False


# Revisions that a runbook names.


def unknown_revisions(runbook: Runbook, phase: Phase, known: Container[str]) -> list[Finding]:
    """Find unknown revisions in a phase's front matter and in its blocks."""
    said = [("from", "begins at", phase.from_), ("until", "ends at", phase.until)]
    said += [("opens", "opens", revision) for revision in phase.opens]
    found = [
        Finding(
            runbook.path,
            phase.line,
            f"phase {phase.name} {verb} {revision}, {_MISSING}: correct `{key}` in the front matter, {_OR}",
        )
        for key, verb, revision in said
        if revision is not None and revision not in known
    ]
    for block in (*phase.checks, *phase.views):
        # A variant inherits its revisions from the block in the runbook.
        for key, revision in (("from", block.from_), ("until", block.until)):
            named = revision is not None and revision not in known
            if named and isinstance(block, Check | View) and not is_variant(block):
                what = f"{label(block)}: `-- {key}: {revision}` names {_MISSING}: correct it, {_OR}"
                found.append(Finding.at(block.block, what))
    return sorted(set(found))


_MISSING = "a revision that the project does not have"
_OR = "or name the right alembic.ini with --config"

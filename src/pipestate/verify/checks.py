"""Checks: those that apply at the database's revision, and the judgement of their results by their criteria.

A sign-off becomes a check: SQL on the ledger. A doubtful comparison is `errored`, never a pass: a missing column,
several rows, a text for a number. NULL and an empty result fail.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from pipestate.core.errors import ConfigError
from pipestate.core.text import many
from pipestate.project.graph import Place, Position
from pipestate.runbook.criterion import ROWS, Comparison, Requirement, Value, parse_requirement
from pipestate.runbook.lint import unknown_revisions
from pipestate.runbook.model import Check, Evidence, Phase, Runbook, SignOff
from pipestate.verify.read import QueryResult
from pipestate.verify.report import Json, Outcome, as_record, shortened, shown

Phases = Sequence[tuple[Runbook, Phase]]
FOR_GOOD = timedelta(days=3650)  # a sign-off with this validity never expires in practice
VIEW = {"postgresql": "pipestate.sign_off", "sqlite": "pipestate_sign_off"}
FIRST_ROW = 200

_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class SelectedCheck:
    """One check, and the reason if it is skipped."""

    runbook: Runbook
    phase: Phase
    check: Check | SignOff
    skipped: str | None

    @property
    def source(self) -> str:
        """The `path:line` of its fence, or of the item of an `again:` or a sign-off."""
        return f"{self.runbook.path}:{self.check.line}"

    @property
    def block(self) -> str:
        """The `path:line` of its SQL."""
        return self.check.block or self.source


def find_phases(
    runbooks: Sequence[Runbook], names: Sequence[str] = (), command: Callable[[str], str] = str
) -> list[tuple[Runbook, Phase]]:
    """List all phases, or those named as `phase` or `runbook/phase`; each once, in the runbooks' order.

    `command` writes the command line for a phase, for a name that several runbooks have.
    """
    every = [(runbook, phase) for runbook in runbooks for phase in runbook.phases]
    if not names:
        return every
    known = {f"{runbook.name}/{phase.name}": phase for runbook, phase in every}
    selected = set()
    for name in names:
        found = [address for address, phase in known.items() if name in (phase.name, address)]
        if len(found) > 1:
            candidates = " or ".join(f"`{command(address)}`" for address in found)
            raise ConfigError(f"{len(found)} runbooks have a phase {name}: write {candidates}")
        if not found:
            raise ConfigError(f"no phase is called {name}; the phases are {', '.join(known)}")
        selected.update(found)
    return [(runbook, phase) for runbook, phase in every if f"{runbook.name}/{phase.name}" in selected]


def select_checks(runbook: Runbook, phase: Phase, position: Position, dialect: str) -> list[SelectedCheck]:
    """List the checks of a phase in order, each with the reason if it is skipped."""
    for finding in unknown_revisions(runbook, phase, known=position.known):
        raise ConfigError(str(finding))
    here = {check.id: check for check in phase.checks_for(dialect)}
    selected: dict[str, SelectedCheck] = {}
    for written in phase.checks:
        check = here.get(written.id, written)
        why = _why_skipped(phase, check, position)
        if written.id not in here:
            why = f"the runbook says that SQLite cannot hold this state: {written.dialect} alone evaluates it"
        selected[written.id] = SelectedCheck(runbook, phase, check, why)
    return list(selected.values())


def _why_skipped(phase: Phase, check: Check | SignOff, position: Position) -> str | None:
    for what, scope in (("its phase", phase), ("it", check)):
        place = position.place(scope.from_, scope.until)
        if place is Place.NOT_STARTED:
            return f"{what} begins at revision {scope.from_}, the database is at {position.current or 'base'}"
        if place is Place.FINISHED:
            return f"{what} ended at revision {scope.until}, the database is at {position.current}"
    return None


def signoff_check(signoff: SignOff, dialect: str, *, runbook: str, phase: str) -> Check:
    """Make the check that counts the people who signed this text for this phase, recently enough.

    The view gives no age to a future time, so such a sign-off never counts. Ids and names are of `[a-z0-9-]`: safe in
    SQL.
    """
    seconds = int(signoff.valid_for.total_seconds())
    words = (
        f"FROM {VIEW[dialect]} WHERE runbook = '{runbook}' AND phase = '{phase}' AND name = '{signoff.id}' "
        f"AND coalesce(text_sha256, '{signoff.text_sha256}') = '{signoff.text_sha256}'"
    )
    return Check(
        id=signoff.id,
        line=signoff.line,
        sql=f"SELECT count(DISTINCT lower(trim(person))) AS people {words} AND age_seconds < {seconds}",
        require=parse_requirement(f"people >= {signoff.people}"),
        evidence=(
            Evidence(
                (signoff.id,),
                signoff.line,
                f"SELECT person, signed_at, note {words} ORDER BY signed_at DESC LIMIT 3",
            ),
        ),
    )


def explain_signoff(signoff: SignOff, judgement: "Judgement", *, runbook: str, phase: str) -> "Judgement":
    """Explain the judgement in words, with the command that records a sign-off."""
    within = f" within {written(signoff.valid_for)}" if signoff.valid_for < FOR_GOOD else ""
    several, signed = signoff.people > 1, judgement.observed.get("people")
    if judgement.outcome is Outcome.PASSED:
        by = f" by {signoff.people} people" if several else ""
        return replace(judgement, message=f"signed off{by}{within}")
    if judgement.outcome is Outcome.FAILED:
        missing = f"signed off by {signed} of {signoff.people} people" if several else "not signed off"
        how = f"pipestate attest {runbook}/{phase}/{signoff.id} --by YOU"
        return replace(judgement, message=f"{missing}{within}: {how}")
    return judgement


def written(duration: timedelta) -> str:
    """
    >>> written(timedelta(hours=24)), written(timedelta(days=7)), written(timedelta(minutes=30))
    ('24h', '7d', '30m')
    """
    minutes = int(duration.total_seconds() // 60)
    if minutes % (24 * 60) == 0 and minutes > 24 * 60:
        return f"{minutes // (24 * 60)}d"
    return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"


@dataclass(frozen=True, slots=True)
class Judgement:
    """An outcome; `message` names the comparisons that led to it."""

    outcome: Outcome
    observed: Mapping[str, Json]
    message: str


def judge(requirement: Requirement, result: QueryResult) -> Judgement:
    """Judge the result of a check's query by its criterion."""
    counts = any(each.column == ROWS for each in requirement.comparisons) or result.total != 1
    observed: dict[str, Json] = {ROWS: result.total} if counts else {}
    if result.total == 1:
        observed |= as_record(result.columns, result.rows[0])
    unclear = list(_unclear(requirement, result.columns))
    if unclear:
        return Judgement(Outcome.ERRORED, observed, "; ".join(unclear))
    counted = [_compare(each, result.total) for each in requirement.comparisons if each.column == ROWS]
    compared = [each for each in requirement.comparisons if each.column != ROWS]
    if any(outcome is Outcome.FAILED for outcome, _ in counted):
        if result.rows and not compared:
            return Judgement(Outcome.FAILED, observed, _first_of(requirement, result))
        return _summed_up(counted, observed)
    if compared and result.total == 0:
        return Judgement(Outcome.FAILED, observed, f"no row, required {requirement.text}")
    if compared and result.total > 1:
        several = (
            f"the query returned {many(result.total, 'row')} of {', '.join(result.columns)}; comparing a column "
            "needs exactly one: aggregate in the query, or require `rows`"
        )
        return Judgement(Outcome.ERRORED, observed, several)
    named = [_compare(each, result.rows[0][_position(each.column, result.columns)[0]]) for each in compared]
    return _summed_up(counted + named, observed)


def _first_of(requirement: Requirement, result: QueryResult) -> str:
    """Write the number of rows, and the first of them."""
    first = [pair for pair in zip(result.columns, result.rows[0], strict=True) if pair[1] is not None]
    named = len(result.columns) > 1
    listed = ", ".join(f"{name} {shown(value)}" if named else shown(value) for name, value in first)
    return f"{many(result.total, 'row')}, first: {shortened(listed or 'NULL', FIRST_ROW)}; required {requirement.text}"


def _unclear(requirement: Requirement, columns: Sequence[str]) -> Iterator[str]:
    """Find the faults of the check itself, independent of the data."""
    returned = f"the query returned {', '.join(columns) or 'no columns'}"
    if not requirement.comparisons:
        yield "the check has no criterion"
    for column in dict.fromkeys(each.column for each in requirement.comparisons):
        found = len(_position(column, columns))
        if column == ROWS and found:
            yield f"`rows` is the number of rows, but {returned}: rename that column"
        elif column != ROWS and found == 0:
            yield f"no column {column}: {returned}"
        elif column != ROWS and found > 1:
            yield f"column {column} is there {found} times: {returned}"


def _position(column: str, columns: Sequence[str]) -> list[int]:
    """Find a column by its exact name, else in any case, as SQL takes bare names."""
    exact = [index for index, name in enumerate(columns) if name == column]
    return exact or [index for index, name in enumerate(columns) if name.lower() == column.lower()]


def _summed_up(results: list[tuple[Outcome, str]], observed: Mapping[str, Json]) -> Judgement:
    """Take the worst outcome, and its messages."""
    for outcome in (Outcome.ERRORED, Outcome.FAILED, Outcome.PASSED):
        messages = [message for each, message in results if each is outcome]
        if messages:
            return Judgement(outcome, observed, "; ".join(messages))
    return Judgement(Outcome.ERRORED, observed, "the check has no criterion")


def _compare(comparison: Comparison, value: object) -> tuple[Outcome, str]:
    said = f"{comparison.column} is {shown(value)}, required {comparison.required}"
    if value is None or _is_nan(value):
        return Outcome.FAILED, said
    sides = _comparable(value, comparison.value)
    if sides is None:
        return Outcome.ERRORED, f"{said}: {_kind(value)} cannot be compared with {_kind(comparison.value)}"
    return (Outcome.PASSED if _HOLDS[comparison.op](*sides) else Outcome.FAILED), said


def is_met(comparison: Comparison, value: object) -> bool:
    """Say whether a value meets one comparison of a criterion; an impossible comparison is not met."""
    return _compare(comparison, value)[0] is Outcome.PASSED


def _comparable(observed: object, required: Value) -> tuple[object, object] | None:
    """Return both sides as one kind of value, or None if that would be a guess."""
    if isinstance(required, bool):
        # SQLite has no booleans: its true and false arrive as 1 and 0.
        is_truth = isinstance(observed, bool) or (isinstance(observed, int) and observed in (0, 1))
        return (bool(observed), required) if is_truth else None
    if isinstance(required, str):
        return (observed, required) if isinstance(observed, str) else None
    if isinstance(observed, float):
        # The decimal as the float is written: 0.1 equals 0.1.
        return Decimal(repr(observed)), required
    is_number = isinstance(observed, int | Decimal) and not isinstance(observed, bool)
    return (observed, required) if is_number else None


def _is_nan(value: object) -> bool:
    if isinstance(value, Decimal):
        return value.is_nan()  # a signalling NaN, too
    return isinstance(value, float) and math.isnan(value)


def _kind(value: object) -> str:
    match value:
        case bool():
            return "a boolean"
        case int() | float() | Decimal():
            return "a number"
        case str():
            return "a text"
    return f"a value of type {type(value).__name__}"

"""Report of a run: verdicts of checks, gates, the exit code; values as JSON takes them, and as messages show them."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from pipestate.core.text import OBEYED, listed, many, place, plain
from pipestate.runbook.model import Advice, Level

if TYPE_CHECKING:
    from pipestate.project.find import Calls

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

SHOWN_LENGTH = 80
# Control characters, line breaks of any kind, half surrogates, and marks that turn the direction of text.
_UNSEEN = re.compile(rf"[\x00{OBEYED}\ud800-\udfff]")
_MOMENT = re.compile(r"^(?P<begin>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?P<fraction>\.\d{1,6})?(?P<zone>\+00:00)?$")
MOST_NESTED = 50
LONGEST_ADVICE = 200
NO_BLOCKING = "no blocking check applies here"


class Outcome(StrEnum):
    """Errored: not evaluated because of an error. Skipped: outside the range of its phase."""

    PASSED = "passed"
    FAILED = "failed"
    ERRORED = "errored"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one check, ready to be rendered, with JSON values.

    `source` is the `path:line` of the check, `block` that of its SQL; `evidence` has the first rows that show why,
    `evidence_rows` is the number of all; `advice` is the runbook's next step.
    """

    check_id: str
    outcome: Outcome
    level: Level
    require: str
    observed: Mapping[str, Json]
    message: str
    source: str
    duration_ms: float
    evidence: tuple[Mapping[str, Json], ...] = field(default=())
    evidence_rows: int = 0
    block: str = ""
    advice: Advice | None = None

    @property
    def went_wrong(self) -> bool:
        return self.outcome in (Outcome.FAILED, Outcome.ERRORED)

    @property
    def warned(self) -> bool:
        """Say whether it counts as a warning: a `warn` check never closes a gate."""
        return self.went_wrong and self.level is Level.WARN

    @property
    def closes(self) -> bool:
        """Say whether this verdict alone keeps the gate of its phase closed."""
        return self.went_wrong and self.level is Level.BLOCK


class Gate(StrEnum):
    """State of a phase's gate. Outside its revisions a phase has not started, or is finished."""

    OPEN = "open"
    CLOSED = "closed"
    NOT_STARTED = "not started"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class DatabaseInfo:
    url: str
    dialect: str
    server_version: str
    revision: str | None
    head: str | None


@dataclass(frozen=True, slots=True)
class PhaseReport:
    name: str
    gate: Gate
    opens: tuple[str, ...]
    checks: tuple[Verdict, ...]
    text_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class RunbookReport:
    name: str
    path: str
    sha256: str
    phases: tuple[PhaseReport, ...]
    default: bool = True


class Evaluation:
    """Gates of a database at one moment: the sentences that a report and a status share."""

    __slots__ = ()
    database: DatabaseInfo

    def phases(self) -> Iterator[tuple[Any, Any]]:
        raise NotImplementedError

    def addresses(self, gate: Gate) -> list[str]:
        """List the phases with this gate, as `runbook/phase`."""
        return [f"{runbook.name}/{phase.name}" for runbook, phase in self.phases() if phase.gate is gate]

    def verdicts(self) -> Iterator[Verdict]:
        return (verdict for _, phase in self.phases() for verdict in phase.checks)

    @property
    def ran(self) -> int:
        return sum(verdict.outcome is not Outcome.SKIPPED for verdict in self.verdicts())

    @property
    def answer(self) -> str:
        """Answer in one line: the closed gates, or that all are open."""
        if not any(True for _ in self.phases()):
            return "No runbook here has `default: true`: name one, or write one with `pipestate init NAME`."
        if not self.ran:
            return f"Nothing was checked: no phase applies at revision {self.database.revision or 'base'}."
        closed = [
            f"{runbook.name}/{phase.name} ({count_closing(phase.checks)})"
            for runbook, phase in self.phases()
            if phase.gate is Gate.CLOSED
        ]
        named = closed or self.addresses(Gate.OPEN)
        return plain(f"{'Closed' if closed else 'Open'}: {listed(named, most=len(named))}.")

    def closed_command(self, calls: "Calls") -> str:
        """Name the command that evaluates the closed gates again; it names runbooks that are not default."""
        closed = [(book, phase) for book, phase in self.phases() if phase.gate is Gate.CLOSED]
        if len(closed) == 1:
            return calls.pipestate(f"gate {closed[0][0].name}/{closed[0][1].name}")
        names = dict.fromkeys(book.name for book, _ in closed)
        named = [] if all(book.default for book, _ in closed) else names
        return calls.pipestate(" ".join(["verify", *named]))

    def next_command(self, calls: "Calls") -> str | None:
        """Name the next command: the same again, the upgrade, or the plan; None if all is done."""
        if not self.ran:
            return calls.pipestate("plan")
        if self.addresses(Gate.CLOSED):
            return self.closed_command(calls)
        opens = any(phase.opens for _, phase in self.phases() if phase.gate is Gate.OPEN)
        return calls.alembic("upgrade head") if opens else None


@dataclass(frozen=True, slots=True)
class Report(Evaluation):
    database: DatabaseInfo
    started_at: datetime
    duration_ms: float
    runbooks: tuple[RunbookReport, ...]
    warnings: tuple[str, ...] = ()
    of_gate: bool = False  # the question is whether the gates are open
    obstacles: Mapping[str, str] = field(
        default_factory=dict
    )  # revisions of open gates that an upgrade would refuse

    def phases(self) -> Iterator[tuple[RunbookReport, PhaseReport]]:
        return ((runbook, phase) for runbook in self.runbooks for phase in runbook.phases)

    def summary(self) -> dict[str, int]:
        """Count each outcome; a failure at level `warn` counts as warned."""
        return count(self.verdicts())

    @property
    def exit_code(self) -> int:
        """0 if all passed, 1 if a gate is closed, 2 if no check ran, 3 if a check errored.

        Of a phase that opens no revision, `verify` reports failures alone: without a blocking check it has none.
        """
        closing = [verdict.outcome for verdict in self.verdicts() if verdict.closes]
        if Outcome.ERRORED in closing:
            return 3
        if closing:
            return 1
        if not self.ran:
            return 2
        gates = (phase.gate for _, phase in self.phases() if phase.opens or self.of_gate)
        return int(Gate.CLOSED in gates or (self.of_gate and bool(self.obstacles)))

    @property
    def all_warnings(self) -> tuple[str, ...]:
        return (*self.warnings, *self.obstacles.values())

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


def count(verdicts: Iterable[Verdict]) -> dict[str, int]:
    counts = Counter("warned" if verdict.warned else str(verdict.outcome) for verdict in verdicts)
    return {name: counts[name] for name in ("passed", "failed", "warned", "errored", "skipped")}


def gate_of(checks: tuple[Verdict, ...]) -> Gate:
    """Open if at least one blocking check applied and every blocking check passed."""
    blocking = {
        verdict.outcome
        for verdict in checks
        if verdict.level is Level.BLOCK and verdict.outcome is not Outcome.SKIPPED
    }
    return Gate.OPEN if blocking == {Outcome.PASSED} else Gate.CLOSED


def count_closing(checks: Iterable[Verdict]) -> str:
    """Count the checks that keep a gate closed, of those that ran."""
    evaluated = [verdict for verdict in checks if verdict.outcome is not Outcome.SKIPPED]
    closing = [verdict.outcome for verdict in evaluated if verdict.closes]
    if not closing:
        return NO_BLOCKING
    of = f"of {many(len(evaluated), 'check')}"
    failed, errored = (closing.count(outcome) for outcome in (Outcome.FAILED, Outcome.ERRORED))
    if not errored:
        return f"{failed} {of} failed"
    broken = f"{errored} could not be evaluated" if failed else f"{errored} {of} could not be evaluated"
    return f"{failed} {of} failed, {broken}" if failed else broken


def advice_line(advice: Advice) -> str:
    """Write the first characters of a check's advice, and the place of the full text."""
    text = shortened(advice.text, LONGEST_ADVICE)
    if text != advice.text:
        text = f"{text.rpartition(' ')[0]} …"
    return f"{plain(text)} ({place(advice.source)})"


def as_record(columns: Sequence[str], row: Sequence[object]) -> dict[str, Json]:
    """Return a row by column: an observation, or a line of evidence."""
    return {column: json_safe(value) for column, value in zip(columns, row, strict=True)}


def as_recorded(observed: Mapping[str, object]) -> dict[str, Json]:
    """Return a row that the server wrote as JSON: numbers and times as those that a driver read.

    >>> as_recorded({"at": "2026-01-01T00:00:00.5+00:00", "pct": Decimal("1.50"), "note": "a"})
    {'at': '2026-01-01T00:00:00.500000Z', 'pct': 1.5, 'note': 'a'}
    """
    return {
        name: _MOMENT.sub(_as_read, value) if isinstance(value, str) else json_safe(value)
        for name, value in observed.items()
    }


def _as_read(found: re.Match[str]) -> str:
    fraction = found["fraction"]
    return found["begin"] + (fraction.ljust(7, "0") if fraction else "") + ("Z" if found["zone"] else "")


def json_safe(value: object, depth: int = 0) -> Json:
    """Return the nearest JSON value; NaN, a UUID or an interval becomes text.

    Deep nesting is cut, and half a surrogate pair is replaced: a report can hold every result.
    """
    if depth > MOST_NESTED:
        return "…"
    match value:
        case None | bool() | int():
            return value
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case float():
            return value if math.isfinite(value) else _not_finite(value)
        case Decimal():
            return _number(value)
        case datetime():
            return _instant(value)
        case date() | time():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case Mapping():
            return {str(key): json_safe(each, depth + 1) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [json_safe(each, depth + 1) for each in value]
    return str(value)


def shown(value: object) -> str:
    """Write a value into a message, exactly as it was compared.

    >>> shown(None), shown(True), shown("it's"), shown(Decimal("3.30")), shown(Decimal("0.30000000000000000000"))
    ('NULL', 'true', "'it''s'", '3.30', '0.3')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            return shortened("'" + escaped(value.replace("'", "''")) + "'")
        case Decimal() if value.is_finite() and abs(value.adjusted()) < SHOWN_LENGTH:
            return _without_zeros(format(value, "f"))
    return shortened(escaped(str(json_safe(value))))


def _without_zeros(number: str) -> str:
    """Remove the zeros at the end of a long fraction, as division in SQL gives it.

    >>> _without_zeros("0.30000000000000000000"), _without_zeros("95.000"), _without_zeros("3.30")
    ('0.3', '95.0', '3.30')
    """
    whole, _, fraction = number.partition(".")
    return number if len(fraction) <= 2 else f"{whole}.{fraction.rstrip('0') or '0'}"


def shortened(text: str, length: int = SHOWN_LENGTH) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def escaped(text: str) -> str:
    """Escape line breaks and characters that a terminal obeys: a message is one sentence.

    >>> escaped("a\\n\x1b[31mb")
    'a\\\\n\\\\x1b[31mb'
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def _number(value: Decimal) -> Json:
    """Return a JSON number; a text if a float would be infinite."""
    if not value.is_finite():
        return _not_finite(value)
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= 0 and value.adjusted() < SHOWN_LENGTH:
        return int(value)
    return float(value) if math.isfinite(float(value)) else str(value)


def _not_finite(value: float | Decimal) -> str:
    if value.is_nan() if isinstance(value, Decimal) else math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _instant(value: datetime) -> str:
    """Write UTC with a Z; a time without a zone stays without one."""
    if value.tzinfo is None:
        return value.isoformat()
    try:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return value.isoformat()

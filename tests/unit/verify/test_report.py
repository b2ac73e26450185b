import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest

from pipestate.project.find import Calls
from pipestate.runbook.model import Level
from pipestate.verify.report import (
    DatabaseInfo,
    Gate,
    Json,
    Outcome,
    PhaseReport,
    Report,
    RunbookReport,
    Verdict,
    as_record,
    gate_of,
    json_safe,
    shown,
)


def make_verdict(outcome: Outcome, level: Level) -> Verdict:
    return Verdict("a", outcome, level, "rows = 0", {}, "", "s.md:1", 0.0)


@pytest.mark.parametrize(
    ("outcome", "level", "closes", "warned"),
    [
        ("passed", "block", False, False),
        ("passed", "warn", False, False),
        ("failed", "block", True, False),
        ("errored", "block", True, False),
        ("failed", "warn", False, True),
        ("errored", "warn", False, True),
        ("skipped", "block", False, False),
        ("skipped", "warn", False, False),
    ],
)
def test_only_what_went_wrong_closes_a_gate_or_warns(
    outcome: str, level: str, closes: bool, warned: bool
) -> None:
    verdict = make_verdict(Outcome(outcome), Level(level))

    assert (verdict.closes, verdict.warned) == (closes, warned)


B, W = Level.BLOCK, Level.WARN
P, F, E, S = Outcome.PASSED, Outcome.FAILED, Outcome.ERRORED, Outcome.SKIPPED


@pytest.mark.parametrize(
    ("checks", "gate", "codes"),
    [
        ([], Gate.CLOSED, (2, 2, 2)),
        ([(P, B)], Gate.OPEN, (0, 0, 0)),
        ([(P, B), (F, W), (E, W), (S, B)], Gate.OPEN, (0, 0, 0)),
        ([(P, B), (F, B)], Gate.CLOSED, (1, 1, 1)),
        ([(P, B), (F, B), (E, B)], Gate.CLOSED, (3, 3, 3)),
        ([(P, W)], Gate.CLOSED, (0, 1, 1)),
        ([(F, W)], Gate.CLOSED, (0, 1, 1)),
        ([(P, W), (S, B)], Gate.CLOSED, (0, 1, 1)),
        ([(S, B), (S, W)], Gate.CLOSED, (2, 2, 2)),
    ],
)
def test_a_gate_is_open_if_a_blocking_check_applied_and_all_passed(
    checks: list[tuple[Outcome, Level]], gate: Gate, codes: tuple[int, int, int]
) -> None:
    """The codes: of `verify` for a phase that opens nothing, for one that opens a revision, and of `gate`."""
    verdicts = tuple(make_verdict(*each) for each in checks)
    assert gate_of(verdicts) is gate
    found = []
    for opens, of_gate in ((), False), (("b2",), False), ((), True):
        book = RunbookReport("book", "book.md", "", (PhaseReport("p", gate, opens, verdicts),))
        info = DatabaseInfo("postgresql://db/civic", "postgresql", "18.0", None, "b2")
        found.append(Report(info, datetime.now(UTC), 1.0, (book,), of_gate=of_gate).exit_code)
    assert tuple(found) == codes


def report_of(*gates: Gate, opens: tuple[str, ...] = (), default: bool = True) -> Report:
    checks = {Gate.OPEN: Outcome.PASSED, Gate.CLOSED: Outcome.FAILED}
    phases = tuple(
        PhaseReport(
            f"p{number}", gate, opens, (make_verdict(checks.get(gate, Outcome.SKIPPED), Level.BLOCK),)
        )
        for number, gate in enumerate(gates)
    )
    info = DatabaseInfo("postgresql://db/civic", "postgresql", "18.0", None, "b2")
    books = (RunbookReport("book", "book.md", "", phases, default),) if phases else ()
    return Report(info, datetime.now(UTC), 1.0, books)


@pytest.mark.parametrize(
    ("report", "answer", "command"),
    [
        (
            report_of(Gate.OPEN, Gate.CLOSED),
            "Closed: book/p1 (1 of 1 check failed).",
            "pipestate gate book/p1",
        ),
        (
            report_of(Gate.CLOSED, Gate.CLOSED),
            "Closed: book/p0 (1 of 1 check failed) and book/p1 (1 of 1 check failed).",
            "pipestate verify",
        ),
        (
            report_of(Gate.CLOSED, Gate.CLOSED, default=False),
            "Closed: book/p0 (1 of 1 check failed) and book/p1 (1 of 1 check failed).",
            "pipestate verify book",
        ),
        (report_of(Gate.OPEN, Gate.OPEN), "Open: book/p0 and book/p1.", None),
        (report_of(Gate.OPEN, opens=("b2",)), "Open: book/p0.", "alembic upgrade head"),
        (
            report_of(Gate.NOT_STARTED),
            "Nothing was checked: no phase applies at revision base.",
            "pipestate plan",
        ),
        (
            report_of(),
            "No runbook here has `default: true`: name one, or write one with `pipestate init NAME`.",
            "pipestate plan",
        ),
    ],
)
def test_the_answer_names_the_gates_and_the_next_command(
    report: Report, answer: str, command: str | None
) -> None:
    assert (report.answer, report.next_command(Calls())) == (answer, command)


EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (3.3, 3.3),
        ("a", "a"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (Decimal(3), 3),
        (Decimal("3.3"), 3.3),
        (Decimal("100.0"), 100.0),
        (Decimal("1E+2"), 100),
        (Decimal("NaN"), "NaN"),
        (Decimal("sNaN"), "NaN"),
        (Decimal("-Infinity"), "-Infinity"),
        (Decimal("1E+999"), "1E+999"),
        (Decimal("1.5E+999"), "1.5E+999"),
        (Decimal("1" + "0" * 200), 1e200),
        (Decimal("9" * 5000), "9" * 5000),
        (datetime(2026, 1, 20, 10, 0, tzinfo=UTC), "2026-01-20T10:00:00Z"),
        (datetime(2026, 1, 20, 12, 0, 0, 5, tzinfo=EAST), "2026-01-20T10:00:00.000005Z"),
        (datetime(2026, 1, 20, 10, 0), "2026-01-20T10:00:00"),
        (datetime.min.replace(tzinfo=EAST), "0001-01-01T00:00:00+02:00"),
        (date(2026, 1, 20), "2026-01-20"),
        (time(10, 30), "10:30:00"),
        (timedelta(hours=2), "2:00:00"),
        (b"\x00\xff", "00ff"),
        (bytearray(b"\x01"), "01"),
        (memoryview(b"\x02"), "02"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([Decimal("1.5"), None], [1.5, None]),
        ((1, b"\x00"), [1, "00"]),
        ({"a": {1: Decimal(2)}}, {"a": {"1": 2}}),
    ],
)
def test_every_value_of_a_driver_becomes_one_of_json(value: object, expected: Json) -> None:
    safe = json_safe(value)

    assert safe == expected
    assert type(safe) is type(expected)
    assert json.loads(json.dumps(safe, allow_nan=False)) == safe


def test_a_row_becomes_a_record_by_column() -> None:
    assert as_record(["a", "b"], (1, Decimal("2.5"))) == {"a": 1, "b": 2.5}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (False, "false"),
        (3, "3"),
        (3.3, "3.3"),
        (1e-07, "1e-07"),
        (Decimal("3.30"), "3.30"),
        (Decimal("1.00000000000000000001"), "1.00000000000000000001"),
        (Decimal("1E-7"), "0.0000001"),
        (Decimal("1E+2"), "100"),
        (Decimal("1E+999999"), "1E+999999"),
        (Decimal("9" * 5000), "9" * 79 + "…"),
        (Decimal("NaN"), "NaN"),
        ("it's", "'it''s'"),
        ("x" * 100, "'" + "x" * 78 + "…"),
        (datetime(2026, 1, 20, tzinfo=UTC), "2026-01-20T00:00:00Z"),
        (b"\xff", "ff"),
    ],
)
def test_a_message_shows_the_value_exactly(value: object, text: str) -> None:
    assert shown(value) == text

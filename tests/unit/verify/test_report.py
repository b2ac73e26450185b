import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest

from pipestate.runbook.model import Level
from pipestate.verify.report import Json, Outcome, Verdict, as_record, json_safe, shown


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

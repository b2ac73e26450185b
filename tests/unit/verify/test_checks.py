from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipestate.runbook.criterion import Requirement, parse_requirement
from pipestate.runbook.model import SignOff
from pipestate.verify.checks import Judgement, explain_signoff, judge
from pipestate.verify.read import QueryResult
from pipestate.verify.report import Outcome

PASSED, FAILED, ERRORED = Outcome.PASSED, Outcome.FAILED, Outcome.ERRORED


def judged(requirement: str, *values: object, columns: str = "a b c") -> Judgement:
    """One row, with columns a, b, c."""
    return judged_rows(requirement, columns.split()[: len(values)], [values])


def judged_rows(
    requirement: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]], total: int | None = None
) -> Judgement:
    """Several rows, or none; `total` where there are more than those."""
    found = QueryResult(tuple(columns), tuple(rows), len(rows) if total is None else total)
    return judge(parse_requirement(requirement), found)


def test_a_failure_tells_what_is_and_what_was_required() -> None:
    judgement = judged_rows("stuck_pct < 1.0", ["stuck", "total", "stuck_pct"], [(4, 120, Decimal("3.3"))])

    assert judgement == Judgement(
        FAILED, {"stuck": 4, "total": 120, "stuck_pct": 3.3}, "stuck_pct is 3.3, required < 1.0"
    )


def test_a_pass_tells_what_was_met() -> None:
    assert judged("a < 1.0 and b >= 0", 0.5, 7) == Judgement(
        PASSED, {"a": 0.5, "b": 7}, "a is 0.5, required < 1.0; b is 7, required >= 0"
    )


def test_only_what_failed_is_reported() -> None:
    judgement = judged("a = 1 and b = 1 and c = 1", 1, 2, None)

    assert (judgement.outcome, judgement.message) == (FAILED, "b is 2, required = 1; c is NULL, required = 1")


@pytest.mark.parametrize(
    ("requirement", "value", "outcome"),
    [
        ("a = 1", 1, PASSED),
        ("a = 1", 1.0, PASSED),
        ("a = 1", Decimal("1.00"), PASSED),
        ("a = 1.0", 1, PASSED),
        ("a = 0.1", 0.1, PASSED),
        ("a <= 0.1", 0.1, PASSED),
        ("a < 0.1", 0.1, FAILED),
        ("a = 0.3", 0.1 + 0.2, FAILED),
        ("a != 1", 2, PASSED),
        ("a != 1", 1, FAILED),
        ("a < 1.0", Decimal("0.99999999999999999999999999999999999"), PASSED),
        ("a < 1.0", Decimal("1.00000000000000000000000000000000001"), FAILED),
        ("a = 9007199254740993", 9007199254740992, FAILED),
        ("a = 9007199254740993", Decimal(9007199254740993), PASSED),
        ("a >= 95.0", 95, PASSED),
        ("a >= 95.0", 94.99999999999999, FAILED),
        ("a > -1", 0, PASSED),
        ("a > -1", -1, FAILED),
        ("a > 5", float("inf"), PASSED),
        ("a < 5", Decimal("-Infinity"), PASSED),
        ("a = 'done'", "done", PASSED),
        ("a = 'done'", "Done", FAILED),
        ("a >= '0005'", "0006", PASSED),
        ("a = true", True, PASSED),
        ("a = true", False, FAILED),
        ("a != true", False, PASSED),
        ("a = true", 1, PASSED),
        ("a = true", 0, FAILED),
        ("a = false", 0, PASSED),
    ],
)
def test_values_are_compared_exactly(requirement: str, value: object, outcome: Outcome) -> None:
    assert judged(requirement, value).outcome is outcome


@pytest.mark.parametrize("literal", ["0", "1.5", "'x'", "true"])
@pytest.mark.parametrize("op", ["=", "!="])
def test_null_never_passes(op: str, literal: str) -> None:
    judgement = judged(f"a {op} {literal}", None)

    assert (judgement.outcome, judgement.message) == (FAILED, f"a is NULL, required {op} {literal}")
    assert judgement.observed == {"a": None}


@pytest.mark.parametrize("value", [float("nan"), Decimal("NaN"), Decimal("sNaN")])
@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
def test_nan_never_passes(op: str, value: object) -> None:
    judgement = judged(f"a {op} 1", value)

    assert (judgement.outcome, judgement.message) == (FAILED, f"a is NaN, required {op} 1")


@pytest.mark.parametrize(
    ("requirement", "value", "message"),
    [
        ("a = 1", "1", "a is '1', required = 1: a text cannot be compared with a number"),
        ("a = 1", True, "a is true, required = 1: a boolean cannot be compared with a number"),
        ("a < 1.5", False, "a is false, required < 1.5: a boolean cannot be compared with a number"),
        ("a = true", 2, "a is 2, required = true: a number cannot be compared with a boolean"),
        ("a = true", 1.0, "a is 1.0, required = true: a number cannot be compared with a boolean"),
        ("a = true", "true", "a is 'true', required = true: a text cannot be compared with a boolean"),
        ("a = '1'", 1, "a is 1, required = '1': a number cannot be compared with a text"),
        ("a = 'x'", b"x", "a is 78, required = 'x': a value of type bytes cannot be compared with a text"),
        ("a = 1", [1], "a is [1], required = 1: a value of type list cannot be compared with a number"),
        ("a = 'x'", UUID(int=0), "a value of type UUID cannot be compared with a text"),
        (
            "a < '2026'",
            datetime(2026, 1, 1, tzinfo=UTC),
            "a value of type datetime cannot be compared with a text",
        ),
    ],
)
def test_what_cannot_be_compared_is_errored(requirement: str, value: object, message: str) -> None:
    judgement = judged(requirement, value)

    assert judgement.outcome is ERRORED
    assert judgement.message.endswith(message)


def test_errored_outranks_failed() -> None:
    judgement = judged("a = 1 and b = 1", 2, "1")

    assert judgement.outcome is ERRORED
    assert judgement.message == "b is '1', required = 1: a text cannot be compared with a number"


@pytest.mark.parametrize("rows", [[], [(1, 2)], [(1, 2), (3, 4)]])
def test_a_missing_column_is_errored_with_those_that_are_there(rows: list[tuple[int, int]]) -> None:
    judgement = judged_rows("stuck_pct < 1.0", ["stuck", "total"], rows)

    assert judgement.outcome is ERRORED
    assert judgement.message == "no column stuck_pct: the query returned stuck, total"


def test_a_column_that_is_there_twice_is_errored() -> None:
    judgement = judged_rows("a = 1", ["a", "a"], [(1, 1)])

    assert (judgement.outcome, judgement.message) == (
        ERRORED,
        "column a is there 2 times: the query returned a, a",
    )


def test_no_row_fails_and_several_are_errored_when_a_column_is_compared() -> None:
    none = judged_rows("a = 1 and b < 2", ["a", "b"], [])
    many = judged_rows("a = 1", ["a", "b"], [(1, 2)] * 10, total=12345)

    assert (none.outcome, none.observed) == (FAILED, {"rows": 0})
    assert none.message == "no row, required a = 1 and b < 2"
    assert (many.outcome, many.observed) == (ERRORED, {"rows": 12345})
    assert many.message.startswith("the query returned 12,345 rows of a, b; comparing a column needs exactly")


def test_a_column_is_found_without_regard_to_case_but_by_its_exact_name_first() -> None:
    assert judged_rows("Stuck = 1", ["stuck"], [(1,)]).outcome is PASSED
    assert judged_rows("stuck = 1", ["STUCK", "stuck"], [(2, 1)]).outcome is PASSED
    assert judged_rows("Stuck = 1", ["STUCK", "stuck"], [(1, 1)]).outcome is ERRORED


@pytest.mark.parametrize(
    ("requirement", "count", "outcome"),
    [("rows = 0", 0, PASSED), ("rows = 0", 2, FAILED), ("rows >= 2", 2, PASSED), ("rows != 0", 0, FAILED)],
)
def test_rows_are_counted_whatever_is_in_them(requirement: str, count: int, outcome: Outcome) -> None:
    judgement = judged_rows(requirement, ["a"], [(None,)] * count)

    assert judgement.outcome is outcome
    assert judgement.observed == {"rows": count}


def test_a_count_that_holds_or_has_no_row_to_show_is_reported_as_a_number() -> None:
    assert judged_rows("rows = 0", ["a"], []).message == "rows is 0, required = 0"
    assert judged_rows("rows >= 1", ["a"], []).message == "rows is 0, required >= 1"


@pytest.mark.parametrize(
    ("columns", "row", "reported"),
    [
        ("fault", ("no index",), "'no index'"),
        ("id written_by", (7, "ann"), "id 7, written_by 'ann'"),
        ("id written_by", (7, None), "id 7"),
        ("id", (None,), "NULL"),
        ("id note", (7, "a\nb\x1b[2J"), r"id 7, note 'a\nb\x1b[2J'"),
    ],
)
def test_too_many_rows_are_reported_with_their_number_and_the_first(
    columns: str, row: tuple[object, ...], reported: str
) -> None:
    judgement = judged_rows("rows = 0", columns.split(), [row] * 10, total=1234)

    assert judgement.message == f"1,234 rows, first: {reported}; required rows = 0"
    assert judgement.observed == {"rows": 1234}


def test_a_long_first_row_is_cut() -> None:
    columns = [f"column{number}" for number in range(50)]
    message = judged_rows("rows = 0", columns, [("x" * 60,) * 50]).message

    assert len(message) < 300
    assert message.endswith("…; required rows = 0")


def test_the_one_row_is_observed_beside_its_count() -> None:
    assert judged("rows = 0", "site-1").observed == {"rows": 1, "a": "site-1"}


def test_a_wrong_number_of_rows_that_was_requested_is_a_failure() -> None:
    requirement = "a = 1 and rows = 1"

    assert judged_rows(requirement, ["a"], []).outcome is FAILED
    assert judged_rows(requirement, ["a"], []).message == "rows is 0, required = 1"
    assert judged_rows(requirement, ["a"], [(1,)]).outcome is PASSED
    assert judged_rows(requirement, ["a"], [(2,)]).outcome is FAILED


def test_a_column_called_rows_is_ambiguous() -> None:
    judgement = judged("rows = 0", 0, columns="rows")

    assert judgement.outcome is ERRORED
    assert (
        judgement.message == "`rows` is the number of rows, but the query returned rows: rename that column"
    )


def test_no_criterion_never_passes() -> None:
    assert judge(Requirement("", ()), QueryResult(("a",), ((1,),), 1)).outcome is ERRORED


@given(
    st.one_of(st.integers(), st.floats(allow_nan=False), st.decimals(allow_nan=False)),
    st.integers(-(10**20), 10**20),
)
def test_exactly_one_of_less_equal_greater_holds(value: object, literal: int) -> None:
    outcomes = [judged(f"a {op} {literal}", value).outcome for op in ("<", "=", ">")]

    assert sorted(outcomes) == [FAILED, FAILED, PASSED]


@pytest.mark.parametrize(
    ("days", "people", "outcome", "said"),
    [
        (7, 1, Outcome.PASSED, "signed off within 7d"),
        (7, 2, Outcome.FAILED, "signed off by 0 of 2 people within 7d: pipestate attest a/b/c --by YOU"),
        (3650, 1, Outcome.PASSED, "signed off"),
        (3650, 1, Outcome.FAILED, "not signed off: pipestate attest a/b/c --by YOU"),
    ],
)
def test_a_validity_of_ten_years_is_not_written(days: int, people: int, outcome: Outcome, said: str) -> None:
    signoff = SignOff("c", 1, timedelta(days=days), "It is done.", people)
    judged = explain_signoff(signoff, Judgement(outcome, {"people": 0}, ""), runbook="a", phase="b")
    assert judged.message == said

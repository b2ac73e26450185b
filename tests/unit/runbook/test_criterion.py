from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipestate.runbook.criterion import Comparison, RequirementError, Value, parse_requirement
from support.long_form import times


def test_comparisons_are_joined_by_and() -> None:
    requirement = parse_requirement("  stuck_pct < 1.0 and total >= 0 ")

    assert requirement.text == "stuck_pct < 1.0 and total >= 0"
    assert requirement.comparisons == (
        Comparison("stuck_pct", "<", Decimal("1.0")),
        Comparison("total", ">=", 0),
    )


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("space", ["", " ", "\t "])
def test_every_operator_is_read_with_and_without_spaces(op: str, space: str) -> None:
    assert parse_requirement(f"a{space}{op}{space}1").comparisons == (Comparison("a", op, 1),)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("0", 0),
        ("-3", -3),
        ("0007", 7),
        ("99.50", Decimal("99.50")),
        ("-0.5", Decimal("-0.5")),
        ("'done'", "done"),
        ("'it''s'", "it's"),
        ("''", ""),
        ("'a and b = 1'", "a and b = 1"),
        ("true", True),
        ("FALSE", False),
    ],
)
def test_literals_keep_their_kind(literal: str, value: Value) -> None:
    comparison = parse_requirement(f"a = {literal}").comparisons[0]

    assert comparison.value == value
    assert type(comparison.value) is type(value)


def test_and_and_rows_are_read_in_any_case() -> None:
    assert parse_requirement("ROWS = 0 AND a = 1 And b = 2").comparisons == (
        Comparison("rows", "=", 0),
        Comparison("a", "=", 1),
        Comparison("b", "=", 2),
    )


def test_a_column_may_begin_with_and() -> None:
    assert parse_requirement("a = 1 and android = 2").comparisons[1].column == "android"


@pytest.mark.parametrize(
    ("text", "required"),
    [
        ("a < 1.0", "< 1.0"),
        ("a = 0.0000001", "= 0.0000001"),
        ("a != 'it''s'", "!= 'it''s'"),
        ("a = TRUE", "= true"),
        ("rows = 0", "= 0"),
    ],
)
def test_what_is_required_is_reported_as_it_was_written(text: str, required: str) -> None:
    assert parse_requirement(text).comparisons[0].required == required


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "cannot read the end: a comparison is a column, one of = != < <= > >=, and a number"),
        ("1 < a", "cannot read 1 < a:"),
        ("a", "cannot read a:"),
        ("a is null", "cannot read a is null:"),
        ("a between 1 and 2", "cannot read a between 1 and 2:"),
        ("a == 1", "cannot read a == 1:"),
        ("a <> 1", "cannot read a <> 1:"),
        ("a =", "cannot read a =:"),
        ("a = b", "cannot read a = b:"),
        ("a = null", "compute the rest, as `or` and NULL, in the query"),
        ('a = "x"', 'cannot read a = "x":'),
        ("a = 'x", "cannot read a = 'x:"),
        ("a = 'x'' and b = 1", "cannot read a = 'x'' and b = 1:"),
        *(
            (f"a < {number}", f"cannot read a < {number}:")
            for number in ("1%", "1e3", "1.", ".5", "+5", "1_000")
        ),
        ("a < " + "9" * 5000, "cannot read a < " + "9" * 36 + ":"),
        ("a < 1 or b < 1", "cannot read or b < 1:"),
        ("a < 1, b < 1", "cannot read , b < 1:"),
        ("a < 1 and", "cannot read the end:"),
        ("a < 1;", "cannot read ;:"),
        ("a < true", "a < true: true and false take = or !="),
        ("rows = 'none'", "rows = 'none': `rows` is a number, compare it with one"),
        ("rows = true", "rows = true: `rows` is a number, compare it with one"),
    ],
)
def test_what_cannot_be_parsed_is_reported_with_how_to_write_it(text: str, what: str) -> None:
    with pytest.raises(RequirementError) as caught:
        parse_requirement(text)

    assert what in str(caught.value)


WORDS = st.sampled_from(
    [" ", "a", "rows", "=", "!=", "<", ">=", "1", "-2.5", "'x'", "''", "true", "and", "or", "null", "%"]
)


@settings(deadline=None, max_examples=times(300, long=2000))
@given(
    st.one_of(st.text(max_size=30), st.lists(WORDS, max_size=12).map("".join), st.lists(WORDS).map(" ".join))
)
def test_whatever_is_written_is_a_criterion_or_an_error_with_advice(text: str) -> None:
    try:
        reported = str(parse_requirement(text).comparisons)
    except RequirementError as error:
        reported = str(error)
    assert reported

import pytest

from pipestate.report.series import limits, observation_limits, satisfied
from pipestate.runbook.criterion import parse_requirement
from pipestate.runbook.model import Check


def check(sql: str, require: str) -> Check:
    return Check("c", 1, sql, parse_requirement(require))


def test_only_numbers_are_drawn() -> None:
    assert set(limits("rows = 0 and state = 'ok' and pct < 1.5 and done = true")) == {"rows", "pct"}


def test_a_criterion_of_another_time_that_cannot_be_read_has_no_limit() -> None:
    assert limits("n almost 3") == {}
    assert limits("") == {}


@pytest.mark.parametrize(
    ("value", "passed"), [(4, True), (5, False), (None, False), ("NaN", False), (0.1, True)]
)
def test_a_value_is_judged_as_the_check_judges_it(value: object, passed: bool) -> None:
    assert satisfied(limits("n < 5")["n"], value) is passed  # type: ignore[arg-type]


def test_a_check_on_one_observation_says_what_is_required_of_it() -> None:
    sql = "SELECT value AS depth, age_seconds FROM pipestate.latest_observation WHERE name = 'queue''s depth'"
    found = observation_limits(check(sql, "depth >= 0 and depth <= 10 and age_seconds <= 3600"))
    assert found is not None
    assert found[0] == "queue's depth"
    assert [each.required for each in found[1]] == [">= 0", "<= 10"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT value AS depth FROM other WHERE name = 'a'",
        "SELECT sum(value) AS depth FROM pipestate.latest_observation WHERE name = 'a' OR name = 'b'",
        "SELECT count(*) AS depth FROM pipestate.latest_observation WHERE name = 'a'",
    ],
)
def test_where_it_is_not_plain_which_observation_is_meant_nothing_is_drawn(sql: str) -> None:
    found = observation_limits(check(sql, "depth = 0"))
    assert found is None or not found[1]

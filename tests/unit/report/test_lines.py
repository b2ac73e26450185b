from datetime import UTC, datetime

from pipestate.ledger.history import Entry
from pipestate.report.lines import fold, fold_records

NOON = datetime(2026, 11, 4, 12, tzinfo=UTC)


def entry(hour: int, what: str = "book/one open", *, who: str = "cron", day: int = 4) -> Entry:
    return Entry(NOON.replace(hour=hour, day=day), 1, "verify", who, what, "a1")


def test_what_is_the_same_on_one_day_is_one_line_at_its_newest_time() -> None:
    (line,) = fold([entry(18), entry(12), entry(6)])
    assert (line.at.hour, line.times) == (18, 3)


def test_another_day_person_or_answer_is_another_line() -> None:
    entries = [entry(18), entry(12, "book/one closed"), entry(11, who="mira"), entry(6), entry(6, day=3)]
    assert [line.times for line in fold(entries)] == [2, 1, 1, 1]


def test_records_of_a_phase_are_one_line_until_the_answer_changes() -> None:
    days = [
        *(entry(6, day=day) for day in (9, 8)),
        entry(6, "book/one closed", day=7),
        *(entry(6, day=day) for day in (6, 5)),
    ]
    others = [entry(7, "book/two open", day=day) for day in (9, 8, 7)]
    entries = sorted([*days, *others], key=lambda each: each.at, reverse=True)
    found = [(line.what, line.times, line.at.day, line.since.day) for line in fold_records(entries)]
    assert found == [
        ("book/two open", 3, 9, 7),
        ("book/one open", 2, 9, 8),
        ("book/one closed", 1, 7, 7),
        ("book/one open", 2, 6, 5),
    ]

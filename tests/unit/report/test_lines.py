from dataclasses import replace
from datetime import UTC, datetime

from pipestate.ledger.history import Entry
from pipestate.report.gather import fold

NOON = datetime(2026, 11, 4, 12, tzinfo=UTC)


def entry(hour: int, what: str = "book/one open", *, who: str = "cron", day: int = 4) -> Entry:
    return Entry(NOON.replace(hour=hour, day=day), 1, "verify", who, what, "a1")


def test_equal_entries_in_a_row_are_one_line_at_their_newest_time() -> None:
    (line,) = fold([entry(18), entry(12), entry(6, day=3)])
    assert (line.entry.at.hour, line.since.day, line.times) == (18, 3, 3)


def test_another_person_or_answer_begins_another_line() -> None:
    entries = [entry(18), entry(12, "book/one closed"), entry(11, who="mira"), entry(6), entry(6, day=3)]
    assert [line.times for line in fold(entries)] == [1, 1, 1, 2]


def test_an_upgrade_before_and_after_a_downgrade_is_two_lines() -> None:
    """Revisions that went up, down and up again happened in that order."""
    ups = [
        replace(entry(hour, "0.1 s"), kind="upgrade", revision=each) for hour, each in ((9, "b2"), (8, "a1"))
    ]
    again = [replace(each, at=each.at.replace(hour=each.at.hour - 5)) for each in ups]
    assert [line.times for line in fold([*ups, *again])] == [1, 1, 1, 1]


def test_records_of_a_phase_are_one_line_until_the_answer_changes() -> None:
    days = [
        *(entry(6, day=day) for day in (9, 8)),
        entry(6, "book/one closed", day=7),
        *(entry(6, day=day) for day in (6, 5)),
    ]
    others = [entry(7, "book/two open", day=day) for day in (9, 8, 7)]
    entries = sorted([*days, *others], key=lambda each: each.at, reverse=True)
    found = [(line.entry.what, line.times, line.entry.at.day, line.since.day) for line in fold(entries)]
    assert found == [
        ("book/two open", 3, 9, 7),
        ("book/one open", 2, 9, 8),
        ("book/one closed", 1, 7, 7),
        ("book/one open", 2, 6, 5),
    ]

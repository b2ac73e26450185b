"""Impact of a rehearsal: figures, and findings over a limit."""

from dataclasses import replace
from typing import Any

import pytest

from pipestate.rehearse.impact import (
    MEASURABLE_FACTOR,
    LimitFinding,
    LimitVerdict,
    LockEncounter,
    Rehearsal,
    RevisionImpact,
    TableImpact,
    judge,
)
from support.rehearsal_results import made_statement, made_table


def encounter(*, gave_up: bool, waited_ms: float = 2000.0) -> LockEncounter:
    return LockEncounter("b2", "orders", gave_up, waited_ms)


@pytest.mark.parametrize(
    ("rows", "production", "scale"),
    [
        (10, None, 1.0),
        (10, 5, 1.0),
        (10, 10, 1.0),
        (10, 45, 4.5),
        (10, 100, 10.0),
        (10, 101, None),
        (0, 1, None),
    ],
)
def test_estimates_grow_with_productions_rows_up_to_ten_times(
    rows: int, production: int | None, scale: float | None
) -> None:
    table = made_table(rows=rows, production_rows=production)
    assert table.scale == scale
    assert table.production_wait_ms == (None if scale is None else 2000.0 * scale)


@pytest.mark.parametrize(
    ("overrides", "gives_up"),
    [
        ({"modes": ("ShareLock",)}, None),
        ({"lock_timeout_ms": None}, None),
        ({"lock_timeout_ms": 200.0}, True),
        ({"lock_timeout_ms": 0.0, "never_gives_up": True}, False),
        ({"lock_timeout_ms": 0.0, "never_gives_up": True, "encounter": encounter(gave_up=True)}, True),
        ({"lock_timeout_ms": 200.0, "encounter": encounter(gave_up=False)}, False),
        ({"lock_timeout_ms": 5000.0, "encounter": encounter(gave_up=False)}, True),
        ({"lock_timeout_ms": None, "encounter": encounter(gave_up=False)}, False),
    ],
)
def test_a_trial_outweighs_what_lock_timeout_says(overrides: dict[str, Any], gives_up: bool | None) -> None:
    assert made_table(**overrides).gives_up is gives_up


def test_one_request_that_never_gives_up_decides_and_one_unknown_makes_it_unknown() -> None:
    def gives_up(*timeouts: float | None) -> bool | None:
        tables = [made_table(lock_timeout_ms=each, never_gives_up=each == 0) for each in timeouts]
        revision = RevisionImpact("b2", "b2.py", 1.0, tuple(tables))
        return Rehearsal("clone", "18", None, "b2", 1.0, 0.0, (revision,)).gives_up

    assert [gives_up(), gives_up(200), gives_up(200, None), gives_up(200, None, 0)] == [
        True,
        True,
        None,
        False,
    ]


def found(table: TableImpact, *, limit: float = 500, floor: float = 100) -> tuple[LimitFinding, ...]:
    revision = RevisionImpact("b2", "versions/b2.py", 2000.0, (table,))
    return judge(Rehearsal("clone", "18", None, "b2", 1.0, floor / MEASURABLE_FACTOR, (revision,)), limit)


@pytest.mark.parametrize(
    ("sql", "instead"),
    [
        ("CREATE INDEX i ON orders (note)", "create_index"),
        ("create unique index i on orders (note)", "create_index"),
        ("ALTER TABLE orders ADD CONSTRAINT c CHECK (total > 0)", "add_checks"),
        ('ALTER TABLE orders ADD CONSTRAINT "a name" CHECK (total > 0)', "add_checks"),
        ("ALTER TABLE orders ADD CONSTRAINT u UNIQUE (note)", "USING INDEX"),
        ("ALTER TABLE orders ADD PRIMARY KEY (id)", "USING INDEX"),
        ("ALTER TABLE orders ADD CONSTRAINT u UNIQUE USING INDEX i", "transaction_per_migration=True"),
        ("ALTER TABLE orders ADD FOREIGN KEY (shop) REFERENCES shops", "add_foreign_key"),
        ("ALTER TABLE orders ALTER COLUMN note SET NOT NULL", "IS NOT NULL"),
        ("ALTER TABLE orders VALIDATE CONSTRAINT c", "validate in a transaction of their own"),
        ("UPDATE orders SET note = 'x'", "pipestate backfill"),
        ("WITH old AS (SELECT 1) DELETE FROM orders", "pipestate backfill"),
        ("SELECT pg_sleep(2)", "transaction_per_migration=True"),
        ("CREATE INDEX CONCURRENTLY i ON orders (note)", "transaction_per_migration=True"),
        ("ALTER TABLE orders ADD CONSTRAINT c CHECK (total > 0) NOT VALID", "transaction_per_migration=True"),
    ],
)
def test_a_finding_names_the_line_and_what_avoids_it(sql: str, instead: str) -> None:
    (finding,) = found(made_table(sql))
    assert instead in finding.instead
    assert (finding.revision, finding.source, finding.verdict) == (
        "b2",
        "versions/b2.py:7",
        LimitVerdict.OVER,
    )


def test_a_rewrite_outranks_what_the_statement_looks_like() -> None:
    (finding,) = found(made_table("UPDATE orders SET note = 'x'", rewritten=True))
    assert finding.what == "rewrites the table under its lock"


@pytest.mark.parametrize(
    ("sql", "instead"),
    [
        (
            "ALTER TABLE orders ADD COLUMN token uuid DEFAULT gen_random_uuid()",
            "the column without its default",
        ),
        ('ALTER TABLE orders ADD "Token" uuid DEFAULT gen_random_uuid()', "the column without its default"),
        ("ALTER TABLE orders ALTER COLUMN id SET DATA TYPE bigint", "a Contract for the old one"),
        ("ALTER TABLE orders ADD COLUMN a int, ALTER id TYPE bigint", "a Contract for the old one"),
        ("TRUNCATE orders", "a time when nobody needs the table"),
    ],
)
def test_the_advice_for_a_rewrite_fits_what_it_changes(sql: str, instead: str) -> None:
    (finding,) = found(made_table(sql, rewritten=True))
    assert instead in finding.instead
    assert ("Contract" in finding.instead) == ("TYPE" in sql)


def test_every_finding_of_a_revision_is_listed() -> None:
    """The index took less time than the rewrite, and was hidden behind it."""
    rewrite = made_statement("ALTER TABLE orders ADD COLUMN token uuid DEFAULT gen_random_uuid()")
    index = replace(made_statement("CREATE INDEX i ON orders (note)"), source="versions/b2.py:9", end=0.4)
    short = replace(made_statement("UPDATE alembic_version SET version_num = 'b2'"), end=0.02)
    plain = made_statement("SELECT pg_sleep(1)")
    table = made_table(
        rewritten=True,
        spent_by=rewrite,
        rewritten_by=rewrite,
        statements=(rewrite, plain, index, index, short),
    )
    first, second = found(table)
    assert first.what.startswith("rewrites the table")
    assert (second.source, second.what) == (
        "versions/b2.py:9",
        "builds an index under a lock that stops writers",
    )
    swapped = found(replace(table, spent_by=index))
    assert [each.source for each in swapped] == ["versions/b2.py:9", "versions/b2.py:7"]
    assert swapped[1].what.startswith("rewrites the table")


def test_a_lock_that_outlives_its_revision_is_that_revisions() -> None:
    index = made_statement("CREATE INDEX i ON other (note)")
    later = replace(index, revision="c3", source="versions/c3.py:9", start=1.0)
    (finding,) = found(made_table(spent_by=later))
    assert (finding.revision, finding.source) == ("b2", "versions/c3.py:9")
    assert finding.what == "keeps its lock while a later revision runs"


def test_a_request_that_never_gives_up_fails_whatever_it_holds() -> None:
    (finding,) = found(made_table(never_gives_up=True, held_ms=1.0, writer_ms=1.0))
    assert finding.verdict is LimitVerdict.OVER
    assert "without a lock_timeout" in finding.what


def test_a_long_lock_timeout_may_make_everybody_wait_as_long() -> None:
    (finding,) = found(made_table(lock_timeout_ms=60_000.0, writer_ms=1.0))
    assert finding.what.startswith("requests ACCESS EXCLUSIVE with a lock_timeout above the limit")


def test_a_request_that_was_seen_to_wait_longer_than_the_limit_is_reported() -> None:
    """It has no lock_timeout, and gave up all the same: a statement_timeout does that."""
    encounter = LockEncounter("b2", "orders", gave_up=True, waited_ms=900.0)
    (finding,) = found(
        made_table(lock_timeout_ms=0.0, never_gives_up=True, writer_ms=1.0, encounter=encounter)
    )
    assert finding.what.startswith("requests ACCESS EXCLUSIVE with a lock_timeout above the limit")


def test_the_scaled_figure_is_judged() -> None:
    (finding,) = found(made_table(writer_ms=150.0, rows=10, production_rows=90))
    assert finding.verdict is LimitVerdict.OVER
    assert found(made_table(writer_ms=150.0)) == ()


def test_what_would_be_a_guess_is_unknown_and_no_yes() -> None:
    (finding,) = found(made_table(writer_ms=1.0, rows=10, production_rows=1000))
    assert finding.verdict is LimitVerdict.UNKNOWN
    assert "a tenth of production's rows" in finding.instead


def test_what_is_over_the_limit_on_a_small_clone_already_is_over() -> None:
    (finding,) = found(made_table(rows=10, production_rows=1000))
    assert finding.verdict is LimitVerdict.OVER


def test_where_nobody_would_wait_nobody_waits_longer_in_production() -> None:
    weak = made_table(modes=("ShareUpdateExclusiveLock",), writer_ms=0.0, rows=10, production_rows=1000)
    assert found(weak) == ()


def test_near_the_limit_nobody_can_say() -> None:
    (finding,) = found(made_table(writer_ms=300.0))
    assert finding.verdict is LimitVerdict.TOO_CLOSE


def test_a_wait_too_small_to_measure_is_no_finding_unless_it_is_far_over() -> None:
    assert found(made_table(writer_ms=300.0), floor=400) == ()
    assert found(made_table(writer_ms=1100.0), floor=2000) != ()


def test_a_table_that_was_not_probed_is_judged_by_how_long_it_was_held() -> None:
    assert found(made_table(writer_ms=None, reader_ms=None, rows_ms=None)) != ()


def test_on_sqlite_the_revision_itself_is_the_wait() -> None:
    slow = RevisionImpact("b2", "versions/b2.py", 2000.0, slowest=made_statement("SELECT 1"))
    revisions = (slow, RevisionImpact("c3", "versions/c3.py", 10.0))
    (finding,) = judge(Rehearsal("clone", "sqlite 3", None, "c3", 1.0, 0.0, revisions, locks_file=True), 500)
    assert (finding.revision, finding.table, finding.source) == ("b2", "the file", "versions/b2.py:7")

"""The plan on a terminal: the next step, the database, and no line for each of 300 revisions."""

import io

from rich.console import Console

from pipestate.cli.formats.plan import print_plan
from pipestate.status.plan import GateState, MigrationPlan, PlannedRevision
from pipestate.verify.report import DatabaseInfo, Gate

INFO = DatabaseInfo("postgresql://ops:***@db.example.com/shop", "postgresql", "17.2", "r5", "r300")


def seen(applied: int, total: int = 300, gated: int | None = None, *, verbose: bool = False) -> list[str]:
    gate = (GateState("orders/ready", Gate.CLOSED),)
    steps = tuple(
        PlannedRevision(f"r{number}", f"Step {number}.", number <= applied, gate if number == gated else ())
        for number in range(1, total + 1)
    )
    screen = Console(width=80, file=io.StringIO(), no_color=True, force_terminal=True)
    print_plan(MigrationPlan(INFO, steps, "alembic upgrade r300"), (), screen, verbose=verbose)
    assert isinstance(screen.file, io.StringIO)
    return [
        line.rstrip()
        for line in screen.file.getvalue()
        .replace("\x1b[1m", "")
        .replace("\x1b[0m", "")
        .replace("\x1b[2m", "")
        .splitlines()
    ]


def test_what_is_applied_is_one_line_and_the_database_is_named() -> None:
    assert seen(300) == [
        "Next: alembic upgrade r300",
        "shop on db.example.com, postgresql 17.2, at revision r5 of r300; no revision",
        "  pending",
        "",
        "✓  r300  300 revisions applied (--verbose lists each)",
    ]


def test_a_long_row_of_pending_revisions_is_folded_and_gates_are_not() -> None:
    lines = seen(1, gated=200)[3:]
    assert lines == [
        "",
        "✓  r1    1 revision applied (--verbose lists each)",
        "·  r2    Step 2.",
        "·  r3    Step 3.",
        "·  r4    Step 4.",
        "·  r199  195 revisions more without a gate (--verbose lists each)",
        "·  r200  Step 200. (gate orders/ready closed)",
        "·  r201  Step 201.",
        "·  r202  Step 202.",
        "·  r203  Step 203.",
        "·  r300  97 revisions more without a gate (--verbose lists each)",
    ]


def test_verbose_lists_each_revision() -> None:
    assert len(seen(150, verbose=True)) == 304

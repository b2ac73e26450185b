"""`pipestate status` on the terminal: answers for the weeks between expand and contract."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.text import Text

from pipestate.cli.formats.layout import (
    Line,
    Rows,
    database_line,
    fits,
    label,
    labelled,
    minute,
    more_rows,
    rows_table,
    table_of,
)
from pipestate.cli.formats.status_phase import BAD, GOOD, LEGEND, ODD, phase_picture
from pipestate.core.text import listed, many, plain
from pipestate.ledger.drift import Drift
from pipestate.project.find import Calls
from pipestate.status.facts import is_distribution
from pipestate.status.model import Backfilling, Forced, RecordedRehearsal, Shown, Status
from pipestate.status.opening import DAY, lasting, on
from pipestate.verify.report import Gate

BAR = 30
RECENT = 14 * DAY  # older backfills are history


def print_status(status: Status, console: Console, calls: Calls, *, verbose: bool = False) -> None:
    """Print the answer, each phase, other records of the ledger, and the runbooks' views."""
    parts = Group(
        *_header(status, calls),
        *_phases(status, calls, verbose=verbose),
        *_ledger(status, calls),
        *_observations(status, console.width),
        *show_views(status.views, console.width, named=len(status.runbooks) > 1),
    )
    console.print(parts)


def _header(status: Status, calls: Calls) -> Iterator[RenderableType]:
    """Answer in one line, then name the database, and the moment."""
    is_refused = any(phase.obstacles for _, phase in status.phases())
    is_good = status.addresses(Gate.OPEN) and not status.addresses(Gate.CLOSED) and not is_refused
    step = "" if status.ran else f" Next: {status.next_command(calls)}"
    yield Text(f"{status.answer}{step}", "bold green" if is_good else "bold red")
    text = Text(f"{database_line(status.database)}, {on(status.at, status.at)} UTC", "dim")
    drawn = any(day.open or day.closed for _, phase in status.phases() for day in phase.days)
    yield text.append(f"\n{LEGEND}") if drawn else text


def _phases(status: Status, calls: Calls, *, verbose: bool) -> Iterator[RenderableType]:
    """Draw the closed phases first, then those with records; the others are counted, or listed by their titles."""
    drawn = [(phase, *phase_picture(runbook, phase, status.at, calls)) for runbook, phase in status.phases()]
    drawn.sort(key=lambda each: each[0].gate is not Gate.CLOSED)
    for _, title, lines in drawn:
        if lines:
            yield Text()
            yield title
            yield labelled(lines)
    others = [(phase, title) for phase, title, lines in drawn if not lines]
    if others:
        yield Text()
    if verbose:
        yield from (title for _, title in others)
    elif others:
        gates = [phase.gate for phase, _ in others]
        counts = [f"{gates.count(gate)} {gate}" for gate in Gate if gate in gates]
        what = "Other gates" if len(others) < len(drawn) else "Gates"
        yield Text(f"{what}: {', '.join(counts)} (--verbose lists each)", "dim")


def _ledger(status: Status, calls: Calls) -> Iterator[RenderableType]:
    lines: list[Line] = []
    if status.no_ledger is not None:
        lines.append((label("ledger", BAD if status.forged else ODD), Text(plain(status.no_ledger))))
    if status.forced is not None:
        lines.append((label("forced", BAD), _forced(status.forced, status.at)))
    for backfill in status.backfills:
        if backfill.finished_at is None or status.at - backfill.finished_at < RECENT:
            style = ODD if backfill.finished_at is None else GOOD
            lines.append((label("backfill", style), _backfill(backfill, status.at)))
    if status.rehearsal is not None:
        style = GOOD if status.rehearsal.ok and status.rehearsal.unchanged else ODD
        lines.append((label("rehearsed", style), _rehearsal(status.rehearsal, status.at)))
    last = {dropped.revision: dropped for dropped in status.soft_dropped}
    for dropped in status.soft_dropped:
        age = lasting(status.at - dropped.dropped_at)
        text = Text().append(plain(dropped.described), "bold")
        text.append(f": {dropped.size}, by {plain(dropped.revision)}, {age} ago")
        if dropped is last[dropped.revision]:
            restore = dropped.restore(calls.alembic)
            text.append(f"\nrestore: {restore}; purge: {calls.pipestate('purge --older-than 30d')}", "dim")
        lines.append((label("soft drop", GOOD), text))
    if status.drift is not None and (drifted := status.drift.sentence):
        lines.append((label("drift", ODD), Text(plain(drifted))))
    if lines:
        yield Text()
        yield labelled(lines, indent=0)


def _forced(forced: Forced, now: datetime) -> Text:
    text = Text().append(f"{plain(forced.runbook)}/{plain(forced.phase)}", "bold")
    text.append(f" for {plain(forced.revision)}" if forced.revision else "")
    text.append(f", {on(forced.at, now)}, by {plain(forced.by)}: {plain(forced.reason or '')}")
    failed = [plain(failure.check) for failure in forced.failures]
    text.append(f"\nfailed checks: {listed(failed, most=5)}" if failed else "", "dim")
    if forced.applied:
        return text
    return text.append(f"\n{plain(forced.revision or '')} was downgraded since")


def _backfill(backfill: Backfilling, now: datetime) -> Text:
    text = Text().append(f"{plain(backfill.runbook)}/{plain(backfill.id)}", "bold")
    done = f"{many(backfill.rows_updated, 'row')} of {plain(backfill.table)} updated"
    if backfill.finished_at is not None:
        ended = f"{lasting(now - backfill.finished_at)} ago"
        return text.append(f": finished {ended}, {done}, by {plain(backfill.actor)}")
    left = f", {many(backfill.rows_left, 'row')} left" if backfill.rows_left else ""
    last = f"the last batch {lasting(now - backfill.updated_at)} ago"
    return text.append(f": {backfill.percent} %, {done}{left}, {last}, by {plain(backfill.actor)}")


def _rehearsal(rehearsal: RecordedRehearsal, now: datetime) -> Text:
    text = Text().append(listed(map(plain, rehearsal.revisions), most=5), "bold")
    wait = rehearsal.longest_wait_ms
    found = "a revision failed" if wait is None else f"the longest wait {wait:.0f} ms"
    when = f"{on(rehearsal.at, now)}, by {plain(rehearsal.by)}, on {plain(rehearsal.clone)}"
    text.append(f": {found}, {when}")
    return text if rehearsal.unchanged else text.append("; the files have changed since", ODD)


def _observations(status: Status, width: int) -> Iterator[RenderableType]:
    """Return a table, or a line for each observation if the table does not fit."""
    rows, lines = [], []
    for each in status.observations:
        fails = listed([plain(name.split("/", 1)[1]) for name in each.fails], most=2)
        said = [plain(each.name), f"{each.value:.15g}", lasting(each.age), plain(each.source)]
        said.append(f"fails {fails}" if fails else "")
        style = "red" if fails else ""
        rows.append([Text(cell, style) for cell in said])
        line = "{} {}, {} ago, {}".format(*said) + (f", {said[-1]}" if fails else "")
        lines.append((label("observed"), Text(line, style)))
    if rows:
        yield Text()
        columns = ("observation", "value", "age", "source", "")
        is_narrow = not fits(columns, rows, width)
        yield labelled(lines, indent=0) if is_narrow else table_of(columns, rows, right=["value"])


def drift_as_lines(drift: Drift) -> Iterator[str]:
    """Answer in the first line; then name each difference."""
    against = f"what the migrations build up to revision {drift.revision}"
    if drift.recorded_at is not None:
        against = f"the record of {minute(drift.recorded_at)} UTC, revision {drift.revision or 'base'}"
    if drift.incomparable is not None:
        yield f"cannot be compared with {against}: {drift.incomparable}; the next upgrade makes a new record"
        return
    count = len(drift.differences)
    differs = f"{many(count, 'object')} {'differs' if count == 1 else 'differ'}"
    yield f"drift: {differs} from {against}" if count else f"no drift: nothing differs from {against}"
    for each in drift.differences:
        yield f"  {each}"


def show_views(views: Sequence[Shown], width: int, *, named: bool = False) -> Iterator[RenderableType]:
    """Draw each view that has rows, or an error; `named` maps each to its runbook."""
    for view in views:
        if not view.error and not view.rows:
            continue
        title = Text().append(f"\n{plain(view.id)}", "bold")
        yield title.append(f"  {plain(view.runbook)}", "dim") if named else title
        if view.error:
            yield Text(plain(view.error), "red")
            continue
        show = _distribution if is_distribution(view.rows) else rows_table
        yield show(view.rows, width)
        yield from (Text(more, "dim") for more in more_rows(view.total, len(view.rows)))


def _distribution(rows: Rows, width: int) -> RenderableType:
    name, amount, *rest = rows[0]
    total = sum(int(str(row[amount])) for row in rows)
    cells = []
    for row in rows:
        bar = bar_of(int(str(row[amount])), total, min(BAR, width - 40))
        said = ["" if row[column] is None else plain(str(row[column])) for column in (name, amount, *rest)]
        cells.append([Text(said[0]), Text(said[1]), Text(bar, "cyan"), *map(Text, said[2:])])
    return table_of([name, amount, "", *rest], cells, right=[amount, *rest])


def bar_of(amount: int, total: int, width: int) -> str:
    """Draw a share of the whole; even the smallest share has a mark.

    >>> bar_of(1, 4, 8), bar_of(1, 1000, 8), bar_of(0, 1000, 8)
    ('██      ', '▏       ', '        ')
    """
    full = amount * width // total if total else 0
    return (("█" * full) or ("▏" if amount else "")).ljust(width)

"""`pipestate status` on the terminal: what people ask in the weeks between expand and contract."""

from collections.abc import Iterator
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipestate.chain.calls import Calls
from pipestate.plural import many
from pipestate.render.labelled import Line, label, labelled, listed
from pipestate.render.rows import fits
from pipestate.render.status_phase import BAD, GOOD, LEGEND, ODD, phase_picture
from pipestate.render.views import show_views
from pipestate.safe import plain
from pipestate.standing.model import Backfilling, Forced, Observed, RecordedRehearsal, Standing
from pipestate.standing.moments import DAY, lasting, on

RECENT = 14 * DAY  # a backfill that ended before that is history


def print_status(standing: Standing, console: Console, calls: Calls) -> None:
    console.print(status_picture(standing, console.width, calls))


def status_picture(standing: Standing, width: int, calls: Calls) -> RenderableType:
    """Draw all of it: the database, each phase, what else the ledger holds, the runbooks' views."""
    return Group(
        _header(standing),
        *_phases(standing, calls),
        *_ledger(standing),
        *_observations(standing, width),
        *show_views(standing.views, width, named=len(standing.runbooks) > 1),
    )


def _header(standing: Standing) -> Text:
    info = standing.database
    at = f"revision {info.revision or 'base'} of {info.head}"
    text = Text(f"{plain(info.url)}  {info.dialect} {info.server_version}  {plain(at)}", "dim")
    text.append(f"\n{on(standing.at, standing.at)} UTC")
    drawn = any(day.open or day.closed for _, phase in standing.phases() for day in phase.days)
    return text.append(f"  {LEGEND}") if drawn else text


def _phases(standing: Standing, calls: Calls) -> Iterator[RenderableType]:
    """An empty line round phases that say something; titles alone stand together."""
    apart = True
    for runbook, phase in standing.phases():
        title, lines = phase_picture(runbook, phase, standing.at, calls)
        if apart or lines:
            yield Text()
        apart = bool(lines)
        yield title
        if lines:
            yield labelled(lines)
    if not any(phase.applies for _, phase in standing.phases()):
        at = f"No phase applies at revision {plain(standing.database.revision or 'base')}."
        why = at if standing.runbooks else "No page here has `default: true`: name one, or write one."
        yield Text(f"\n{why} The next step: {calls.pipestate('plan')}")


def _ledger(standing: Standing) -> Iterator[RenderableType]:
    lines: list[Line] = []
    if standing.no_ledger is not None:
        lines.append((label("ledger", BAD if standing.forged else ODD), Text(plain(standing.no_ledger))))
    if standing.forced is not None:
        lines.append((label("forced", BAD), _forced(standing.forced, standing.at)))
    for backfill in standing.backfills:
        if backfill.finished_at is None or standing.at - backfill.finished_at < RECENT:
            style = ODD if backfill.finished_at is None else GOOD
            lines.append((label("backfill", style), _backfill(backfill, standing.at)))
    if standing.rehearsal is not None:
        style = GOOD if standing.rehearsal.ok and standing.rehearsal.unchanged else ODD
        lines.append((label("rehearsed", style), _rehearsal(standing.rehearsal, standing.at)))
    if lines:
        yield Text()
        yield labelled(lines, indent=0)


def _forced(forced: Forced, now: datetime) -> Text:
    text = Text().append(f"{plain(forced.runbook)}/{plain(forced.phase)}", "bold")
    text.append(f" for {plain(forced.revision)}" if forced.revision else "")
    text.append(f", {on(forced.at, now)}, by {plain(forced.by)}: {plain(forced.reason or '')}")
    failed = [plain(failure.check_id) for failure in forced.failures]
    text.append(f"\nhad failed: {listed(failed, most=5)}" if failed else "", "dim")
    if forced.applied:
        return text
    return text.append(f"\n{plain(forced.revision or '')} was taken back since, and is not applied now")


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
    stall = rehearsal.longest_stall_ms
    felt = "a revision failed" if stall is None else f"the longest wait {stall:.0f} ms"
    when = f"{on(rehearsal.at, now)}, by {plain(rehearsal.by)}, on {plain(rehearsal.clone)}"
    text.append(f": {felt}, {when}")
    return text if rehearsal.unchanged else text.append("; the files have changed since", ODD)


def _observations(standing: Standing, width: int) -> Iterator[RenderableType]:
    """A table; where it does not fit, a line for each."""
    if not standing.observations:
        return
    yield Text()
    columns = ("observation", "value", "age", "source", "")
    rows = [_observation(each) for each in standing.observations]
    if not fits(columns, rows, width):
        yield labelled(((label("observed"), _in_a_line(row)) for row in rows), indent=0)
        return
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name == "value" else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    yield table


def _observation(observed: Observed) -> tuple[Text, ...]:
    fails = listed([plain(each.split("/", 1)[1]) for each in observed.fails], most=2)
    cells = (
        plain(observed.name),
        f"{observed.value:.15g}",
        lasting(observed.age),
        plain(observed.source),
        f"fails {fails}" if fails else "",
    )
    return tuple(Text(cell, "red" if observed.wrong else "") for cell in cells)


def _in_a_line(row: tuple[Text, ...]) -> Text:
    name, value, age, source, fails = (cell.plain for cell in row)
    return Text(f"{name} {value}, {age} ago, {source}{', ' if fails else ''}{fails}", row[0].style)

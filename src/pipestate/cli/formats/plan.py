"""Plan and history on the terminal: the next step, revisions with their gates, entries."""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from pipestate.cli.formats.layout import database_line, hanging, in_columns, minute, soft_dropped_as_lines
from pipestate.cli.formats.verify import GATES
from pipestate.core.text import many, plain
from pipestate.ledger.history import Entry
from pipestate.ledger.record import WRITTEN_BY_ITSELF, Event
from pipestate.ledger.soft_drops import SoftDropped
from pipestate.status.plan import MigrationPlan, PlannedRevision

MOST = 8  # consecutive pending revisions without a gate that are listed
ENDS = 3  # revisions listed before a longer run is folded


def print_plan(
    plan: MigrationPlan, dropped: Sequence[SoftDropped], console: Console, *, verbose: bool = False
) -> None:
    """Print the next step first; fold applied revisions and long runs of pending ones; list soft-dropped objects."""
    pending = sum(not step.applied for step in plan.steps)
    console.print(hanging(Text(f"Next: {plain(plan.advice)}", "bold"), console))
    where = (
        f"{database_line(plan.database)}; {many(pending, 'revision') if pending else 'no revision'} pending"
    )
    console.print(hanging(Text(where, "dim"), console))
    rows = list(_rows(plan, verbose=verbose))
    if rows:
        console.print()
    for part in in_columns(rows, console) if rows else ():
        console.print(part)
    for line in soft_dropped_as_lines(dropped):
        console.print(hanging(Text(f"Soft-dropped: {plain(line)}", "dim"), console))


def _rows(plan: MigrationPlan, *, verbose: bool) -> Iterator[tuple[Text, ...]]:
    kinds = groupby(plan.steps, key=lambda step: (step.applied, bool(step.gates) and not step.applied))
    for (applied, gated), group in kinds:
        steps = list(group)
        if applied and not verbose:
            yield _folded(steps, "✓", "green", "applied (--verbose lists each)")
        elif not applied and not gated and not verbose and len(steps) > MOST:
            yield from map(_row, steps[:ENDS])
            yield _folded(steps[ENDS:], "·", "dim", "more without a gate (--verbose lists each)")
        else:
            yield from map(_row, steps)


def _folded(steps: list[PlannedRevision], mark: str, style: str, what: str) -> tuple[Text, ...]:
    """Fold several revisions into one row: the last of them, and their number."""
    return Text(mark, style), Text(plain(steps[-1].revision)), Text(f"{many(len(steps), 'revision')} {what}")


def _row(step: PlannedRevision) -> tuple[Text, ...]:
    mark = Text("✓", "green") if step.applied else Text("·", "dim")
    title = Text(plain(step.title), "dim" if step.applied else "")
    for gate in step.gates:
        title.append(f"{' ' if title else ''}(gate {gate.phase} {gate.gate})", GATES[gate.gate])
    return mark, Text(plain(step.revision)), title


def print_history(
    entries: Sequence[Entry], titles: Mapping[str, str], database: str, console: Console, *, limit: int
) -> None:
    """Print time, kind and text of each entry, in the same columns at every width.

    Text from people is printed literally, without markup.
    """
    count = many(len(entries), "entry", "entries") if entries else "no entry"
    order = ", the newest first; times are UTC" if entries else ""
    more = "; --limit shows more" if len(entries) == limit else ""
    console.print(hanging(Text(f"{plain(database)}: {count}{order}{more}", "bold"), console))
    if not entries:
        return
    console.print()
    rows = []
    room = console.width - len("2026-01-20 06:30") - max(len(entry.kind) for entry in entries) - 4
    for entry in entries:
        # A line must not break inside `(0.1 s)`: Rich breaks at any space, textwrap keeps these.
        what = re.sub(r"\((\S+) (m?s)\)", "(\\1\N{NO-BREAK SPACE}\\2)", plain(_what(entry, titles)))
        lines = textwrap.wrap(what, max(20, room), break_on_hyphens=False) if console.is_terminal else [what]
        said = "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")
        rows.append((Text(minute(entry.at), "dim"), Text(plain(entry.kind)), Text(said)))
    for part in in_columns(rows, console):
        console.print(part)


def _what(entry: Entry, titles: Mapping[str, str]) -> str:
    """Describe an entry: event, person and revision. Applied and gated revisions have their title."""
    revision = entry.revision or "base"
    named = f"{revision} {titles[revision].rstrip('.')}" if revision in titles else revision
    if entry.kind in WRITTEN_BY_ITSELF:
        title = titles.get(revision, revision).rstrip(".")
        if title in entry.what:  # the title at the time of the record
            what = entry.what if entry.what == revision else f"{revision} {entry.what}"
            return f"{what}; by {entry.who}"
        return f"{named}; {entry.what}; by {entry.who}"
    where = f"for {named}" if entry.kind in (Event.GATE, Event.FORCE) else f"at {revision}"
    return f"{entry.what}; by {entry.who}, {where}"

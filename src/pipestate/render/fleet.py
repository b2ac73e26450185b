"""A fleet on the terminal: how many are alike, and a row for each group of those that are not."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipestate.fleet.run import Fleet
from pipestate.fleet.tally import Group
from pipestate.plural import many
from pipestate.safe import plain

MOST_ROWS = 40
MOST_NAMES = 3
MOST_CHECKS = 4
# What an exit code means of one database.
ANSWERS = {0: "open", 1: "closed", 2: "not checked", 3: "not evaluated"}
PLANNED = ANSWERS | {0: "planned"}


def print_fleet(fleet: Fleet, console: Console) -> None:
    """Print those that are alike in one line, the others in a table, and the sum of all last."""
    console.print(Text(f"{many(fleet.asked, 'database')} asked in {fleet.duration_ms / 1000:.1f} s", "dim"))
    alike, others = _alike(fleet)
    if alike is not None:
        whose = Text(f"{len(alike.names):,} alike: ") if len(alike.names) > 1 else _names(alike).append(": ")
        console.print(whose.append_text(_what(alike, whole=True)), soft_wrap=not console.is_terminal)
    if others:
        differ = sum(len(group.names) for group in others)
        console.print(Text(f"\n{differ:,} {'differs' if differ == 1 else 'differ'}:" if alike else ""))
        console.print(_table(others))
    if len(others) > MOST_ROWS:
        console.print(Text(f"and {len(others) - MOST_ROWS:,} more rows: --json has every database", "dim"))
    console.print(Text(f"\n{_sum(fleet)}", "bold green" if fleet.exit_code == 0 else "bold red"))


def _alike(fleet: Fleet) -> tuple[Group | None, list[Group]]:
    """Take the largest group out, where it is one that others can differ from."""
    first = fleet.groups[0] if fleet.groups else None
    if first is None or first.state.error is not None or (len(first.names) == 1 and len(fleet.groups) > 1):
        return None, list(fleet.groups)
    return first, list(fleet.groups[1:])


def _table(groups: list[Group]) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("database", overflow="fold", ratio=2)
    table.add_column("revision", overflow="fold")
    table.add_column("", overflow="fold", ratio=3)
    for group in groups[:MOST_ROWS]:
        known = group.state.error is None
        table.add_row(
            _names(group), Text(plain(group.state.revision or "base") if known else "–"), _what(group)
        )
    return table


def _names(group: Group) -> Text:
    shown = ", ".join(plain(name) for name in group.names[:MOST_NAMES])
    more = len(group.names) - MOST_NAMES
    return Text(f"{shown} and {more:,} more" if more > 0 else shown)


def _what(group: Group, *, whole: bool = False) -> Text:
    """Say what a group is like: its error, its next step or its gates, and how its schema differs."""
    state = group.state
    if state.error is not None:
        return Text(plain(state.error), "magenta")
    said = Text(f"at {plain(state.revision or 'base')} of {plain(state.head or 'base')}, " if whole else "")
    if state.next is not None:
        pending = many(state.pending, "revision") if state.pending else "nothing"
        said.append(f"{pending} pending; next: {plain(state.next)}")
    elif state.closed:
        said.append(f"closed: {plain(', '.join(state.closed))}", "red")
        said.append(f" ({plain(', '.join(_checks(group)))})", "dim")
    else:
        said.append(
            "every gate open" if state.asked else "nothing to check", "green" if state.asked else "dim"
        )
    if state.drift is not None:
        said.append(f"\n{plain(state.drift)}", "yellow")
    return said


def _checks(group: Group) -> list[str]:
    """Name the checks that close most gates, with how many databases each closes where that is not all."""
    size, first = len(group.names), group.checks[:MOST_CHECKS]
    more = len(group.checks) - len(first)
    named = [check if number == size else f"{check} in {number:,}" for check, number in first]
    return [*named, f"{more} more"] if more else named


def _sum(fleet: Fleet) -> str:
    words = PLANNED if fleet.planned else ANSWERS
    parts = [f"{number:,} {words[code]}" for code, number in fleet.codes.items() if number]
    if fleet.drifts:
        parts.append(f"{len(fleet.drifts):,} with another schema")
    if fleet.is_interrupted:
        parts.append(f"{fleet.total - fleet.asked:,} not asked")
    return ", ".join(parts)

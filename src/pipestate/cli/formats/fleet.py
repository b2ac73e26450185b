"""Fleet on the terminal: the number of equal databases, and a row for each differing group."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipestate.cli.formats.layout import hanging
from pipestate.core.text import many, plain
from pipestate.fleet.evaluate import UpgradeOutcome
from pipestate.fleet.run import Fleet, Group

MOST_ROWS = 40
MOST_NAMES = 3
MOST_CHECKS = 4
# Meanings of the exit codes of one database.
ANSWERS = {0: "open", 1: "closed", 2: "not checked", 3: "not evaluated"}
PLANNED = ANSWERS | {0: "planned"}
DONE = (UpgradeOutcome.CURRENT, UpgradeOutcome.UPGRADED)


def print_fleet(fleet: Fleet, console: Console) -> None:
    """Print the totals first; then the waves of an upgrade, or the largest group; then the others in a table."""
    said = (_sum_of_upgrade if fleet.waves else _sum)(fleet)
    style = "bold green" if fleet.exit_code == 0 else "bold red"
    console.print(hanging(Text(f"{said[:1].upper()}{said[1:]}.", style), console))
    evaluated = "" if fleet.waves else " evaluated"
    took = f"{many(fleet.evaluated, 'database')}{evaluated} in {fleet.duration_ms / 1000:.1f} s"
    console.print(Text(f"{took}\n", "dim"))
    heading = ""
    if fleet.waves:
        console.print(_waves(fleet))
        others = [group for group in fleet.groups if group.state.outcome not in DONE]
    else:
        alike, others = _alike(fleet)
        if alike is not None:
            several = len(alike.names) > 1
            whose = Text(f"{len(alike.names):,} alike: ") if several else shown_names(alike).append(": ")
            console.print(whose.append_text(_what(alike, whole=True)), soft_wrap=not console.is_terminal)
        if alike is not None and others:
            differ = sum(len(group.names) for group in others)
            heading = f"\n{differ:,} {'differs' if differ == 1 else 'differ'}:"
    if others:
        if heading:
            console.print(Text(heading))
        console.print(_table(others, upgrade=bool(fleet.waves)))
    if len(others) > MOST_ROWS:
        console.print(Text(f"and {len(others) - MOST_ROWS:,} more rows: --json has every database", "dim"))
    if fleet.stopped:
        console.print(Text(f"\nstopped: {plain(fleet.stopped)}", "red"))


def _alike(fleet: Fleet) -> tuple[Group | None, list[Group]]:
    """Separate the largest group, if it can serve as the reference for the others."""
    first = fleet.groups[0] if fleet.groups else None
    if first is None or first.state.error is not None or (len(first.names) == 1 and len(fleet.groups) > 1):
        return None, list(fleet.groups)
    return first, list(fleet.groups[1:])


def _table(groups: list[Group], *, upgrade: bool) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("database", overflow="fold", ratio=2)
    table.add_column("revision", overflow="fold")
    table.add_column("", overflow="fold", ratio=3)
    for group in groups[:MOST_ROWS]:
        known = group.state.error is None or group.state.revision is not None
        revision = plain(group.state.revision or "base") if known else "–"
        table.add_row(shown_names(group), Text(revision), _what(group, upgrade=upgrade))
    return table


def shown_names(group: Group) -> Text:
    """Name the first databases of a group, and count the rest."""
    shown = ", ".join(plain(name) for name in group.names[:MOST_NAMES])
    more = len(group.names) - MOST_NAMES
    return Text(f"{shown} and {more:,} more" if more > 0 else shown)


def _what(group: Group, *, whole: bool = False, upgrade: bool = False) -> Text:
    """Describe a group: its error, its next step or its gates, and its schema drift."""
    state = group.state
    if state.error is not None:
        return Text(("failed: " if upgrade else "") + plain(state.error), "magenta")
    pending = f"{many(state.pending, 'revision') if state.pending else 'nothing'} pending"
    if upgrade:
        closed = f"left pending: {plain(', '.join(state.closed))} is closed, {pending}"
        return Text(closed, "yellow") if state.closed else Text(pending)
    said = Text(f"at {plain(state.revision or 'base')} of {plain(state.head or 'base')}, " if whole else "")
    if state.next is not None:
        next_step = (
            f"; next: {plain(state.next)}" if state.pending or not state.next.startswith("nothing") else ""
        )
        said.append(f"{pending}{next_step}")
    elif state.closed:
        said.append(f"closed: {plain(', '.join(state.closed))}", "red")
        said.append(f" ({plain(', '.join(_checks(group)))})", "dim")
    elif state.obstacles:
        said.append(plain(" ".join(state.obstacles)), "red")
    else:
        said.append(*(("every gate open", "green") if state.evaluated else ("nothing to check", "dim")))
    if state.drift is not None:
        said.append(f"\n{plain(state.drift)}", "yellow")
    return said


def _checks(group: Group) -> list[str]:
    """Name the checks that close the most gates, with the count of databases if it is not all."""
    size, first = len(group.names), group.checks[:MOST_CHECKS]
    more = len(group.checks) - len(first)
    named = [check if number == size else f"{check} in {number:,}" for check, number in first]
    return [*named, f"{more} more"] if more else named


def _sum(fleet: Fleet) -> str:
    words = PLANNED if fleet.planned else ANSWERS
    parts = [f"{number:,} {words[code]}" for code, number in fleet.codes.items() if number]
    if fleet.drifted:
        parts.append(f"{len(fleet.drifted):,} with drift")
    if fleet.is_interrupted:
        parts.append(f"{fleet.total - fleet.evaluated:,} left out")
    return ", ".join(parts)


def _sum_of_upgrade(fleet: Fleet) -> str:
    counted = {each: sum(wave.outcomes.get(each, 0) for wave in fleet.waves) for each in UpgradeOutcome}
    parts = [f"{number:,} {_words(outcome)}" for outcome, number in counted.items() if number]
    parts += [f"{fleet.left:,} not begun"] if fleet.left else []
    return ", ".join(parts) or "no database"


def _words(outcome: UpgradeOutcome) -> str:
    """Write an outcome for people; JSON keeps the older word `held`."""
    return outcome.name.lower().replace("_", " ")


def _waves(fleet: Fleet) -> Table:
    shown = [each for each in UpgradeOutcome if any(wave.outcomes.get(each) for wave in fleet.waves)]
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("wave", "databases", *map(_words, shown)):
        table.add_column(name, justify="right")
    for wave in fleet.waves:
        numbers = (wave.number, wave.databases, *(wave.outcomes.get(each, 0) for each in shown))
        table.add_row(*(f"{number:,}" for number in numbers))
    return table

"""Texts that screens and formats share: the answer, places, evidence in plain lines."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from pipestate.cli.formats.json import instant
from pipestate.core.text import many, plain, shorter_path
from pipestate.database.connections import engine_of
from pipestate.ledger.soft_drops import SoftDropped
from pipestate.project.find import Calls
from pipestate.verify.report import DatabaseInfo, Gate, Report, Verdict, count_closing


def evidence_lines(verdict: Verdict) -> list[str]:
    """Write `name=value` pairs, a row per line, and the number of hidden rows."""
    rows = [plain(", ".join(f"{name}={value}" for name, value in row.items())) for row in verdict.evidence]
    return rows + more_rows(verdict.evidence_rows, len(rows))


def took(milliseconds: float) -> str:
    """Write a duration.

    >>> took(80.4), took(3210)
    ('80 ms', '3.2 s')
    """
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def more_rows(total: int, shown: int) -> list[str]:
    """Count the hidden rows.

    >>> more_rows(1244, 10), more_rows(3, 3)
    (['and 1,234 more'], [])
    """
    return [f"and {total - shown:,} more"] if total > shown else []


def listed(names: Iterable[str], most: int = 3) -> str:
    """Name the first few, and count the others.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a', 'a and b', 'a, b, c and 2 more')
    """
    every = list(names)
    first = every[:most]
    if len(every) > most:
        return f"{', '.join(first)} and {len(every) - most} more"
    return " and ".join(filter(None, (", ".join(first[:-1]), first[-1] if first else "")))


def database_line(info: DatabaseInfo) -> str:
    """Name the database and its revision."""
    server = f"{info.dialect} {info.server_version}"
    return plain(f"{database_name(info.url)}, {server}, at revision {info.revision or 'base'} of {info.head}")


def database_name(url: str) -> str:
    """Name a database for people; a file by its relative path.

    >>> database_name("postgresql+psycopg2://ops:***@db.example.com:5433/shop")
    'shop on db.example.com:5433'
    >>> database_name("postgresql://ops@/shop?host=%2Fvar%2Frun%2Fpostgresql"), database_name("sqlite:///shop.db")
    ('shop on /var/run/postgresql', 'shop.db')
    """
    try:
        parts = make_url(url)
    except ArgumentError:
        return url
    name = parts.database or ""
    if engine_of(parts).IS_FILE:
        return shorter_path(name) or url
    host = parts.host or parts.query.get("host", "")
    server = host if isinstance(host, str) else ", ".join(host)
    port = parts.port or parts.query.get("port")
    where = f"{server}:{port}" if server and port and not server.startswith("/") else server
    return " on ".join(filter(None, (name or parts.username or "", where))) or url


def closing_line(report: Report, calls: Calls) -> str:
    """Name the open or closed gates, and the next step."""
    if not report.ran:
        at = report.database.revision or "base"
        next_step = calls.pipestate("plan")
        return f"Nothing was checked: no phase applies at revision {at}. The next step: {next_step}"
    closed = _addresses(report, Gate.CLOSED)
    opened = [
        f"{runbook.name}/{phase.name}"
        for runbook, phase in report.phases()
        if phase.gate is Gate.OPEN and phase.opens
    ]
    if closed:
        return f"Closed: {', '.join(closed)}. Fix what failed, then verify again."
    if opened:
        upgrade = calls.alembic("upgrade head")
        return f"Open: {', '.join(opened)}. The revisions behind it may run: {upgrade}"
    return "All blocking checks passed."


def answer(report: Report) -> str:
    """Answer a run in one line: the closed gates, or that all are open."""
    if not report.ran:
        return f"Nothing was checked: no phase applies at revision {report.database.revision or 'base'}."
    closed = [
        f"{runbook.name}/{phase.name} ({count_closing(phase.checks)})"
        for runbook, phase in report.phases()
        if phase.gate is Gate.CLOSED
    ]
    if closed:
        return f"Closed: {listed(closed, most=len(closed))}."
    opened = _addresses(report, Gate.OPEN)
    return f"Open: {listed(opened, most=len(opened))}."


def next_command(report: Report, calls: Calls) -> str | None:
    """Name the next command: the same again, the upgrade, or the plan; None if all is done."""
    if not report.ran:
        return calls.pipestate("plan")
    closed = _addresses(report, Gate.CLOSED)
    if closed:
        return calls.pipestate(f"gate {closed[0]}" if len(closed) == 1 else "verify")
    opens = any(phase.opens for _, phase in report.phases() if phase.gate is Gate.OPEN)
    return calls.alembic("upgrade head") if opens else None


def without_first_row(verdict: Verdict) -> str:
    """Return the message without the row that it quotes: the screen shows that row below."""
    rows, end = many(verdict.evidence_rows, "row"), f"required {verdict.require}"
    quotes = verdict.message.startswith(f"{rows}, first: ") and verdict.message.endswith(f"; {end}")
    return f"{rows}, {end}" if verdict.evidence and quotes else verdict.message


def _addresses(report: Report, gate: Gate) -> list[str]:
    return [f"{runbook.name}/{phase.name}" for runbook, phase in report.phases() if phase.gate is gate]


# Lines for a terminal: long text continues on indented lines; a pipe gets it unbroken.
LABEL = 9

Line = tuple[Text, Text]


def label(name: str, style: str = "dim") -> Text:
    return Text(name, style)


def labelled(lines: Iterable[Line], *, indent: int = 2) -> Table:
    """Lay lines out in two columns, the labels in the first."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=LABEL + indent, no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(Text(" " * indent).append_text(name), text)
    return table


def hanging(text: Text, console: Console, indent: int = 2) -> Text:
    """Break a text between words, and indent all lines after the first."""
    if not console.is_terminal or text.cell_len <= console.width:
        return text
    first, *rest = _stripped(text.wrap(console, console.width))
    lines = [first, *_stripped(Text(" ").join(rest).wrap(console, console.width - indent))]
    return Text("\n" + " " * indent).join(lines)


def _stripped(lines: Iterable[Text]) -> Iterator[Text]:
    for line in lines:
        line.rstrip()
        yield line


def in_columns(rows: Iterable[tuple[Text, ...]], console: Console) -> Iterator[Text | Table]:
    """Lay rows out in columns; only the last column may be broken. A pipe gets each row in a line."""
    every = list(rows)
    widths = [max(cell.cell_len for cell in column) for column in list(zip(*every, strict=True))[:-1]]
    if not console.is_terminal:
        for *cells, last in every:
            line = Text()
            for cell, width in zip(cells, widths, strict=True):
                line.append_text(cell).append(" " * (width - cell.cell_len + 2))
            yield line.append_text(last)
        return
    table = Table.grid(padding=(0, 2))
    for width in widths:
        table.add_column(width=width, no_wrap=True)
    table.add_column(overflow="fold")
    for row in every:
        table.add_row(*row)
    yield table


def soft_dropped_as_lines(things: Sequence[SoftDropped]) -> list[str]:
    """Describe each object: its size, the revision that dropped it, and the time."""
    return [
        f"{thing.described}: {size_of(thing)}, dropped by {thing.revision} at {instant(thing.dropped_at)}"
        for thing in things
    ]


def size_of(thing: SoftDropped) -> str:
    rows = [many(thing.rows, "row")] if thing.rows is not None else []
    return ", ".join(rows + ([_bytes(thing.bytes)] if thing.bytes is not None else []))


def _bytes(size: float) -> str:
    """Write a size in bytes.

    >>> _bytes(900), _bytes(12_345_678)
    ('900 B', '11.8 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"

"""Texts of the report: moments in UTC, places, names, and the summary of the gates."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from urllib.parse import unquote

from markupsafe import Markup, escape
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from pipestate.core.text import html, many
from pipestate.database.connections import engine_of
from pipestate.project.find import Calls
from pipestate.status.model import Day, DayState, PhaseStatus, RunbookStatus, Status
from pipestate.verify.report import Gate

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)")
_ADDRESS = re.compile(r"\b(?:postgresql|sqlite)(?:\+\w+)?://\S+")
_BREAK = re.compile(r"(?<=[_/])(?=\w)|(?<=\.)(?=[^\W\d_])")
DAY_WORDS = {
    DayState.OPEN: "open",
    DayState.CLOSED: "closed",
    DayState.MIXED: "open and closed",
    DayState.GAP: "no record",
    DayState.NONE: "before the first record",
}


def moment(at: datetime) -> Markup:
    """Write a moment as an HTML element that programs can read, too.

    >>> moment(datetime(2026, 11, 4, 6, 30))
    Markup('<time datetime="2026-11-04T06:30:00Z">4 Nov 2026, 06:30</time>')
    """
    return Markup('<time datetime="{}">{} {}</time>').format(
        f"{at:%Y-%m-%dT%H:%M:%S}Z", at.day, f"{at:%b %Y, %H:%M}"
    )


def utc(at: datetime) -> Markup:
    """Write a moment with its zone, on one line."""
    return moment(at) + "\N{NO-BREAK SPACE}UTC"


def timestamp(text: str) -> Markup | None:
    """Write a timestamp of a row as a moment; return None for other text.

    >>> timestamp("2026-11-04T07:30:00.25+01:00"), timestamp("2026-11-04")
    (Markup('<time datetime="2026-11-04T06:30:00Z">4 Nov 2026, 06:30</time>'), None)
    """
    if _TIMESTAMP.fullmatch(text) is None:
        return None
    try:
        return moment(datetime.fromisoformat(text).astimezone(UTC))
    except (ValueError, OverflowError):
        return None


def database_name(url: str) -> str:
    """Return the short name of a database.

    >>> database_name("postgresql://app@db/civic?sslmode=require"), database_name("sqlite:///data/civic.db")
    ('civic', 'civic.db')
    >>> database_name("postgresql:///?service=production")
    'default database'
    """
    return unquote(url.partition("?")[0].rpartition("/")[2]) or "default database"


def database_place(url: str) -> str:
    """Return the location of a database: its host, or this machine for a socket or a file.

    >>> database_place("postgresql://app@db:5433/civic"), database_place("postgresql:///civic?host=%2Frun%2Fpg")
    ('db:5433', 'this machine')
    >>> database_place("sqlite:///data/civic.db"), database_place("not a URL")
    ('this machine', '')
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return ""
    if engine_of(parsed.get_backend_name()).IS_FILE:
        return "this machine"
    if "service" in parsed.query:
        return f"service {parsed.query['service']}"
    found = parsed.host or parsed.query.get("host") or os.environ.get("PGHOST", "")
    hosts = [found] if isinstance(found, str) else [*found]
    if all(host.startswith(("/", "@")) or not host for host in hosts):
        return "this machine"
    return ", ".join(hosts) + (f":{parsed.port}" if parsed.port else "")


def places(text: str) -> str:
    """Replace each database URL in a text by its name and host.

    >>> places("a clone of postgresql://civic@/civic?host=%2Ftmp%2Fx, 3 rows")
    'a clone of civic on this machine, 3 rows'
    """

    def place(found: re.Match[str]) -> str:
        url = found[0].rstrip(",;.")
        where = database_place(url)
        return (f"{database_name(url)} on {where}" if where else url) + found[0][len(url) :]

    return _ADDRESS.sub(place, text)


def short_path(path: str) -> str:
    """Return the end of a path: the file and its folder.

    >>> short_path("/srv/app/runbooks/orders.md:12"), short_path("orders.md")
    ('runbooks/orders.md:12', 'orders.md')
    """
    parts = PurePath(path).parts
    return "/".join(parts[-2:]) if len(parts) > 2 else path


def identifier(name: str) -> Markup:
    """Write a name so that a line may break after an underscore, a slash or a dot.

    >>> identifier("failed_ocr/jobs")
    Markup('failed_<wbr>ocr/<wbr>jobs')
    """
    return Markup("<wbr>").join(escape(part) for part in _BREAK.split(html(name)))


def strip_words(days: Sequence[Day]) -> str:
    """Describe a strip of days in words."""
    counts = Counter(day.state for day in days)
    said = [f"{many(counts[state], 'day')} {DAY_WORDS[state]}" for state in DayState if counts[state]]
    return f"The last {many(len(days), 'day')}: {', '.join(said)}"


SelectedCheck = tuple[RunbookStatus, PhaseStatus]


@dataclass(frozen=True, slots=True)
class Summary:
    """`state` is open, closed, or none if no gate is evaluated; `next` is the command to run now."""

    state: str
    sentence: str
    closed: tuple[SelectedCheck, ...] = ()
    next: str | None = None


def summarise(standing: Status, calls: Calls) -> Summary:
    """Summarise the gates in one sentence, and name the next command."""
    asked = [(book, phase) for book, phase in standing.phases() if phase.applies]
    closed = tuple(pair for pair in asked if pair[1].gate is Gate.CLOSED)
    if closed:
        names = ", ".join(_name(standing, book, phase) for book, phase in closed)
        verb = "is" if len(closed) == 1 else "are"
        count = "The gate" if len(asked) == 1 else f"{len(closed)} of {len(asked)} gates"
        return Summary("closed", f"{count} {verb} closed: {names}", closed, _open_it(*closed[0], calls))
    pending = standing.database.head is not None and standing.database.revision != standing.database.head
    if asked:
        gates = (
            "The gate that applies now is"
            if len(asked) == 1
            else f"All {len(asked)} gates that apply now are"
        )
        opened = any(phase.opens for _, phase in asked)
        command = calls.alembic("upgrade head") if opened else calls.pipestate("plan")
        return Summary("open", f"{gates} open", next=command if pending else None)
    if not standing.runbooks:
        return Summary("none", "No runbook here is a default one")
    sentence = f"No phase applies at revision {standing.database.revision or 'base'}"
    return Summary("none", sentence, next=calls.pipestate("plan") if pending else None)


def _open_it(book: RunbookStatus, phase: PhaseStatus, calls: Calls) -> str:
    """Return the command that helps to open a gate: a record, a sign-off, or the list of failures."""
    place = f"{book.name}/{phase.name}"
    soaks = {soak.check_id for soak in phase.soaks}
    unsigned = {signoff.id for signoff in phase.signoffs if signoff.missing}
    failing = [verdict.check_id for verdict in phase.missing if verdict.check_id not in soaks]
    if not failing and soaks:
        return calls.pipestate("verify --record")
    if failing and unsigned.issuperset(failing):
        return calls.pipestate(f"attest {place}/{failing[0]} --by YOU")
    return calls.pipestate(f"gate {place}")


def _name(standing: Status, book: RunbookStatus, phase: PhaseStatus) -> str:
    return phase.name if len(standing.runbooks) == 1 else f"{book.name}/{phase.name}"

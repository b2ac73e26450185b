"""Render the report as one HTML file that works offline: scripts, fonts and pictures are absent.

Templates escape every value, shorten it, and show its control characters.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pipestate import __version__
from pipestate.core.text import escape_controls
from pipestate.database.urls import name_and_place
from pipestate.project.find import Calls
from pipestate.report import words
from pipestate.report.chart import Drawing, draw, number
from pipestate.report.gather import Gathered
from pipestate.report.prose import ProseSection, inline, sections
from pipestate.report.series import Series
from pipestate.runbook.model import Runbook
from pipestate.status.facts import Rows, is_distribution
from pipestate.status.model import PhaseStatus, RunbookStatus, Status
from pipestate.status.opening import days, lasting
from pipestate.verify.report import Gate, Json, Outcome, shortened

TEMPLATES = Path(__file__).parent / "templates"
LONGEST_TEXT = 3000
LONGEST_CELL = 300
Macro = Callable[..., Markup]


def make_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own = (cell, days, inline, lasting, number, whole)
    texts = (words.moment, words.places, words.short_path, words.strip_words, words.utc)
    environment.filters |= {function.__name__: function for function in (*own, *texts)}
    environment.filters["identifier"] = lambda text: words.identifier(shortened(text, LONGEST_TEXT))
    environment.globals["day_words"] = words.DAY_WORDS
    return environment


def shown(value: Any) -> Any:
    """Prepare a value for escaping: shorten long text and make control characters visible."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return "" if value is None else value
    return escape_controls(shortened(value, LONGEST_TEXT))


def cell(value: Json) -> str:
    """Write a value of a row.

    >>> cell(True), cell({"a": 1}), cell(None)
    ('true', '{"a": 1}', 'NULL')
    """
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return words.timestamp(value) or shortened(value, LONGEST_CELL)
    return shortened(json.dumps(value, ensure_ascii=False), LONGEST_CELL)


def whole(rows: Rows) -> int:
    """Return the sum of the amounts if the rows are a distribution of several, else 0.

    >>> whole([{"region": "north", "a.b": 12}, {"region": "south", "a.b": 3}]), whole([{"region": "north", "n": 3}])
    (15, 0)
    """
    if len(rows) < 2 or not is_distribution(rows):
        return 0
    _, amount, *_ = rows[0]
    return sum(int(str(row[amount])) for row in rows)


def style() -> tuple[Markup, str]:
    """Return the report's style, and its hash: the page's policy allows this style only."""
    text = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    return Markup(text), f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawn series. `check` is the HTML id of its verdict."""

    id: str
    series: Series
    drawing: Drawing
    check: str | None = None

    @property
    def name(self) -> str:
        return self.series.title.rpartition("/")[2]


def render_page(gathered: Gathered, calls: Calls) -> str:
    """Return the page."""
    environment = make_environment()
    text, hash_ = style()
    status, history, window = gathered.status, gathered.history, gathered.window
    charts = _check_charts(gathered)
    macros = vars(environment.get_template("notes.html").module)
    texts = [(book, _text(book, status, charts, macros)) for book in gathered.books]
    name, place = name_and_place(status.database.url)
    return environment.get_template("page.html").render(
        version=__version__,
        name=words.short_path(name),
        place=place,
        style=text,
        style_hash=hash_,
        calls=calls,
        closed=[pair for pair in status.phases() if pair[1].gate is Gate.CLOSED],
        status=status,
        runbooks=sorted(
            status.runbooks, key=lambda book: all(phase.gate is not Gate.CLOSED for phase in book.phases)
        ),
        window=window,
        history=history,
        check_charts=charts,
        observation_charts={
            series.title: Chart(f"chart.observed.{index}", series, draw(series, window))
            for index, series in enumerate(history.observations)
        },
        texts=texts,
        phase_anchors={
            (book.name, phase.name): section.anchor
            for book, parts in texts
            for section, phase in parts
            if phase is not None
        },
    )


Charts = list[tuple[RunbookStatus, PhaseStatus, list[Chart]]]


def _check_charts(gathered: Gathered) -> Charts:
    """Draw the series of each phase; a chart leads to its check if the page has a verdict of it."""
    found = []
    for book, phase in gathered.status.phases():
        ids = {
            verdict.check_id: f"check.{book.name}.{phase.name}.{verdict.check_id}"
            for verdict in (phase.checks if phase.applies else ())
        }
        charts = [
            Chart(
                f"chart.{book.name}.{phase.name}.{index}",
                series,
                draw(series, gathered.window),
                ids.get(series.title.rpartition("/")[2]),
            )
            for index, series in enumerate(gathered.history.checks.get((book.name, phase.name), ()))
        ]
        if charts:
            found.append((book, phase, charts))
    return found


def _text(
    book: Runbook, status: Status, charts: Charts, macros: Mapping[str, Macro]
) -> list[tuple[ProseSection, PhaseStatus | None]]:
    """Render the sections of a runbook, each with its phase, if any; blocks have notes with their results."""
    here = next(each for each in status.runbooks if each.path == book.path)
    dialect, phases, notes = status.database.dialect, dict[int, PhaseStatus](), dict[int, Markup]()
    runs = {(run.runbook, run.id): run for run in reversed(status.backfills)}
    shown = {(view.runbook, view.id) for view in status.views if view.rows or view.error}
    for phase, found in zip(book.phases, here.phases, strict=True):
        phases[phase.line] = found
        signoffs = {each.id: each for each in found.sign_offs}
        for verdict in found.checks:
            id = f"check.{book.name}.{phase.name}.{verdict.check_id}"
            drawn = [chart for _, _, those in charts for chart in those if chart.check == id]
            # The soak of the front matter has no block: its note follows the heading.
            notes[max(int(verdict.source.rpartition(":")[2]), phase.line)] = (
                macros["skipped"](verdict)
                if verdict.outcome is Outcome.SKIPPED
                else macros["verdict"](id, verdict, signoffs.get(verdict.check_id), drawn)
            )
        for view in phase.views_for(dialect):
            notes[view.line] = macros["viewed"](book.name, view.id, (book.name, view.id) in shown)
        for backfill in phase.backfills_for(dialect):
            notes[backfill.line] = macros["backfilled"](runs.get((book.name, backfill.id)))
    found_sections = sections(book.text, notes, prefix=f"text.{book.name}")
    return [(each, phases.get(each.line) if each.level == 2 else None) for each in found_sections]

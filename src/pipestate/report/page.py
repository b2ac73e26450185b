"""Render the report as one HTML file that works offline: scripts, fonts and pictures are absent.

Templates escape every value, shorten it, and show its control characters.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pipestate import __version__
from pipestate.core.text import html
from pipestate.database.urls import name_and_place
from pipestate.project.find import Calls
from pipestate.report import words
from pipestate.report.chart import Drawing, draw, number
from pipestate.report.gather import Gathered
from pipestate.report.prose import Notes, ProseSection, inline, sections
from pipestate.report.series import Series
from pipestate.runbook.model import Phase, Runbook
from pipestate.status.facts import Rows, is_distribution
from pipestate.status.model import PhaseStatus, RunbookStatus, Status
from pipestate.status.opening import days, lasting
from pipestate.verify.report import Gate, Json, Outcome, Verdict

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
    environment.filters |= {
        "cell": cell,
        "days": days,
        "identifier": lambda text: words.identifier(shortened(text, LONGEST_TEXT)),
        "inline": inline,
        "lasting": lasting,
        "moment": words.moment,
        "number": number,
        "places": words.places,
        "short_path": words.short_path,
        "strip_words": words.strip_words,
        "utc": words.utc,
        "whole": whole,
    }
    environment.globals["day_words"] = words.DAY_WORDS
    return environment


def shown(value: Any) -> Any:
    """Prepare a value for escaping: shorten long text and make control characters visible."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return "" if value is None else value
    return html(shortened(value, LONGEST_TEXT))


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


def shortened(text: str, longest: int) -> str:
    """Cut a text after this many characters.

    >>> shortened("abcdef", 4)
    'abcd…'
    """
    return text if len(text) <= longest else f"{text[:longest]}…"


def style() -> tuple[Markup, str]:
    """Return the report's style, and its hash: the page's policy allows this style only."""
    text = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    return Markup(text), f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawn series. `check` is the id of its verdict."""

    id: str
    series: Series
    drawing: Drawing
    check: str | None = None

    @property
    def name(self) -> str:
        return self.series.title.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Part:
    """A section of a runbook's text, with its phase, if any."""

    section: ProseSection
    phase: PhaseStatus | None


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a runbook with its verdicts."""

    book: Runbook
    parts: tuple[Part, ...]


def render_page(gathered: Gathered, calls: Calls) -> str:
    """Return the page."""
    environment = make_environment()
    text, hash_ = style()
    charts = list(_check_charts(gathered))
    macros = vars(environment.get_template("notes.html").module)
    texts = [_text(book, gathered, _by_check(charts), macros) for book in gathered.books]
    name, place = name_and_place(gathered.standing.database.url)
    return environment.get_template("page.html").render(
        version=__version__,
        name=words.short_path(name),
        place=place,
        style=text,
        style_hash=hash_,
        calls=calls,
        closed=[pair for pair in gathered.standing.phases() if pair[1].gate is Gate.CLOSED],
        standing=gathered.standing,
        runbooks=sorted(
            gathered.standing.runbooks,
            key=lambda book: all(phase.gate is not Gate.CLOSED for phase in book.phases),
        ),
        window=gathered.window,
        past=gathered.past,
        check_charts=charts,
        observation_charts={each.series.title: each for each in _observation_charts(gathered)},
        texts=texts,
        phase_anchors=_phase_anchors(texts),
    )


def _by_check(
    charts: Sequence[tuple[RunbookStatus, PhaseStatus, list[Chart]]],
) -> dict[str, list[tuple[str, str]]]:
    """Map the id of a verdict to the columns and ids of its charts."""
    found: dict[str, list[tuple[str, str]]] = {}
    for chart in (chart for _, _, those in charts for chart in those if chart.check is not None):
        found.setdefault(str(chart.check), []).append((chart.series.column, chart.id))
    return found


def _text(
    book: Runbook,
    gathered: Gathered,
    charts: Mapping[str, Sequence[tuple[str, str]]],
    macros: Mapping[str, Macro],
) -> Text:
    here = next(each for each in gathered.standing.runbooks if each.path == book.path)
    lines = {written.line: stands for written, stands in zip(book.phases, here.phases, strict=True)}
    notes = notes_of(book, gathered.standing, charts, macros)
    found = sections(book.text, notes, prefix=f"text.{book.name}")
    return Text(book, tuple(Part(each, lines.get(each.line) if each.level == 2 else None) for each in found))


def _phase_anchors(texts: list[Text]) -> dict[tuple[str, str], str]:
    """Return the anchor of each phase's text."""
    return {
        (text.book.name, part.phase.name): part.section.anchor
        for text in texts
        for part in text.parts
        if part.phase is not None
    }


def _check_charts(gathered: Gathered) -> Iterator[tuple[RunbookStatus, PhaseStatus, list[Chart]]]:
    for book, phase in gathered.standing.phases():
        found = gathered.past.checks.get((book.name, phase.name), ())
        asked = {verdict.check_id for verdict in phase.checks} if phase.applies else set()
        charts = [
            _chart(f"chart.{book.name}.{phase.name}.{index}", each, gathered, asked)
            for index, each in enumerate(found)
        ]
        if charts:
            yield book, phase, charts


def _observation_charts(gathered: Gathered) -> Iterator[Chart]:
    for index, each in enumerate(gathered.past.observations):
        yield _chart(f"chart.observed.{index}", each, gathered, set())


def _chart(id: str, series: Series, gathered: Gathered, asked: set[str]) -> Chart:
    book, _, rest = series.title.partition("/")
    phase, _, check = rest.partition("/")
    verdict = check_id(book, phase, check) if check in asked else None
    return Chart(id, series, draw(series, gathered.window), verdict)


def check_id(runbook: str, phase: str, check: str) -> str:
    """Return the HTML id of a verdict."""
    return f"check.{runbook}.{phase}.{check}"


def notes_of(
    book: Runbook,
    standing: Status,
    charts: Mapping[str, Sequence[tuple[str, str]]],
    macros: Mapping[str, Macro],
) -> Notes:
    """Render the notes of a runbook, by the line of their blocks.

    `charts` maps a verdict's id to the columns and ids of its charts.
    """
    here = next(each for each in standing.runbooks if each.path == book.path)
    notes: dict[int, Markup] = {}
    for phase, stands in zip(book.phases, here.phases, strict=True):
        for verdict in stands.checks:
            notes[int(verdict.source.rpartition(":")[2])] = _verdict(here, stands, verdict, charts, macros)
        notes.update(_others(book, phase, standing, macros))
    return notes


def _verdict(
    book: RunbookStatus,
    phase: PhaseStatus,
    verdict: Verdict,
    charts: Mapping[str, Sequence[tuple[str, str]]],
    macros: Mapping[str, Macro],
) -> Markup:
    if verdict.outcome is Outcome.SKIPPED:
        return macros["skipped"](verdict)
    signoff = next((each for each in phase.signoffs if each.id == verdict.check_id), None)
    id = check_id(book.name, phase.name, verdict.check_id)
    return macros["verdict"](id, verdict, signoff, charts.get(id, ()))


def _others(
    book: Runbook, phase: Phase, standing: Status, macros: Mapping[str, Macro]
) -> Iterator[tuple[int, Markup]]:
    dialect = standing.database.dialect
    runs = {(run.runbook, run.id): run for run in reversed(standing.backfills)}
    shown = {view.id for view in standing.views if view.runbook == book.name and (view.rows or view.error)}
    for view in phase.views_for(dialect):
        yield view.line, macros["viewed"](book.name, view.id, view.id in shown)
    for backfill in phase.backfills_for(dialect):
        yield backfill.line, macros["backfilled"](runs.get((book.name, backfill.id)))

"""Render the report as one HTML file that works offline: scripts, fonts and pictures are absent."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipestate import __version__
from pipestate.project.find import Calls
from pipestate.report.chart import Drawing, Span, draw, spans
from pipestate.report.environment import make_environment, style
from pipestate.report.gather import Gathered, Macro, check_id, notes_of
from pipestate.report.prose import ProseSection, sections
from pipestate.report.series import Series
from pipestate.report.words import summarise
from pipestate.runbook.model import Runbook
from pipestate.status.model import PhaseStatus, RunbookStatus
from pipestate.verify.report import Gate


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawn series, and the same numbers as a table. `check` is the id of its verdict."""

    id: str
    series: Series
    drawing: Drawing
    spans: list[Span]
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
    return environment.get_template("page.html").render(
        version=__version__,
        style=text,
        style_hash=hash_,
        calls=calls,
        summary=summarise(gathered.standing, calls),
        standing=gathered.standing,
        runbooks=sorted(gathered.standing.runbooks, key=_is_open),
        window=gathered.window,
        past=gathered.past,
        check_charts=charts,
        observation_charts={each.series.title: each for each in _observation_charts(gathered)},
        texts=texts,
        phase_anchors=_phase_anchors(texts),
    )


def _is_open(book: RunbookStatus) -> bool:
    return all(phase.gate is not Gate.CLOSED for phase in book.phases)


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
            _chart(f"chart.{book.name}.{phase.name}.{number}", each, gathered, asked)
            for number, each in enumerate(found)
        ]
        if charts:
            yield book, phase, charts


def _observation_charts(gathered: Gathered) -> Iterator[Chart]:
    for number, each in enumerate(gathered.past.observations):
        yield _chart(f"chart.observed.{number}", each, gathered, set())


def _chart(id: str, series: Series, gathered: Gathered, asked: set[str]) -> Chart:
    window = gathered.window
    book, _, rest = series.title.partition("/")
    phase, _, check = rest.partition("/")
    return Chart(
        id,
        series,
        draw(series, window),
        spans(series, window),
        check_id(book, phase, check) if check in asked else None,
    )

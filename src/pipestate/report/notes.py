"""What stands beside the blocks of a runbook's page: verdicts, sign-offs, backfills, and where a view is shown."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from markupsafe import Markup

from pipestate.report.prose import Beside
from pipestate.runbook.model import Phase, Runbook
from pipestate.standing.model import Backfilling, PhaseStanding, RunbookStanding, Standing
from pipestate.verify.verdict import Outcome, Verdict

Macro = Callable[..., Markup]


def check_id(runbook: str, phase: str, check: str) -> str:
    """Return the id that a verdict has on the page."""
    return f"check.{runbook}.{phase}.{check}"


def notes_of(
    book: Runbook,
    standing: Standing,
    charts: Mapping[str, Sequence[tuple[str, str]]],
    macros: Mapping[str, Macro],
) -> Beside:
    """Render the notes of a page; SQL is unfolded where its check went wrong.

    `charts` has the columns and ids of the charts of a verdict, by the verdict's id.
    """
    here = next(each for each in standing.runbooks if each.path == book.path)
    notes: dict[int, Markup] = {}
    wrong: set[int] = set()
    for phase, stands in zip(book.phases, here.phases, strict=True):
        for verdict in stands.checks:
            notes[_line(verdict)] = _verdict(here, stands, verdict, charts, macros)
            if verdict.went_wrong:
                wrong.add(_line(verdict))
        notes.update(_others(book, phase, standing, macros))
    return Beside(notes, frozenset(wrong))


def _verdict(
    book: RunbookStanding,
    phase: PhaseStanding,
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
    book: Runbook, phase: Phase, standing: Standing, macros: Mapping[str, Macro]
) -> Iterator[tuple[int, Markup]]:
    dialect = standing.database.dialect
    shown = {view.id for view in standing.views if view.runbook == book.name and (view.rows or view.error)}
    for view in phase.views_for(dialect):
        yield view.line, macros["viewed"](book.name, view.id, view.id in shown)
    for backfill in phase.backfills_for(dialect):
        yield backfill.line, macros["backfilled"](_run_of(backfill.id, book, standing))


def _run_of(id: str, book: Runbook, standing: Standing) -> Backfilling | None:
    return next((run for run in standing.backfills if (run.runbook, run.id) == (book.name, id)), None)


def _line(verdict: Verdict) -> int:
    return int(verdict.source.rpartition(":")[2])

"""Shell completion: names from the runbooks, without a database. Errors yield an empty list."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pipestate.core.errors import PipestateError

if TYPE_CHECKING:
    from pipestate.runbook.model import Runbook


def _names(of: "Callable[[Runbook], list[str]]") -> Callable[[str], list[str]]:
    def offer(incomplete: str) -> list[str]:
        from pipestate.project.find import Named, find_project
        from pipestate.runbook.files import runbook_files
        from pipestate.runbook.lint import load

        found: set[str] = set()
        with suppress(PipestateError):
            for path in runbook_files(find_project(Named()).runbooks):
                with suppress(PipestateError):  # skip a broken runbook, keep the others
                    found.update(of(load(path)))
        return sorted(name for name in found if name.startswith(incomplete))

    return offer


runbook = _names(lambda book: [book.name])
phase = _names(
    lambda book: [name for phase in book.phases for name in (phase.name, f"{book.name}/{phase.name}")]
)
signoff = _names(
    lambda book: [
        name
        for phase in book.phases
        for check in phase.signoffs
        for name in (check.id, f"{phase.name}/{check.id}", f"{book.name}/{phase.name}/{check.id}")
    ]
)
backfill = _names(
    lambda book: [
        name
        for phase in book.phases
        for each in phase.backfills
        for name in (each.id, f"{book.name}/{each.id}")
    ]
)

"""Waiting for a gate: ask again, each time on a fresh snapshot, until it is open or the time is over."""

import time
from collections.abc import Callable

from pipestate.errors import Unreachable
from pipestate.verify.report import Gate, Report
from pipestate.verify.verdict import Outcome

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 15.0
QUESTIONS = 60  # so many fit into a wait, where the longest pause allows it
REST = 4  # a pause is at least so many times as long as the question was: a slow check is no load


def wait_for_opening(
    ask: Callable[[], Report],
    patience_s: float,
    tell: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Report:
    """Return the report that is open, or past, or the last one; `tell` is called when what is missing changes.

    A connection that is lost on the way is tried again; where the time is over without one, Unreachable is raised.
    The first question must be answered: what is wrong then will not be right later.
    """
    end = clock() + patience_s
    asked = clock()
    found: Report | Unreachable = ask()
    told = ""
    while not _is_settled(found) and (left := end - clock()) > 0:
        missing = what_is_missing(found)
        if missing != told:
            tell(missing)
            told = missing
        sleep(min(left, pause_s(patience_s, clock() - asked)))
        asked = clock()
        found = _ask_again(ask)
    if isinstance(found, Unreachable):
        raise found
    return found


def pause_s(patience_s: float, took_s: float) -> float:
    """Return how long to wait before the next question.

    >>> pause_s(1800, 0.1), pause_s(120, 0.1), pause_s(10, 0.1), pause_s(1800, 20.0)
    (15.0, 2.0, 1.0, 80.0)
    """
    usual = min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, patience_s / QUESTIONS))
    return max(usual, REST * took_s)


def what_is_missing(found: Report | Unreachable) -> str:
    """Say what stands in the way, without the numbers that change each time."""
    if isinstance(found, Unreachable):
        return f"{found}; asking again"
    closing = [verdict for verdict in found.verdicts() if verdict.closes]
    if not closing:
        return f"not asked at revision {found.database.revision or 'base'}"
    names = (
        f"{each.check_id} ({each.outcome})" if each.outcome is Outcome.ERRORED else each.check_id
        for each in closing
    )
    return f"missing: {', '.join(names)}"


def _is_settled(found: Report | Unreachable) -> bool:
    """Open, or past: then it will not be asked again."""
    if isinstance(found, Unreachable):
        return False
    return found.ok or all(phase.gate is Gate.PAST for _, phase in found.phases())


def _ask_again(ask: Callable[[], Report]) -> Report | Unreachable:
    try:
        return ask()
    except Unreachable as error:
        return error

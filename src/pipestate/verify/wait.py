"""Wait for an open gate: evaluate again and again, with pauses, until it opens or the time is over."""

import time
from collections.abc import Callable

from pipestate.core.errors import Unreachable
from pipestate.verify.report import NO_BLOCKING, Gate, Outcome, Report

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 15.0
EVALUATIONS = 60  # the number that fits into a wait, if the longest pause allows it
REST = 4  # a pause is at least this many times as long as the evaluation, so a slow check is no load


def wait_for_opening(
    evaluate: Callable[[], Report],
    patience_s: float,
    show: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Report:
    """Evaluate until the gate is open, the phase is finished, or the time is over; return the last report.

    `show` gets each new list of missing checks. A connection that is lost later is tried again; if the time ends
    without one, Unreachable is raised. The first evaluation must succeed.
    """
    end = clock() + patience_s
    began = clock()
    found: Report | Unreachable = evaluate()
    shown = ""
    while not _is_settled(found) and (left := end - clock()) > 0:
        missing = what_is_missing(found)
        if missing != shown:
            show(missing)
            shown = missing
        sleep(min(left, pause_s(patience_s, clock() - began)))
        began = clock()
        try:
            found = evaluate()
        except Unreachable as error:
            found = error
    if isinstance(found, Unreachable):
        raise found
    return found


def pause_s(patience_s: float, took_s: float) -> float:
    """Return the pause before the next evaluation.

    >>> pause_s(1800, 0.1), pause_s(120, 0.1), pause_s(10, 0.1), pause_s(1800, 20.0)
    (15.0, 2.0, 1.0, 80.0)
    """
    usual = min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, patience_s / EVALUATIONS))
    return max(usual, REST * took_s)


def what_is_missing(found: Report | Unreachable) -> str:
    """Name the checks that keep the gate closed, without numbers that change each time."""
    if isinstance(found, Unreachable):
        return f"{found}; trying again"
    closing = [verdict for verdict in found.verdicts() if verdict.closes]
    if not closing and found.ran:
        return " ".join(found.obstacles.values()) or NO_BLOCKING
    if not closing:
        return f"not evaluated at revision {found.database.revision or 'base'}"
    names = (
        f"{each.check_id} ({each.outcome})" if each.outcome is Outcome.ERRORED else each.check_id
        for each in closing
    )
    return f"missing: {', '.join(names)}"


def _is_settled(found: Report | Unreachable) -> bool:
    if isinstance(found, Unreachable):
        return False
    return found.ok or all(phase.gate is Gate.FINISHED for _, phase in found.phases())

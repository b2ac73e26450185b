"""What the server says to a batch: try again, or stop with one sentence."""

import re

from sqlalchemy.exc import DBAPIError

from pipestate.drivers import message, sqlstate
from pipestate.errors import PipestateError

LOCKED = ("55P03", "40P01", "40001")  # a lock that was not given, a deadlock, a conflict of snapshots
NOT_OUR_FAULT = ("42501",)  # a missing right


class BackfillFailed(PipestateError):
    """The server refused a batch: what was done before stays done."""

    exit_code = 3


def is_locked(error: DBAPIError) -> bool:
    """Tell whether somebody else's lock is the reason, so that the same may succeed a moment later."""
    return sqlstate(error) in LOCKED or "is locked" in message(error)


def is_wrong_sql(error: DBAPIError) -> bool:
    """Tell whether the statement itself is at fault: its words, or a table or column that is not there."""
    state = sqlstate(error)
    if state:
        return state.startswith(("42", "22")) and state not in NOT_OUR_FAULT
    return "no such" in message(error) or "syntax error" in message(error)


def reason(error: DBAPIError) -> str:
    """Say in one line what the server said, without its excerpts of the SQL."""
    kept = re.split(r"\n(?:LINE \d+:|CONTEXT:|\s*\^)", message(error))[0]
    return " ".join(kept.split())

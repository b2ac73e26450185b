"""Messages of a migration: warnings, and one sentence for each error of a driver."""

import logging
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from alembic.runtime.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, PendingRollbackError

from pipestate.core.errors import OWN_SQLSTATE, ConfigError, PipestateError
from pipestate.core.text import print_lines
from pipestate.database.drivers import TAKES_NO_WRITES, cause_of, message, refuses_writes, sqlstate
from pipestate.database.urls import shown, without_secrets


def warn(message: str, *arguments: object) -> None:
    """Log a warning, even if env.py's `fileConfig` has disabled existing loggers."""
    log = logging.getLogger("pipestate")
    log.disabled = False
    log.warning(message, *arguments)


def tell(message: str, *arguments: object) -> None:
    """Log information beside Alembic's own lines, equally visible."""
    log = logging.getLogger("alembic.pipestate")
    log.disabled = False
    log.info(message, *arguments)


# Translation of a driver's exception into one sentence with the next step, as an Alembic error.


ADVICE = {
    "28000": "check the user name, or pg_hba.conf on the server",
    "28P01": "check the password in the URL",
    "3D000": "create the database first, or check its name in the URL",
    "42501": "connect as the owner of the tables, or have the missing right granted; then run the same again",
    "55P03": "end that transaction or wait for it, then run the same again: it continues where it stopped",
    "57014": "nothing is half done: run the same command again: it continues where it stopped",
    "57P01": "the server ended the connection: run the same again when it is back",
    "53300": "the server has no free connection: try again later",
    "2BP01": "drop or change what depends on it, then run the same again",
    "23503": "fix or delete those rows, then run the same again",
    "23505": "remove the duplicates, then run the same again",
    "23514": "fix those rows, then run the same again",
}


class MigrationError(PipestateError, CommandError):
    """A migration that cannot continue. Alembic prints it without a traceback and exits with 255."""


@contextmanager
def translate_errors(url: URL) -> Iterator[None]:
    """Turn drivers' exceptions into a MigrationError; leave pipestate's errors as they are."""
    try:
        yield
    except DBAPIError as error:
        raise MigrationError(explain(error, url)) from error
    except PendingRollbackError as error:  # Alembic continues on a lost connection
        first = cause_of(error)
        raise MigrationError(explain(first, url) if first else f"{error} ({shown(url)})") from error
    except sqlite3.Error as error:
        raise MigrationError(f"{error} ({shown(url)}); {_advice_without_state(str(error))}") from error
    except ConfigError as error:
        raise MigrationError(str(error)) from None
    except KeyboardInterrupt as error:
        raise MigrationError(f"interrupted; {ADVICE['57014']}") from error


def on_command_line(context: MigrationContext) -> bool:
    """Say whether Alembic's own command line runs this: it alone sets `cmd` in the options."""
    return context.config is not None and hasattr(context.config.cmd_opts, "cmd")


@contextmanager
def logs_to_stderr(context: MigrationContext) -> Iterator[None]:
    """Print a long error once, on stderr: Alembic prints it on stdout and logs it again.

    A short error is left to the log, if a handler receives it.
    """
    try:
        yield
    except MigrationError as error:
        if not on_command_line(
            context
        ):  # Flask-Migrate logs it, and an ini without its logger has disabled that
            logging.getLogger("flask_migrate").disabled = False
        is_long = "\n" in str(error)
        listeners = [*logging.getLogger().handlers, *logging.getLogger("alembic").handlers]
        is_heard = not all(isinstance(listener, logging.NullHandler) for listener in listeners)
        if on_command_line(context) and (is_long or not is_heard):
            print_lines(str(error), sys.stderr)
            error.args = (str(error).partition("\n")[0].partition(": ")[0],)
        raise


def explain(error: DBAPIError, url: URL) -> str:
    """Write one sentence: the failure, the database, and the next step."""
    state = sqlstate(error)
    text = without_secrets(first_sentence(message(error)), url)
    if state == OWN_SQLSTATE:
        return text
    if refuses_writes(error):
        return f"{shown(url)} {TAKES_NO_WRITES} ({text})"
    if state is None and error.connection_invalidated:
        return f"lost the connection to {shown(url)}: {text}; run the same again: it continues there"
    if state is None:
        return f"{text} ({shown(url)}); {_advice_without_state(text)}"
    advice = ADVICE.get(
        state,
        "uncommitted changes of this revision were rolled back: fix the cause, then run the same again",
    )
    return f"{text} ({shown(url)}); {advice}"


def first_sentence(text: str) -> str:
    """Return the message and its DETAIL, without the LINE/CONTEXT excerpts of the SQL."""
    kept = []
    for line in text.strip().splitlines():
        if re.match(r"(LINE \d+:|CONTEXT:|QUERY:|\s*\^)", line):
            break
        kept.append(line.strip())
    return " ".join(" ".join(kept).split()) or "the database driver gave no reason"


def _advice_without_state(text: str) -> str:
    if "password authentication" in text or "no password supplied" in text:
        return ADVICE["28P01"]
    if 'database "' in text and "does not exist" in text:
        return ADVICE["3D000"]
    if "locked" in text:
        return "another program is writing to this file: try again when it is done"
    if "unable to open database file" in text:
        return "check the path in the URL"
    if "not a database" in text:
        return "the file is not a SQLite database: check the path in the URL"
    if "readonly" in text or "read-only" in text:
        return "make the file and its directory writable"
    return "check that the server runs and that the URL is right, then run the same again"

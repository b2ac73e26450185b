"""The statements of today: read from a file or from pg_stat_statements, and why some of them cannot be prepared."""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from sqlalchemy import URL, text
from sqlalchemy.exc import DBAPIError

from pipestate import db
from pipestate.config import shown
from pipestate.engines.engine import engine_of
from pipestate.errors import ConfigError
from pipestate.rehearse.prepare import NOT_ONE
from pipestate.runbook.statement import statements, tokens

FIRST_WORD = re.compile(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*([A-Za-z]+)", re.DOTALL)
EXTENSION = "pg_stat_statements"
HIDDEN = "<insufficient privilege>"
CUT_OFF = ("at end of input", "unterminated")
UTILITIES = re.compile(
    "ABORT|ALTER|ANALYZE|BEGIN|CALL|CHECKPOINT|CLOSE|CLUSTER|COMMENT|COMMIT|COPY|CREATE|DEALLOCATE|DECLARE|DISCARD|DO|DROP|"
    "END|EXECUTE|EXPLAIN|FETCH|GRANT|IMPORT|LISTEN|LOAD|LOCK|MOVE|NOTIFY|PREPARE|REASSIGN|REFRESH|REINDEX|RELEASE|RESET|"
    "REVOKE|ROLLBACK|SAVEPOINT|SECURITY|SET|SHOW|START|TRUNCATE|UNLISTEN|VACUUM"
)
QUERIES = text(
    "SELECT DISTINCT query FROM pg_stat_statements "
    "WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 1"
)


class Reason(StrEnum):
    """Why a statement cannot be prepared before anything has changed."""

    UTILITY = "a command that cannot be prepared"
    CUT_OFF = "its end is cut off"
    HIDDEN = "its text is hidden from this role: GRANT pg_read_all_stats"
    SEVERAL = "it is not one statement"
    REFUSED = "the server does not understand it today"


def read_statements(source: str, url: URL) -> list[str]:
    """Read the statements of a file, or those that pg_stat_statements has of a database."""
    given = list(_of_server(url) if source == EXTENSION else _of_file(Path(source)))
    if not given:
        raise ConfigError(f"{source} holds no statement: there is nothing to compare")
    return given


def _of_file(path: Path) -> Iterator[str]:
    try:
        written = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: --statements takes a file of SQL, or {EXTENSION}") from error
    for statement in statements(tokens(written, "postgresql")):
        end = statement[-1]
        yield written[statement[0].start : end.start + len(end.text)]


def _of_server(url: URL) -> Iterator[str]:
    if engine_of(url).IS_FILE:
        raise ConfigError(f"{shown(url)} has no {EXTENSION}: give a file of SQL")
    with db.reader(url) as connection:
        try:
            found = connection.execute(QUERIES).scalars().all()
        except DBAPIError as error:
            raise ConfigError(
                f"{EXTENSION} cannot be read on {shown(url)}: create the extension, or give --statements a file of SQL"
            ) from error
    yield from (str(each) for each in found)


def find_reason(statement: str, error: str) -> Reason:
    """Say why a statement could not be prepared, so that those of one kind can be shown together.

    >>> [find_reason(each, "syntax error").name for each in ("VACUUM t", "SELEC 1", "<insufficient privilege>")]
    ['UTILITY', 'REFUSED', 'HIDDEN']
    """
    if statement.strip() == HIDDEN:
        return Reason.HIDDEN
    if error == NOT_ONE:
        return Reason.SEVERAL
    if UTILITIES.fullmatch(first_word(statement)):
        return Reason.UTILITY
    return Reason.CUT_OFF if any(sign in error for sign in CUT_OFF) else Reason.REFUSED


def first_word(statement: str) -> str:
    """Return the first word of a statement, behind comments, in capitals.

    >>> first_word("/* why */ -- who\\n (select 1)"), first_word("")
    ('SELECT', '')
    """
    found = FIRST_WORD.match(statement)
    return found[1].upper() if found else ""

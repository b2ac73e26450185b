"""The list of a fleet's databases, as it is written: a line each, or a line with a query that returns them.

# a comment
postgresql://app@db1/acme
globex = postgresql://app@db2/globex
postgresql://app@db3/postgres databases: SELECT datname FROM pg_database WHERE datname LIKE 'tenant%'
postgresql://app@db4/crm schemas: SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tenant%'
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from pipestate.config import parse_url
from pipestate.errors import ConfigError
from pipestate.runbook.plainread import objections

if TYPE_CHECKING:
    from sqlalchemy import URL

STDIN = "-"
_LINE = re.compile(
    r"(?:(?P<name>[^\s=:/|]+)\s*=\s*)?(?P<url>[a-z][a-z0-9+]*://.*?)(?:\s+(?P<each>databases|schemas):\s*(?P<query>.*))?",
    re.IGNORECASE | re.DOTALL,
)


class Each(StrEnum):
    """What a row of a line's query names."""

    DATABASE = "databases"
    SCHEMA = "schemas"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the list. `source` is where it stands; without a query it is one database."""

    source: str
    name: str | None
    url: "URL"
    each: Each | None = None
    query: str = ""


def read_list(file: str) -> list[Line]:
    """Read the list from a file, or from stdin; ConfigError where it cannot be read, or names nothing."""
    where = "stdin" if file == STDIN else file
    lines = list(parse_list(_text(file), where))
    if not lines:
        raise ConfigError(f"{where} names no database: write a URL a line, or a URL and a query")
    return lines


def parse_list(text: str, where: str) -> Iterator[Line]:
    """Read each line that is neither empty nor a comment."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield _parse(line.strip(), f"{where}:{number}")


def _parse(line: str, source: str) -> Line:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ConfigError(
            f"{source}: not a line of a list: write URL, or NAME = URL, or URL databases: SELECT ..., or URL schemas: SELECT ..."
        )
    from pipestate.engines.engine import engine_of

    url = parse_url(found["url"], source=source)
    if not found["each"]:
        return Line(source, found["name"], url)
    each, query = Each(found["each"].lower()), found["query"].strip().rstrip(";").rstrip()
    if engine_of(url).IS_FILE:
        raise ConfigError(f"{source}: a file of SQLite holds no other {each}: name each file on a line")
    for objection in objections(query, "postgresql"):
        raise ConfigError(f"{source}: its query {objection}")
    return Line(source, found["name"], url, each, query)


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == STDIN else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}; --databases takes a file, or -") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {file}: it is not UTF-8") from error

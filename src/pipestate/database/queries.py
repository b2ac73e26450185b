"""Named queries: SQL in files beside the code that runs it, read by name.

A file `queries.<dialect>.sql` of a package has a line `-- name: tables` before each query.
"""

import re
from functools import cache
from importlib.resources import files


def named_query(package: str, name: str, dialect: str = "postgresql", **values: object) -> str:
    """Read a query of `pipestate.<package>`, and fill in the given `<<names>>`."""
    return filled(_queries(package, dialect)[name], **values)


def filled(text: str, **values: object) -> str:
    """Fill in the `<<names>>` of a text of SQL.

    >>> filled("SELECT <<number>>", number=7)
    'SELECT 7'
    """
    return re.sub(r"<<(\w+)>>", lambda found: str(values.get(found[1], found[0])), text)


@cache
def _queries(package: str, dialect: str) -> dict[str, str]:
    text = (files(f"pipestate.{package}") / f"queries.{dialect}.sql").read_text(encoding="utf-8")
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return {name: query.rstrip() for name, query in zip(parts[1::2], parts[2::2], strict=True)}

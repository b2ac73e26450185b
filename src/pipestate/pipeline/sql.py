"""What the two engines say differently in otherwise equal SQL, and templates filled for one of them.

A template is SQL with `:name` for a parameter and `{name}` for what is filled in when the module is loaded:
column names made of stage names, lists of stages, the clock. `tests/rendered/` keeps the results as files.
"""

import re
from collections.abc import Iterable

ENGINES = ("postgresql", "sqlite")

# The server's clock at the moment of writing, not the start of a transaction that may have waited for a lock.
NOW = {
    "postgresql": "clock_timestamp()",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now')",
}
# How the engine's driver takes a parameter.
WRITTEN = {"postgresql": r"%(\1)s", "sqlite": r":\1"}
PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")  # a name behind one colon: `::text` is a cast


def fill(engine: str, template: str, **parts: str) -> str:
    """Fill a template, with the parameters written as the engine's driver takes them.

    >>> fill("postgresql", "SELECT {stage}_total::text FROM sites WHERE subdomain = :site", stage="ocr")
    'SELECT ocr_total::text FROM sites WHERE subdomain = %(site)s'
    """
    sql = template.strip().format(now=NOW[engine], **parts)
    return PARAMETER.sub(WRITTEN[engine], sql)


def quoted(names: Iterable[str]) -> str:
    """Write stage names, which are ours, as a list of SQL.

    >>> quoted(("compilation", "extraction"))
    "'compilation', 'extraction'"
    """
    return ", ".join(f"'{name}'" for name in names)

"""SQL differences between the two engines, and templates filled for one of them.

A template is SQL with `:name` for a parameter and `{name}` for a part filled in at import.
These parts are column names made of stage names, lists of stages, and the clock.
`tests/rendered/` keeps the results as files.
"""

import re
from collections.abc import Iterable

ENGINES = ("postgresql", "sqlite")

# The server's clock at the moment of writing; the transaction may have started earlier and waited for a lock.
NOW = {
    "postgresql": "clock_timestamp()",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now')",
}
# Parameter syntax of each engine's driver.
WRITTEN = {"postgresql": r"%(\1)s", "sqlite": r":\1"}
PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")  # a name after a single colon: `::text` is a cast


def fill(engine: str, template: str, **parts: str) -> str:
    """Fill a template, with parameters in the syntax of the engine's driver.

    >>> fill("postgresql", "SELECT {stage}_total::text FROM sites WHERE subdomain = :site", stage="ocr")
    'SELECT ocr_total::text FROM sites WHERE subdomain = %(site)s'
    """
    sql = template.strip().format(now=NOW[engine], **parts)
    return PARAMETER.sub(WRITTEN[engine], sql)


def quoted(names: Iterable[str]) -> str:
    """Render stage names, which are trusted constants, as an SQL list.

    >>> quoted(("compilation", "extraction"))
    "'compilation', 'extraction'"
    """
    return ", ".join(f"'{name}'" for name in names)

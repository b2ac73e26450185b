"""The values of sequences."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipestate.rehearse.copying.inventory import Counter
from pipestate.rehearse.copying.session import ask, quoted

BEHIND_ITS_COLUMN = """
SELECT pg_catalog.setval(s.seqrelid, least(greatest(m.last, s.seqmin), s.seqmax))
FROM pg_catalog.pg_sequence s, (SELECT {aggregate}({column})::int8 AS last FROM {table}) m
WHERE s.seqrelid = {sequence}::regclass AND m.last IS NOT NULL
"""
Values = Mapping[str, tuple[int, bool]]


def read_counters(source: Any, counters: Sequence[Counter]) -> Values:
    """Read the values that the role may read; they belong to no snapshot, and are never behind one."""
    readable = [each.quoted for each in counters if each.is_readable]
    return {name: ask(source, f"SELECT last_value, is_called FROM {name}")[0] for name in readable}


def set_counters(clone: Any, counters: Sequence[Counter], values: Values) -> None:
    """Set each sequence to its value; where that is not known, behind the rows of its column."""
    for each in counters:
        if each.quoted in values:
            value, is_called = values[each.quoted]
            ask(clone, f"SELECT pg_catalog.setval({quoted(each.quoted)}, {value}, {is_called})")
        elif each.table is not None:
            ask(clone, _behind_its_column(each))


def _behind_its_column(counter: Counter) -> str:
    aggregate = "max" if counter.increment > 0 else "min"
    return BEHIND_ITS_COLUMN.format(
        aggregate=aggregate, column=counter.column, table=counter.table, sequence=quoted(counter.quoted)
    )

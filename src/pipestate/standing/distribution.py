"""Rows that are a distribution: names with amounts, which a bar shows better than a number alone."""

from collections.abc import Mapping, Sequence

from pipestate.verify.values import Json

Rows = Sequence[Mapping[str, Json]]


def is_distribution(rows: Rows) -> bool:
    """Names with numbers, largest first, and little else.

    >>> is_distribution([{"region": "north", "orders": 12}, {"region": "south", "orders": 3}])
    True
    >>> is_distribution([{"region": "north", "error": "no address"}])
    False
    """
    columns = list(rows[0])
    if not 2 <= len(columns) <= 3:
        return False
    numbers = [row[columns[1]] for row in rows]
    amounts = [number for number in numbers if isinstance(number, int) and number >= 0]
    named = all(isinstance(row[columns[0]], str) for row in rows)
    return named and len(amounts) == len(rows) and amounts == sorted(amounts, reverse=True)

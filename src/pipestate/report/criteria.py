"""Which numbers a criterion compares, and with what: the limits that charts draw."""

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache

from pipestate.runbook.model import Check
from pipestate.runbook.require import Comparison, RequirementError, parse_requirement
from pipestate.verify.expect import holds
from pipestate.verify.values import Json

Limits = Mapping[str, tuple[Comparison, ...]]

_OBSERVED = re.compile(r"\bname\s*=\s*'((?:[^']|'')+)'", re.IGNORECASE)
_VALUE = re.compile(r"\bvalue(?:\s+AS\s+\"?(?P<alias>[^\W\d][\w$]*))?", re.IGNORECASE)


@lru_cache(maxsize=4096)
def limits(required: str) -> Limits:
    """Return the comparisons with numbers, by column; none of a criterion that cannot be read any more.

    >>> [(name, [each.required for each in those]) for name, those in limits("n >= 0 and n < 5 and ok = true").items()]
    [('n', ['>= 0', '< 5'])]
    """
    try:
        comparisons = parse_requirement(required).comparisons
    except RequirementError:
        return {}
    found: dict[str, list[Comparison]] = {}
    for each in comparisons:
        if isinstance(each.value, int | Decimal) and not isinstance(each.value, bool):
            found.setdefault(each.column, []).append(each)
    return {column: tuple(those) for column, those in found.items()}


def observed_value(observed: Mapping[str, Json], column: str) -> Json:
    """Return what was observed in a column: by its exact name, else without regard to case, as a verdict does.

    >>> observed_value({"Stuck": 3}, "stuck")
    3
    """
    if column in observed:
        return observed[column]
    alike = [value for name, value in observed.items() if name.lower() == column.lower()]
    return alike[0] if len(alike) == 1 else None


def as_number(value: Json) -> float | None:
    """Return a finite number that can be drawn, or None.

    >>> as_number(12), as_number(True), as_number("NaN"), as_number(10**400)
    (12.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def satisfied(comparisons: tuple[Comparison, ...], value: Json) -> bool:
    """Say whether a value satisfies all of these comparisons."""
    return all(holds(comparison, value) for comparison in comparisons)


def observation_limits(check: Check) -> tuple[str, tuple[Comparison, ...]] | None:
    """Return the observation that a check asks for and what it must satisfy; None where that is not plain to see.

    Plain is a query of `latest_observation` with one name in quotes, whose `value` the criterion compares.
    """
    names = {name.replace("''", "'") for name in _OBSERVED.findall(check.sql)}
    value = _VALUE.search(check.sql)
    if "latest_observation" not in check.sql or len(names) != 1 or value is None:
        return None
    column = value["alias"] or "value"
    return names.pop(), limits(check.require.text).get(column, ())

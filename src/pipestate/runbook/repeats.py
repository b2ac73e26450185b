"""Blocks that stand twice in one file: what changes in one of them would be forgotten in the other."""

from collections.abc import Iterator
from dataclasses import dataclass

from pipestate.runbook.model import Backfill, Check, Evidence, View
from pipestate.runbook.statement import tokens

Query = Check | Evidence | View | Backfill


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """A block and the phase where it stands."""

    phase: str
    query: Query


def repeated(standing: list[PlacedBlock]) -> Iterator[tuple[Query, str]]:
    """Find each block that repeats an earlier one of its kind, and say what to write instead."""
    first: dict[tuple[str, bool, str], PlacedBlock] = {}
    for each in standing:
        path = each.query.block.rpartition(":")[0]
        words = _words(each.query)
        same = first.setdefault((path, isinstance(each.query, View), words), each)
        if words and same is not each and not _is_told_already(same, each):
            yield each.query, f"the same SQL stands at {same.query.block}: {_advice(same, each)}"


def _is_told_already(first: PlacedBlock, second: PlacedBlock) -> bool:
    """Tell whether they have one id in one phase, which is a fault whatever their SQL is."""
    one, two = first.query, second.query
    return first.phase == second.phase and type(one) is type(two) and _ids(one) == _ids(two)


def _ids(query: Query) -> tuple[str, ...]:
    return query.check_ids if isinstance(query, Evidence) else (query.id,)


def _words(query: Query) -> str:
    """Write the statement without what makes no difference: space, comments, the case of bare words."""
    return " ".join(token.keyword or token.text for token in tokens(query.sql, query.dialect))


def _advice(first: PlacedBlock, second: PlacedBlock) -> str:
    one, two = first.query, second.query
    if isinstance(one, Check) and isinstance(two, Check):
        if first.phase == second.phase:
            return "make it one check, and join the two criteria with `and`"
        return f"write `- again: `{first.phase}/{one.id}`` instead{_with_criterion(one, two)}"
    if isinstance(one, Evidence) and isinstance(two, Evidence):
        if first.phase == second.phase:
            both = ", ".join(dict.fromkeys((*one.check_ids, *two.check_ids)))
            return f"write it once, with `-- explains: {both}`"
        return f"ask its check with `again:`, which brings the evidence of phase {first.phase} along"
    if isinstance(one, View | Backfill):
        return f"take this {'view' if isinstance(one, View) else 'backfill'} out"
    return "require `rows = 0` of it, and the check shows its own rows"


def _with_criterion(one: Check, two: Check) -> str:
    if one.require.text == two.require.text or not two.require.text:
        return ""
    return f", with `, requires `{two.require.text}``"

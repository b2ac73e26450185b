"""What is wrong with the statement of a backfill, each fault with how to fix it."""

from collections.abc import Iterator

from pipestate.runbook.model import Backfill
from pipestate.runbook.statement import statements, tokens
from pipestate.runbook.update import (
    FIRST,
    LAST,
    Bound,
    Update,
    assigned,
    bounds,
    names,
    table_of,
    take_apart,
    target_names,
    variables,
)


def update_faults(backfill: Backfill) -> Iterator[str]:
    """Say why this is not one UPDATE of its table over a range of its key; nothing where it is one."""
    seen = tokens(backfill.sql, backfill.dialect)
    found = statements(seen)
    if seen and seen[-1].kind == "unclosed":
        yield f"a quote or a comment is never closed, from {seen[-1].text[:20]!r} on: close it"
    elif not found:
        yield "there is no SQL in the block: write the UPDATE below the directives"
    elif len(found) > 1:
        yield f"{len(found)} statements in one block: a backfill is exactly one UPDATE, split it"
    elif seen[0].keyword != "UPDATE":
        yield f"begins with {seen[0].text}: a backfill is an UPDATE (what it needs besides stands in its FROM)"
    elif any(token.text == "\\" for token in seen):
        yield "a backslash outside quotes begins a psql command: a block is SQL alone, take it out"
    elif (update := take_apart(backfill.sql, backfill.dialect)) is None:
        yield f"has no WHERE: write `WHERE {backfill.key} BETWEEN :first AND :last AND …`"
    else:
        yield from _of_its_parts(backfill, update)


def _of_its_parts(backfill: Backfill, update: Update) -> Iterator[str]:
    if _lower(table_of(update)) != _lower(names(backfill.table)):
        written = ".".join(table_of(update)) or update.seen[1].text
        yield f"updates {written}, and `-- table:` says {backfill.table}: make them the same"
    if _lower(names(backfill.key)) in [(column,) for column in assigned(update)]:
        yield f"sets {backfill.key}, by whose ranges it goes: rows would move from one range to the next"
    for word in ("RETURNING", "LIMIT"):
        if update.top(word, after=update.where) is not None:
            yield f"has a {word}, and a batch takes all rows of its range and returns none: take it out"
    if update.top("OR", after=update.where) is not None:
        yield "has an OR beside the range, which would reach rows outside of it: put that part into parentheses"
    else:
        yield from _of_its_range(backfill, update)


def _of_its_range(backfill: Backfill, update: Update) -> Iterator[str]:
    ranges = bounds(update.seen)
    strange = [each.name for each in variables(update.seen) if each.name not in (FIRST, LAST)]
    if strange:
        yield f"uses :{strange[0]}, which nothing sets: the variables of a backfill are :first and :last"
        return
    loose = [
        each.name
        for each in variables(update.seen)
        if not any(bound.begin <= each.index < bound.stop for bound in ranges)
    ]
    if loose:
        yield (
            f"uses :{loose[0]} outside of a range: it stands in `{backfill.key} BETWEEN :first AND :last`, and "
            "nowhere else"
        )
        return
    own = [bound for bound in ranges if _is_on_key(bound, backfill, update)]
    if frozenset().union(*(bound.sides for bound in own)) != {FIRST, LAST}:
        yield (
            f"does not use the range: its WHERE must begin a condition with `{backfill.key} BETWEEN :first AND "
            ":last`, joined to the others by AND"
        )
    elif sum(bound.stop - bound.begin for bound in own) + len(own) >= len(update.seen) - update.where:
        yield (
            "has no condition beside the range, so nothing tells which rows are done, and it would never end: add "
            "one, as `AND state IS NULL`"
        )


def _is_on_key(bound: Bound, backfill: Backfill, update: Update) -> bool:
    """Tell whether a range limits the rows that are updated: on the key, in the WHERE itself, joined by AND."""
    (key,) = _lower(names(backfill.key)) or ("",)
    at_top = bound.begin > update.where and update.depths[bound.begin] == 0
    before = update.seen[bound.begin - 1].keyword
    after = update.seen[bound.stop].keyword if bound.stop < len(update.seen) else "AND"
    named = bound.column[-1] == key and bound.column[:-1] in target_names(update)
    return at_top and named and before in ("WHERE", "AND") and after == "AND"


def _lower(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.lower() for part in path)

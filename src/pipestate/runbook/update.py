"""The statement of a backfill: one UPDATE of its table, over a range of its key that psql's variables name.

    UPDATE orders SET state = 'new' WHERE id BETWEEN :first AND :last AND state IS NULL

The range is found by its tokens, so that a batch's keys can take the place of the variables, and so that the same
conditions without the range tell how many rows are left.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipestate.runbook.model import Backfill
from pipestate.runbook.statement import Token, tokens

FIRST, LAST = "first", "last"


@dataclass(frozen=True, slots=True)
class Variable:
    """`:first` or `:'first'`, which is the token at `index` behind its colon; `start` and `end` are offsets."""

    name: str
    index: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Bound:
    """`orders.id BETWEEN :first AND :last`, or half of it as a comparison: tokens from `begin` up to `stop`."""

    column: tuple[str, ...]
    sides: frozenset[str]
    begin: int
    stop: int


@dataclass(frozen=True, slots=True)
class Update:
    """An UPDATE taken apart at its own SET, FROM and WHERE, whose tokens these are the indexes of."""

    seen: tuple[Token, ...]
    depths: tuple[int, ...]
    set_: int
    from_: int | None
    where: int

    def top(self, *keywords: str, after: int = 0) -> int | None:
        """Find the first of these words, behind a token, that belongs to no subquery."""
        for index in range(after, len(self.seen)):
            is_name = index > 0 and self.seen[index - 1].text == "."
            if self.depths[index] == 0 and self.seen[index].keyword in keywords and not is_name:
                return index
        return None


def names(text: str) -> tuple[str, ...]:
    """Read `orders` or `sales."Order Lines"` as names, exactly as the server would; none where it is neither.

    >>> names('Sales."Order Lines"'), names("orders, lines")
    (('sales', 'Order Lines'), ())
    """
    seen = tokens(text, "postgresql")
    parts, dots = seen[::2], seen[1::2]
    if not parts or len(parts) != len(dots) + 1 or any(dot.text != "." for dot in dots):
        return ()
    return tuple(_name(part) for part in parts) if all(part.identifier for part in parts) else ()


def variables(seen: Sequence[Token]) -> list[Variable]:
    """Find psql's variables; a cast `::text` is none."""
    found = []
    for index in range(1, len(seen)):
        colon, token = seen[index - 1], seen[index]
        is_cast = index > 1 and seen[index - 2].text == ":" and seen[index - 2].start == colon.start - 1
        if colon.text != ":" or is_cast or token.start != colon.start + 1:
            continue
        if token.kind in ("word", "string", "name"):
            found.append(Variable(token.text.strip("'\""), index, colon.start, token.start + len(token.text)))
    return found


def bounds(seen: Sequence[Token]) -> list[Bound]:
    """Find every range that the variables stand in, in whatever part of the statement."""
    found = [_bound(seen, variable) for variable in variables(seen)]
    return [bound for bound in found if bound is not None]


def take_apart(sql: str, dialect: str | None) -> Update | None:
    """Find the parts of an UPDATE; None where it is none, or has no WHERE."""
    seen = tuple(tokens(sql, dialect))
    update = Update(seen, tuple(_depths(seen)), 0, None, 0)
    if not seen or seen[0].keyword != "UPDATE":
        return None
    set_ = update.top("SET")
    where = update.top("WHERE", after=set_ or 0)
    if set_ is None or where is None:
        return None
    from_ = update.top("FROM", after=set_)
    while from_ is not None and from_ < where and seen[from_ - 1].keyword == "DISTINCT":
        from_ = update.top("FROM", after=from_ + 1)  # IS DISTINCT FROM
    return Update(seen, update.depths, set_, from_ if from_ is not None and from_ < where else None, where)


def with_range(sql: str, dialect: str | None, first: str, last: str) -> str:
    """Put a batch's smallest and largest key, which are SQL expressions, in the place of the variables.

    >>> with_range("UPDATE t SET n = 1 WHERE id BETWEEN :first AND :last AND n = 0", None, "1", "9")
    'UPDATE t SET n = 1 WHERE id BETWEEN 1 AND 9 AND n = 0'
    """
    values = {FIRST: first, LAST: last}
    for variable in reversed(variables(tokens(sql, dialect))):
        sql = sql[: variable.start] + values[variable.name] + sql[variable.end :]
    return sql


def without_range(sql: str, dialect: str | None) -> str:
    """Put `true` in the place of every range: the statement is about all rows then.

    >>> without_range("UPDATE t SET n = 1 WHERE id BETWEEN :first AND :last AND n = 0", None)
    'UPDATE t SET n = 1 WHERE true AND n = 0'
    """
    seen = tokens(sql, dialect)
    for bound in reversed(bounds(seen)):
        last = seen[bound.stop - 1]
        sql = f"{sql[: seen[bound.begin].start]}true{sql[last.start + len(last.text) :]}"
    return sql


def matching(backfill: Backfill) -> str:
    """Write `FROM … WHERE …` for the rows that the statement would update, with its range still in it."""
    sql, update = backfill.sql, take_apart(backfill.sql, backfill.dialect)
    assert update is not None, "lint has seen it"
    seen = update.seen
    target = sql[seen[1].start : seen[update.set_].start].strip()
    others = ""
    if update.from_ is not None:
        others = f",\n{sql[seen[update.from_ + 1].start : seen[update.where].start].strip()}"
    return f"FROM {target}{others}\n{sql[seen[update.where].start :]}"


def rows_of(backfill: Backfill) -> str:
    """Write the expression that counts the rows of `matching`: a join may find one of them several times."""
    update = take_apart(backfill.sql, backfill.dialect)
    if update is None or update.from_ is None:
        return "count(*)"
    return f"count(DISTINCT {key_of(backfill, update)})"


def key_of(backfill: Backfill, update: Update | None = None) -> str:
    """Write the key with what it must be called by in the statement: an alias, or the table's name."""
    update = update or take_apart(backfill.sql, backfill.dialect)
    assert update is not None, "lint has seen it"
    words = [token for token in update.seen[1 : update.set_] if token.identifier]
    return f"{words[-1].text}.{backfill.key}"


def assigned(update: Update) -> list[str]:
    """List the columns that are set."""
    end = update.from_ or update.where
    found = []
    for index in range(update.set_ + 1, end - 1):
        before, token, after = update.seen[index - 1], update.seen[index], update.seen[index + 1]
        in_list = update.depths[index] == 1 and before.text in ("(", ",") and after.text in (",", ")")
        alone = update.depths[index] == 0 and (before.text == "," or index == update.set_ + 1)
        if token.identifier and ((alone and after.text == "=") or in_list):
            found.append(token.identifier)
    return found


def target_names(update: Update) -> list[tuple[str, ...]]:
    """List what a column of the target may be called by: its alias, else the table with and without its schema."""
    words = [token for token in update.seen[1 : update.set_] if token.keyword not in ("ONLY", "AS")]
    path = [
        token.identifier for index, token in enumerate(words) if index == 0 or words[index - 1].text == "."
    ]
    parts = [part for part in path if part]
    if words and len(words) > 1 and words[-2].text != "." and words[-1].identifier:
        return [(), (words[-1].identifier,)]
    return [(), (parts[-1],) if parts else (), tuple(parts)]


def table_of(update: Update) -> tuple[str, ...]:
    """Name the table that is updated, as it is written there."""
    words = [token for token in update.seen[1 : update.set_] if token.keyword != "ONLY"]
    text = ""
    for index, token in enumerate(words):
        if index and words[index - 1].text != "." and token.text != ".":
            break
        text += token.text
    return names(text)


def _name(token: Token) -> str:
    if token.kind == "word":
        return token.text.lower()
    quote = token.text[-1]
    return token.text[1:-1].replace(quote * 2, quote)


def _depths(seen: Sequence[Token]) -> Iterator[int]:
    """Count, for each token, the parentheses and the CASEs that it stands in."""
    depth, before = 0, ""
    for token in seen:
        keyword = token.keyword if before != "." else ""
        depth -= token.text == ")" or keyword == "END"
        yield depth
        depth += token.text == "(" or keyword == "CASE"
        before = token.text


def _bound(seen: Sequence[Token], variable: Variable) -> Bound | None:
    """Read the comparison in which a variable stands; that of `AND :last` belongs to its BETWEEN."""
    colon = variable.index - 1
    before = seen[colon - 1].keyword or seen[colon - 1].text if colon else ""
    if before == "BETWEEN" and variable.name == FIRST:
        after = variable.index + 1
        ends = [each for each in variables(seen) if each.name == LAST and each.index == after + 2]
        if ends and seen[after].keyword == "AND":
            return _compared(seen, colon - 2, frozenset({FIRST, LAST}), after + 3)
    sign = {FIRST: ">", LAST: "<"}.get(variable.name)
    if before == "=" and colon > 1 and seen[colon - 2].text == sign:
        return _compared(seen, colon - 3, frozenset({variable.name}), variable.index + 1)
    return None


def _compared(seen: Sequence[Token], last: int, sides: frozenset[str], stop: int) -> Bound | None:
    begin = last
    while begin > 1 and seen[begin - 1].text == ".":
        begin -= 2
    column = tuple(token.identifier for token in seen[begin : last + 1 : 2])
    return Bound(column, sides, begin, stop) if last >= 0 and all(column) else None

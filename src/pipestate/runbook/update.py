"""Statement of a backfill, over a range of its table's key given by psql variables.

    UPDATE orders SET state = 'new' WHERE id BETWEEN :first AND :last AND state IS NULL

    INSERT INTO lines (order_id) SELECT id FROM orders o
    WHERE id BETWEEN :first AND :last AND NOT EXISTS (SELECT FROM lines WHERE order_id = o.id)

The range is found by its tokens. Batch keys replace the variables in it; without the range, the same
conditions count the remaining rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipestate.runbook.model import Backfill
from pipestate.runbook.statement import Token, miscounted, tokens

FIRST, LAST = "first", "last"
ENDS_TABLE = ("JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL")


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable `:first` or `:'first'`: the token at `index` after its colon; with its offsets."""

    name: str
    index: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Bound:
    """A range `orders.id BETWEEN :first AND :last`, or one comparison of it: tokens `begin` up to `stop`."""

    column: tuple[str, ...]
    sides: frozenset[str]
    begin: int
    stop: int


@dataclass(frozen=True, slots=True)
class Update:
    """An UPDATE split at its top-level SET, FROM and WHERE; the fields are token indexes.

    For an INSERT … SELECT, `set_` is its SELECT and `end` its ON CONFLICT. `walked` holds the tokens of the table
    with the range key: the table of the UPDATE, or the first table of the SELECT.
    """

    seen: tuple[Token, ...]
    depths: tuple[int, ...]
    set_: int
    from_: int | None
    where: int
    end: int = 0
    walked: tuple[Token, ...] = ()

    @property
    def inserts(self) -> bool:
        return self.seen[0].keyword == "INSERT"

    def top(self, *keywords: str, after: int = 0) -> int | None:
        """Find the first of these keywords after a token, outside subqueries."""
        for index in range(after, len(self.seen)):
            is_name = index > 0 and self.seen[index - 1].text == "."
            if self.depths[index] == 0 and self.seen[index].keyword in keywords and not is_name:
                return index
        return None


def names(text: str) -> tuple[str, ...]:
    """Read `orders` or `sales."Order Lines"` as names like the server; return () for other text.

    >>> names('Sales."Order Lines"'), names("orders, lines")
    (('sales', 'Order Lines'), ())
    """
    seen = tokens(text, "postgresql")
    parts, dots = seen[::2], seen[1::2]
    if not parts or len(parts) != len(dots) + 1 or any(dot.text != "." for dot in dots):
        return ()
    return tuple(part.name for part in parts) if all(part.name for part in parts) else ()


def variables(seen: Sequence[Token]) -> list[Variable]:
    """Find psql variables, and skip casts such as `::text`."""
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
    """Find every range that uses the variables, in any part of the statement."""
    found = [_bound(seen, variable) for variable in variables(seen)]
    return [bound for bound in found if bound is not None]


def take_apart(sql: str, dialect: str | None) -> Update | None:
    """Split an UPDATE or INSERT … SELECT; return None for any other form or a missing WHERE."""
    seen = tuple(tokens(sql, dialect))
    update = Update(seen, tuple(_depths(seen)), 0, None, 0)
    if not seen or seen[0].keyword not in ("UPDATE", "INSERT"):
        return None
    set_ = update.top("SET" if seen[0].keyword == "UPDATE" else "SELECT")
    where = update.top("WHERE", after=set_ or 0)
    if set_ is None or where is None:
        return None
    from_ = update.top("FROM", after=set_)
    while from_ is not None and from_ < where and seen[from_ - 1].keyword == "DISTINCT":
        from_ = update.top("FROM", after=from_ + 1)  # IS DISTINCT FROM
    if from_ is not None and from_ > where:
        from_ = None
    if seen[0].keyword == "UPDATE":
        return Update(seen, update.depths, set_, from_, where, len(seen), seen[1:set_])
    if from_ is None:
        return None
    stop = from_ + 1
    while stop < where and not (
        update.depths[stop] == 0 and (seen[stop].text == "," or seen[stop].keyword in ENDS_TABLE)
    ):
        stop += 1
    end = update.top("ON", after=where) or len(seen)
    return Update(seen, update.depths, set_, from_, where, end, seen[from_ + 1 : stop])


def with_range(sql: str, dialect: str | None, first: str, last: str) -> str:
    """Replace the variables with a batch's smallest and largest key, given as SQL expressions.

    >>> with_range("UPDATE t SET n = 1 WHERE id BETWEEN :first AND :last AND n = 0", None, "1", "9")
    'UPDATE t SET n = 1 WHERE id BETWEEN 1 AND 9 AND n = 0'
    """
    values = {FIRST: first, LAST: last}
    for variable in reversed(variables(tokens(sql, dialect))):
        sql = sql[: variable.start] + values[variable.name] + sql[variable.end :]
    return sql


def without_range(sql: str, dialect: str | None) -> str:
    """Replace every range with `true`, so that the statement covers all rows.

    >>> without_range("UPDATE t SET n = 1 WHERE id BETWEEN :first AND :last AND n = 0", None)
    'UPDATE t SET n = 1 WHERE true AND n = 0'
    """
    seen = tokens(sql, dialect)
    for bound in reversed(bounds(seen)):
        last = seen[bound.stop - 1]
        sql = f"{sql[: seen[bound.begin].start]}true{sql[last.start + len(last.text) :]}"
    return sql


def matching(backfill: Backfill) -> str:
    """Write `FROM … WHERE …` for the rows that the statement would update or insert, including its range."""
    sql, update = backfill.sql, take_apart(backfill.sql, backfill.dialect)
    assert update is not None, "lint refuses this earlier"
    seen = update.seen
    if update.inserts and update.from_ is not None:
        stop = seen[update.end].start if update.end < len(seen) else len(sql)
        return sql[seen[update.from_].start : stop].rstrip()
    target = sql[seen[1].start : seen[update.set_].start].strip()
    others = ""
    if update.from_ is not None:
        others = f",\n{sql[seen[update.from_ + 1].start : seen[update.where].start].strip()}"
    return f"FROM {target}{others}\n{sql[seen[update.where].start :]}"


def count_of(backfill: Backfill, rows: str, row: Sequence[str]) -> str:
    """Write the query that counts the rows of `matching`, each once even if a join repeats it.

    `row` names the columns that identify a row.
    """
    update = take_apart(backfill.sql, backfill.dialect)
    if update is None or update.from_ is None or update.inserts:
        return f"SELECT count(*) {rows}"
    columns = ", ".join(of_target(backfill, column) for column in row)
    return f"SELECT count(*) FROM (SELECT DISTINCT {columns} {rows}\n) AS found"


def of_target(backfill: Backfill, column: str) -> str:
    """Qualify a column of the walked table with its alias in the statement, or its name."""
    update = take_apart(backfill.sql, backfill.dialect)
    assert update is not None, "lint refuses this earlier"
    words = [token for token in update.walked if token.identifier]
    return f"{words[-1].text}.{column}"


def assigned(update: Update) -> list[str]:
    """List the columns that an UPDATE sets; an INSERT changes no existing row."""
    if update.inserts:
        return []
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
    """List the valid qualifiers for a column of the walked table: its alias, else its name and schema."""
    words = [token for token in update.walked if token.keyword not in ("ONLY", "AS")]
    path = [
        token.identifier for index, token in enumerate(words) if index == 0 or words[index - 1].text == "."
    ]
    parts = [part for part in path if part]
    if words and len(words) > 1 and words[-2].text != "." and words[-1].identifier:
        return [(), (words[-1].identifier,)]
    return [(), (parts[-1],) if parts else (), tuple(parts)]


def table_of(update: Update) -> tuple[str, ...]:
    """Name the walked table as the statement writes it."""
    return _table(update.walked)


def inserted_table(update: Update) -> tuple[str, ...]:
    """Name the table that an INSERT writes, as the statement writes it."""
    return _table(update.seen[2 : update.set_]) if update.inserts else ()


def _table(found: Sequence[Token]) -> tuple[str, ...]:
    words = [token for token in found if token.keyword != "ONLY"]
    text = ""
    for index, token in enumerate(words):
        if index and words[index - 1].text != "." and token.text != ".":
            break
        text += token.text
    return names(text)


def _depths(seen: Sequence[Token]) -> Iterator[int]:
    """Count the parentheses and CASEs that enclose each token."""
    depth, before = 0, ""
    for token in seen:
        keyword = token.keyword if before != "." else ""
        depth -= token.text == ")" or keyword == "END"
        yield depth
        depth += token.text == "(" or keyword == "CASE"
        before = token.text


def _bound(seen: Sequence[Token], variable: Variable) -> Bound | None:
    """Read the comparison that contains a variable; `AND :last` belongs to its BETWEEN."""
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


# Faults of a backfill's statement, each with a fix.

# With these clauses, the rows of a batch would differ from the rows of its range.
OF_A_SELECT = ("GROUP", "HAVING", "UNION", "INTERSECT", "EXCEPT", "ORDER", "OFFSET", "FETCH", "WINDOW")


def update_faults(backfill: Backfill) -> Iterator[str]:
    """List the reasons why this is not one UPDATE or INSERT … SELECT over a range of its table's key."""
    seen = tokens(backfill.sql, backfill.dialect)
    if fault := miscounted(seen, "UPDATE", "backfill"):
        yield fault
    elif seen[0].keyword not in ("UPDATE", "INSERT"):
        yield (
            f"begins with {seen[0].text}: a backfill is an UPDATE or an INSERT … SELECT (what it needs "
            "besides stands in its FROM)"
        )
    elif any(token.text == "\\" for token in seen):
        yield "a backslash outside quotes begins a psql command: a block is SQL alone, take it out"
    elif (update := take_apart(backfill.sql, backfill.dialect)) is None:
        if seen[0].keyword == "INSERT" and not any(token.keyword == "SELECT" for token in seen):
            yield "inserts rows that it does not read: write INSERT … SELECT … FROM the table of `-- table:`"
        else:
            yield f"has no WHERE: write `WHERE {backfill.key} BETWEEN :first AND :last AND …`"
    else:
        yield from _of_its_parts(backfill, update)


def _of_its_parts(backfill: Backfill, update: Update) -> Iterator[str]:
    if _lower(table_of(update)) != _lower(names(backfill.table)):
        written = ".".join(table_of(update)) or update.seen[1].text
        does = "reads" if update.inserts else "updates"
        yield f"{does} {written}, and `-- table:` says {backfill.table}: make them the same"
    if update.inserts and _lower(inserted_table(update)) == _lower(names(backfill.table)):
        yield f"inserts into {backfill.table}, whose ranges are its batches: it would read its own rows"
    if _lower(names(backfill.key)) in [(column,) for column in assigned(update)]:
        yield f"sets {backfill.key}, whose ranges are its batches: rows would move from one range to the next"
    for word in ("RETURNING", "LIMIT", *(OF_A_SELECT if update.inserts else ())):
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
            f"uses :{loose[0]} outside of its range: use it only in `{backfill.key} BETWEEN :first AND :last`"
        )
        return
    own = [bound for bound in ranges if _is_on_key(bound, backfill, update)]
    if frozenset().union(*(bound.sides for bound in own)) != {FIRST, LAST}:
        yield (
            f"does not use the range: its WHERE must begin a condition with `{backfill.key} BETWEEN :first "
            "AND :last`, joined to the others by AND"
        )
    elif sum(bound.stop - bound.begin for bound in own) + len(own) >= update.end - update.where:
        yield (
            "has no condition beside the range, so it would update finished rows again and never end: add one, as "
            "`AND state IS NULL`"
        )


def _is_on_key(bound: Bound, backfill: Backfill, update: Update) -> bool:
    """Tell whether a range limits the updated rows: on the key, in the WHERE itself, joined by AND."""
    (key,) = _lower(names(backfill.key)) or ("",)
    at_top = bound.begin > update.where and update.depths[bound.begin] == 0
    before = update.seen[bound.begin - 1].keyword
    after = update.seen[bound.stop].keyword if bound.stop < update.end else "AND"
    named = bound.column[-1] == key and bound.column[:-1] in target_names(update)
    return at_top and named and before in ("WHERE", "AND") and after == "AND"


def _lower(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.lower() for part in path)

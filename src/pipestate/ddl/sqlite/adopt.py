"""Looking, on SQLite, at what is there before anything is done: what can be adopted, and what cannot."""

from collections.abc import Sequence

from pipestate.ddl.definitions import Shape
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.sqlite import look


def refuse_wrong_shapes(shapes: Sequence[Shape]) -> None:
    for shape in shapes:
        _refuse(shape)


def refuse_state(
    table: str, *, having: Sequence[str], lacking: Sequence[str], gone: str, message: str
) -> None:
    if not look.has_table(table):
        return
    columns = set(look.column_names(table))
    if columns >= set(having) and not columns & set(lacking) and not look.has_table(gone):
        raise MigrationError(message)


def _refuse(shape: Shape) -> None:
    query = "SELECT type FROM sqlite_master WHERE name = ? AND type IN ('table', 'view')"
    kind = look.connection().exec_driver_sql(query, (shape.table,)).scalar()
    if kind is None:
        return
    if kind != "table":
        raise MigrationError(f"{shape.table} exists, but is not a plain table (a view): rename it")
    missing = [column for column in shape.columns if column not in look.column_names(shape.table)]
    if missing:
        raise MigrationError(
            f"{shape.table} exists, but without {', '.join(missing)}: it is another table of that name. "
            "Rename it, or point the chain at another database"
        )
    inspector = look.inspector()
    unique: list[Sequence[str | None]] = [inspector.get_pk_constraint(shape.table)["constrained_columns"]]
    unique += [constraint["column_names"] for constraint in inspector.get_unique_constraints(shape.table)]
    unique += [index["column_names"] for index in inspector.get_indexes(shape.table) if index["unique"]]
    if [shape.key] not in unique:
        raise MigrationError(
            f"{shape.table} exists, but its {shape.key} is not unique: add a primary key or a unique index "
            "on it, then run the same again"
        )

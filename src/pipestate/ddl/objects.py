"""What the chain created, so that `downgrade` drops that and nothing else.

Kept in `pipestate_object`, for pipestate's own chain only: another project's revisions own what they
create, and their downgrades drop it without asking.
"""

from alembic import op
from sqlalchemy import text

from pipestate.ddl import sql

VERSION_TABLE = "pipestate_alembic_version"
REGISTRY = """CREATE TABLE IF NOT EXISTS pipestate_object (
    kind VARCHAR(20) NOT NULL,
    name VARCHAR(200) NOT NULL,
    revision VARCHAR(32) NOT NULL,
    created_at {time} DEFAULT CURRENT_TIMESTAMP NOT NULL,
    CONSTRAINT pk_pipestate_object PRIMARY KEY (kind, name)
)"""


def create_registry() -> None:
    sql.emit(
        REGISTRY.format(
            time="DATETIME" if op.get_context().dialect.name == "sqlite" else "TIMESTAMP WITH TIME ZONE"
        )
    )


def drop_registry() -> None:
    sql.emit("DROP TABLE IF EXISTS pipestate_object")


def kept() -> bool:
    """Does this chain keep a registry?"""
    return bool(op.get_context().version_table == VERSION_TABLE)


def remember(kind: str, name: str) -> str:
    """The statement that writes it down; harmless when repeated."""
    if not kept():
        return "SELECT 1"
    values = sql.literals((kind, name, sql.current_revision()))
    return f"INSERT INTO pipestate_object (kind, name, revision) VALUES ({values}) ON CONFLICT DO NOTHING"


def remember_selected(kind: str, name: str, source: str) -> str:
    """The same for several, `name` being an expression over the rows of `source`."""
    return (
        "INSERT INTO pipestate_object (kind, name, revision) "
        f"SELECT {sql.literal(kind)}, {name}, {sql.literal(sql.current_revision())} {source} ON CONFLICT DO NOTHING"
    )


def forget(kind: str, name: str) -> str:
    if not kept():
        return "SELECT 1"
    return f"DELETE FROM pipestate_object WHERE kind = {sql.literal(kind)} AND name = {sql.literal(name)}"


def is_ours(kind: str, name: str) -> str:
    """As an SQL condition: may `downgrade` drop it?"""
    if not kept():
        return "true"
    return (
        "EXISTS (SELECT FROM pipestate_object "
        f"WHERE kind = {sql.literal(kind)} AND name = {sql.literal(name)})"
    )


def is_ours_on_sqlite(kind: str, name: str) -> bool:
    if not kept() or sql.is_offline():
        return True
    query = text("SELECT count(*) FROM pipestate_object WHERE kind = :kind AND name = :name")
    return bool(op.get_bind().execute(query, {"kind": kind, "name": name}).scalar())

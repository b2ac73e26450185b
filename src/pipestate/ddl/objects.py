"""What a chain created, so that `downgrade` drops that and nothing else.

Kept in the ledger's table `object`, for chains whose env.py says `run(context, registry=True)`. The
revisions of any other project own what they create, and their downgrades drop it without asking.
"""

from alembic import op

from pipestate.ddl import sql
from pipestate.ledger.tables import qualified

# Set in the context's opts by `pipestate.environment.run`.
REGISTRY = "pipestate_registry"


def kept() -> bool:
    """Say whether this chain keeps a registry."""
    return bool(op.get_context().opts.get(REGISTRY))


def registry() -> str:
    """Name the registry on this engine."""
    return qualified("object", op.get_context().dialect.name)


def remember(kind: str, name: str) -> str:
    """Render the statement that writes an object down; harmless when repeated."""
    if not kept():
        return "SELECT 1"
    values = sql.literals((kind, name, sql.current_revision()))
    return f"INSERT INTO {registry()} (kind, name, revision) VALUES ({values}) ON CONFLICT DO NOTHING"


def remember_selected(kind: str, name: str, source: str) -> str:
    """Render the same for several, `name` being an expression over the rows of `source`."""
    return (
        f"INSERT INTO {registry()} (kind, name, revision) "
        f"SELECT {sql.literal(kind)}, {name}, {sql.literal(sql.current_revision())} {source} ON CONFLICT DO NOTHING"
    )


def forget(kind: str, name: str) -> str:
    """Render the statement that takes an object out of the registry."""
    if not kept():
        return "SELECT 1"
    return f"DELETE FROM {registry()} WHERE kind = {sql.literal(kind)} AND name = {sql.literal(name)}"


def is_ours(kind: str, name: str) -> str:
    """Render the SQL condition that `downgrade` may drop it."""
    if not kept():
        return "true"
    return (
        f"EXISTS (SELECT FROM {registry()} WHERE kind = {sql.literal(kind)} AND name = {sql.literal(name)})"
    )

"""The registry of objects that a chain created: its downgrades drop those alone.

It is kept in the ledger's table `object`, for chains with `run(context, registry=True)` in env.py. The revisions of
any other project own the objects that they create; their downgrades drop these unconditionally.
"""

from alembic import op

from pipestate.ledger.tables import qualified
from pipestate.migration import sql
from pipestate.migration.run import current_run

# The statement of a chain without a registry.
NOTHING = "SELECT 1"


def kept() -> bool:
    """Say whether this chain keeps a registry."""
    return bool(current_run().has_registry)


def registry() -> str:
    """Name the registry on this engine."""
    return qualified("object", op.get_context().dialect.name)


def remember(kind: str, name: str) -> str:
    """Render the statement that records an object; repeating it is harmless."""
    if not kept():
        return NOTHING
    values = sql.literals((kind, name, current_run().revision))
    return f"INSERT INTO {registry()} (kind, name, revision) VALUES ({values}) ON CONFLICT DO NOTHING"


def forget(kind: str, name: str) -> str:
    """Render the statement that removes an object from the registry."""
    if not kept():
        return NOTHING
    return f"DELETE FROM {registry()} WHERE kind = {sql.literal(kind)} AND name = {sql.literal(name)}"


def is_ours(kind: str, name: str) -> str:
    """Render the SQL condition that `downgrade` may drop the object."""
    if not kept():
        return "true"
    return (
        f"EXISTS (SELECT FROM {registry()} WHERE kind = {sql.literal(kind)} AND name = {sql.literal(name)})"
    )

"""Installing the ledger on PostgreSQL: one DO block, which also finds what an older ledger lacks."""

from collections.abc import Sequence

from sqlalchemy import Connection

from pipestate.ledger.block import DECLARE, block


def statements(only: Sequence[str] | None) -> list[str]:
    """Render the installation."""
    return [f"DO $pipestate$\nDECLARE\n{DECLARE}\nBEGIN\n{block(only=only)}\nEND $pipestate$"]


def additions(connection: Connection) -> list[str]:
    """Return nothing: the block looks by itself for what an older ledger's tables lack."""
    del connection
    return []

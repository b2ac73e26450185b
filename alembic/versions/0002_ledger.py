"""The ledger: what was verified, signed off and observed.

Why: a gate can only check what is in the database. Runs of verify, people's words and outside facts are
written here first and then checked in SQL like everything else.
Lock: none on existing tables.
Verified by: sites-consolidation, phase `preflight`, whose sign-offs need it.

Revision ID: 0002
Revises: 0001
"""

from pipestate.ddl import install_ledger, remove_ledger

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    install_ledger()


def downgrade() -> None:
    remove_ledger()

"""Members"""

from acme_models.types import Money
from alembic import op

revision, down_revision = "m1", None


def upgrade() -> None:
    op.execute(f"CREATE TABLE members (fee {Money})")

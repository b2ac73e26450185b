"""What the tables share: two MetaData, and columns that recur."""

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, DateTime, Integer, MetaData, func, text
from sqlalchemy.dialects.postgresql import JSONB

# Stages of one step run side by side and end together: one coordinator follows the whole step.
STEPS = (("fetch",), ("ocr",), ("compilation", "extraction"), ("deploy",))
STAGES = tuple(stage for step in STEPS for stage in step)
COMPLETED = "completed"

metadata = MetaData()
legacy_metadata = MetaData()

Json = JSON().with_variant(JSONB(), "postgresql")
# The application's own columns may be of another type, and what points at its keys follows (see KeyOf).
ADOPTED = {"adopted": True}
BigId = BigInteger().with_variant(Integer(), "sqlite")


def time(name: str, *, default: bool = False, adopted: bool = False) -> Column[Any]:
    info = ADOPTED if adopted else {}
    if not default:
        return Column(name, DateTime(timezone=True), info=info)
    return Column(
        name, DateTime(timezone=True), server_default=func.current_timestamp(), nullable=False, info=info
    )


def count(name: str) -> Column[Any]:
    return Column(name, Integer, server_default=text("0"), nullable=False)

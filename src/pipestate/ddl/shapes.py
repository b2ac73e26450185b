"""What a chain refuses to adopt."""

from collections.abc import Sequence

from pipestate.ddl.definitions import Shape
from pipestate.ddl.engine import engine


def refuse_wrong_shapes(shapes: Sequence[Shape]) -> None:
    """Refuse, before the first change, a table of the right name that is another one."""
    engine().refuse_wrong_shapes(shapes)


def refuse_state(
    table: str, *, having: Sequence[str], lacking: Sequence[str], gone: str, message: str
) -> None:
    """Refuse a database whose table has all of these columns and none of those, and where `gone` is gone."""
    engine().refuse_state(table, having=having, lacking=lacking, gone=gone, message=message)

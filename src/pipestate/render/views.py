"""The runbooks' views on the terminal: a table each, with bars where it is a distribution."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pipestate.render.rows import rows_table
from pipestate.render.text import more_rows
from pipestate.safe import plain
from pipestate.standing.distribution import Rows, is_distribution
from pipestate.verify.run import Shown

BAR = 30


def show_views(views: Sequence[Shown], width: int, *, named: bool = False) -> Iterator[RenderableType]:
    """Draw each view that has rows, or an error; `named` says of each from which page it is."""
    for view in views:
        if not view.error and not view.rows:
            continue
        title = Text().append(f"\n{plain(view.id)}", "bold")
        yield title.append(f"  {plain(view.runbook)}", "dim") if named else title
        if view.error:
            yield Text(plain(view.error), "red")
            continue
        show = _distribution if is_distribution(view.rows) else rows_table
        yield show(view.rows, width)
        yield from (Text(more, "dim") for more in more_rows(view.total, len(view.rows)))


def _distribution(rows: Rows, width: int) -> RenderableType:
    name, amount, *rest = rows[0]
    total = sum(int(str(row[amount])) for row in rows)
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column(Text(plain(name)), no_wrap=True)
    table.add_column(Text(plain(amount)), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, overflow="crop")
    for column in rest:
        table.add_column(Text(plain(column)), justify="right", no_wrap=True, overflow="ellipsis")
    for row in rows:
        bar = bar_of(int(str(row[amount])), total, min(BAR, width - 40))
        others = ("" if row[column] is None else Text(plain(str(row[column]))) for column in rest)
        table.add_row(Text(plain(str(row[name]))), str(row[amount]), Text(bar, "cyan"), *others)
    return table


def bar_of(amount: int, total: int, width: int) -> str:
    """A share of the whole; what is there at all is seen.

    >>> bar_of(1, 4, 8), bar_of(1, 1000, 8), bar_of(0, 1000, 8)
    ('██      ', '▏       ', '        ')
    """
    full = amount * width // total if total else 0
    return (("█" * full) or ("▏" if amount else "")).ljust(width)

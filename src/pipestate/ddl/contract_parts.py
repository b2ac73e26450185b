"""What a contract takes away: whole tables, and columns of tables that stay."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DerivedRows:
    """What rows of a table that went become on the way back, made from the table that replaced it.

    `columns` are expressions over a row `s` of `source`, which has the same key. A row `s` for which `where` does
    not hold makes none.
    """

    source: str
    columns: Mapping[str, str]
    where: str = "true"


@dataclass(frozen=True, slots=True)
class GoingTable:
    """A table that goes into the archive. `changed_at` is a column of the table that `derived` reads."""

    table: str
    key: tuple[str, ...] = ()
    derived: DerivedRows | None = None
    changed_at: str | None = None
    revision: str = ""

    @property
    def kind(self) -> str:
        return "table"

    @property
    def described(self) -> str:
        return self.table


@dataclass(frozen=True, slots=True)
class GoingColumns:
    """Columns that go. `derived` are expressions over a row `s` and its archived values `a`, which are texts."""

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    changed_at: str | None = None
    revision: str = ""

    @property
    def kind(self) -> str:
        return "columns"

    @property
    def described(self) -> str:
        return f"the columns {', '.join(self.columns)} of {self.table}"

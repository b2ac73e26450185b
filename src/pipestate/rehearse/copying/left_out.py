"""What a clone does not have of production, said in words: somebody will look for it there."""

from collections.abc import Iterator, Sequence

from pipestate.plural import many
from pipestate.rehearse.copying.inventory import Inventory, Relation
from pipestate.rehearse.copying.require import missing_extensions, unreadable_archives
from pipestate.rehearse.copying.wanted import WantedClone

LEDGER = "pipestate"
SHOWN = 5


def tables_with_rows(found: Inventory, wanted: WantedClone) -> list[Relation]:
    """List the tables whose rows are copied: without rows, still those that say where production stands."""
    left_out = {each.oid for each in (*unreadable_archives(found), *_unreachable(found))}
    return [
        each
        for each in found.relations
        if each.has_rows
        and each.oid not in left_out
        and (not wanted.schema_only or each.is_version_table or each.schema == LEDGER)
    ]


def left_out(found: Inventory, wanted: WantedClone, version: int) -> Iterator[str]:
    """Name what is left out on purpose, before anything is copied."""
    if wanted.schema_only:
        yield "all rows but those of the version table and the ledger: times and sizes will mean nothing"
    if extensions := missing_extensions(found, version):
        names = _named([each.name for each in extensions])
        yield f"extensions that the embedded server does not have and no object depends on: {names}"
    if found.foreign_tables:
        yield f"the rows of foreign tables, which cannot be asked there: {_named(found.foreign_tables)}"
    if archives := unreadable_archives(found):
        yield f"archives that {found.role} may not read: {_named([each.name for each in archives])}"
    if unlogged := _unreachable(found):
        yield f"the rows of unlogged tables, which a standby has not: {_named([each.name for each in unlogged])}"
    if found.large_objects:
        yield many(found.large_objects, "large object")
    if found.subscriptions:
        yield f"{many(found.subscriptions, 'subscription')}: a clone follows nobody"
    if found.has_tablespaces:
        yield "tablespaces: everything lies in one place"
    if found.has_labels:
        yield "security labels"


def different(found: Inventory, *, same_locale: bool) -> Iterator[str]:
    """Name what the clone has in another way."""
    if not same_locale:
        yield f"the locale {found.locale} is not on this machine: the clone sorts as C does"
    unread = [each for each in found.counters if not each.is_readable]
    if unread:
        names = _named([each.name for each in unread])
        yield (
            f"{found.role} may not read the values of sequences ({names}): they go on behind the largest value of their "
            f"column, or begin anew; GRANT SELECT ON ALL SEQUENCES would let it"
        )


def _unreachable(found: Inventory) -> list[Relation]:
    return [each for each in found.relations if found.in_recovery and each.is_unlogged]


def _named(names: Sequence[str]) -> str:
    more = f", … ({len(names)})" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more

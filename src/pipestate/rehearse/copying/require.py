"""What must be true of production before it is copied; else one sentence, and nothing is begun."""

import shutil
import tempfile
from collections.abc import Sequence

from pipestate.embedded import embedded_extensions, embedded_versions
from pipestate.errors import ConfigError
from pipestate.plural import many, size
from pipestate.rehearse.copying.inventory import Extension, Inventory, Relation
from pipestate.rehearse.copying.wanted import RECIPES, WantedClone

ARCHIVE = "pipestate_archive"
SHOWN = 3
LOG = 2**30


def require_copyable(found: Inventory, wanted: WantedClone) -> int:
    """Refuse what cannot be copied whole; say on which version of PostgreSQL the clone will be."""
    version = _version(found)
    _refuse_size(found, wanted)
    _refuse_extensions(found, version)
    _refuse_unreadable(found)
    if not wanted.schema_only:
        _refuse_hidden_rows(found)
        _refuse_full_disk(found)
    return version


def unreadable_archives(found: Inventory) -> list[Relation]:
    """List the archived tables that the role may not read: nothing that is pending needs them."""
    return [each for each in found.relations if not each.is_readable and each.schema == ARCHIVE]


def missing_extensions(found: Inventory, version: int) -> list[Extension]:
    """List the extensions that the embedded server does not have."""
    there = embedded_extensions(version)
    return [each for each in found.extensions if each.name not in there]


def _version(found: Inventory) -> int:
    versions = embedded_versions()
    fitting = [each for each in versions if each >= found.version]
    if not fitting:
        raise ConfigError(
            f"production is PostgreSQL {found.version}, the embedded server {versions[-1]}: a clone must not be older, so "
            f"{RECIPES}"
        )
    return fitting[0]


def _refuse_size(found: Inventory, wanted: WantedClone) -> None:
    if not wanted.schema_only and found.bytes > wanted.max_bytes:
        raise ConfigError(
            f"production is {size(found.bytes)}, which is above --max-size ({size(wanted.max_bytes)}): raise it, "
            f"or {RECIPES}"
        )


def _refuse_extensions(found: Inventory, version: int) -> None:
    needed = [each for each in missing_extensions(found, version) if each.needed_by]
    if needed:
        named = ", ".join(f"{each.name} (for {each.needed_by[0]})" for each in needed)
        raise ConfigError(f"the embedded server does not have what production needs, {named}: {RECIPES}")


def _refuse_unreadable(found: Inventory) -> None:
    unreadable = [each for each in found.relations if not each.is_readable and each.schema != ARCHIVE]
    if unreadable:
        schema = unreadable[0].schema
        raise ConfigError(
            f"the role {found.role} may not read {_named(unreadable)}: GRANT USAGE ON SCHEMA {schema} and GRANT SELECT ON ALL "
            f"TABLES IN SCHEMA {schema} TO {found.role}, or name another role in the URL"
        )


def _refuse_hidden_rows(found: Inventory) -> None:
    hidden = [each for each in found.relations if each.hides_rows and each.is_readable]
    if hidden:
        raise ConfigError(
            f"row security hides rows of {_named(hidden)} from the role {found.role}, so the clone would lack them: ALTER ROLE "
            f"{found.role} BYPASSRLS, or name another role in the URL"
        )


def _refuse_full_disk(found: Inventory) -> None:
    """Refuse what will not fit: the clone's log needs room, too, up to its `max_wal_size`."""
    place = tempfile.gettempdir()
    free = shutil.disk_usage(place).free
    if found.bytes + min(found.bytes, LOG) > free:
        raise ConfigError(
            f"production is {size(found.bytes)}, and {place} has room for {size(free)}, its log included: set TMPDIR "
            f"to a larger place, or {RECIPES}"
        )


def _named(relations: Sequence[Relation]) -> str:
    names = ", ".join(each.name for each in relations[:SHOWN])
    more = f", … ({many(len(relations), 'table')})" if len(relations) > SHOWN else ""
    return names + more

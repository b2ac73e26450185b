"""Requirements on production for a clone, and sentences about the parts that a clone lacks."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipestate.core.errors import ConfigError
from pipestate.core.text import many, size
from pipestate.database.embedded import embedded_binaries, embedded_extensions, embedded_versions
from pipestate.database.postgresql import CONNECT_TIMEOUT_S
from pipestate.ledger.tables import SCHEMA
from pipestate.rehearse.copying.snapshot import Extension, Inventory, Relation
from pipestate.verify.session_safety import ARCHIVE

SHOWN = 3
LOG = 2**30
UNITS = {"KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
RECIPES = "give --on a clone of another kind: a restored backup, a branch of a managed server, or CREATE DATABASE … TEMPLATE"


@dataclass(frozen=True, slots=True)
class WantedClone:
    """The options of a copy: the largest size, schema only, and whether the clone stays."""

    max_bytes: int
    schema_only: bool = False
    keep: bool = False


def read_size(text: str) -> int:
    """Read a size such as `500MB` or `10GB`.

    >>> read_size("500MB"), read_size("1.5 gb")
    (524288000, 1610612736)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]B)", text.strip().upper())
    if found is None or not float(found[1]):
        raise ConfigError(f"--max-size {text}: write a size such as 500MB or 10GB")
    return int(float(found[1]) * UNITS[found[2]])


def require_copyable(found: Inventory, wanted: WantedClone) -> int:
    """Refuse a production that cannot be copied completely; return the clone's version of PostgreSQL."""
    versions, role = embedded_versions(), found.role
    version = next((each for each in versions if each >= found.version), None)
    if version is None:
        raise ConfigError(
            f"production is PostgreSQL {found.version}, the embedded server {versions[-1]}: a clone must not be older, "
            f"so {RECIPES}"
        )
    if not wanted.schema_only and found.bytes > wanted.max_bytes:
        raise ConfigError(
            f"production is {size(found.bytes)}, which is above --max-size ({size(wanted.max_bytes)}): raise it, "
            f"or {RECIPES}"
        )
    if needed := [each for each in missing_extensions(found, version) if each.needed_by]:
        named = ", ".join(f"{each.name} (for {each.needed_by[0]})" for each in needed)
        raise ConfigError(f"the embedded server lacks extensions of production, {named}: {RECIPES}")
    if unreadable := [each for each in found.relations if not each.is_readable and each.schema != ARCHIVE]:
        schema, names = unreadable[0].schema, _named([each.name for each in unreadable])
        raise ConfigError(
            f"the role {role} may not read {names}: GRANT USAGE ON SCHEMA {schema} and GRANT SELECT ON ALL "
            f"TABLES IN SCHEMA {schema} TO {role}, or name another role in the URL"
        )
    if wanted.schema_only:
        return version
    if hidden := [each.name for each in found.relations if each.hides_rows and each.is_readable]:
        raise ConfigError(
            f"row security hides rows of {_named(hidden)} from the role {role}, so the clone would lack them: "
            f"ALTER ROLE {role} BYPASSRLS, or name another role in the URL"
        )
    place = tempfile.gettempdir()
    free = shutil.disk_usage(place).free
    if found.bytes + min(found.bytes, LOG) > free:  # the clone's WAL needs space, up to `max_wal_size`
        raise ConfigError(
            f"production is {size(found.bytes)}, and {place} has room for {size(free)}, its log included: set TMPDIR "
            f"to a larger place, or {RECIPES}"
        )
    return version


def find_pg_dump(found: Inventory, version: int) -> Path:
    """Return the wheel's pg_dump; over TLS, which that lacks, one on PATH that is neither too old nor too new."""
    if not found.over_tls:
        return embedded_binaries(version) / "pg_dump"
    if on_path := shutil.which("pg_dump"):
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                [on_path, "--version"],
                check=False,
                timeout=CONNECT_TIMEOUT_S,
                stdin=subprocess.DEVNULL,
                capture_output=True,
            )
            number = re.search(rb"\(PostgreSQL\) (\d+)", done.stdout)
            if number is not None and found.version <= int(number[1]) <= version:
                return Path(on_path)
    raise ConfigError(
        f"production is reached over TLS, which the embedded pg_dump lacks: install the client of PostgreSQL "
        f"{found.version}, for example apt-get install postgresql-client-{found.version}"
    )


def missing_extensions(found: Inventory, version: int) -> list[Extension]:
    """List the extensions that the embedded server lacks."""
    there = embedded_extensions(version)
    return [each for each in found.extensions if each.name not in there]


def tables_with_rows(found: Inventory, wanted: WantedClone) -> list[Relation]:
    """List the tables to copy with their rows; with `schema_only`, the version table and the ledger."""
    left_out = {each.oid for each in (*found.unreadable_archives, *found.unreachable)}
    return [
        each
        for each in found.relations
        if each.has_rows
        and each.oid not in left_out
        and (not wanted.schema_only or each.is_version_table or each.schema == SCHEMA)
    ]


def rows_wanted(found: Inventory, wanted: WantedClone) -> list[str]:
    """Write pg_dump's options for these tables, and for the sequences that the role may read."""
    if wanted.schema_only:
        included = [f"--table={each.quoted}" for each in tables_with_rows(found, wanted)]
        included += [f"--table={each.quoted}" for each in found.counters if each.is_readable]
    else:
        included = ["--no-unlogged-table-data"] if found.in_recovery else []
        included += [f"--exclude-table={each.quoted}" for each in found.unreadable_archives]
        included += [f"--exclude-table-data={name}" for name in found.extension_tables]
    unread = [f"--exclude-table-data={each.quoted}" for each in found.counters if not each.is_readable]
    return included + unread


def left_out(found: Inventory, wanted: WantedClone, version: int) -> Iterator[str]:
    """Name the omitted parts, before anything is copied."""
    if wanted.schema_only:
        yield "all rows but those of the version table and the ledger: times and sizes will mean nothing"
    if extensions := missing_extensions(found, version):
        names = _named([each.name for each in extensions])
        yield f"extensions that the embedded server does not have and no object depends on: {names}"
    if found.foreign_tables:
        yield f"the rows of foreign tables, which cannot be read there: {_named(found.foreign_tables)}"
    if archives := found.unreadable_archives:
        yield f"archives that {found.role} may not read: {_named([each.name for each in archives])}"
    if unlogged := found.unreachable:
        yield f"the rows of unlogged tables, which a standby has not: {_named([each.name for each in unlogged])}"
    if found.large_objects:
        yield many(found.large_objects, "large object")


def different(found: Inventory, *, same_locale: bool) -> Iterator[str]:
    """Name the parts that differ on the clone."""
    if not same_locale:
        yield f"the locale {found.locale} is not on this machine: the clone sorts as C does"
    unread = [each for each in found.counters if not each.is_readable]
    if unread:
        names = _named([each.name for each in unread])
        yield (
            f"{found.role} may not read the values of sequences ({names}): on the clone they continue after the "
            "largest value of their column, or restart; GRANT SELECT ON ALL SEQUENCES permits it"
        )


def _named(names: Sequence[str]) -> str:
    more = f", … ({len(names)})" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more

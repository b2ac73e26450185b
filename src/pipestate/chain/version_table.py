"""Where a database stands: its version table, found without running the project's env.py.

1. The option `--version-table [SCHEMA.]TABLE`.
2. A literal `version_table` or `version_table_schema` in env.py, else in the configuration.
3. Where env.py surely sets neither: `alembic_version`.
4. Where env.py does not say it in so many words: `alembic_version` on the search path, else a search through the
   catalogue for tables with a `version_num`.

The rows of the table must all be of the chain. What is not certain is an error that names the candidates:
a wrong guess would say of a database in use that it is at its beginning.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipestate.chain.candidates import Candidate, find_candidates, stored_in
from pipestate.chain.env import ARGUMENTS, Declared, declared_in
from pipestate.chain.graph import Chain
from pipestate.chain.position import Position
from pipestate.chain.project import Project
from pipestate.errors import ConfigError

if TYPE_CHECKING:
    from sqlalchemy import Connection

DEFAULT = "alembic_version"
HOW_TO_NAME_A_TABLE = "name the right one with --version-table [SCHEMA.]TABLE"


# In the `info` of a connection: the version table that was found on it. Whoever owns that one migrates.
FOUND = "pipestate_version_table"
# What a list of candidates may hold and still help; a database with a schema for each tenant has thousands.
MOST = 50
Read = Callable[[Candidate], Candidate]


@dataclass(frozen=True, slots=True)
class Locator:
    """A chain, and what is known of its version table: says where a database stands."""

    chain: Chain
    declared: Declared
    schema: str | None = None

    def __call__(self, connection: "Connection") -> Position:
        """Read the position on this connection, and thus in the snapshot that it holds."""
        candidates = find_candidates(connection, self.schema, self._known)
        table = choose(self.chain, self.declared, candidates, lambda each: stored_in(connection, each))
        if table is None:
            return self.chain.position(())
        tell_found(connection, table.quoted)
        return replace(self.chain.position(table.stored), version_table=table.quoted)

    def within(self, schema: str) -> "Locator":
        """Look for the version table in this schema alone, which must be the first on the path: a tenant's."""
        return Locator(self.chain, replace(self.declared, schema=None), schema)

    @property
    def _known(self) -> str | None:
        return self.declared.table or (DEFAULT if self.declared.certain else None)


def tell_found(connection: "Connection", table: str | None) -> None:
    """Keep with a connection which version table was found there, or on another connection to the same database."""
    if table is not None:
        connection.info[FOUND] = table


def locator(project: Project, chain: Chain, option: str | None = None) -> Locator:
    """Collect what the option, env.py and the configuration say of the version table."""
    if option is not None:
        before, _, last = option.rpartition(".")
        if not last:
            raise ConfigError(f"--version-table {option}: write TABLE or SCHEMA.TABLE")
        return Locator(chain, Declared(last, before or None, "--version-table"))
    in_env = declared_in(project.scripts / "env.py")
    table, schema = (project.option(name) for name in ARGUMENTS)
    if not in_env.named and (table or schema):
        return Locator(chain, Declared(table, schema, str(project.config)))
    return Locator(chain, in_env)


def choose(chain: Chain, declared: Declared, candidates: Sequence[Candidate], read: Read) -> Candidate | None:
    """Choose the chain's version table among those of a database; None where there is none yet."""
    if declared.named:
        return _by_name(chain, declared, candidates, read)
    visible = next((read(each) for each in candidates if each.matches(DEFAULT, None)), None)
    if visible is not None and (visible.is_of(chain) or (declared.certain and visible.stored)):
        return _checked(chain, visible)
    possible = [each for each in candidates if each.table == DEFAULT] if declared.certain else candidates
    return _by_content(chain, possible, read)


def _by_name(
    chain: Chain, declared: Declared, candidates: Sequence[Candidate], read: Read
) -> Candidate | None:
    """Take the table of that name; where there is none, see that it is not merely out of sight."""
    name = declared.table or DEFAULT
    matching = [each for each in candidates if each.matches(name, declared.schema)]
    if matching:
        return _checked(chain, read(matching[0]))
    elsewhere = [each for each in candidates if each.table == name and declared.schema is None]
    if declared.source == "--version-table":  # it may be misspelt
        elsewhere += [each for each in map(read, candidates[:MOST]) if each.is_of(chain)]
    if elsewhere:
        raise ConfigError(
            f"{declared.source} names the version table {name}, which the search path does not find; there is "
            f"{_listed(elsewhere)}: {HOW_TO_NAME_A_TABLE}"
        )
    return None


def _by_content(chain: Chain, candidates: Sequence[Candidate], read: Read) -> Candidate | None:
    """Take the one table whose rows are of this chain; the others must surely be somebody else's."""
    if len(candidates) > MOST:
        raise ConfigError(
            f"{len(candidates):,} tables may say where the database stands: {HOW_TO_NAME_A_TABLE}"
        )
    tables = [read(each) for each in candidates]
    fitting = [each for each in tables if each.is_of(chain)]
    doubtful = [each for each in tables if each not in fitting and not each.is_foreign(chain)]
    if len(fitting) == 1 and not doubtful:
        return fitting[0]
    if len(tables) > 1:
        raise ConfigError(
            f"several tables may say where the database stands: {_listed(tables)}; {HOW_TO_NAME_A_TABLE}"
        )
    return _checked(chain, tables[0]) if tables else None


def _checked(chain: Chain, table: Candidate) -> Candidate:
    if not table.readable:
        raise ConfigError(
            f"the version table {table} may not be read: grant SELECT on it, and USAGE on its schema"
        )
    unknown = [revision for revision in table.stored if revision not in chain]
    if unknown:
        raise ConfigError(
            f"the database is at revision {' '.join(unknown)} ({table}), which this project does not have: "
            f"name the right project with --config, or {HOW_TO_NAME_A_TABLE}"
        )
    return table


def _listed(candidates: Sequence[Candidate]) -> str:
    return ", ".join(each.described for each in candidates)

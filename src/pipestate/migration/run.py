"""State and settings of a migration that runs: one object for each database that an env.py configures; `alembic -x name=value`,
the database, and `[pipestate]` of the ini or pyproject.toml."""

import configparser
import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from alembic import op
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from sqlalchemy import URL, make_url

from pipestate.core.errors import ConfigError
from pipestate.core.text import listed
from pipestate.database.urls import resolve_url
from pipestate.migration.failure import MigrationError
from pipestate.verify.run import DEFAULT_TIMEOUT_S

if TYPE_CHECKING:
    from pipestate.migration.postgresql.gate_script import GuardedOutput


@dataclass
class MigrationRun:
    """Everything that pipestate remembers of one run on one database."""

    # The migrations, as `pipestate.environment.run` configures it.
    has_registry: bool = False  # the migrations record the objects that they create
    naive_timezone: str = "UTC"  # adopted times without a zone are read in this one
    # The run.
    is_guarded: bool = False
    is_locked: bool = False  # the migration lock is held
    heads: Collection[str] | None = None  # after the last revision that was applied
    has_ledger: bool | None = None  # after the last revision that was applied
    has_warned_of_ledger: bool = False
    last_commit: str | None = None  # the last revision that has committed before its end
    forced: str | None = None  # the gate that a reason without a name has forced
    output: "GuardedOutput | None" = None  # of a script, after its first gate
    # The revision that runs.
    revision: str = ""
    is_upgrade: bool | None = None
    began: float = 0.0
    part: int = 0  # how often this revision has committed
    committed: list[str] = field(default_factory=list)  # statements of this revision that stay
    is_autocommit: bool = False  # each statement commits by itself
    passed_gates: set[str] = field(default_factory=set)
    token: str | None = None  # the last revision that passed its gate
    empty_tables: set[str] = field(
        default_factory=set
    )  # tables of gates that were not evaluated: these are empty
    is_evaluated: bool | None = None  # a gate of this revision was evaluated; None without a gate
    required_ledger: str | None = None  # the revision whose script asserts the ledger
    compared_functions: str | None = None  # the revision that has compared the server's functions
    has_compared: bool = False  # the definitions of these functions: later revisions compare their version
    written_functions: tuple[str, frozenset[str]] = ("", frozenset())  # into a script without a ledger
    has_script_functions: bool = False  # the guard's, at the head of a script
    gated_code: tuple[str, tuple[str, ...]] | None = None  # inside a gate: its revision, its locked tables
    dropped: tuple[str, list[dict[str, Any]], str | None] | None = None  # revision, objects, reason


def describe_undo(run: MigrationRun) -> str:
    """Say what was undone of a revision that failed, and name what it had committed."""
    if not run.committed:
        return "so it was rolled back"
    return f"and only the rest was rolled back: it had committed {listed(run.committed)}"


SCHEMAS = "pipestate_schemas"  # in config.attributes: the search path of a tenant
# Alembic hands one dictionary of options to every database of an env.py, so state is kept by context.
_RUNS: WeakKeyDictionary[MigrationContext, MigrationRun] = WeakKeyDictionary()


def run_of(context: MigrationContext) -> MigrationRun:
    """Return the state of the run in this context."""
    return _RUNS.setdefault(context, MigrationRun())


def current_run() -> MigrationRun:
    """Return the state of the run that calls this: inside a revision, or inside env.py."""
    return run_of(op.get_context())


X_OPTIONS = {
    "url": "the database",
    "contract": "the gate of contracts that autogenerate writes",
    "force": "the reason that passes a closed gate",
    "naive-timezone": "how to read timestamps without a zone (UTC)",
}
SECTION = "pipestate"
ENFORCE = "PIPESTATE_ENFORCE"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
OPTION = "pipestate_timeout"


def read_options(context: EnvironmentContext) -> dict[str, str]:
    """Read the -x options; refuse unknown and empty ones."""
    options = context.get_x_argument(as_dictionary=True)
    for name, value in options.items():
        if name not in X_OPTIONS:
            known = ", ".join(f"-x {key}=... ({what})" for key, what in X_OPTIONS.items())
            # Do not repeat a URL that lacks `url=`: it may hold a password.
            what = f"unknown option -x {name}" if name.replace("-", "").isalnum() else "-x takes name=value"
            raise MigrationError(f"{what}; there are {known}")
        if not value.strip():
            raise MigrationError(f"-x {name}= is empty: it takes {X_OPTIONS[name]}")
    return options


def find_url(context: EnvironmentContext, options: dict[str, str]) -> URL:
    """Find the database to migrate; a script needs the dialect alone, which is PostgreSQL's by default."""

    def ini_url() -> str | None:
        with translate_without_values(context.config):
            return context.config.get_main_option("sqlalchemy.url")

    try:
        return resolve_url(options.get("url"), ini_url=ini_url)
    except ConfigError as error:
        if context.is_offline_mode() and "url" not in options:
            return make_url("postgresql+psycopg2://")
        raise MigrationError(str(error)) from None


def read_without_values(config: Config) -> None:
    """Make env.py's reads of ini options fail without showing the value, which may be a password."""

    def translated(read: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(read)
        def read_translated(*arguments: Any, **named: Any) -> Any:
            with translate_without_values(config):
                return read(*arguments, **named)

        return read_translated

    for name in ("get_main_option", "get_section", "get_section_option"):
        setattr(config, name, translated(getattr(config, name)))


@contextmanager
def translate_without_values(config: Config) -> Iterator[None]:
    """Turn a wrong `%` in the ini into a sentence; configparser would also print the value."""
    try:
        yield
    except configparser.InterpolationError as error:
        name = getattr(error, "option", "a value")
        raise MigrationError(
            f"{config.config_file_name}: {name} in [{getattr(error, 'section', '')}] has a % that is not "
            "escaped, or refers to a name that nothing sets: write %% for a plain %"
        ) from None


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """Settings of the guard: `enforce` refuses losses, else they are warnings. The patience limits all tries
    together."""

    enforce: bool = True
    lock_timeout_s: float = 1.0
    lock_patience_s: float = 300.0
    lock_timeout_is_given: bool = False


def read_settings(config: Config | None, environ: Mapping[str, str] | None = None) -> GuardSettings:
    """Read the settings; raise MigrationError for an invalid value."""
    environ = os.environ if environ is None else environ
    given: dict[str, str] = {}
    if config is not None:
        given = {name: str(value) for name, value in _read_pyproject(config).items()}
        given |= dict(config.get_section(SECTION, {}) or {})
    enforce = environ.get(ENFORCE, "").strip() or given.get("enforce", "on")
    if enforce not in ("on", "warn"):
        raise MigrationError(f"enforce = {enforce} in [{SECTION}], or {ENFORCE}: write on or warn")
    return GuardSettings(
        enforce == "on",
        _seconds("lock_timeout", given.get("lock_timeout", "1s")),
        _seconds("lock_patience", given.get("lock_patience", "5m")),
        "lock_timeout" in given,
    )


def _read_pyproject(config: Config) -> Mapping[str, Any]:
    """Read the table of the pyproject.toml that Alembic reads, else of the file beside the ini."""
    named = getattr(config, "toml_file_name", None)  # since Alembic 1.16
    beside = Path(config.config_file_name).with_name("pyproject.toml") if config.config_file_name else None
    path = Path(named) if named else beside
    if path is None or not path.is_file() or SECTION not in (text := path.read_text(encoding="utf-8")):
        return {}
    import tomllib

    try:
        found = tomllib.loads(text).get("tool", {}).get(SECTION, {})
    except tomllib.TOMLDecodeError as error:
        raise MigrationError(f"{path} is no TOML that can be read: {error}") from error
    return found if isinstance(found, dict) else {}


def _seconds(name: str, value: str) -> float:
    """
    >>> _seconds("lock_timeout", "500ms"), _seconds("lock_patience", "5m")
    (0.5, 300.0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m)\s*", value)
    if found is None or not float(found[1]):
        raise MigrationError(f"{name} = {value} in [{SECTION}]: write a duration as 500ms, 1s or 5m")
    return float(found[1]) * _UNITS[found[2]]


def timeout_of(config: Config | None) -> float:
    """Read the seconds from `pipestate_timeout` in Alembic's section; 30 by default."""
    if config is None:
        return DEFAULT_TIMEOUT_S
    read = getattr(config, "get_alembic_option", config.get_main_option)  # since 1.16, for pyproject.toml
    given = read(OPTION)
    if given is None:
        return DEFAULT_TIMEOUT_S
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise MigrationError(
            f"{OPTION} = {given}: give the seconds that one check may take, as {OPTION} = 120"
        )
    return seconds

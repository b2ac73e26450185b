"""New revision: its id, predecessor, and file by the project's settings; and the files of `init`."""

import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from string import Template
from zoneinfo import ZoneInfo

from pipestate.core.errors import ConfigError
from pipestate.core.text import from_here
from pipestate.project.find import Project
from pipestate.project.graph import Migrations
from pipestate.project.revision_files import installs_ledger
from pipestate.project.scaffold.draft import Draft, Name, Value, call, refuse_existing, text
from pipestate.runbook.model import is_id

FILE_TEMPLATE = "%(rev)s_%(slug)s"
SLUG_LENGTH = 40
_ID = re.compile(r"[A-Za-z0-9_.]+")


@dataclass(frozen=True, slots=True)
class WantedRevision:
    """The given properties of a new revision; the others are derived."""

    message: str
    id: str | None = None
    head: str | None = None
    version_path: Path | None = None


@dataclass(frozen=True, slots=True)
class NewRevision:
    """A revision to be written."""

    id: str
    down: str | None
    path: Path
    message: str
    created_at: datetime


def find_place(project: Project, migrations: Migrations, wanted: WantedRevision) -> NewRevision:
    """Find the place; if there are several, ConfigError names the option to give."""
    id_ = wanted.id or uuid.uuid4().hex[-12:]
    if not _ID.fullmatch(id_):
        raise ConfigError(f"--rev-id {id_}: an id is letters, digits, _ and . alone")
    if id_ in migrations:
        message = f"there is a revision {id_} already ({migrations.by_id[id_].source}): give another --rev-id"
        raise ConfigError(message)
    if not wanted.message.isprintable():
        raise ConfigError("the message of a revision is one line of plain text: leave other characters out")
    down = _head(project, migrations, wanted.head)
    directory = wanted.version_path or _directory(project, migrations, down)
    here, locations = directory.resolve(), [each.resolve() for each in project.versions]
    if here not in locations and not (project.recursive and any(map(here.is_relative_to, locations))):
        known = ", ".join(map(str, project.versions))  # Alembic searches only these
        message = f"--version-path {directory} is no version location of this project; there are {known}"
        raise ConfigError(message)
    created_at = _now(project)
    path = directory / _file_name(project, id_, wanted.message, created_at)
    return NewRevision(id_, down, path, wanted.message, created_at)


def _head(project: Project, migrations: Migrations, given: str | None) -> str | None:
    """Return the predecessor of the new revision; None if it is the first."""
    if given is None:
        if len(migrations.heads) > 1:
            raise ConfigError(
                f"the project has {len(migrations.heads)} heads, {', '.join(migrations.heads)}: "
                "say with --head which one the new revision follows"
            )
        return next(iter(migrations.heads), None)
    name = given.removesuffix("@head")
    label = migrations.labels.get(name)
    found = (
        migrations.heads_above(label) if label else tuple(head for head in migrations.heads if head == name)
    )
    if len(found) != 1:
        there = ", ".join(migrations.heads) or "none"
        message = f"--head {given} is not one head of this project; there are {there}{_unread(project)}"
        raise ConfigError(message)
    return found[0]


def _unread(project: Project) -> str:
    """Name a directory of revisions that Alembic reads only if the configuration names it."""
    known = {location.resolve() for location in project.versions}
    for path in sorted(path for location in project.versions for path in location.glob("*/**/*.py")):
        if path.parent.resolve() not in known and path.name != "__init__.py" and not project.recursive:
            return (
                f"; {path.parent} is not read: name it in version_locations of {project.config}, or set "
                "recursive_version_locations = true there"
            )
    return ""


def _directory(project: Project, migrations: Migrations, down: str | None) -> Path:
    """Return the innermost location of the predecessor; raise ConfigError if several are possible."""
    if len(project.versions) == 1:
        return project.versions[0]
    file = migrations.by_id[down].path.resolve() if down is not None else Path()
    if holding := [each for each in project.versions if file.is_relative_to(each.resolve())]:
        return max(holding, key=lambda each: len(each.resolve().parts))
    there = ", ".join(map(str, project.versions))
    raise ConfigError(f"the project has several version locations, {there}: name one with --version-path")


def _now(project: Project) -> datetime:
    zone = project.option("timezone")
    if zone is None:
        return datetime.now()
    for name in (zone, zone.upper()):  # in the order of Alembic
        with suppress(KeyError, ValueError, OSError):
            return datetime.now(UTC).astimezone(ZoneInfo(name))
    raise ConfigError(f"{project.config}: there is no timezone {zone}: correct it")


def _file_name(project: Project, id_: str, message: str, created_at: datetime) -> str:
    """Name the file like `alembic revision`."""
    slug = "_".join(re.findall(r"\w+", message)).lower()
    given = project.option("truncate_slug_length") or str(SLUG_LENGTH)
    if not given.isdigit():
        raise ConfigError(f"{project.config}: truncate_slug_length {given} is no number: correct it")
    length = int(given) or SLUG_LENGTH
    if len(slug) > length:
        slug = slug[:length].rsplit("_", 1)[0] + "_"
    parts = {name: getattr(created_at, name) for name in ("year", "month", "day", "hour", "minute", "second")}
    template = project.option("file_template") or FILE_TEMPLATE
    try:
        name = template % {"rev": id_, "slug": slug, "epoch": int(created_at.timestamp()), **parts}
    except (KeyError, ValueError, TypeError) as error:
        message = f"{project.config}: file_template {template} cannot be filled in: correct it"
        raise ConfigError(message) from error
    return f"{name}.py"


# Text of revisions: the ledger's, and contracts.


_BY_ENGINE = re.compile(r"^def upgrade\(\s*engine_name\b", re.MULTILINE)
_NAME = re.compile(r"[^\s.\"'\\]+")
TABLE = "[SCHEMA.]TABLE"
COLUMN = "[SCHEMA.]TABLE.COLUMN"


@dataclass(frozen=True, slots=True)
class Dropped:
    """Dropped tables, and dropped columns of other tables."""

    tables: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of tables and columns without qualifiers."""
        tables = (table.rpartition(".")[2] for table in self.tables)
        return (*tables, *(column for columns in self.columns.values() for column in columns))

    def __str__(self) -> str:
        columns = (f"{table}.{column}" for table, columns in self.columns.items() for column in columns)
        return ", ".join([*self.tables, *columns])


def read_dropped(tables: Sequence[str], columns: Sequence[str]) -> Dropped:
    """Read the names; raise ConfigError if they are missing, repeated or invalid."""
    if not tables and not columns:
        raise ConfigError(f"nothing to drop: give --drop-table {TABLE} or --drop-column {COLUMN}")
    by_table: dict[str, tuple[str, ...]] = {}
    for given in columns:
        table, _, column = given.rpartition(".")
        _check("--drop-column", given, COLUMN, parts=(2, 3))
        if column in by_table.get(table, ()):
            raise ConfigError(f"--drop-column {given} is given twice: name it once")
        by_table[table] = (*by_table.get(table, ()), column)
    for table in tables:
        _check("--drop-table", table, TABLE, parts=(1, 2))
        if tables.count(table) > 1:
            raise ConfigError(f"--drop-table {table} is given twice: name it once")
        if table in by_table:
            raise ConfigError(f"{table} is dropped as a whole and by columns: name it once")
    return Dropped(tuple(tables), by_table)


def _check(option: str, given: str, form: str, *, parts: tuple[int, int]) -> None:
    names = given.split(".")
    fewest, most = parts
    if not fewest <= len(names) <= most or not all(map(_NAME.fullmatch, names)) or not given.isprintable():
        raise ConfigError(f"{option} {given}: write {form}")


def ledger_revision(place: NewRevision, *, by_engine: bool) -> str:
    """Write the revision that installs the ledger in every database of the project."""
    argument = "engine_name: str" if by_engine else ""
    return (
        f"{_head_revision(place, 'from pipestate.ddl import install_ledger, remove_ledger')}\n\n"
        f"def upgrade({argument}) -> None:\n    install_ledger()\n\n\n"
        f"def downgrade({argument}) -> None:\n    remove_ledger()\n"
    )


def contract_revision(
    place: NewRevision, phase: str, dropped: Dropped, recheck: Sequence[str], engine: str | None
) -> str:
    """Write a revision that consists of a contract."""
    arguments: dict[str, Value] = {
        "": phase,
        "tables=": dropped.tables,
        "columns=": dropped.columns,
        "recheck=": recheck,
        "engine=": engine or "",
        "revision=": Name("revision"),
    }
    return (
        f"{_head_revision(place, 'from pipestate import Contract')}\n"
        f"{call('contract = Contract', arguments)}\n"
        "upgrade, downgrade = contract.upgrade, contract.downgrade\n"
    )


def engines_of(project: Project) -> tuple[str, ...]:
    """List the databases of a project that runs its revisions once for each (the template multidb)."""
    template = project.scripts / "script.py.mako"
    source = template.read_text(encoding="utf-8", errors="replace") if template.is_file() else ""
    if not _BY_ENGINE.search(source):
        return ()
    return tuple(re.split(r",\s*", project.option("databases") or ""))


def _head_revision(place: NewRevision, imports: str) -> str:
    message = " ".join(place.message.split()).replace("\\", "\\\\").replace('"', "'")
    down = text(place.down) if place.down else "None"
    return (
        f'"""{message}\n\nRevision ID: {place.id}\nRevises: {place.down or ""}'.rstrip() + "\n"
        f"Create Date: {place.created_at}\n"
        '"""\n\n'
        f"{imports}\n\n"
        f"revision = {text(place.id)}\n"
        f"down_revision = {down}\n"
        "branch_labels = None\n"
        "depends_on = None\n"
    )


# Files of `init`: a runbook skeleton, and the ledger in the project's migrations.


MESSAGE = "pipestate ledger"
_PER_MIGRATION = re.compile(
    r"^[^#\n]*(?:\btransaction_per_migration\b|\bpipestate\.environment import run\b)", re.MULTILINE
)
_GUARDED = re.compile(r"^[^#\n]*\bpipestate\.environment\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Started:
    """Drafts to write, and steps left to a person."""

    name: str
    page: Path
    drafts: tuple[Draft, ...]
    ledger: str
    env: Path
    guarded: bool
    per_migration: bool


def draft_start(project: Project, migrations: Migrations, name: str, wanted: WantedRevision) -> Started:
    """Draft the runbook and, unless a revision already installs a ledger, its revision."""
    if not is_id(name):
        raise ConfigError(f"a runbook cannot be called {name}: write lower-case letters, digits and hyphens")
    page = runbooks_for(project) / f"{name}.md"
    refuse_existing(page)
    there = next((each.id for each in migrations if installs_ledger(each.path)), None)
    drafts = []
    if there is None:
        place = find_place(project, migrations, wanted)
        refuse_existing(place.path)
        there = place.id
        drafts = [Draft(place.path, ledger_revision(place, by_engine=bool(engines_of(project))))]
    env = project.scripts / "env.py"
    source = env.read_text(encoding="utf-8", errors="replace") if env.is_file() else ""
    return Started(
        name,
        page,
        (Draft(page, skeleton(name, there)), *drafts),
        there,
        env,
        bool(_GUARDED.search(source)),
        bool(_PER_MIGRATION.search(source)),
    )


def runbooks_for(project: Project) -> Path:
    """Return the present or future directory of runbooks: beside the configuration, if it names one project."""
    ini = project.configuration.ini if project.configuration else None
    histories = sum(
        "script_location" in project.lines(section) for section in (ini.sections() if ini else [])
    )
    if project.runbooks.is_dir() or project.config is None or histories > 1:
        return project.runbooks
    return from_here(project.config.resolve().parent / "runbooks")


def skeleton(name: str, ledger: str) -> str:
    """Write a runbook with placeholder checks that fail."""
    source = files("pipestate.project.scaffold").joinpath("skeleton.md").read_text(encoding="utf-8")
    return Template(source).substitute(name=name, ledger=ledger)
